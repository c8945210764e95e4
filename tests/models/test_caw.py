from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.check import check_model, random_log
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.models.caw import CAW
from pintgn.neighbors.index import NeighborIndex, Walks, causal_walks
from pintgn.neighbors.queries import query_keys
from pintgn.stream import Stream


class Literal:
    """CAW's equations, written out walk by walk."""

    def __init__(self, model: CAW, log: EventLog):
        self.model, self.log = model, log
        self.index = NeighborIndex()
        self.index.append(log.src, log.dst, log.t, ties=log.ties)

    def walks(self, roots: tuple[int, ...], t: int) -> Walks:
        model = self.model
        keys = query_keys(model.draw_seed, np.int64(t), len(roots), np.arange(len(roots)))
        bias = model.decay / model.dt_unit
        return causal_walks(
            self.index, np.array(roots), t, walks=model.walks, length=model.length, keys=keys, bias=bias
        )

    def embed(self, roots: tuple[int, ...], t: int) -> torch.Tensor:  # (roots, d)
        model, found = self.model, self.walks(roots, t)
        g = [Counter(), Counter()]  # g(w; S)[place]
        for side in range(len(roots)):
            for nodes, mask in zip(found.nodes[side], found.mask[side], strict=True):
                g[side].update((int(n), place) for place, n in enumerate(nodes) if mask[place])
        encoded = []
        for side in range(len(roots)):
            mine = []
            for m in range(model.walks):
                h = torch.zeros(1, model.dim)
                for place in range(int(found.mask[side, m].sum())):
                    node = int(found.nodes[side, m, place])
                    counts = torch.tensor([[float(x[node, i]) for i in range(model.length + 1)] for x in g])
                    parts = [model.place(torch.log1p(counts)).sum(0)]
                    if self.log.node_features is not None:
                        parts.append(torch.from_numpy(self.log.node_features[node].copy()))
                    ago = found.times[side, m, place - 1] - found.times[side, m, place] if place else 0
                    parts.append(model.time(torch.tensor(float(ago) / self.log.schema.time_scale)))
                    if self.log.marked_features is not None:
                        event = found.events[side, m, place - 1]
                        carried = self.log.marked_features[event] if place else np.zeros(self.log.schema.width)
                        parts.append(torch.tensor(carried, dtype=torch.float32))
                    h = model.cell(torch.cat(parts)[None], h)
                mine.append(h[0])
            mine = torch.stack(mine)
            if model.readout == "attention":
                scores = model.ask(mine) @ mine.T / model.dim**0.5
                mine = scores.softmax(-1) @ model.tell(mine)
            encoded.append(mine.mean(0))
        return torch.stack(encoded)

    def score(self, u: int, v: int, t: int) -> torch.Tensor:
        return self.model.decoder(self.embed((u, v), t).flatten()).squeeze(-1)


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    "given",
    [{"length": 1}, {"walks": 7, "time_unit": 3.0}, {"readout": "attention"}, {"length": 4, "decay": 0.0}],
    ids=str,
)
def test_scores_are_those_of_the_equations(given, features):
    log = random_log(events=60, nodes=6)
    if not features:
        log = EventLog(log.src, log.dst, log.t)
    model = CAW(**{"dim": 5, "walks": 12, "length": 2, "time_dim": 3} | given)
    stream = Stream(model, log.schema, node_features=log.node_features)
    model.time.frequency.data = torch.logspace(0, -2, 3)
    stream.observe(log)
    t = int(log.t[-1]) + 2
    pairs = [(2, 3), (3, 2), (0, 4), (5, 5)]
    literal = Literal(model, log)
    with torch.no_grad():
        found = stream.score(Query(*(np.array(x) for x in zip(*pairs, strict=True)), np.full(len(pairs), t)))
        expected = torch.stack([literal.score(u, v, t) for u, v in pairs])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(stream.embed([3], at=t), literal.embed((3,), t), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_prefixes_and_counts_are_those_of_the_walks(data):
    size = data.draw(st.integers(1, 15))
    ends = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    times = sorted(data.draw(st.lists(st.integers(0, 8), min_size=size, max_size=size)))
    log = EventLog(data.draw(ends), data.draw(ends), times)
    model = CAW(dim=2, walks=data.draw(st.integers(1, 6)), length=data.draw(st.integers(1, 3)))
    stream = Stream(model, log.schema)
    stream.observe(log)
    t = times[-1] + 1
    query = Query(np.array([0, 1]), np.array([1, 4]), np.array([t, t]))
    inputs = model.gather(query, stream._view(query.t, np.full(2, len(log))))
    literal = Literal(model, log)
    drawn = [literal.walks((int(u), int(v)), t) for u, v in zip(query.src, query.dst, strict=True)]

    # follow every end of the trie back to its root: together they are the walks, as often as drawn
    found = Counter()
    for depth, level in enumerate(inputs.levels):
        for place in np.flatnonzero(level.ends):
            path, at = [], place
            for up in range(depth, -1, -1):
                path.append((inputs.levels[up].row[at], float(inputs.levels[up].since[at])))
                at = inputs.levels[up].parent[at]
            found[int(level.root[place]), tuple(path[::-1])] += int(level.ends[place])
    row_of, expected = {}, Counter()
    counts = Counter()
    for q, walks in enumerate(drawn):
        for side in range(2):
            for m in range(model.walks):
                path = []
                for place in range(int(walks.mask[side, m].sum())):
                    row = row_of.setdefault((q, int(walks.nodes[side, m, place])), len(row_of))
                    ago = walks.times[side, m, place - 1] - walks.times[side, m, place] if place else 0
                    path.append((row, float(np.float32(ago / model.dt_unit))))
                    counts[row, side, place] += 1
                expected[2 * q + side, tuple(path)] += 1
    # rows are numbered by first appearance level by level there, walk by walk here
    assert sorted(found.values()) == sorted(expected.values())
    assert Counter((root, len(path), n) for (root, path), n in found.items()) == Counter(
        (root, len(path), n) for (root, path), n in expected.items()
    )
    mine = Counter(tuple(x.astype(int).ravel()) for x in inputs.counts)
    its = Counter(
        tuple(counts[row, side, place] for side in range(2) for place in range(model.length + 1))
        for row in range(len(row_of))
    )
    assert mine == its


def test_both_ends_draw_apart_and_equal_times_draw_alike():
    rng = np.random.default_rng(0)
    log = EventLog(np.zeros(200, int), rng.integers(1, 100, 200), np.arange(200))
    model = CAW(dim=4, walks=16, length=1)
    stream = Stream(model, log.schema)
    stream.observe(log)
    history = stream._view(np.array([300, 300, 301]), np.full(3, 200))
    keys = history.keys(model.draw_seed, 2)
    assert len(np.unique(keys)) == 4  # two queries at 300 share keys, their ends do not, nor does the query at 301
    assert (keys[0] == keys[1]).all()


@pytest.mark.parametrize(
    "given", [{"walks": 6}, {"walks": 5, "length": 3, "readout": "attention", "decay": 0.3}], ids=str
)
def test_every_promise_holds(given):
    check_model(CAW(dim=6, time_dim=3, **given), random_log(events=110, nodes=10))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"walks": 0}, "walks=0; CAW needs at least 1"),
        ({"decay": -1.0}, "cannot be negative"),
        ({"readout": "men"}, "Did you mean 'mean'"),
    ],
)
def test_settings_out_of_range_are_refused(given, message):
    with pytest.raises(BadInput, match=message):
        CAW(**given)
