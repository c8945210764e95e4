"""Targets that arrive after their events: matched, checked, and part of the past from their own time on.

A target becomes known at the later of its own time and the newest event's when it arrives, so that no answer that was
given already could have been another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.schema import Feature
from pintgn.ingest.late_targets import TargetBatch, column_hash, target_number
from pintgn.live.pending import Event, PendingAnswer
from pintgn.neighbors.contents import Contents, contents

if TYPE_CHECKING:
    from pintgn.live.live import Live
    from pintgn.models.history_view import Events


def read_targets(live: Live, given: Sequence[Any], at: Any = None) -> TargetBatch:
    """Targets as users write them, (src, dst, t, value) each; `at` is when they became known, right now by default.

    They must be of a run that predicts a column. Nothing is looked up yet.
    """
    feature = target_feature(live)
    src, dst, t, values = [], [], [], []
    for row, one in enumerate(given):
        if not isinstance(one, list | tuple) or len(one) != 4:
            raise BadInput(
                f"target {row} is {one!r}; it is (src, dst, t, value): the event it is about, and what it is."
            )
        src.append(live.codec.id(one[0]))
        dst.append(live.codec.id(one[1]))
        t.append(live.codec.time(one[2]))
        values.append(target_number(feature, one[3], f"target {row}", live.codec.wide))
    when = np.asarray(live.clock if at is None else live.codec.time(at), live.codec.dtype)
    known = np.full(len(t), max(when, np.asarray(live.clock, live.codec.dtype)), live.codec.dtype)
    column = column_hash(live.run.settings.task.predict)
    return TargetBatch(src, dst, np.array(t, live.codec.dtype), known, np.array(values, np.float64), column)


def target_feature(live: Live) -> Feature:
    """The column that a run predicts, as its events carry it."""
    task, asking = live.run.settings.task, live.stream.schema.asking
    if asking is None or not asking.late:
        raise BadInput(f"this run predicts {task.predict!r}, which no event says: there is no target to wait for.")
    return next(feature for feature in live.codec.schema.features if feature.name == task.predict)


def new_targets(live: Live, batch: TargetBatch) -> list[int]:
    """Rows of targets whose events have none yet. A known target is left out; one of an event that was never observed,
    or that has another target, is refused, and with it the whole batch."""
    taken: dict[int, float] = {}
    rows = []
    show = live.schema.time.show
    encoded = _encoded(live, batch.values)
    for row in range(len(batch)):
        named = f"target {row}: the event {batch.src[row]!r} → {batch.dst[row]!r} at {show(batch.t[row])}"
        numbers = _events_of(live, batch, row)
        if numbers is None:
            raise BadInput(f"{named} was not observed, or its contact is forgotten. Nothing was applied.")
        late = live.stream.history.late
        assert late is not None
        free = [number for number in numbers if late.values[number, -1] == 0 and number not in taken]
        if free:
            taken[free[0]] = batch.values[row]
            rows.append(row)
        elif not any(_same(live, number, encoded[row], batch.values[row], taken) for number in numbers):
            raise BadInput(f"{named} has another target already; a target is known for good. Nothing was applied.")
    return rows


def apply_targets(live: Live, batch: TargetBatch) -> None:
    """Make targets part of the past. Those about another column than the run's change nothing."""
    asking = live.stream.schema.asking
    if asking is None or not asking.late or batch.column != column_hash(live.run.settings.task.predict):
        return
    encoded, history = _encoded(live, batch.values), live.stream.history
    for row in range(len(batch)):
        if encoded[row, -1] == 0:  # of a class that training has never met: nothing to know
            continue
        numbers, late = _events_of(live, batch, row), history.late
        if numbers is None or late is None:
            continue
        free = [number for number in numbers if late.values[number, -1] == 0]
        if not free:
            continue
        late.values[free[0]], late.known[free[0]] = encoded[row], batch.known[row]
        ends = live.names.find_pairs([batch.src[row]], [batch.dst[row]])
        event = Event(int(ends[0][0]), int(ends[1][0]), batch.t[row].item(), numbers.index(free[0]))
        truth = float(live.task.truth_of(encoded[row][None])[0])
        live.prequential.target_arrived(event, truth, batch.known[row].item(), live.clock)
        late.index.add(*ends, batch.known[row : row + 1], encoded[row : row + 1, :-1])


def events_of_targets(live: Live, events: Events, rows: np.ndarray) -> list[Event]:
    """Some events that are about to be observed, as targets will name them: by pair, time, and number among equal
    ones."""
    held, found = contents(live.stream.index), []
    for row in rows.tolist():
        src, dst, t = (column[row].item() for column in (events.src, events.dst, events.t))
        here = slice(int(np.searchsorted(events.t, t, "left")), row)
        rank = int(((events.src[here] == src) & (events.dst[here] == dst)).sum())
        if t == live.clock and src < len(held.starts):
            rank += len(_alike(held, src, dst, t))
        found.append(Event(src, dst, t, rank))
    return found


def pending_answers(
    live: Live, events: Events, rows: np.ndarray, numbers: np.ndarray, answers: np.ndarray
) -> list[PendingAnswer]:
    """Answers about some events, each with its truth where the target is known with its event."""
    truth = live.task.truth_of(events.late[rows]).tolist() if events.late is not None else [math.nan] * len(rows)
    known = (events.t if events.known is None else events.known)[rows].tolist()
    return [
        PendingAnswer(number, answer) if math.isnan(true) else PendingAnswer(number, answer, when, true)
        for number, answer, true, when in zip(numbers.tolist(), answers.tolist(), truth, known, strict=True)
    ]


def _events_of(live: Live, batch: TargetBatch, row: int) -> list[int] | None:
    """The numbers of the events that a target may be about, in the order in which they happened."""
    names, held = live.names, contents(live.stream.index)
    src, dst = (names.numbers[side].get(id) for side, id in enumerate((batch.src[row], batch.dst[row])))
    if src is None or dst is None or src >= len(held.starts):
        return None
    return _alike(held, src, dst, batch.t[row]) or None


def _alike(held: Contents, src: int, dst: int, t: Any) -> list[int]:
    """The numbers of the events of a pair at a time, in the order in which they happened."""
    begin, end = held.starts[src], held.starts[src] + held.lengths[src]
    times = held.times[begin:end]  # the newest first
    first, stop = (len(times) - np.searchsorted(times[::-1], t, side) for side in ("right", "left"))
    entries = slice(begin + first, begin + stop)
    mine = (held.ids[entries] == dst) & held.outgoing(src, first, stop)
    return np.sort(held.numbers[entries][mine].astype(np.int64)).tolist()


def _encoded(live: Live, values: np.ndarray) -> np.ndarray:  # (n, w)
    task: Any = live.run.deployed.task
    return task.encoded(values)


def _same(live: Live, number: int, encoded: np.ndarray, value: float, taken: dict[int, float]) -> bool:
    late = live.stream.history.late
    assert late is not None
    if number in taken:
        return taken[number] == value
    return bool((late.values[number] == encoded.astype(late.values.dtype)).all())
