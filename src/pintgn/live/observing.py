"""Observation of events after a run's log, from tuples, files, frames or a service; and retention."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pintgn.errors import BadInput, EventOrderError, PintgnWarning
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import ADD, NODE
from pintgn.ingest.codec import Codec, EventBatch
from pintgn.ingest.late_targets import TargetBatch
from pintgn.live.arriving_targets import apply_targets
from pintgn.live.prequential import Block
from pintgn.models.base import Model
from pintgn.models.history_view import Events
from pintgn.models.message_passing import TreeModel
from pintgn.models.tgn import TGN
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.live.live import Live

NO_LOCK = nullcontext()
BLOCK = 500
"""Events observed at once: what a question waits for at most."""


def batch_of(codec: Codec, events: Sequence[Any]) -> EventBatch:
    """Events as tuples: (src, dst, t) or (src, dst, t, {feature: value}) each."""
    src, dst, t, given = map(list, zip(*(_four(event, row) for row, event in enumerate(events)), strict=True))
    op = None
    if codec.schema.op is not None:
        op = [features.pop(codec.schema.op, None) for features in given]
        given = [features or None for features in given]
    one, other = ([None if id is None else codec.id(id) for id in ends] for ends in (src, dst))
    return codec.batch(one, other, t, given, op, unseen=_warn_unseen)


def _four(event: Any, row: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    features = event[3] or {} if isinstance(event, list | tuple) and len(event) == 4 else {}
    if not isinstance(event, list | tuple) or len(event) not in (3, 4) or not isinstance(features, Mapping):
        raise BadInput(f"event {row} is {event!r}; an event is (src, dst, t) or (src, dst, t, {{feature: value}}).")
    return *event[:3], dict(features)  # type: ignore[return-value]


def _warn_unseen(feature: str, value: Any) -> None:
    warnings.warn(
        f"{feature}={value!r} was not in the training data; it counts as none of the known categories.",
        PintgnWarning,
        stacklevel=9,
    )


def observe_table(live: Live, source: Any, progress: Callable[..., None]) -> int:
    """A file or frame, read like a later file of the run's own log."""
    from pintgn.ingest.read import read_events

    log = read_events(source, like=_log_so_far(live))
    check_order(live, log.t)
    for number in range(len(live.names), log.nodes):
        live.names.add(log.id(number), 0 if log.ids.side is None else int(log.ids.side[number]))
    read, schema, learnable = live.run.deployed.view(log), live.stream.schema, log.learnable
    asks = schema.asking is not None and read.features is not None
    late = read.features[:, schema.late] if asks else None  # type: ignore[index]
    events = Events(log.src, log.dst, log.t, read.marked_features, late=late, known=read.known)

    def block(rows: slice) -> tuple[Events, np.ndarray]:
        progress(rows.stop, len(log))
        return events[rows], learnable[rows]

    _observe_blocks(live, len(log), block)
    if live.schema.op is not None:
        live.observed_logs.append(log)
    return len(log)


def observe_batch(
    live: Live, batch: EventBatch, turn: AbstractContextManager[Any] = NO_LOCK, scored: np.ndarray | None = None
) -> np.ndarray:  # (e,)
    """See `Live.observe_batch`."""
    if batch.holds_targets:
        with turn:
            apply_targets(live, TargetBatch.of_events(batch))
            live.total, live.targets = live.total + len(batch), live.targets + len(batch)
        return np.full(len(batch), np.nan, np.float32)
    read, op = model_columns(live, batch), batch.op

    def block(rows: slice) -> tuple[Events, np.ndarray]:
        src, dst = live.names.add_pairs(batch.src[rows], batch.dst[rows])
        learnable = np.ones(len(src), bool) if op is None else op[rows] == ADD
        if live.schema.dummy is not None:
            learnable &= (src != live.schema.dummy) & (dst != live.schema.dummy)
        features, late, known = (None if column is None else column[rows] for column in read)
        return Events(src, dst, batch.t[rows], features, late=late, known=known), learnable

    return _observe_blocks(live, len(batch.t), block, turn, scored)


def _observe_blocks(
    live: Live,
    count: int,
    block: Callable[[slice], tuple[Events, np.ndarray]],
    turn: AbstractContextManager[Any] = NO_LOCK,
    scored: np.ndarray | None = None,
) -> np.ndarray:
    begin, logits = 0, np.full(count, np.nan, np.float32)
    while begin < count:
        end = min(begin + BLOCK, count, begin + live.retention.until_next(live.total))
        rows = slice(begin, end)
        with turn, torch.no_grad():
            events, learnable = block(rows)
            logits[rows] = _observe_block(live, events, learnable, None if scored is None else scored[rows])
            live.retention.apply(live.stream, live.total)
        begin = end
    return logits


def _observe_block(live: Live, events: Events, learnable: np.ndarray, wanted: np.ndarray | None) -> np.ndarray:
    if len(live.stream.history.node_marks) < len(live.names.ids):
        live.stream.history.node_marks = live.names.marks
    before = live.destinations.observe(events.src, events.dst, events.t, learnable, len(live.names.ids))
    numbers = np.arange(live.total + 1, live.total + 1 + len(events.t))
    logits = live.prequential.observe(live, Block(events, learnable, numbers, before, wanted))
    live.nodes.observe(events.src, events.dst, events.t)
    live.total += len(events.t)
    return logits


