"""What is trained on and what is scored: a log cut by time, with some nodes hidden from training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.log import EventLog
from pintgn.events.splits import hidden_nodes, seen_nodes, touches

PROTOCOLS = ("stream", "paper")
"""`stream`: what a deployed system would know. `paper`: as TGN and PINT measure; see `paper.py`."""


@dataclass(frozen=True)
class Parts:
    """A log cut for learning: 70 / 15 / 15 by time, with some nodes hidden from training.

    `new` nodes are those never trained on; an event is `new` when it touches one (the papers' inductive events), else
    `seen`. Deletions, node events and events of the dummy node happen to the stream, but are neither trained on nor
    scored: `scored_events` leaves them out.
    """

    log: EventLog
    train: EventLog
    val: EventLog
    test: EventLog
    trained: EventLog  # the training events that touch no hidden node
    seen: np.ndarray  # (n,) nodes trained on

    @classmethod
    def of(
        cls, log: EventLog, val: float = 0.15, test: float = 0.15, hidden: float | str = 0.1, seed: int = 0
    ) -> Parts:
        train, validation, final = cut(log, val, test)
        if [len(part) for part in (train, validation)] != [len(part) for part in log.split(val, test)[:2]]:
            shares = " / ".join(f"{100 * len(part) / len(log):.0f}" for part in (train, validation, final))
            warnings.warn(
                f"simultaneous events are never parted, so the log is cut {shares} % by time, not as asked.",
                PintgnWarning,
                stacklevel=2,
            )
        if len(destinations(train)) < 2:
            raise BadInput(
                "every training event goes to one destination, so there is no other to tell it from. "
                "Is dst= (--dst) the right column?"
            )
        masked = hidden_nodes(log, train, hidden, seed)
        trained = train.where(~touches(train, masked))
        if not trained.learnable.any():
            raise BadInput(f"every training event touches a hidden node; hide fewer nodes (hidden={hidden}).")
        return cls(log, train, validation, final, trained, seen_nodes(train, masked))

    def named(self, name: str) -> EventLog:
        """A part by its name: train, val or test."""
        if name not in ("train", "val", "test"):
            raise BadInput(f"there is no part {name!r}; there are train, val and test.")
        return getattr(self, name)

    def before(self, part: EventLog) -> EventLog:
        """Everything that happened before a part."""
        return self.log[: part.first - self.log.first]

    def until(self, part: EventLog) -> EventLog:
        """Everything up to the end of a part: where its negatives come from. The future is no part of the question."""
        return self.log[: part.first - self.log.first + len(part)]

    def is_new(self, part: EventLog) -> np.ndarray:
        """Which events (e,) of a part touch a node never trained on."""
        return touches(part, ~self.seen)


def cut(log: EventLog, val: float = 0.15, test: float = 0.15) -> tuple[EventLog, EventLog, EventLog]:
    """Training, validation and test part: by time quantiles, as `EventLog.split`.

    Where large groups of simultaneous events leave a part with nothing to learn from, the borders between groups that
    come closest to the quantiles and give every part something are taken instead.
    """
    parts = log.split(val, test)
    if all(part.learnable.any() for part in parts):
        return parts
    borders = log.group_starts[1:]
    wanted = np.array([1 - val - test, 1 - test]) * len(log)
    near = [borders[np.argsort(np.abs(borders - row), kind="stable")[:8]].tolist() for row in wanted]
    learnable = np.concatenate([[0], np.cumsum(log.learnable)])
    fitting = [
        (abs(one - wanted[0]) + abs(two - wanted[1]), one, two)
        for one in near[0]
        for two in near[1]
        if one < two and 0 < learnable[one] < learnable[two] < learnable[-1]
    ]
    if not fitting:
        raise BadInput(_shortage(log))
    _, first, second = min(fitting)
    return log[:first], log[first:second], log[second:]


def scored_events(part: EventLog) -> EventLog:
    """The events of a part that are worth predicting."""
    return part if part.learnable.all() else part.where(part.learnable)


def destinations(log: EventLog) -> np.ndarray:
    """The distinct destinations of a log's learnable events, in order: where negatives are drawn from."""
    return np.unique(log.dst if log.learnable.all() else log.dst[log.learnable])


def _shortage(log: EventLog) -> str:
    events, times = len(log), len(log.group_starts)
    at = f"{events} event{'s'[: events != 1]} at {times} distinct time{'s'[: times != 1]}"
    if times < 3:
        return f"{at} cannot be cut in three by time. Is t= (--time) the right column?"
    if log.learnable.sum() < events:
        return f"{at} cannot be cut in three parts to learn from: only {log.learnable.sum()} of them are additions."
    return f"{at} are too few to cut in three by time."
