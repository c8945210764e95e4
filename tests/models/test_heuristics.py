from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pintgn.check import check_model, random_log
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.models.heuristics import EdgeBank, Heuristic
from pintgn.stream import Stream


def asked(model, log, pairs, t):
    stream = Stream(model, log.schema)
    stream.observe(log)
    src, dst = (np.array(x) for x in zip(*pairs, strict=True))
    return stream.score(Query(src, dst, np.full(len(pairs), t))).tolist()


LOG = EventLog([0, 1, 0, 3], [1, 0, 2, 1], [10, 20, 30, 40])


def test_the_score_is_the_formula():
    # at t = 50 with times in units of 10: 0 and 1 met twice, last at 20 (3 units ago); 1 has 3 events, last at 40
    model = Heuristic(time_unit=10)
    popular = 3 / 2
    expected = [1 + math.log(3) + 64 / 4 + popular, popular, 0.0]
    assert asked(model, LOG, [(0, 1), (2, 1), (0, 9)], 50) == pytest.approx(expected, rel=1e-6)


def test_edgebank_remembers_pairs_either_way_round_for_ever_or_for_a_while():
    pairs = [(0, 1), (1, 0), (2, 0), (0, 3), (8, 9)]
    assert asked(EdgeBank(), LOG, pairs, 50) == [1, 1, 1, 0, 0]
    assert asked(EdgeBank(window=29), LOG, pairs, 50) == [0, 0, 1, 0, 0]
    assert asked(EdgeBank(window=30), LOG, pairs, 50) == [1, 1, 1, 0, 0]


def test_a_deleted_pair_has_not_met():
    log = EventLog([0, 0, 0, 0], [1, 2, 1, 2], [1, 2, 3, 4], op=[1, 1, -1, 1])
    assert asked(EdgeBank(), log, [(0, 1), (0, 2)], 5) == [0, 1]
    back = EventLog([0, 0, 0], [1, 1, 1], [1, 3, 4], op=[1, -1, 1])
    assert asked(EdgeBank(), back, [(0, 1)], 5) == [1]


def test_the_window_is_as_long_as_the_test_period():
    model = EdgeBank(window="test")
    with pytest.raises(BadInput, match="prepare"):
        asked(model, LOG, [(0, 1)], 50)
    model.prepare(EventLog([0, 0], [1, 1], [0, 700]))
    assert model.window == pytest.approx(150)
    assert model.fresh().window == model.window


def test_node_embeddings_are_activity():
    stream = Stream(Heuristic(time_unit=10), LOG.schema)
    stream.observe(LOG)
    expected = torch.tensor([[math.log(4), 1 / 2], [0, 0]])
    torch.testing.assert_close(stream.embed([1, 7], at=50), expected)


@pytest.mark.parametrize("model", [Heuristic(), EdgeBank(), EdgeBank(window="test")], ids=str)
def test_every_promise_holds(model):
    check_model(model, random_log(events=110, nodes=10))


@pytest.mark.parametrize("given", [{"window": 0}, {"window": "train"}, {"test_share": 0}], ids=str)
def test_settings_out_of_range_are_refused(given):
    with pytest.raises(BadInput, match=f"{next(iter(given))}="):
        EdgeBank(**given)