def model_columns(live: Live, batch: EventBatch) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Features of a batch as the model reads them (known categories and a common scale, by the training part), what
    becomes known about the events later, and when."""
    if batch.features is None:
        return None, None, None
    used, codec, width = live.run.deployed, live.codec, live.codec.schema.feature_width
    own, rest = batch.features[:, :width], batch.features[:, width:].copy()
    if used.scaling.node_updates is not None and codec.schema.node_updates and batch.op is not None:
        rows = batch.op == NODE
        rest[rows, 2:] = used.scaling.node_updates(rest[rows, 2:])
    if live.stream.schema.asking is None:
        return np.concatenate([used.scaling.event_features(own), rest], 1, dtype=np.float32), None, None
    no_node = np.zeros(len(batch), np.int64)
    schema = dataclasses.replace(codec.schema, op=None, node_updates=(), node_features=(), dummy=None)
    columns = {"src": no_node, "dst": no_node, "t": batch.t.view(), "features": own.copy()}
    read = used.view(EventLog.trusted(columns, IdMap(size=1), schema))
    assert read.features is not None
    assert read.marked_features is not None
    found, late = read.marked_features.copy(), read.features[:, read.schema.late].copy()
    if batch.op is not None:
        late[batch.op != ADD] = 0
        found[batch.op != ADD, read.schema.late] = 0
    return np.concatenate([found, rest], 1, dtype=np.float32), late, read.known


def _log_so_far(live: Live) -> EventLog:
    """The log so far, as later files are read: with all its nodes, and its events where deletions refer to them."""
    logs = live.observed_logs if live.schema.op is not None else [live.run.log[:0]]

    def column(name: str) -> Any:
        parts = [getattr(log, name) for log in logs]
        return None if parts[0] is None else np.concatenate(parts)

    columns = {name: column(name) for name in ("src", "dst", "t", "features", "op", "node_updates")}
    if (given := live.run.log.node_features) is not None:  # those of nodes that came later are zero
        given = np.pad(given, ((0, len(live.names) - len(given)), (0, 0)))
    columns["node_features"] = given
    return EventLog.trusted(columns, live.names.id_map(), live.schema)


def check_order(live: Live, t: np.ndarray) -> None:
    """Refuse events that begin before the newest one."""
    if len(t) and t[0] < live.clock:
        show = live.schema.time.show
        raise EventOrderError(f"the first event is at {show(t[0])}; this run has already observed {show(live.clock)}.")


NEVER = 2**62


@dataclass
class Retention:
    """Retention: how many contacts, and how old ones, the live index keeps; all by default.

    Every `every` events, counted from the start of the service, each node's contacts beyond its newest `keep_last`, and
    those older than `window`, are forgotten. Positions, memory and the node table stay as they are; events stay in the
    store. A model that reads at most `keep_last` contacts of a node gives the same scores (see `contacts_read`).

    Args:
        keep_last: contacts of each node.
        window: how long contacts are kept, in the log's unit of time.
        every: events between two clean-ups; they are made at fixed event numbers, so that a replay makes the same.
    """

    keep_last: int | None = None
    window: float | None = None
    every: int = 10_000
    forgotten: int = 0
    active: bool = field(init=False)

    def __post_init__(self) -> None:
        self.active = self.keep_last is not None or self.window is not None
        for name in ("keep_last", "window", "every"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise BadInput(f"{name}={value}; it is more than 0.")

    def until_next(self, total: int) -> int:
        """Events until the next trim."""
        return self.every - total % self.every if self.active else NEVER

    def apply(self, stream: Stream, total: int) -> None:
        """Trim if it is time, after so many events."""
        if self.active and total % self.every == 0:
            since = None if self.window is None else stream.clock - self.window  # type: ignore[operator]
            self.forgotten += stream.forget(keep_last=self.keep_last, before_t=since)

    def warning(self, model: Model) -> str | None:
        """A warning if these settings change the scores of a model."""
        if not self.active:
            return None
        reads = contacts_read(model)
        name = type(model).__name__
        if reads is None and getattr(model, "pair_history", False):
            return (
                f"{name} counts how often two nodes have met, so forgetting contacts changes its scores. Train with "
                "--set model.pair_history=false to have the same scores with fewer contacts."
            )
        if reads is None:
            return f"{name} looks at all contacts of a node, so forgetting some changes its scores."
        if self.keep_last is not None and self.keep_last < reads:
            return f"{name} reads {reads} contacts of a node; keeping {self.keep_last} changes its scores."
        if self.window is not None:
            return f"{name} reads {reads} contacts of a node, however old; those older than the window count no more."
        return None


def contacts_read(model: Model) -> int | None:
    """The number of a node's newest contacts that a model reads; None if there is no limit."""
    ours = (TreeModel.find_children, TGN.find_children)
    if isinstance(model, TreeModel) and type(model).find_children in ours and not model.pair_history:
        return model.neighbors
    return None
