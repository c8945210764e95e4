"""Everything that has happened, as a log to train on again: the run's own log and the stored events."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.codec import EventBatch
from pintgn.events.log import EventLog
from pintgn.events.schema import NODE
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.names import Names
from pintgn.serve.store import Store


def whole_log(live: Live, store: Store) -> EventLog:
    """The run's log and every stored event after it, in users' own ids.

    Labels are left out: live events have none. Categories that the run did not know count as none of the known ones,
    as they did when they were observed. Refused when events have been dropped from the store.
    """
    if store.dropped:
        raise BadInput(
            f"the first {store.dropped:,} live events were dropped from the store, so the log has a gap. "
            "Train on your own copy of the events."
        )
    return with_events(live.run, [batch for _, batch in store.read(live.covered)])


def with_events(run: Run, batches: list[EventBatch]) -> EventLog:
    """A run's log and the events after it."""
    log, names = run.log, Names(run.log.ids)
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

    return EventLog(
        np.concatenate([log.src, src]),
        np.concatenate([log.dst, dst]),
        np.concatenate([log.t, events.t]),
        features=None if log.features is None else joined(log.features, events.features[:, :width]),  # type: ignore[index]
        op=joined(log.op, events.op),
        node_updates=updates,
        node_features=node_features,
        ids=names.id_map(),
        schema=dataclasses.replace(log.schema, label=None, time_scale=None),
    )
