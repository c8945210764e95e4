from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.check import random_log
from pintgn.events.log import EventLog, Query
from pintgn.models.history_view import Events
from pintgn.models.node_memory import Memory, MemoryState
from pintgn.models.pint import PINT
from pintgn.models.tgn import TGN
from pintgn.stream import Stream

LOG = random_log(events=110, nodes=10)


def run_by_hand(memory: Memory, blocks: list[list[tuple]], width: int, unit: float) -> dict[int, torch.Tensor]:
    """Everyone's memory after these blocks, from dictionaries: messages wait, a block that touches a node commits."""
    state: dict[int, torch.Tensor] = {}
    pending: dict[int, list[torch.Tensor]] = {}
    pending_t: dict[int, float] = {}
    updated: dict[int, float] = {}

    def s(v: int) -> torch.Tensor:
        return state.get(v, torch.zeros(width))

    def applied(v: int) -> torch.Tensor:
        if v not in pending:
            return s(v)
        raw = torch.stack(pending[v]).mean(0)
        inputs = torch.cat([raw[:-1], memory.time(raw[-1])])
        return memory.cell(inputs[None], s(v)[None])[0]

    for block in blocks:
        for v in sorted({v for event in block for v in event[:2]}):
            if v in pending:
                state[v] = applied(v)
                updated[v] = pending_t[v]
        for v in {v for event in block for v in event[:2]}:
            mine = [event for event in block if v in event[:2]]
            newest = max(event[2] for event in mine)
            if memory.aggregate == "last":
                mine = [event for event in mine if event[2] == newest]
            pending_t[v] = newest
            pending[v] = []
            for a, b, t in mine:
                since = (t - updated[v]) / unit if v in updated else 0.0
                pending[v].append(torch.cat([s(v), s(b if a == v else a), torch.tensor([since])]))
    return {v: applied(v) for v in set(state) | set(pending)}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["last", "mean"]), st.sampled_from(["gru", "rnn"]))
def test_memory_equals_the_definition(data, aggregate, cell):
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 2, st.integers(0, 6)), min_size=1, max_size=20))
    rows = sorted(rows, key=lambda row: row[2])
    block = data.draw(st.integers(1, 6))
    model = PINT(dim=3, memory=4, memory_aggregate=aggregate, memory_cell=cell, positions=0)
    src, dst, t = (np.array(column) for column in zip(*rows, strict=True))
    log = EventLog(src, dst, t)
    stream = Stream(model, log.schema, memory_block=block)
    model.machine.time.frequency.data = torch.logspace(0, -3, 16)  # the fastest waves would show rounding
    stream.observe(log)
    # blocks: end at every multiple of `block` events, or where the time then changes next
    blocks, current, ended = [], [], 0
    for i, row in enumerate(rows):
        current.append(row)
        if (i + 1) // block > ended and (i + 1 == len(rows) or rows[i + 1][2] != row[2]):
            blocks.append(current)
            current, ended = [], (i + 1) // block
    with torch.no_grad():
        expected = run_by_hand(model.machine, blocks, 4, model.dt_unit)
        found = model.machine.current(stream.state, np.arange(7))
    for v in range(7):
        torch.testing.assert_close(found[v], expected.get(v, torch.zeros(4)), rtol=1e-4, atol=1e-5)


def test_memory_distinguishes_at_depth_one_what_needs_depth_two_without():
    """Prop. 3 (role of memory): events (b,c,1) (v,b,2) (u,a,2), asked at 3."""
    u, v, a, b, c = range(5)
    log = EventLog([b, v, u], [c, b, a], [1, 2, 2])

    def differ(**settings):
        model = PINT(dim=8, positions=0, time_unit=1, **settings)
        stream = Stream(model, log.schema, memory_block=1)
        stream.observe(log)
        with torch.no_grad():
            one, two = stream.embed([u, v], at=3)
        return not torch.allclose(one, two, atol=1e-6)

    assert not differ(layers=1)
    assert differ(layers=2)
    assert differ(layers=1, memory=8)


