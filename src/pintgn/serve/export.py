"""Export: the run's own log and the stored events as one log, to train on again."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.schema import NODE
from pintgn.ingest.codec import EventBatch
from pintgn.ingest.late_targets import TargetBatch, column_hash
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Names
from pintgn.serve.event_store import Store


def full_log(live: Live, store: Store) -> EventLog:
    """The run's log and every stored event after it, in users' own ids.

    Labels are left out: live events have none. Categories that the run did not know count as none of the known ones,
    as they did when they were observed. Targets that came by themselves stand with their events, and when they became
    known in `EventLog.known`, unless the run declares that by `known_after`. Refused when events have been dropped from
    the store.
    """
    if store.dropped:
        raise BadInput(
            f"the first {store.dropped:,} live events were dropped from the store, so the log has a gap. "
            "Train on your own copy of the events."
        )
    return with_events(live.run, [batch for _, batch in store.read(live.covered)])


def with_events(run: Run, stored: list[EventBatch]) -> EventLog:
    """A run's log, and the events and targets after it."""
    log, names = run.log, Names(run.log.ids)
    batches = [batch for batch in stored if not batch.holds_targets]
    if not batches:
        return log
    events = EventBatch.concat(batches)
    src, dst = names.add_pairs(events.src, events.dst)
    width = log.schema.feature_width
    updates, node_features = None, log.node_features
    if log.node_updates is not None and events.features is not None and events.op is not None:
        updates = np.concatenate([log.node_updates, events.features[events.op == NODE, width + 2 :]])
    if node_features is not None:
        node_features = np.pad(node_features, ((0, len(names) - len(node_features)), (0, 0)))

    def joined(old: Any, new: Any) -> Any:
        return None if old is None else np.concatenate([old, new])

    ends = np.concatenate([log.src, src]), np.concatenate([log.dst, dst]), np.concatenate([log.t, events.t])
    features = None if log.features is None else joined(log.features, events.features[:, :width])  # type: ignore[index]
    known = None if log.known is None else np.concatenate([log.known, events.t])
    targets = [TargetBatch.of_events(batch) for batch in stored if batch.holds_targets]
    if targets and features is not None:
        known = _filled(run, names, targets, ends, features, known)
    return EventLog(
        *ends,
        features=features,
        known=known,
        op=joined(log.op, events.op),
        node_updates=updates,
        node_features=node_features,
        ids=names.id_map(),
        schema=dataclasses.replace(log.schema, label=None, time_scale=None),
    )


def _filled(
    run: Run,
    names: Names,
    targets: list[TargetBatch],
    ends: tuple[np.ndarray, ...],
    features: np.ndarray,
    known: np.ndarray | None,
) -> np.ndarray | None:  # (e,)
    """Fill in targets; returns when each event's became known, None where the run declares it."""
    (src, dst, t), task, begin = ends, run.settings.task, 0
    for feature in run.log.schema.features:
        if feature.name == task.predict:
            break
        begin += feature.width
    else:
        return known
    own = slice(begin, begin + feature.width)
    known = t.copy() if known is None and task.known_after is None else known
    for batch in targets:
        if batch.column != column_hash(feature.name):
            continue
        sides = names.find_pairs(batch.src, batch.dst)
        starts, stops = (np.searchsorted(t, batch.t, side) for side in ("left", "right"))
        for row, (one, other, start, stop) in enumerate(zip(*sides, starts, stops, strict=True)):
            mine = start + np.flatnonzero((src[start:stop] == one) & (dst[start:stop] == other))
            value = features[mine, own]
            free = mine[np.isnan(value).any(1) if feature.kind == "number" else ~value.any(1)]
            if not len(free):
                continue
            features[free[0], own] = batch.values[row] + (feature.kind == "code")
            if feature.kind == "onehot":
                features[free[0], own] = np.arange(feature.width) == batch.values[row]
            if known is not None:
                known[free[0]] = batch.known[row]
    return known
