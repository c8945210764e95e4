"""Stream: a model, its history and its memory under one clock."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.moment import read_time
from pintgn.events.schema import Schema
from pintgn.models.base import Model, check_device
from pintgn.models.history_view import Distinct, Events, HistoryView
from pintgn.models.question_features import nothing_given
from pintgn.models.state import State
from pintgn.neighbors.index import NeighborIndex
from pintgn.positions import RelativePositions
from pintgn.positions.relative import WIDTH, check_transform
from pintgn.stream.blocks import Gathered, MemoryBlocks, Span
from pintgn.stream.history import History, Positions, add_blocks, serve_positions
from pintgn.stream.inputs import checked_events, checked_queries

REFRESH = ("event", "block")
WORTH_RANKING = 8
"""Candidates from which on sharing their source's part is worth the bookkeeping."""
PAIRS_AT_ONCE = 8192
"""Pairs ranked together: enough to amortise a call, few enough to stay in the cache."""
WORTH_A_THREAD = 1 << 13
"""Events from which on positions are observed in a thread of their own."""
OBSERVED_AT_ONCE = 1 << 16
"""Events of a log observed together: enough to amortise a call, few enough to take little memory on the way."""


class Stream:
    """The history of a log and a model that scores what comes next.

    `score` is pure: it changes nothing. `observe` is the only thing that moves time. `replay` means: for each group of
    simultaneous events, score that group's queries, then observe the group; done at once, for a whole batch. A query at
    time t sees the events strictly before t, whatever else has been observed or stands in the same batch, so the size
    of a batch has no meaning, nor has the order of simultaneous events. Nodes are numbers; one never seen before is a
    new node.

    Memory is refreshed every `memory_block` events counted from the stream's start, a block ending only where the time
    changes.

    Args:
        model: built here for the schema, unless it has been built before.
        schema: `log.schema` of the data that will flow through.
        node_features: initial node features (n, g), such as `log.node_features`.
        seed: of the model's parameters, when they are made here.
        device: where the model computes: `cpu`, `cuda`, `cuda:1`, `mps`.
        memory_block: events between two refreshes of memory.
        positions_refresh: `event`, as of each query's own time; or `block`, once per block, the paper's cheaper rule.
        positions_backend: `auto`, `exact` or `sketch`.
        positions_width: numbers that a sketch keeps for each node and level, 128 by default.
        history_refresh: `event`; or `block`: contacts and pair histories, too, are those of the block's start, as in
            published code, which updates them batch by batch. For comparisons. Aggregates and known targets stay fresh.

    >>> import pintgn
    >>> log = pintgn.simulate("repeat", events=300, seed=0)
    >>> stream = pintgn.Stream(pintgn.PINT(dim=8), log.schema)
    >>> stream.observe(log[:200])
    >>> stream.score(log[200:210].query).shape
    torch.Size([10])
    """

    def __init__(
        self,
        model: Model,
        schema: Schema,
        *,
        node_features: np.ndarray | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        memory_block: int = 200,
        positions_refresh: str = "event",
        positions_backend: str = "auto",
        positions_width: int | None = None,
        history_refresh: str = "event",
    ):
        if memory_block < 1:
            raise BadInput(f"memory_block={memory_block}; a block has at least one event.")
        for name, refresh in (("positions_refresh", positions_refresh), ("history_refresh", history_refresh)):
            if refresh not in REFRESH:
                raise BadInput(f"{name}={refresh!r}; it is 'event' or 'block'.")
        given = 0 if node_features is None else node_features.shape[1]
        if len(schema.node_features) != given:
            raise BadInput(f"the schema has {len(schema.node_features)} node features, given {given}.")
        self.schema, self.node_features = schema, node_features
        self.positions_refresh, self.positions_backend = positions_refresh, positions_backend
        self.positions_width = WIDTH if positions_width is None else positions_width
        self.history_refresh = history_refresh
        self.model = model.build(schema, seed).to(check_device(device))
        late = schema.late if schema.asking is not None and schema.asking.late else None
        block = memory_block if history_refresh == "block" else 1
        self.history = History(schema.width, block, late, schema.relation, model.summed_columns)
        self.positions: Positions | None = None
        if model.positions:
            check_transform(model.positions_transform, model.dt_unit)
            self.positions = RelativePositions(
                model.positions, positions_backend, width=self.positions_width, time_unit=model.dt_unit
            )
        self.state: Any = None  # made with the first events or queries, which tell the type of the times
        self.time_dtype: np.dtype | None = None  # of the times
        self._numbering = Distinct()
        self.blocks = MemoryBlocks(memory_block)
        self._remembers = self.model.remembers
        self._in_blocks = self._remembers or (self.positions is not None and positions_refresh == "block")
        self.prefetch_in_thread = True  # whether `prefetch` looks up in a thread of its own
        self.prefetch_next: Callable[[], None] = _nothing  # looks up the next batch of `prefetch`, where it does not
        self._late: list[Events] = []  # the block that positions refreshed by block do not know yet
        self.reuse_states = True  # in training; not where workers that ask different questions must remember the same

    # -- the verbs -----------------------------------------------------------------------------------------------

    def score(self, query: Query, against: str = "anyone") -> Tensor:  # (q,)
        """A logit for each query, as of its own time, against one of `QUESTIONS`. Changes no state."""
        return self.model.answer(self.replay(None, [query])[0], against)

    def observe(self, events: EventLog | Events) -> None:
        """Observe events; they may continue the group of simultaneous events at the clock."""
        if not isinstance(events, EventLog) or len(events) <= OBSERVED_AT_ONCE:
            self.replay(events, [])
            return
        for some in events.batches(OBSERVED_AT_ONCE):  # what is made of each event on the way is made of few
            self.replay(some, [])

    def replay(self, batch: EventLog | Events | None, queries: Sequence[Query]) -> list[Tensor]:
        """Score each query as of its own time while a batch is observed; the clock moves to the batch's end.

        Queries may ask about any time from the clock on: before, within or after the batch. The scores of each are
        (q,), or (q, questions) of a model that answers several.
        """
        scores = self._compute(self.gather(batch, queries, self.model.gather), self.model)
        return list(scores.split([len(q) for q in queries]))

    def advance(self, events: Events, query: Query) -> Tensor:  # (q,) or (q, questions)
        """`replay` for checked arguments: arrays of the right types, in order of time, none before the clock."""
        return self._compute(self._gather(query, events, self.model.gather), self.model if len(query.t) else None)

    def gather(
        self, batch: EventLog | Events | None, queries: Sequence[Query], look_up: Callable[..., Any]
    ) -> Gathered:
        """Look up what queries need by `look_up`, such as `model.gather`; history moves on, memory not yet."""
        query, events = checked_queries(self, queries), checked_events(self, batch)
        return self._gather(query, events, look_up)

    def rank(self, batch: EventLog | Events | None, query: Query, candidates: np.ndarray) -> Tensor:  # (q, c)
        """Score many destinations for each query's source, as of its own time, while the batch happens (or not);
        against anyone.

        The destinations (q, c) stand in for `query.dst`, which is not looked at.
        """
        wide = np.asarray(candidates)
        if wide.ndim != 2 or len(wide) != len(query):
            raise BadInput(
                f"candidates have shape {wide.shape}; one row for each of the {len(query)} queries is needed."
            )
        shares = self.model.positions > 0 and type(self.model).rank is not Model.rank
        if not shares or wide.shape[1] < WORTH_RANKING:
            many = np.repeat(np.arange(len(query)), wide.shape[1])
            scores = self.replay(batch, [query[many].toward(wide.ravel())])[0]
            return self.model.answer(scores, "anyone").view(wide.shape)
        asked, events = checked_queries(self, [query]), checked_events(self, batch)
        answers, done = torch.zeros(wide.shape, device=self.model.device), 0
        order = np.argsort(asked.t, kind="stable")
        for rows, columns in _parts(order, wide.shape[1]):
            some = asked[rows].toward(wide[rows, columns])
            begin, done = done, int(np.searchsorted(events.t, some.t[-1], "left"))
            gathered = self._gather(some, events[begin:done], self.model.gather_ranking)
            answers[torch.from_numpy(rows), columns] = self._compute(gathered, self.model.rank)
        self.observe(events[done:])
        return answers

    def embed(self, nodes: Any, at: Any) -> Tensor:  # (q, d)
        """An embedding of each node as of a time. Changes no state."""
        nodes = np.atleast_1d(np.asarray(nodes))
        if not isinstance(at, np.ndarray | Sequence) or isinstance(at, str):
            at = read_time(at, self.schema.time, self.time_dtype)
        asked = Query(nodes, nodes, np.broadcast_to(at, nodes.shape), nothing_given(self.schema, len(nodes)))
        gathered = self.gather(None, [asked], lambda q, view: self.model.gather_nodes(q.src, view))
        return self._compute(gathered, self.model.embed)

    def prefetch(
        self,
        batches: Iterable[EventLog],
        ask: Callable[[EventLog], Sequence[Query]],
        compute: Callable[..., Tensor] | None = None,
    ) -> Iterator[tuple[EventLog, list[Tensor]]]:
        """Replay batches with the queries that `ask` makes for each; the next batch's inputs are looked up while the
        caller works with this one's scores, or with the result of `compute` in place of the model.

        The stream runs ahead of what has been yielded: use no other verb until the last batch, or after leaving the
        loop early, when one batch more than was yielded has been observed. Without `prefetch_in_thread` all is done in
        turn by the thread that calls, the next look-ups when it calls `prefetch_next`, or else when it asks for the
        next batch; the scores are the same.
        """

        def prepare(batch: EventLog) -> tuple[EventLog, Sequence[Query], Gathered]:
            queries = ask(batch)
            return batch, queries, self.gather(batch, queries, self.model.gather)

        if not self.prefetch_in_thread:
            coming, waiting = map(prepare, batches), deque[Any]()
            self.prefetch_next = lambda: waiting.extend(islice(coming, 1 - len(waiting)))
            try:
                while self.prefetch_next() or waiting:
                    yield self._scored(compute, *waiting.popleft())
            finally:
                self.prefetch_next = _nothing
                if waiting:
                    self._compute(waiting.pop()[2], None)
            return
        ahead: Future[Any] | None = None
        with ThreadPoolExecutor(1, "pintgn-gather") as pool:
            try:
                for batch in batches:
                    ready, ahead = ahead, pool.submit(prepare, batch)
                    if ready is not None:
                        yield self._scored(compute, *ready.result())
                if ahead is not None:
                    ready, ahead = ahead, None
                    yield self._scored(compute, *ready.result())
            finally:
                if ahead is not None and ahead.exception() is None:
                    self._compute(ahead.result()[2], None)

    def _scored(
        self, compute: Callable[..., Tensor] | None, batch: EventLog, queries: Sequence[Query], gathered: Gathered
    ) -> tuple[EventLog, list[Tensor]]:
        return batch, list(self._compute(gathered, compute or self.model).split([len(q.src) for q in queries]))

    def _gather(self, query: Query, events: Events, look_up: Callable[..., Any]) -> Gathered:
        """`gather` for checked arguments."""
        held, model = self.history, self.model
        positions = self.positions if self.positions_refresh == "event" else None
        before, clock = held.before(query.t, events), held.clock
        if happens := len(events.t) > 0:
            happened = held.before(events.t, events) if self._remembers else before
            long = self.prefetch_in_thread and not len(query.t) and len(events.t) >= WORTH_A_THREAD
            if long and type(positions) is RelativePositions:
                # contacts and positions know nothing of each other: a thread each
                with ThreadPoolExecutor(1, "pintgn-positions") as pool:
                    appended = pool.submit(positions.append, events.src, events.dst, events.t)
                    held.append(events)
                appended.result()
                positions = None
            else:
                held.append(events)
            if self._remembers:
                events.looked_up = model.gather_events(events, self._view(events.t, happened).of(slice(None)))
        whole = [Span(np.arange(len(query.t)), events)]
        spans = self.blocks.plan(query.t, events, clock) if self._in_blocks else whole
        if len(spans) == 1:
            views = [self._view(query.t, before)]
            inputs = [look_up(query, views[0]) if len(query.t) else None]
        else:
            views = [self._view(query.t[span.rows], before[span.rows]) for span in spans]
            found = zip(spans, views, strict=True)
            inputs = [look_up(query[span.rows], view) if len(span.rows) else None for span, view in found]
        if positions is not None:
            serve_positions(positions, model.positions_transform, views, events)
        return Gathered(spans, views, inputs, pure=not happens)

    def _compute(self, gathered: Gathered, compute: Callable[..., Tensor] | None) -> Tensor:
        """Score span by span while memory is updated; without `compute`, nothing is scored."""
        answers = []
        if isinstance(self.state, State):
            self.state.cached_states = None  # the weights may have changed since
        for span, view, inputs in zip(gathered.spans, gathered.views, gathered.inputs, strict=True):
            if span.resumes:
                self.blocks.resume(self.state)
                self._late = []
            if len(span.rows) and compute is not None:
                if self.positions_refresh == "block":
                    self._serve_by_block(span, view, gathered.pure)
                state = self.blocks.stale(self.state) if span.behind else self.state
                answers.append(compute(inputs, state))
            if self._in_blocks and len(span.events.t):
                if not self.reuse_states and isinstance(self.state, State):
                    self.state.cached_states = None
                self._catch_up()
                block = self.blocks.happen(span, self.model, self.state)
                self._late = [] if block is None else [block]
        if not answers:
            return torch.zeros(0 if compute is None else self.model.answer_shape(0))
        if len(answers) == 1:  # the rows of a span are in order
            return answers[0]
        order = np.argsort(np.concatenate([span.rows for span in gathered.spans]))
        return torch.cat(answers)[torch.from_numpy(order)]

    def fork(self, *, history: History | None = None, positions: Positions | None = None) -> Stream:
        """An independent stream at the same point; the model's parameters are shared.

        Args:
            history: stands in for a copy of this stream's own: which past is seen.
            positions: stand in for a copy of this stream's own: who answers reads of positions.
        """
        other = copy.copy(self)
        other.history = self.history.fork() if history is None else history
        if self.positions is not None:
            other.positions = self.positions.fork() if positions is None else positions
        other.state = None if self.state is None else self.state.fork()
        other.blocks, other._late = self.blocks.fork(), list(self._late)
        other._numbering = Distinct()
        return other

    def reader(self) -> Stream:
        """A view of this stream for queries from another thread, with scratch arrays of its own.

        Several readers may ask at once, as long as nothing is observed meanwhile; they never observe.
        """
        other = copy.copy(self)
        other._numbering = Distinct()
        return other

    @property
    def clock(self) -> int | float | None:
        """The time of the newest event."""
        return self.history.clock

    @property
    def events(self) -> int:
        """How many events have been observed (and are held, where `forget` was used)."""
        return self.history.events

    @property
    def index(self) -> NeighborIndex:
        """The neighbor index."""
        return self.history.index

    @property
    def nbytes(self) -> int:
        """Bytes of observed data: contacts, event features, positions; without memory and weights."""
        return self.history.nbytes + getattr(self.positions, "nbytes", 0)

    def forget(self, *, keep_last: int | None = None, before_t: Any = None) -> int:
        """Drop contacts beyond each node's newest `keep_last`, or older than a time; see `History.forget`."""
        if before_t is not None:
            before_t = read_time(before_t, self.schema.time, self.time_dtype, bound=True)
        return self.history.forget(keep_last, before_t)

    def save(self, folder: str | Path) -> None:
        """Write the stream to a folder, atomically: parameters, history, memory and clock."""
        from pintgn.stream.stream_file import save

        save(self, Path(folder))

    @staticmethod
    def open(
        folder: str | Path,
        model: type[Model] | None = None,
        schema: Schema | None = None,
        device: str | torch.device = "cpu",
    ) -> Stream:
        """Read a saved stream, ready to continue where it stopped.

        `model` is needed for a model class of your own. With `schema`, a stream of other data is refused. It goes on on
        `device`, wherever it was before.
        """
        from pintgn.stream.stream_file import open_stream

        return open_stream(Path(folder), model, schema, device)

    # -- positions refreshed by block ----------------------------------------------------------------------------

    def _catch_up(self) -> None:
        if self.positions is not None and self.positions_refresh == "block":
            add_blocks(self.positions, self._late)
        self._late = []

    def _serve_by_block(self, span: Span, view: HistoryView, pure: bool) -> None:
        known = self.positions
        if known is None:
            return
        if self._late and not span.behind:
            if pure:  # scoring changes nothing, so what has not been added yet is added to a copy
                known = known.fork()
                add_blocks(known, self._late)
            else:
                self._catch_up()
        serve_positions(known, self.model.positions_transform, [view], Events.none(0, self.time_dtype))

    def _view(self, t: np.ndarray, before: np.ndarray) -> HistoryView:
        held, model = self.history, self.model
        return HistoryView(
            held.index, t, before, held.event_table, self.node_features, model.positions, self._numbering,
            late=None if held.late_columns is None else held.late_features(self.time_dtype),
            relations=None if held.relation is None else held.known_relations(self.time_dtype),
            sums=held.known_sums(self.time_dtype),
        )  # fmt: skip


def _nothing() -> None:
    pass


def _parts(rows: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, slice]]:
    """Rows of pairs in chunks of at most `PAIRS_AT_ONCE`: several rows, or pieces of one row that is longer than
    that."""
    height, width_at_once = max(1, PAIRS_AT_ONCE // width), min(width, PAIRS_AT_ONCE)
    for top in range(0, len(rows), height):
        for left in range(0, width, width_at_once):
            yield rows[top : top + height], slice(left, left + width_at_once)
