from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.check import check_model
from pintgn.datasets.simulate import make_world
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.models.ctdne import CTDNE, _pairs
from pintgn.stream import Stream


def test_pairs_are_nodes_a_few_places_apart():
    walks = np.array([[0, 1, 2], [3, 4, -1]])
    assert sorted(map(tuple, _pairs(walks, 1))) == [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]
    assert sorted(map(tuple, _pairs(walks, 9))) == sorted(
        [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (0, 2), (2, 0)]
    )


def test_walks_begin_with_an_event_and_go_back_in_time():
    log = EventLog([0, 1, 2], [1, 2, 3], [1, 2, 3])
    walks = CTDNE(walks=20, length=3)._walks(log)
    # from 3 back: 2 at time 3, 1 at time 2, 0 at time 1; from 0: only 1, for nothing of 1's is earlier
    allowed = {(3, 2, 1, 0), (2, 3, -1, -1), (2, 1, 0, -1), (1, 2, -1, -1), (1, 0, -1, -1), (0, 1, -1, -1)}
    assert set(map(tuple, walks.tolist())) == allowed


@pytest.mark.learning
def test_members_of_a_community_end_up_together():
    world = make_world("twins", communities=4, roles=6)
    log = world.simulate(events=1500, seed=0)
    model = CTDNE(dim=16, batch=2000)
    model.prepare(log)
    stream = Stream(model, log.schema)
    z = torch.nn.functional.normalize(stream.embed(np.arange(24), at=int(log.t[-1]) + 1), dim=1)
    similar = z @ z.T
    same = torch.arange(24)[:, None] // 6 == torch.arange(24) // 6
    apart = ~torch.eye(24, dtype=bool)
    assert similar[same & apart].mean() > similar[~same].mean() + 0.3


def test_vectors_do_not_depend_on_what_comes_later_and_unknown_nodes_get_zeros():
    log = EventLog([0, 1, 2, 0], [1, 2, 3, 3], [1, 2, 3, 4])
    model = CTDNE(dim=4)
    model.prepare(log)
    stream = Stream(model, log.schema)
    before = stream.embed([0, 3, 7], at=10)
    stream.observe(log)
    assert torch.equal(before, stream.embed([0, 3, 7], at=10))
    assert before[:2].any(1).all()
    assert not before[2].any()


def test_learned_vectors_are_saved(tmp_path):
    log = EventLog([0, 1, 2], [1, 2, 3], [1, 2, 3])
    model = CTDNE(dim=4)
    model.prepare(log)
    stream = Stream(model, log.schema)
    stream.save(tmp_path / "stream")
    again = Stream.open(tmp_path / "stream")
    assert torch.equal(stream.embed(np.arange(4), at=9), again.embed(np.arange(4), at=9))


def test_it_serves_the_node_task_only():
    stream = Stream(CTDNE(dim=4), EventLog([0], [1], [1]).schema)
    with pytest.raises(BadInput, match="not scores of links"):
        stream.score(Query(np.array([0]), np.array([1]), np.array([2])))
    with pytest.raises(BadInput, match="learned nothing yet"):
        stream.embed([0], at=2)
    with pytest.raises(BadInput, match="not scores of links"):
        check_model(CTDNE(dim=4))
    with pytest.raises(BadInput, match="length=0"):
        CTDNE(length=0)
