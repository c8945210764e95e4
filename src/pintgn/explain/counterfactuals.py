"""Counterfactual answers: what a model answers if some events had never happened."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from pintgn.events.log import Query
from pintgn.explain.kernels_paths import count_walks, distances, events_in_order
from pintgn.models.base import eval_mode
from pintgn.models.history_view import Events
from pintgn.neighbors.contents import contents, left_out
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.relations import RelationIndex, RelationsWithout
from pintgn.neighbors.running_sums import FewSums, RunningSums
from pintgn.positions import RelativePositions
from pintgn.stream import Stream
from pintgn.stream.blocks import Gathered
from pintgn.stream.history import History, serve_positions
from pintgn.stream.inputs import checked_queries

MEMORY = 2**27
"""Bytes for counting walks under many counterfactuals at once."""


NONE = np.zeros(0, np.int64)


class Absence(NamedTuple):
    """The parts of the past that a counterfactual leaves out: events, targets or relations of events, given columns."""

    events: np.ndarray  # (e,) numbers
    ends: np.ndarray  # the nodes they touch
    unknown: np.ndarray = NONE  # numbers of events whose target or relation is unknown
    given: tuple[int, ...] = ()  # given columns that have their mean

    @property
    def gone(self) -> np.ndarray:
        """Events that are absent, or whose target or relation is."""
        return np.union1d(self.events, self.unknown).astype(np.int64)


@dataclass
class OrderedEvents:
    """Every event in the index, oldest first."""

    src: np.ndarray  # (e,)
    dst: np.ndarray  # (e,)
    when: np.ndarray  # (e,)
    numbers: np.ndarray | None  # (e,) event numbers; None for 0, 1, 2, …: nothing was trimmed

    @classmethod
    def of(cls, index: NeighborIndex) -> OrderedEvents:
        held, numbers = contents(index), None
        if index.forgotten:
            parts = [held.numbers[first : first + n] for first, n in zip(held.starts, held.lengths, strict=True)]
            numbers = np.unique(np.concatenate(parts)).astype(np.int64) if parts else np.zeros(0, np.int64)
        count = index.events if numbers is None else len(numbers)
        src, dst, when = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, held.times.dtype)
        events_in_order(*held, np.zeros(0, np.int64) if numbers is None else numbers, src, dst, when)
        return cls(src, dst, when, numbers)

    @property
    def event_numbers(self) -> np.ndarray:  # (e,)
        return np.arange(len(self.src)) if self.numbers is None else self.numbers

    def index_of(self, events: Any) -> Any:
        """The indices of events by number."""
        return events if self.numbers is None else np.searchsorted(self.numbers, events)


@dataclass
class Frozen:
    """A read-only copy of a stream, which may continue.

    Cheaper than `Stream.fork`: positions, by far the largest part, are recounted for the few nodes in question. They
    are copied only if counting cannot reproduce them: estimates, and walks through trimmed contacts.
    """

    stream: Stream  # with an index and a memory of its own
    positions: RelativePositions | None  # a copy, if needed
    in_positions: int  # events that positions count: all, or the complete blocks
    by_block: bool

    @classmethod
    def of(cls, stream: Stream, at: Any) -> Frozen:
        """Copy what an explanation as of a time reads. A time before the clock is an error."""
        asking, nobody = stream.schema.asking, np.zeros(1, np.int64)
        given = np.zeros((1, 0 if asking is None else len(asking.given)), np.float32)
        checked_queries(stream, [Query(nobody, nobody, np.asarray(at)[None], given)])
        own = _own_positions(stream)
        copy = stream.fork(history=stream.history.frozen(), positions=own)
        late = sum(map(len, stream._late))
        by_block = stream.positions is not None and stream.positions_refresh == "block"
        behind = stream.blocks.ended_with is not None and at == stream.clock
        in_positions = stream.events
        if by_block:
            in_positions -= sum(map(len, stream.blocks.unfinished)) + (late if behind else 0)
        kept = None
        if own is not None and (own.backend != "exact" or stream.index.forgotten):
            kept = own.fork()
            if by_block and not behind:
                for block in stream._late:
                    kept.observe(block.src, block.dst, block.t)
        return cls(copy, kept, in_positions, by_block)

    @property
    def is_exact(self) -> bool:
        """True if `answers` equals a replay: no memory, no estimates, no stale blocks, nothing trimmed."""
        return not (
            self.stream.model.remembers or self.stream.index.forgotten or self.by_block or self.positions is not None
        )

    @cached_property
    def events(self) -> OrderedEvents:
        return OrderedEvents.of(self.stream.index)

    def in_order(self) -> Events:
        """All events with their features, oldest first."""
        events, table, late = self.events, self.stream.history.event_table, self.stream.history.late
        count = len(events.when)
        found = Events(events.src, events.dst, events.when, None if table is None else table[:count])
        if late is not None:
            found.late, found.known = late.values[:count], late.known[:count]
        return found

    @cached_property
    def usual(self) -> np.ndarray:  # (g,)
        """The mean of every given column."""
        asking, table = self.stream.schema.asking, self.stream.history.event_table
        assert asking is not None
        assert table is not None
        return table[: self.stream.events, list(asking.given)].mean(0, dtype=np.float64)

    def relation_of(self, events: np.ndarray) -> np.ndarray:  # (e,)
        """Relation numbers of events."""
        relations, table = self.stream.history.relations, self.stream.history.event_table
        assert relations is not None
        assert table is not None
        return table[events, relations.column].astype(np.int64)

    def query_without(self, absence: Absence, asked: Query) -> Query:
        """The query under a counterfactual."""
        if not absence.given or asked.given is None:
            return asked
        given = asked.given.copy()
        given[:, list(absence.given)] = self.usual[list(absence.given)]
        return Query(asked.src, asked.dst, asked.t, given)

    def before(self, at: Any) -> int:
        """The number of events before a time."""
        return int(np.searchsorted(self.events.when, at, "left"))

    def seen(self, at: Any) -> int:
        """The number of events that the model's positions count as of a time."""
        return int(self.events.index_of(self.in_positions)) if self.by_block else self.before(at)


