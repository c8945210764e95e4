"""`check_model`: checks that every model must pass, yours included. Each promise has a name and a reason."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import PintgnError
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import NODE
from pintgn.models.base import Model
from pintgn.stream import Stream

TOLERANCE = 1e-5
BATCHES = (1, 7, 64, 10_000)


class CheckFailed(PintgnError, AssertionError):
    """A model broke a promise; the message says which, and what usually causes it."""


def check_model(model: Model | type[Model], log: EventLog | None = None, seed: int = 0) -> list[str]:
    """Check a model against every promise of the contract; returns their names, raises `CheckFailed` on the first
    broken.

    Args:
        model: an instance, or a class that can be made without arguments. It is not changed; a fresh copy is checked.
        log: what to check it on; a small random log with ties, self-loops, repeats and features by default.
        seed: of the random log and the model's parameters.

    >>> from pintgn import PINT
    >>> check_model(PINT(dim=8))[:2]
    ['scoring is pure', 'the future changes nothing']
    """
    example = model() if isinstance(model, type) else model.fresh()
    case = Case(example, random_log(seed) if log is None else log, seed)
    example.prepare(case.log)
    case.learn()
    for name, check in CHECKS.items():
        try:
            with torch.set_grad_enabled(check is gradients):
                check(case)
        except CheckFailed as failure:
            raise CheckFailed(f"{type(example).__name__}: {name} - broken. {failure}") from None
    return list(CHECKS)


def random_log(seed: int = 0, events: int = 260, nodes: int = 14) -> EventLog:
    """A small log with everything that trips models up: ties, groups across any batch border, self-loops, repeats, late
    nodes, event and node features, and a first event far from everything else."""
    rng = np.random.default_rng(seed)
    late = np.linspace(6, nodes, events).astype(int)  # new nodes keep appearing
    src, dst = 2 + rng.integers(0, late), 2 + rng.integers(0, late)
    loops, repeats = rng.random(events) < 0.05, np.flatnonzero(rng.random(events) < 0.1)
    dst[loops] = src[loops]
    t = 10 + np.sort(rng.integers(0, events // 3, events))
    features = rng.normal(size=(events, 3)).astype(np.float32)
    for row in repeats[repeats > 0]:
        src[row], dst[row], features[row] = src[row - 1], dst[row - 1], features[row - 1]
    return EventLog(
        np.append(0, src),
        np.append(1, dst),
        np.append(0, t),
        features=np.concatenate([np.ones((1, 3), np.float32), features]),
        node_features=rng.normal(size=(nodes + 2, 2)),
    )


COLUMNS = ("src", "dst", "t", "features", "op", "node_updates", "node_features", "ids", "schema")


def changed(log: EventLog, **columns: Any) -> EventLog:
    """The log with other columns."""
    return EventLog(**{name: getattr(log, name) for name in COLUMNS} | columns)


@dataclass
class Case:
    """A model, a log, and how to run the one over the other."""

    model: Model
    log: EventLog
    seed: int

    def stream(self, log: EventLog | None = None, after: EventLog | None = None) -> Stream:
        """A stream that has observed the events `after` which it comes."""
        log = self.log if log is None else log
        stream = Stream(self.model, log.schema, node_features=log.node_features, seed=self.seed, memory_block=20)
        if after is not None:
            stream.observe(after)
        return stream

    def learn(self) -> None:
        """A model that learns at once is checked with what it has learned; others with the weights they begin with."""
        learner = self.model.boosted if self.model.with_trees else self.model
        if learner.learns_at_once:
            log, rng, stream = self.log, np.random.default_rng(self.seed), replace(self, model=learner).stream()
            asked = [log.query, *(log.query.toward(rng.permutation(log.dst)) for _ in learner.questions)]
            ((_, columns),) = stream.prefetch([log], lambda _: asked, learner.columns)
            learner.learn(columns, self.seed)
        if self.model.with_trees:
            self.stream()
            self.model.trees_share.fill_(0.5)

    def queries(self, log: EventLog) -> list[Query]:
        """The log's own events and one other destination for each."""
        rng = np.random.default_rng(self.seed + 1)
        return [log.query, log.query.toward(rng.choice(np.unique(log.dst), len(log)))]

    def scores(self, log: EventLog, batch: int = 10_000, queries: list[Query] | None = None) -> Tensor:  # (2, e)
        """Scores of every event and its negative, replayed in batches of this size."""
        stream, parts = self.stream(log), []
        queries = self.queries(log) if queries is None else queries
        self.model.eval()
        for events in log.batches(batch):
            rows = slice(events.first, events.first + len(events))
            parts.append(torch.stack(stream.replay(events, [q[rows] for q in queries])))
        return torch.cat(parts, 1)

    def halves(self) -> tuple[EventLog, EventLog]:
        middle = int(np.searchsorted(self.log.t, self.log.t[len(self.log) // 2]))
        return self.log[:middle], self.log[middle:]


def pure(case: Case) -> None:
    history, future = case.halves()
    stream, untouched = case.stream(after=history), case.stream(after=history)
    first, again = stream.score(future.query), stream.score(future.query)
    _same(first, again, "The same query scored twice gives two answers: something is written or drawn on scoring.")
    after, expected = stream.replay(future, [future.query])[0], untouched.replay(future, [future.query])[0]
    _same(after, expected, "Scores after scoring differ from scores without: scoring has changed the stream.")


def causal(case: Case) -> None:
    """Scramble everything from a time on: no query up to and at that time may notice."""
    rng = np.random.default_rng(case.seed)
    queries = case.queries(case.log)
    honest = {batch: case.scores(case.log, batch, queries) for batch in BATCHES}
    starts = case.log.group_starts[1:]
    for start in rng.choice(starts, min(8, len(starts)), replace=False):
        scrambled = scramble(case.log, int(start), rng)
        visible = case.log.t <= case.log.t[start]
        for batch in BATCHES:
            found = case.scores(scrambled, batch, queries)
            only_group = _equal(found[:, :start], honest[batch][:, :start])
            hint = "its own group of simultaneous events" if only_group else "the future"
            _same(
                found[:, visible],
                honest[batch][:, visible],
                f"Scores at t <= {case.log.t[start]} change when the events from then on change (batches of {batch}): "
                f"the model sees {hint}. Look only through `history`.",
            )


def scramble(log: EventLog, start: int, rng: np.random.Generator) -> EventLog:
    """The log with other endpoints and features from row `start` on; times stay."""
    src, dst = log.src.copy(), log.dst.copy()
    src[start:], dst[start:] = rng.permutation(src[start:]), rng.permutation(dst[start:])
    features = log.features
    if features is not None:
        features = features.copy()
        features[start:] = rng.normal(size=features[start:].shape)
        if log.schema.relation is not None:
            column, kinds = log.schema.relation
            features[start:, column] = rng.integers(0, kinds, len(features) - start)
    return changed(log, src=src, dst=dst, features=features)


def any_batch(case: Case) -> None:
    whole = case.scores(case.log)
    for batch in BATCHES:
        hint = f"Batches of {batch} and one of {len(case.log)} give different scores: something depends on the batch."
        _same(case.scores(case.log, batch), whole, hint)


def any_order(case: Case) -> None:
    order = np.random.default_rng(case.seed).permutation(len(case.log))
    straight = case.stream().replay(case.log, [case.log.query])[0]
    shuffled = case.stream().replay(case.log, [case.log.query[order]])[0]
    alone = case.stream().replay(case.log, [case.log.query[order[:1]]])[0]
    _same(shuffled, straight[torch.from_numpy(order)], "Scores depend on the order of the queries.")
    _same(alone, straight[torch.from_numpy(order[:1])], "A query's score depends on the other queries asked with it.")


def any_rows(case: Case) -> None:
    """Simultaneous events in another order: the same questions have the same answers."""
    log, rng = case.log, np.random.default_rng(case.seed)
    order = np.lexsort((rng.random(len(log)), log.t))
    other, queries = rows_of(log, order), case.queries(log)
    expected = case.scores(log, queries=queries)[:, torch.from_numpy(order)]
    for batch in BATCHES:
        hint = (
            "Scores change with the order of simultaneous events: the model prefers what comes first in the file. "
            "Event numbers are for looking up features, not for comparing."
        )
        _same(case.scores(other, batch, [query[order] for query in queries]), expected, hint)


def rows_of(log: EventLog, order: np.ndarray) -> EventLog:
    """The log's events in another order."""
    updates = log.node_updates
    if updates is not None and log.op is not None:
        row = np.cumsum(log.op == NODE) - 1
        updates = updates[row[order][log.op[order] == NODE]]
    columns = {name: getattr(log, name) for name in ("src", "dst", "t", "features", "op")}
    return changed(log, node_updates=updates, **{name: None if c is None else c[order] for name, c in columns.items()})


def any_names(case: Case) -> None:
    log, names = case.log, np.random.default_rng(case.seed).permutation(case.log.nodes)
    queries = [Query(names[q.src], names[q.dst], q.t, q.given) for q in case.queries(log)]
    hint = "Scores change when nodes are numbered differently: a number is used as a feature, or padding as a node."
    _same(case.scores(renamed(log, names), queries=queries), case.scores(log), hint)


def renamed(log: EventLog, names: np.ndarray) -> EventLog:
    """The log with node i numbered names[i]; everyone keeps their own id."""
    order = np.argsort(names)
    return changed(
        log,
        src=names[log.src],
        dst=names[log.dst],
        node_features=None if log.node_features is None else log.node_features[order],
        ids=IdMap(log.ids.decode(order), None if log.ids.side is None else log.ids.side[order]),
    )


def embeddings(case: Case) -> None:
    """Check the same promises for embeddings of nodes, if a model has any."""
    if type(case.model).embed is Model.embed:
        return
    log, start = case.log, int(case.log.group_starts[len(case.log.group_starts) // 2])
    stop, t = int(np.searchsorted(log.t, log.t[start], "right")), log.t[start]
    nodes = np.arange(log.nodes + 2)  # two that nobody has met
    names = np.random.default_rng(case.seed).permutation(log.nodes)
    case.model.eval()
    other = renamed(log, names)
    stream, others = case.stream(after=log[:start]), case.stream(other, after=other[:start])
    found = stream.embed(nodes, t)
    if found.ndim != 2 or len(found) != len(nodes) or not torch.isfinite(found).all():
        raise CheckFailed(f"Asked for {len(nodes)} nodes, got {tuple(found.shape)}; one finite row each is needed.")
    backward, elsewhere = stream.embed(nodes[::-1].copy(), t), others.embed(np.append(names, nodes[-2:]), t)
    _same(stream.embed(nodes, t), found, "Asked twice, a node has two embeddings.")
    _same(backward, found.flip(0), "A node's embedding depends on the order of the nodes.")
    _same(stream.embed(nodes[3:4], t), found[3:4], "A node's embedding depends on the other nodes asked for.")
    _same(elsewhere, found, "Embeddings change when nodes are numbered differently.")
    stream.observe(log[start:stop])
    _same(stream.embed(nodes, t), found, "An embedding sees its own group of simultaneous events.")
    if log.t[-1] > t:
        stream.observe(log[stop:])
        if _equal(stream.embed(nodes, log.t[-1] + 1), found):
            raise CheckFailed("Embeddings are the same before and after half of the log: the past is not used.")


def nothing_leaks_from_padding(case: Case) -> None:
    """The first event touches two nodes that nobody else meets; empty slots must not look like it."""
    log = case.log
    if case.model.aggregates:  # what everyone does is no padding
        model = type(case.model).from_settings(case.model.settings() | {"aggregates": False})
        case = replace(case, model=model)
        case.learn()
    apart = ~np.isin(log.src, [log.src[0], log.dst[0]]) & ~np.isin(log.dst, [log.src[0], log.dst[0]])
    if log.features is None or apart.sum() != len(log) - 1:
        return
    features = log.features.copy()
    features[0] = 1e3
    if log.schema.relation is not None:
        features[0, log.schema.relation[0]] = 0
    loud = changed(log, features=features)
    queries = case.queries(log)
    elsewhere = apart & ~np.isin(queries[1].dst, [log.src[0], log.dst[0]])
    hint = "An event between two unrelated nodes changes other scores: an empty slot is read as event or node 0."
    _same(case.scores(loud, queries=queries)[:, elsewhere], case.scores(log)[:, elsewhere], hint)


def fork_isolates(case: Case) -> None:
    history, future = case.halves()
    stream, control = case.stream(after=history), case.stream(after=history)
    stream.fork().observe(future)
    expected = control.replay(future, [future.query])[0]
    found = stream.replay(future, [future.query])[0]
    _same(found, expected, "A stream changes when its fork observes: state is shared.")


def observing_matters(case: Case) -> None:
    history, future = case.halves()
    if _equal(case.stream().score(future.query), case.stream(after=history).score(future.query)):
        raise CheckFailed("Scores are the same before and after observing half of the log: the past is not used.")


def new_nodes(case: Case) -> None:
    strangers = case.log.nodes + np.arange(3)
    t = np.full(3, case.log.t[-1] + 1)
    given = None if case.log.query.given is None else case.log.query.given[-len(t) :]
    scores = case.stream(after=case.log).score(Query(strangers, np.array([2, 2, strangers[1]]), t, given))
    if not torch.isfinite(scores).all():
        raise CheckFailed(f"Nodes never seen before get {scores.tolist()}; scores must be finite.")


def saved(case: Case) -> None:
    history, future = case.halves()
    # a part of a block and of a group of simultaneous events is pending, which a careless save forgets
    stream = case.stream(after=history)
    stream.observe(future[:1])
    with tempfile.TemporaryDirectory() as folder:
        stream.save(Path(folder) / "stream")
        again = Stream.open(Path(folder) / "stream", type(case.model))
        rest = future[1:]
        expected, found = stream.replay(rest, [rest.query])[0], again.replay(rest, [rest.query])[0]
    _same(found, expected, "A saved and reopened stream scores differently: some state is not saved.")


def gradients(case: Case) -> None:
    model, stream = case.model, case.stream()
    if not any(p.requires_grad for p in model.parameters()):
        return
    model.train()
    model.zero_grad()
    for events in case.log.batches(40):
        yes, no = stream.replay(events, [events.query, events.query.toward(np.roll(events.dst, 1))])
        (torch.nn.functional.softplus(-yes).sum() + torch.nn.functional.softplus(no).sum()).backward()
    missing = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    if missing:
        raise CheckFailed(f"No gradient reaches {', '.join(missing)}.")


CHECKS: dict[str, Callable[[Case], None]] = {
    "scoring is pure": pure,
    "the future changes nothing": causal,
    "batch size changes nothing": any_batch,
    "query order changes nothing": any_order,
    "node numbers change nothing": any_names,
    "the order of simultaneous events changes nothing": any_rows,
    "padding changes nothing": nothing_leaks_from_padding,
    "a fork is independent": fork_isolates,
    "observing matters": observing_matters,
    "unseen nodes get finite scores": new_nodes,
    "saving keeps everything": saved,
    "node embeddings keep the same promises": embeddings,
    "a gradient reaches every parameter": gradients,
}


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE))


def _same(found: Tensor, expected: Tensor, hint: str) -> None:
    if not _equal(found, expected):
        most = float((found - expected).abs().max()) if found.shape == expected.shape else float("nan")
        raise CheckFailed(f"{hint} (Largest difference {most:.2g}.)")
