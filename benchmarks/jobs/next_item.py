"""What next: every destination is ranked just before an event, by pintgn and by what a practitioner would try first.

A question is a source and a time; its rank is that of the true destination among all destinations of the log so far,
without the other true ones of the same source and time. Ties count half. Scorers observe every event strictly before a
question; SASRec's weights are learned on the training part, its sequences go on growing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pintgn
from benchmarks.jobs.common import Found, Job
from pintgn.events.log import EventLog
from pintgn.learn.measure import evenly, ranks_in_part
from pintgn.learn.metrics import rank_metrics, ranks
from pintgn.learn.negatives import Candidates
from pintgn.learn.protocol import Parts
from pintgn.learn.run import Run

MOST = 2_000
"""Questions of a part, evenly taken."""
NEWEST = 50
"""Distinct items of a source that a new one is counted together with, and the length of SASRec's sequences."""


class Ranked:
    """A log cut by pintgn's protocol, and the events whose destinations are ranked."""

    def __init__(self, job: Job, folder: Path):
        self.log: EventLog = job.read(folder)[1]
        self.parts = Parts.of(self.log, hidden=0.0)

    def asked(self, part: str) -> tuple[EventLog, np.ndarray]:
        """A part, and a mask of its events that are asked about."""
        events = self.parts.named(part)
        return events, evenly(len(events), MOST)

    def walk(self, scorer: Scorer, rows: np.ndarray) -> Iterator[tuple[int, int, int, Any]]:
        """Events by row, with source, destination and time, each when a scorer has seen all that was before it."""
        log, done = self.log, 0
        for now in rows.tolist():
            begin = int(np.searchsorted(log.t, log.t[now]))  # simultaneous events do not see each other
            scorer.observe(log.src[done:begin], log.dst[done:begin], log.t[done:begin])
            done = begin
            yield now, int(log.src[now]), int(log.dst[now]), log.t[now]

    def ranks(self, scorer: Scorer, part: str) -> np.ndarray:
        """The rank of each asked destination."""
        events, only = self.asked(part)
        among, found = Candidates(self.parts.until(events), events, "all"), []
        for now, src, dst, t in self.walk(scorer, events.first + np.flatnonzero(only)):
            nodes, valid = among(now - events.first, now - events.first + 1)
            scores = scorer.scores(src, t)
            found.append(ranks(scores[[dst]], scores[nodes], valid))
        return np.concatenate(found)

    def found(self, scorer: Callable[[], Scorer]) -> Found:
        """The ranks of both parts, by scorers that begin anew."""
        return {part: self.ranks(scorer(), part) for part in ("val", "test")}


def figures(asked: Any, found: np.ndarray) -> dict[str, float | None]:
    return rank_metrics(found)


def pintgn_ranks(job: Job, asked: Ranked, model: str, seed: int) -> tuple[Found, Run]:
    """pintgn as it comes: fit, and the ranks of both parts."""
    run = pintgn.fit(model, asked.log, seed=seed, progress=False, **job.fit)
    stream, parts, found = run.stream_after(run.parts.train), run.parts, {}
    for part in ("val", "test"):
        events, only = asked.asked(part)
        events = parts.named(part)
        found[part] = ranks_in_part(stream, events, Candidates(parts.until(events), events, "all"), None, only)
    return found, run


# -- scorers -------------------------------------------------------------------------------------------------------


class Scorer:
    """What is popular: a count of each destination that halves in a time; never, if None."""

    def __init__(self, nodes: int, half: float | None = None):
        self.nodes, self.half, self.count, self.now = nodes, half, np.zeros(nodes), 0.0

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Let events happen, in order of time."""
        if not len(t):
            return
        fade = np.ones(len(t)) if self.half is None else 0.5 ** ((t[-1] - t) / self.half)
        self.count *= 1.0 if self.half is None else 0.5 ** ((t[-1] - self.now) / self.half)
        np.add.at(self.count, dst, fade)
        self.now = t[-1]

    def scores(self, src: int, t: Any) -> np.ndarray:  # (n,)
        """How likely a source's next destination is each node."""
        return self.count


class ItemKNN(Scorer):
    """How often others had both: cosine of counts, summed over the source's newest items (all if None)."""

    def __init__(self, nodes: int, newest: int | None = None, own: bool = True):
        super().__init__(nodes)
        self.newest, self.own = newest, own
        self.items: dict[int, dict[int, None]] = defaultdict(dict)  # of a source, newest last
        self.together: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        for who, item in zip(src.tolist(), dst.tolist(), strict=True):
            mine = self.items[who]
            if item not in mine:
                self.count[item] += 1
                for other in list(mine)[-NEWEST:]:
                    self.together[item][other] += 1
                    self.together[other][item] += 1
            mine.pop(item, None)
            mine[item] = None

    def scores(self, src: int, t: Any) -> np.ndarray:
        found = 1e-9 * self.count  # ties go to the more popular
        for item in list(self.items[src])[-(self.newest or 10**9) :]:
            others = self.together[item]
            if others:
                at = np.fromiter(others, np.int64, len(others))
                together = np.fromiter(others.values(), np.float64, len(others))
                found[at] += together / np.sqrt(self.count[item] * self.count[at])
            found[item] += self.own
        return found
