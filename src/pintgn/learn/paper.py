"""`protocol="paper"`: evaluation as TGN and PINT do it, for comparison with published figures.

Neighbors are those of the whole log before t. Memory and positions have seen what training has: the training events
that touch no hidden node, then (for the test part) all of validation. The part's events are replayed once in full, for
`all` and `seen`; and once more from the same point with the events of new nodes only, for `new`, whose random negatives
come from those events' own destinations. The figure to compare is `chunked_ap`.

Differs from their code: memory is that of the measured weights from the first event on, not a mixture of the weights
that training went through, and simultaneous events do not see each other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from pintgn.events.log import EventLog
from pintgn.learn.measure import Compared, compare
from pintgn.learn.negatives import Negatives, draw_each
from pintgn.learn.protocol import Parts
from pintgn.models.history_view import Events
from pintgn.stream import Stream
from pintgn.stream.history import History


class WholeLog(History):
    """The neighbors of a whole log, whatever the stream has observed itself; still strictly before t."""

    def __init__(self, log: EventLog, observed: History):
        super().__init__(block=observed.block, summed=observed.summed)
        self.events, self.clock = observed.events, observed.clock
        self.log, self.event_table = log, log.marked_features
        self.index.append(log.src, log.dst, log.t, ties=log.ties)
        if self.summed[0]:
            self._append_sums(Events(log.src, log.dst, log.t, self.event_table))

    def before(self, t: np.ndarray, events: Events) -> np.ndarray:
        numbers = np.searchsorted(self.log.t, t, "left")
        borders = np.append(self.log.group_starts, len(self.log))  # a block never parts simultaneous events
        return borders[np.searchsorted(borders, numbers - numbers % self.block, "right") - 1]

    def append(self, events: Events) -> None:
        self.events += len(events)
        self.clock = events.t[-1].item()

    def fork(self) -> WholeLog:
        return copy.copy(self)  # nothing is ever added to what it shows


def measure(trained: Stream, parts: Parts, part: EventLog, kinds: Sequence[str | Negatives], seed: int) -> Compared:
    """Figures and the scores of all events, of a stream that has observed `parts.trained` only."""
    stream = trained.fork(history=WholeLog(parts.log, trained.history))
    if part.first > parts.val.first:
        stream.observe(parts.val)
    again, before = stream.fork(), parts.before(part)
    drawn = draw_each(kinds, parts.log, part, seed, before)
    found = compare(stream, part, drawn, parts.is_new(part.scored_events))
    only = part.where(parts.is_new(part))
    if count := len(only.scored_events):
        inductive = compare(again, only, draw_each(kinds, only, only, seed + 1, before), np.ones(count, bool))
        for whole, new in ((found.figures, inductive.figures), (found.one_score, inductive.one_score)):
            for name in whole:
                whole[name]["new"] = new[name]["new"]
    return found