def test_the_gradient_reaches_the_recurrent_cell_through_pending_messages():
    log = EventLog([0, 1, 0], [1, 2, 2], [1, 2, 3])
    model = PINT(dim=4, memory=4, positions=0)
    stream = Stream(model, log.schema, memory_block=1)
    stream.observe(log)
    assert not stream.state.message.requires_grad
    stream.score(Query(np.array([0]), np.array([1]), np.array([4])))[0].backward()
    assert model.machine.cell.weight_ih.grad.abs().sum() > 0
    assert model.machine.time.frequency.grad.abs().sum() > 0


def test_node_features_are_the_first_state():
    features = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    machine = Memory(width=3, features=0)
    state = machine.initial_state(features, np.dtype(np.int64))
    assert machine.current(state, np.array([1, 0, 5])).tolist() == [[3, 4, 0], [1, 2, 0], [0, 0, 0]]


def test_identity_memory_never_moves():
    machine = Memory(width=2, features=0, cell="identity")
    state = machine.initial_state(np.ones((3, 2), np.float32), np.dtype(np.int64))
    machine.commit(state, Events(np.array([0]), np.array([1]), np.array([5]), None), 1.0)
    assert machine.current(state, np.arange(3)).tolist() == [[1, 1]] * 3


@pytest.mark.parametrize("size", [1, 7, 50])
def test_state_is_the_same_bit_for_bit_for_calls_of_any_size(size):
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 9, 300), rng.integers(0, 9, 300), np.sort(rng.integers(0, 90, 300)))
    model = PINT(dim=4, memory=6, positions=0)
    whole, parts = (Stream(model, log.schema, memory_block=13) for _ in range(2))
    whole.observe(log)
    for batch in log.batches(size):
        parts.observe(batch)
    for name, column in whole.state.arrays().items():
        nodes = min(len(column), len(parts.state.arrays()[name]))
        assert np.array_equal(column[:nodes], parts.state.arrays()[name][:nodes]), name


def stepped_by_torch(memory: Memory, state: MemoryState, nodes: np.ndarray) -> torch.Tensor:
    """`Memory.current` by torch's own cell."""
    rows = state.rows(nodes)
    updated = memory.cell(torch.cat([rows.message, memory.time(rows.message_dt)], 1), rows.memory)
    return torch.where(torch.from_numpy(rows.pending)[:, None], updated, rows.memory)


@pytest.mark.parametrize("cell", ["gru", "rnn"])
@pytest.mark.parametrize(
    "waits", [[True] * 9, [True, False, True, False, False, True, True, False, False], [False] * 9]
)
def test_a_step_and_its_gradients_are_those_of_torchs_cell(cell, waits):
    torch.manual_seed(0)
    memory = Memory(4, 3, cell, time_width=5, context=2).double()
    state = memory.initial_state(None, np.dtype(np.int64))
    state.memory, state.message = torch.randn(9, 4).double(), torch.randn(9, 13).double()
    state.message[:, :4] = state.memory  # a message begins with the node's own state
    state.message_dt, state.pending = torch.rand(9).double(), np.array(waits)
    state.updated, state.ever, state.message_t = np.zeros(9, np.int64), np.zeros(9, bool), np.zeros(9, np.int64)
    nodes = np.array([3, 8, 0, 11, 5, 2])  # 11 is new: zeros
    found, expected = memory.current(state, nodes), stepped_by_torch(memory, state, nodes)
    torch.testing.assert_close(found, expected)
    for table in (state.memory, state.message, state.message_dt):
        table.copy_(torch.randn_like(table))  # memory moves on before the gradient comes back
    weights, grad = list(memory.parameters()), torch.randn_like(expected)
    mine, its, again = (torch.autograd.grad(x, weights, grad, retain_graph=True) for x in (found, expected, found))
    for one, two, three in zip(mine, its, again, strict=True):
        torch.testing.assert_close(one, two)
        assert torch.equal(one, three)  # nothing that was kept has been overwritten


