from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.check import check_model, random_log
from pintgn.errors import BadInput, UnknownName
from pintgn.events.log import EventLog, Query
from pintgn.models.pint import PINT
from pintgn.stream import Stream
from tests.models.literal import Literal

SETTINGS = [
    {},
    {"positions": 0},
    {"positions": 1},
    {"layers": 2, "neighbors": 3},
    {"layers": 2, "neighbors": 2, "positions_at": "every", "learn_beta": True, "beta": 0.3},
    {"layers": 3, "neighbors": 2, "positions": 2},
]


@pytest.mark.parametrize("given", SETTINGS, ids=str)
@pytest.mark.parametrize("features", [False, True])
def test_scores_are_those_of_the_equations(given, features):
    log = random_log(events=40, nodes=6)
    if not features:
        log = EventLog(log.src, log.dst, log.t)
    model = PINT(dim=5, **{"neighbors": 4} | given)
    stream = Stream(model, log.schema, node_features=log.node_features)
    with torch.no_grad():
        found = stream.replay(log, [log.query])[0]
        literal = Literal(model, log)
        rows = range(0, len(log), 5)
        expected = torch.stack([literal.score(*(int(column[i]) for column in (log.src, log.dst, log.t))) for i in rows])
    torch.testing.assert_close(found[::5], expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_gradients_are_those_of_the_equations(data):
    size = data.draw(st.integers(1, 8))
    ends = st.lists(st.integers(0, 3), min_size=size, max_size=size)
    times = sorted(data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)))
    log = EventLog(data.draw(ends), data.draw(ends), times)
    model = PINT(dim=3, layers=data.draw(st.integers(1, 2)), neighbors=2, positions=3, learn_beta=True)
    stream = Stream(model, log.schema)
    stream.observe(log)
    u, v, t = 0, 1, times[-1] + 1
    gradients = []
    for score in (
        stream.score(Query(np.array([u]), np.array([v]), np.array([t])))[0],
        Literal(model, log).score(u, v, t),
    ):
        model.zero_grad()
        score.backward()
        gradients.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
    for fast, slow in zip(*gradients, strict=True):
        slow = torch.zeros_like(fast) if slow is None else slow
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


def test_node_embeddings_know_only_their_own_root():
    log = random_log(events=40, nodes=6)
    model = PINT(dim=5, layers=2, neighbors=3)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(log)
    t = int(log.t[-1]) + 1
    with torch.no_grad():
        found = stream.embed([3, 4], at=t)
        literal = Literal(model, log)
        expected = torch.stack([literal.embed(3, (3,), t), literal.embed(4, (4,), t)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        {},
        pytest.param({"positions": 0, "memory": 6}, marks=pytest.mark.slow),
        pytest.param({"memory": 6, "layers": 2, "neighbors": 3}, marks=pytest.mark.slow),
        {
            "memory": 6,
            "memory_aggregate": "mean",
            "memory_cell": "rnn",
            "learn_beta": True,
            "positions_at": "every",
            "layers": 2,
        },
        pytest.param({"positions_transform": "l1"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_promise_holds(given):
    check_model(PINT(dim=8, **{"neighbors": 4} | given))


def test_time_unit_does_not_matter_but_a_raw_beta_is_accepted():
    log = random_log(events=60)
    slow = EventLog(log.src, log.dst, log.t * 1000)
    fast = EventLog(log.src, log.dst, log.t)
    with torch.no_grad():
        scores = [Stream(PINT(dim=5), x.schema).replay(x, [x.query])[0] for x in (fast, slow)]
        torch.testing.assert_close(*scores)
        raw = [
            Stream(PINT(dim=5, time_unit=1, beta=beta), x.schema).replay(x, [x.query])[0]
            for x, beta in ((fast, 0.5), (slow, 0.0005))
        ]
        torch.testing.assert_close(*raw)


def test_parameters_come_from_the_seed_and_nothing_else():
    schema = random_log().schema
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    one, two, other = (PINT(dim=4).build(schema, seed) for seed in (1, 1, 2))
    assert torch.rand(1) == before
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layers": 0}, "layers=0; PINT needs at least 1"),
        ({"beta": -1}, "cannot be negative"),
        ({"positions_at": "inptu"}, "Did you mean 'input'"),
        ({"memory": 4, "memory_cell": "lstm"}, "memory_cell='lstm' does not exist"),
    ],
)
def test_settings_out_of_range_are_refused(given, message):
    with pytest.raises(BadInput, match=message):
        PINT(**given).build(random_log().schema)


def test_an_unknown_setting_is_named():
    with pytest.raises(UnknownName, match="PINT has no setting 'dimm'. Did you mean 'dim'"):
        PINT.from_settings({"dimm": 3})


def test_data_of_another_width_is_refused():
    log = random_log()
    model = PINT(dim=4).build(log.schema)
    plain = EventLog(log.src, log.dst, log.t)
    with pytest.raises(BadInput, match="built for 3 event features; the data has 0"):
        Stream(model, plain.schema)
