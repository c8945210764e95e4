"""A run in use: it observes what happens and answers in users' own ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pintgn.errors import BadInput, EventOrderError, StaleQuery
from pintgn.events.log import EventLog, Query
from pintgn.events.moment import read_time
from pintgn.events.schema import LATEST, beyond
from pintgn.learn.calibration import Calibration
from pintgn.learn.measure import PAIRS, judging
from pintgn.learn.metrics import check_finite
from pintgn.learn.names import Names, feature_matrix
from pintgn.learn.protocol import destinations
from pintgn.learn.run import Run
from pintgn.models.base import Model
from pintgn.models.past import Events
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.explain import Explanation

SCORED, NODES = 10_000, 2_000
"""Pairs scored at once, and nodes embedded at once; no answer depends on it."""


class Recommendation(NamedTuple):
    """A destination, how likely it is, and the logit that it is ranked by."""

    dst: Any
    probability: float
    logit: float


def open(run: Run | str | Path, model: type[Model] | None = None) -> Live:
    """A run, ready to observe and to answer. `model` is needed for a class of your own."""
    if isinstance(run, Run):
        return Live(run, run.stream.fork())  # what it observes is no concern of the run's
    opened = Run.open(run, model)
    return Live(opened, opened.stream)


class Live:
    """A model, everything that has happened so far, and users' own ids.

    It starts where its run's log ends. Ids never seen before are new nodes. Nothing is written to the run's folder.
    """

    def __init__(self, run: Run, stream: Stream):
        self.run, self.stream, self.model = run, stream, stream.model
        self.calibration = run.calibration or Calibration()
        self.schema = run.log.schema
        self.names = Names(run.log.ids)
        self._time_dtype = run.log.t.dtype
        self._is_destination = np.zeros(len(self.names), bool)
        self._meet(destinations(run.log))
        self._self_loops = bool((run.log.src == run.log.dst)[run.log.learnable].any())
        self._seen = [run.log]  # what has been observed, where deletions need to know

    def __repr__(self) -> str:
        when = self.schema.time.show(self.stream.clock)
        return f"Live: {self.run.settings.name}, {self.stream.events:,} events, {len(self.names):,} nodes, up to {when}"

    @property
    def clock(self) -> Any:
        """The time of the newest event."""
        return self.stream.clock

    # -- observing ---------------------------------------------------------------------------------------------------

    def observe(self, events: Any) -> int:
        """Let events happen; returns how many.

        Args:
            events: (src, dst, t) or (src, dst, t, {feature: value}) each, in order of time; or a file, frame or table
                with the columns of the log that the run was trained on.
        """
        if isinstance(events, EventLog):
            raise BadInput("an EventLog has node numbers of its own; pass its file, or log.to_table().")
        listed = isinstance(events, Sequence) and not isinstance(events, str | bytes)
        if not listed:
            return self._observe_table(events)
        rows = [_parted(event, row) for row, event in enumerate(events)]
        if not rows:
            return 0
        if self.schema.op is not None:
            return self._observe_table(self._columns(rows))
        t = np.array([self._time(row[2]) for row in rows], self._time_dtype)
        self._check_order(t)
        features = feature_matrix([row[3] for row in rows], self.schema)
        for row in rows:
            self.names.checked(row[0]), self.names.checked(row[1])
        src, dst = self.names.add([row[0] for row in rows], [row[1] for row in rows])
        if features is not None:
            features = self.run.scaling.event_features(features)
        self.stream.node_marks = self.names.marks
        with torch.no_grad():
            self.stream.observe(Events(src, dst, t, features))
        self._meet(dst)
        self._self_loops |= bool((src == dst).any())
        return len(rows)

    def _observe_table(self, source: Any) -> int:
        """A file or frame, read like a later file of the run's own log."""
        from pintgn.events.ingest import read_events

        log = read_events(source, like=self._like())
        self._check_order(log.t)
        for number in range(len(self.names), log.nodes):
            side = 0 if log.ids.side is None else int(log.ids.side[number])
            self.names._number(log.id(number), side)
        with torch.no_grad():
            self.stream.observe(self.run.scaling(log))
        self._meet(destinations(log))
        self._self_loops |= bool((log.src == log.dst)[log.learnable].any())
        if self.schema.op is not None:
            self._seen.append(log)
        return len(log)

    def _meet(self, dst: np.ndarray) -> None:
        if len(self._is_destination) < len(self.names):
            more = np.zeros(2 * len(self.names) - len(self._is_destination), bool)
            self._is_destination = np.concatenate([self._is_destination, more])
        self._is_destination[dst] = True

    def _like(self) -> EventLog:
        """The log so far, as later files are read: with all its nodes, and its events where deletions refer to them."""
        if self.schema.op is not None:
            return _joined(self._seen, self.names)
        log = self.run.log
        nodes = log.node_features
        if nodes is not None and len(nodes) < len(self.names):
            nodes = np.concatenate([nodes, np.zeros((len(self.names) - len(nodes), nodes.shape[1]), np.float32)])
        none = np.zeros(0, np.int64)
        features = None if log.features is None else log.features[:0]
        return EventLog(
            none, none, log.t[:0], features=features, node_features=nodes, ids=self.names.id_map(), schema=log.schema
        )

    def _columns(self, rows: list[tuple]) -> dict[str, list]:
        """Events given one by one as the columns of a table."""
        schema = self.schema
        assert schema.op is not None
        known = {*(f.name for f in schema.features), *schema.node_updates}
        columns: dict[str, list] = {name: [] for name in (schema.src, schema.dst, schema.t, schema.op, *known)}
        for row, (src, dst, t, given) in enumerate(rows):
            for name in given:
                if name not in known and name != schema.op:
                    feature_matrix([given], schema)  # says what is wrong
                    raise BadInput(f"event {row} has {name!r}, which is unknown.")
            columns[schema.src].append(self.names.checked(src))
            columns[schema.dst].append(None if dst is None else self.names.checked(dst))
            columns[schema.t].append(t)
            columns[schema.op].append(str(given.get(schema.op, "add")))
            for name in known:
                columns[name].append(given.get(name))
        return columns

    # -- answering ---------------------------------------------------------------------------------------------------

    def score(self, src: Any, dst: Any, at: Any = None) -> dict[Any, float]:
        """A logit for each destination: how likely src is to meet it at a time. Changes nothing.

        Args:
            src: an id.
            dst: an id, or several.
            at: a time, no earlier than the newest event; right after it by default. Events strictly before it count.
        """
        ids = [dst] if isinstance(dst, str | bytes) or not isinstance(dst, Iterable) else list(dst)
        logits = self.logits([src] * len(ids), ids, [self._at(at)] * len(ids))
        return dict(zip(ids, logits.tolist(), strict=True))

    def probability(self, src: Any, dst: Any, at: Any = None) -> dict[Any, float]:
        """The same as probabilities, calibrated on validation: this link against one to a random destination."""
        scores = self.score(src, dst, at)
        return dict(zip(scores, self.calibration(np.array(list(scores.values()))).tolist(), strict=True))

    def recommend(
        self, src: Any, k: int = 10, at: Any = None, among: Iterable[Any] | None = None
    ) -> list[Recommendation]:
        """The k most likely destinations of src at a time, best first.

        Args:
            among: ids to choose from; every destination met so far when not given (src itself only where there are
                self-loops).
        """
        if k < 1:
            raise BadInput(f"k={k}; at least one is recommended.")
        source = self.names.find([src], 0)
        if among is None:
            pool = np.flatnonzero(self._is_destination)
            pool = pool if self._self_loops else pool[pool != source[0]]
            ids = None
        else:
            ids = list(dict.fromkeys(among))
            pool = self.names.find(ids, 1)
        if not len(pool):
            return []
        logits = self._rank(source, pool, self._at(at))
        best = np.argsort(-logits, kind="stable")[:k]
        names = [self.names.ids[node] for node in pool[best]] if ids is None else [ids[place] for place in best]
        chances = self.calibration(logits[best])
        return [Recommendation(*row) for row in zip(names, chances.tolist(), logits[best].tolist(), strict=True)]

    def logits(self, src: Sequence[Any], dst: Sequence[Any], at: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Logits of many pairs of ids, each at its own time (already in the log's count)."""
        t = np.array(at, self._time_dtype)
        ends = self._ends(src, dst)
        return self._answered(Query(*ends, t))

    def explain(
        self,
        src: Any,
        dst: Any,
        at: Any = None,
        *,
        steps: int = 3,
        limit: int = 5,
        replay: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Explanation:
        """Why src and dst are scored as they are: the walks that join them, and the score without each.

        Args:
            steps: longest walks that are listed, 1 to 3.
            limit: how many reasons of each kind.
            replay: for models with memory, take that back as well, by replaying the log for each reason; slow.
            progress: called with how many reasons have been replayed, and of how many.
        """
        return self.explaining(src, dst, at, steps=steps, limit=limit, replay=replay, progress=progress)()

    def explaining(
        self,
        src: Any,
        dst: Any,
        at: Any = None,
        *,
        steps: int = 3,
        limit: int = 5,
        replay: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Callable[[], Explanation]:
        """`explain` in two parts: this one copies what it needs, the call of what it returns does the work.

        So others may observe while the work is done, in whatever thread.
        """
        from pintgn.explain.reasons import explain
        from pintgn.explain.worlds import Frozen

        one, other = self._ends([src], [dst])
        t = self._at(at)
        with self._no_stale_queries():
            frozen = Frozen.of(self.stream, t)
        return partial(
            explain,
            frozen,
            int(one[0]),
            int(other[0]),
            t,
            steps=steps,
            limit=limit,
            replay=replay,
            progress=progress,
            name=self.names.ids.__getitem__,
            names=(self.names.checked(src), self.names.checked(dst)),
            calibration=self.calibration,
        )

    def embed(
        self, ids: Iterable[Any] | None = None, at: Any = None, side: str = "src"
    ) -> tuple[list[Any], np.ndarray]:
        """Embeddings (n, d) of nodes as of a time, and their ids; of all nodes by default.

        `side` says which of two nodes is meant where sources and destinations are named apart.
        """
        if type(self.model).gather_nodes is Model.gather_nodes:
            raise BadInput(f"{type(self.model).__name__} judges links; it has no embeddings of nodes.")
        if side not in ("src", "dst"):
            raise BadInput(f"side={side!r}; it is 'src' or 'dst'.")
        if ids is None:
            nodes = np.arange(len(self.names))
            if self.schema.dummy is not None:
                nodes = nodes[nodes != self.schema.dummy]
            listed = [self.names.ids[node] for node in nodes]
        else:
            listed = list(ids)
            nodes = self.names.find(listed, 0 if side == "src" else 1)
        t, parts = self._at(at), []
        with judging(self.model), self._no_stale_queries():
            for start in range(0, len(nodes), NODES):
                parts.append(self.stream.embed(nodes[start : start + NODES], t).numpy(force=True))
        return listed, np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _ends(self, src: Sequence[Any], dst: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of both ends; one stranger at both ends is one node, unless the sides are named apart."""
        if self.names.two_spaces:
            one = self.names.find(src, 0)
            other = self.names.find(dst, 1)
            strangers = other >= len(self.names)
            other[strangers] += max(int(one.max(initial=0)) + 1 - len(self.names), 0)
            return one, other
        both = self.names.find([*src, *dst], 0)
        return both[: len(src)], both[len(src) :]

    def _answered(self, query: Query) -> np.ndarray:
        parts = []
        with judging(self.model), self._no_stale_queries():
            for start in range(0, len(query), SCORED):
                parts.append(self.stream.score(query[start : start + SCORED]).numpy(force=True))
        logits = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        check_finite(logits)
        return logits

    def _rank(self, source: np.ndarray, pool: np.ndarray, t: Any) -> np.ndarray:
        query = Query(source, source, np.array([t], self._time_dtype))
        parts = []
        with judging(self.model), self._no_stale_queries():
            for start in range(0, len(pool), PAIRS):
                parts.append(self.stream.rank(None, query, pool[None, start : start + PAIRS])[0].numpy(force=True))
        logits = np.concatenate(parts)
        check_finite(logits)
        return logits

    def _time(self, value: Any) -> Any:
        return read_time(value, self.schema.time, self._time_dtype)

    def _at(self, value: Any) -> Any:
        if value is not None:
            return self._time(value)
        clock = np.asarray(self.clock, self._time_dtype)
        return clock + 1 if self._time_dtype.kind == "i" else np.nextafter(clock, np.inf)

    def _check_order(self, t: np.ndarray) -> None:
        show = self.schema.time.show
        far = beyond(t)
        if far >= 0:
            raise BadInput(f"event {far} is at {t[far]}; times of events are within ±{LATEST:.3g}. Check the unit.")
        if len(t) and t[0] < self.clock:
            raise EventOrderError(
                f"the first event is at {show(t[0])}; this run has already observed {show(self.clock)}."
            )
        late = np.flatnonzero(t[1:] < t[:-1])
        if len(late):
            row = int(late[0]) + 1
            raise EventOrderError(f"event {row} is at {show(t[row])}, earlier than event {row - 1}. Sort them by time.")

    def _no_stale_queries(self) -> _Rephrased:
        return _Rephrased(self)


class _Rephrased:
    """Says in users' words that a question comes too late."""

    def __init__(self, live: Live):
        self.live = live

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, StaleQuery):
            seen = self.live.schema.time.show(self.live.clock)
            raise StaleQuery(f"this run has already observed {seen}; ask about that time or a later one.") from None


def _parted(event: Any, row: int) -> tuple[Any, Any, Any, Mapping[str, Any]]:
    if not isinstance(event, list | tuple) or len(event) not in (3, 4):
        raise BadInput(f"event {row} is {event!r}; an event is (src, dst, t) or (src, dst, t, {{feature: value}}).")
    return (*event, {}) if len(event) == 3 else (*event[:3], event[3] or {})


def _joined(logs: list[EventLog], names: Names) -> EventLog:
    def column(name: str) -> Any:
        parts = [getattr(log, name) for log in logs]
        return None if parts[0] is None else np.concatenate(parts)

    nodes = logs[-1].node_features
    return EventLog(
        column("src"),
        column("dst"),
        column("t"),
        features=column("features"),
        op=column("op"),
        node_updates=column("node_updates"),
        node_features=nodes,
        ids=names.id_map(),
        schema=logs[0].schema,
    )