@pytest.mark.parametrize("cell", ["gru", "rnn"])
@pytest.mark.parametrize("make", [TGN, PINT])
def test_gradients_are_those_of_torchs_cell_though_memory_has_moved_on(monkeypatch, make, cell):
    """A batch is scored, then happens to memory, and only then the gradient comes back."""
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 9, 60), rng.integers(0, 9, 60), np.sort(rng.integers(0, 90, 60)))
    model = make(dim=4, memory=6, positions=0, memory_cell=cell)
    found = []
    for as_written in (False, True):
        stream = Stream(model, log.schema, memory_block=20)
        model.machine.time.frequency.data = torch.logspace(0, -2, len(model.machine.time.frequency))
        if as_written:
            monkeypatch.setattr(Memory, "current", stepped_by_torch)
            model.steps[0].fused = False
        for batch in log.batches(20):
            (scores,) = stream.replay(batch, [batch.query])
            model.zero_grad()
            scores.square().sum().backward()
            found.append([scores.detach(), *(p.grad.clone() for p in model.parameters())])
    for mine, its in zip(found[:3], found[3:], strict=True):
        for one, two in zip(mine, its, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)


def test_the_ends_of_events_are_their_distinct_nodes():
    rng = np.random.default_rng(0)
    for size in (0, 1, 30):
        src, dst = rng.integers(0, 9, (2, size))
        nodes, places = Events(src, dst, np.arange(size), None).ends
        assert (nodes == np.unique([src, dst])).all()
        assert (nodes[places] == np.stack([src, dst])).all()


# -- what was computed for learning, used again by the commit ------------------------------------------------------


def counted(monkeypatch) -> list[int]:
    """How many nodes were updated, call by call."""
    calls: list[int] = []
    updated = Memory._updated

    def count(self, message, *rest):
        calls.append(len(message))
        return updated(self, message, *rest)

    monkeypatch.setattr(Memory, "_updated", count)
    return calls


def begun(block: int = 10) -> tuple[TGN, Stream]:
    model = TGN(dim=6, memory=5, time_dim=4)
    stream = Stream(model, EventLog(LOG.src, LOG.dst, LOG.t).schema, memory_block=block)
    stream.observe(plain(0, 40))
    return model, stream


def plain(first: int, last: int) -> EventLog:
    return EventLog(LOG.src[first:last], LOG.dst[first:last], np.arange(first, last))


def test_a_commit_while_learning_does_not_step_again_and_leaves_the_same(monkeypatch):
    _, stream = begun()
    other = stream.fork()
    calls = counted(monkeypatch)
    stream.replay(plain(40, 50), [plain(40, 50).query])
    assert len(calls) == 1
    with torch.no_grad():  # what is observed does not depend, in its last bits, on what is asked
        other.replay(plain(40, 50), [plain(40, 50).query])
    assert len(calls) == 3
    for one, two in zip(stream.state.arrays().values(), other.state.arrays().values(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_a_commit_steps_again_when_nodes_or_weights_are_others(monkeypatch):
    model, stream = begun()
    calls = counted(monkeypatch)

    stream.replay(plain(40, 50), [Query(np.array([0]), np.array([1]), np.array([40]))])
    assert len(calls) == 2, "not everyone was asked about"

    fork = stream.fork()
    stream.score(Query(np.arange(10), np.arange(10), np.full(10, 50)))
    fork.observe(plain(50, 60))
    assert len(calls) == 4, "another stream, which shares the model"

    stream.score(Query(np.arange(10), np.arange(10), np.full(10, 50))).sum().backward()
    torch.optim.Adam(model.parameters(), 0.1, fused=True).step()  # does not count as a version of the weights
    other = stream.fork()
    stream.observe(plain(50, 60))
    other.observe(plain(50, 60))
    assert len(calls) == 7, "the weights have changed"
    for one, two in zip(stream.state.arrays().values(), other.state.arrays().values(), strict=True):
        assert (one == two).all()
