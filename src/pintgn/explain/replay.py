"""Scores in worlds where some events never happened, by letting everything else happen again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.explain.worlds import Absence, Frozen
from pintgn.models.base import eval_mode
from pintgn.stream import Stream

Progress = Callable[[int, int], None]
"""Called with how many worlds are done, and of how many."""


def replayed_scores(
    frozen: Frozen, src: int, dst: int, at: Any, absences: Sequence[Absence], progress: Progress | None = None
) -> np.ndarray:  # (1 + absences,)
    """The same as `scores`, with memory taken back, too: exact for every model, but slow.

    What happened before the first event that a world lacks is shared by all that lack only later ones.
    """
    stream = frozen.stream
    if stream.index.forgotten:
        raise BadInput("this stream has forgotten old contacts, so it cannot be replayed. Explain without replay.")
    events = frozen.in_order()
    asked = Query(np.array([src]), np.array([dst]), np.array([at], stream._time_dtype))
    found = np.empty(len(absences) + 1)
    begins = [int(absence.events.min()) if len(absence.events) else len(events) for absence in absences]
    common, done = _empty(stream), 0
    with eval_mode(stream.model):
        found[0] = stream.score(asked).item()
        for step, world in enumerate(np.argsort(begins, kind="stable").tolist()):
            if progress is not None:
                progress(step, len(absences))
            begin = begins[world]
            common.observe(events[done:begin])
            done = begin
            stays = np.setdiff1d(np.arange(begin, len(events)), absences[world].events)
            alone = common.fork()
            alone.observe(events[stays])
            found[world + 1] = alone.score(asked).item()
    if progress is not None:
        progress(len(absences), len(absences))
    return found


def _empty(stream: Stream) -> Stream:
    """A stream of the same model and settings to which nothing has happened yet."""
    empty = Stream(
        stream.model,
        stream.schema,
        node_features=stream.node_features,
        device=stream.model.device,
        memory_block=stream.blocks.size,
        positions_refresh=stream.positions_refresh,
        positions_backend=stream.positions_backend,
        history_refresh=stream.history_refresh,
    )
    empty.history.node_marks = stream.history.node_marks
    return empty
