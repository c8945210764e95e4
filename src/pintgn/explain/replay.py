"""Counterfactual answers by replaying the log without some events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.explain.counterfactuals import Absence, Frozen
from pintgn.models.base import eval_mode
from pintgn.stream import Stream

Progress = Callable[[int, int], None]
"""Called with the replays done and their total."""


def replayed_answers(
    frozen: Frozen, asked: Query, absences: Sequence[Absence], progress: Progress | None = None
) -> np.ndarray:  # (1 + absences, outputs)
    """As `counterfactuals.answers`, with memory recomputed: exact for every model, but slow.

    Counterfactuals share the replay of the events before their first absent one.
    """
    stream = frozen.stream
    if stream.index.forgotten:
        raise BadInput("this stream has forgotten old contacts, so it cannot be replayed. Explain without replay.")
    events, late, relation = frozen.in_order(), stream.history.late_columns, stream.history.relation
    found: list[np.ndarray] = [np.zeros(0)] * (len(absences) + 1)
    lacking = [np.union1d(absence.events, absence.unknown).astype(np.int64) for absence in absences]
    begins = [int(some.min()) if len(some) else len(events) for some in lacking]
    common, done = _empty(stream), 0
    with eval_mode(stream.model):
        found[0] = stream.replay(None, [asked])[0].numpy(force=True)
        for step, world in enumerate(np.argsort(begins, kind="stable").tolist()):
            if progress is not None:
                progress(step, len(absences))
            begin, absence = begins[world], absences[world]
            common.observe(events[done:begin])
            done = begin
            stays = np.setdiff1d(np.arange(begin, len(events)), absence.events)
            rest = events[stays]
            hidden = np.isin(stays, absence.unknown)
            if late is not None and hidden.any() and rest.features is not None and rest.late is not None:
                rest.features[hidden, late] = 0
                rest.late[hidden] = 0
            if relation is not None and rest.features is not None:
                rest.features[hidden, relation[0]] = 0
            alone = common.fork()
            alone.observe(rest)
            found[world + 1] = alone.replay(None, [frozen.asked_in(absence, asked)])[0].numpy(force=True)
    if progress is not None:
        progress(len(absences), len(absences))
    return np.concatenate(found)


def _empty(stream: Stream) -> Stream:
    """A stream of the same model and settings without events."""
    empty = Stream(
        stream.model,
        stream.schema,
        node_features=stream.node_features,
        device=stream.model.device,
        memory_block=stream.blocks.size,
        positions_refresh=stream.positions_refresh,
        positions_backend=stream.positions_backend,
        positions_width=stream.positions_width,
        history_refresh=stream.history_refresh,
    )
    empty.history.node_marks = stream.history.node_marks
    return empty