class WalkCounts:
    """Counts of walks over the first events from roots back to nodes, under each absence and under none.

    Only walks from a root to one of `nodes` are counted, so pass all nodes at once.
    """

    def __init__(self, frozen: Frozen, events: int, levels: int, nodes: np.ndarray, absences: Sequence[Absence] = ()):
        self.frozen, self.stop, self.levels, self.absences = frozen, events, levels, absences
        self.nodes = np.unique(nodes[(nodes >= 0) & (nodes < frozen.stream.index.nodes)])
        self._roots: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def read(self, root: int, nodes: np.ndarray, world: int = 0) -> np.ndarray:  # (m, d)
        """Counts of nodes relative to a root; world 0 is factual, world k has the k-th absence."""
        if root not in self._roots:
            self._roots[root] = self._counted(root)
        row_of, counts = self._roots[root]
        found = np.zeros((len(nodes), self.levels))
        known = np.flatnonzero((nodes >= 0) & (nodes < len(row_of)))
        rows = row_of[nodes[known]]
        found[known[rows >= 0]] = counts[rows[rows >= 0], :, world]
        found[nodes == root, 0] = 1  # also of an unknown root
        return found

    def _counted(self, root: int) -> tuple[np.ndarray, np.ndarray]:
        """The row of each node between root and targets, and the counts by row."""
        nodes, worlds = self.frozen.stream.index.nodes, len(self.absences) + 1
        row_of = np.full(nodes, -1)
        if not 0 <= root < nodes:
            return row_of, np.zeros((0, self.levels, worlds))
        reach = self._distances(np.array([root]))
        need = self.levels - 1 - self._distances(self.nodes)
        useful = np.flatnonzero(reach <= need)
        row_of[useful] = np.arange(len(useful))
        at_once = max(1, MEMORY // (8 * self.levels * max(len(useful), 1)))
        parts = []
        for begin in range(0, worlds, at_once):
            some = [_NOTHING, *self.absences][begin : begin + at_once]
            parts.append(self._run(root, row_of, reach[useful], need[useful], some))
        return row_of, np.concatenate(parts, 2)

    def _distances(self, nodes: np.ndarray) -> np.ndarray:  # (n,)
        """Steps from the nearest of some nodes, at most the number of levels."""
        found = np.full(self.frozen.stream.index.nodes, self.levels)
        found[nodes] = 0
        distances(self.frozen.events.src, self.frozen.events.dst, self.stop, found, self.levels - 1)
        return found

    def _run(
        self, root: int, row_of: np.ndarray, reach: np.ndarray, need: np.ndarray, absences: Sequence[Absence]
    ) -> np.ndarray:  # (rows, d, worlds)
        counts = np.zeros((len(reach), self.levels, len(absences)))
        if row_of[root] >= 0:
            counts[row_of[root], 0] = 1
        missing = np.concatenate([a.events for a in absences]).astype(np.int64)
        world = np.repeat(np.arange(len(absences)), [len(a.events) for a in absences])
        order = np.argsort(-missing, kind="stable")
        events = self.frozen.events
        missing = events.index_of(missing[order])
        count_walks(events.src, events.dst, events.when, self.stop, row_of, reach, need, counts, missing, world[order])
        return counts


class PositionsWithout:
    """`RelativePositions` under a counterfactual, for reading."""

    def __init__(self, walks: WalkCounts, given: RelativePositions, world: int):
        self.walks, self.given, self.world = walks, given, world

    def serve(
        self, src: Any, dst: Any, t: Any, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray, transform: str
    ) -> np.ndarray:  # (q, m, w, d)
        raw = np.zeros((len(nodes), roots.shape[1], nodes.shape[1], self.given.d))
        kept = self.walks.frozen.positions
        for q in range(len(nodes)):
            for w, root in enumerate(roots[q].tolist()):
                there = self.walks.read(root, nodes[q], self.world)
                if kept is not None and root >= 0:
                    here = self.walks.read(root, nodes[q])
                    before = kept.read(nodes[q], root, None if self.walks.frozen.by_block else at[q], transform="raw")
                    there = np.where(before == here, there, np.maximum(before + (there - here), 0))
                raw[q, w] = there
        return self.given.transformed(raw, at, transform)


class _NoPositions:
    """Empty positions for `gather`, which only declares the reads."""

    def serve(self, src: Any, dst: Any, t: Any, nodes: np.ndarray, *more: Any) -> np.ndarray:
        return np.zeros(0, np.float32)


def answers(frozen: Frozen, asked: Query, absences: Sequence[Absence]) -> np.ndarray:  # (1 + absences, outputs)
    """The answer to one query, and its answer under each absence.

    Neighbors, positions and known targets are exactly those of a log without the events. Unchanged are the weights,
    event numbers (a left-out event leaves its number unused, so blocks keep their borders), and recurrent memory.

    Look-ups of all counterfactuals come first; then the positions that they read are counted together.
    """
    stream, every = frozen.stream, (_NOTHING, *absences)
    given, model = _own_positions(stream), stream.model
    histories = _histories(frozen, asked, every)

    def answer(reader: Stream, world: Gathered) -> np.ndarray:
        return reader._compute(world, model).numpy(force=True)

    with eval_mode(model):
        worlds = []
        for absence, history in zip(every, histories, strict=True):
            with left_out(stream.index, absence.events, absence.ends):
                lacking = _with_positions(stream, None if given is None else _NoPositions())
                lacking.history = history
                query = frozen.query_without(absence, asked)
                worlds.append(lacking.gather(None, [query], model.gather))
        if given is None:
            return np.concatenate([answer(stream, world) for world in worlds])
        wanted = [read.nodes.ravel() for world in worlds for view in world.views for read in view.reads]
        everyone = np.concatenate([np.zeros(0, np.int64), *wanted])
        walks = WalkCounts(frozen, frozen.seen(asked.t[0]), given.d, everyone, absences)
        found = []
        for number, world in enumerate(worlds):
            positions = PositionsWithout(walks, given, number)
            nothing = Events.none(stream.schema.width, stream.time_dtype)
            serve_positions(cast(RelativePositions, positions), model.positions_transform, world.views, nothing)
            found.append(answer(_with_positions(stream, positions), world))
        return np.concatenate(found)


def _histories(frozen: Frozen, asked: Query, absences: Sequence[Absence]) -> list[History]:
    """The history of each counterfactual, with its known targets and relations."""
    history = frozen.stream.history
    if history.late is None and history.relations is None and history.sums is None:
        return [history] * len(absences)
    worlds = [copy.copy(history) for _ in absences]
    if history.sums is not None:
        _leave_sums_out(frozen, asked, absences, worlds)
    if history.late is not None:
        _leave_targets_out(frozen, asked, absences, worlds)
    if history.relations is not None:
        _leave_relations_out(frozen, absences, worlds)
    return worlds


def _leave_sums_out(frozen: Frozen, asked: Query, absences: Sequence[Absence], worlds: list[History]) -> None:
    history, events = frozen.stream.history, frozen.events
    assert history.sums is not None
    assert history.event_table is not None
    few, (columns, marks) = FewSums.of(history.sums, int(asked.src[0]), int(asked.dst[0])), history.summed
    for absence, world in zip(absences, worlds, strict=True):
        gone = absence.events[~history.event_table[absence.events, marks].any(1)]
        rows = events.index_of(gone)
        values = history.event_table[gone][:, columns]
        world.sums = cast(RunningSums, few.without(events.src[rows], events.dst[rows], events.when[rows], values))


def _leave_targets_out(frozen: Frozen, asked: Query, absences: Sequence[Absence], worlds: list[History]) -> None:
    late, events = frozen.stream.history.late, frozen.events
    assert late is not None
    src, dst = int(asked.src[0]), int(asked.dst[0])
    few = FewSums.of(late.index, src, dst)
    for absence, world in zip(absences, worlds, strict=True):
        gone = absence.gone[late.values[absence.gone, -1] > 0]
        rows = events.index_of(gone)
        index = few.without(events.src[rows], events.dst[rows], late.known[gone], late.values[gone, :-1])
        world.late = dataclasses.replace(
            late, index=cast(RunningSums, index), hidden=absence.unknown if len(absence.unknown) else None
        )


def _leave_relations_out(frozen: Frozen, absences: Sequence[Absence], worlds: list[History]) -> None:
    relations, events = frozen.stream.history.relations, frozen.events
    assert relations is not None
    for absence, world in zip(absences, worlds, strict=True):
        rows = events.index_of(absence.gone)
        without = RelationsWithout(
            relations.index, events.src[rows], frozen.relation_of(absence.gone), events.dst[rows], events.when[rows]
        )
        hidden = absence.unknown if len(absence.unknown) else None
        world.relations = dataclasses.replace(relations, index=cast(RelationIndex, without), hidden=hidden)


_NOTHING = Absence(NONE, NONE)


def _own_positions(stream: Stream) -> RelativePositions | None:
    assert stream.positions is None or isinstance(stream.positions, RelativePositions)
    return stream.positions


def _with_positions(stream: Stream, positions: Any) -> Stream:
    """A reader with other positions, which already include late blocks."""
    reader = stream.reader()
    reader.positions, reader._late = positions, []
    return reader
