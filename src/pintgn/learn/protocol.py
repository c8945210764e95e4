"""What is trained on and what is measured: a log cut by time, with some nodes hidden from training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.splits import hidden_nodes, seen_nodes, touches

PROTOCOLS = ("stream", "paper")
"""`stream`: what a deployed system would know. `paper`: as TGN and PINT measure; see `paper.py`."""


@dataclass(frozen=True)
class Parts:
    """A log cut for learning: 70 / 15 / 15 by time, with some nodes hidden from training.

    `new` nodes are those never trained on; an event is `new` when it touches one (the papers' inductive events), else
    `seen`. Deletions, node events and events of the dummy node happen to the stream, but are neither trained on nor
    measured: `measured` leaves them out.
    """

    log: EventLog
    train: EventLog
    val: EventLog
    test: EventLog
    trained: EventLog  # the training events that touch no hidden node
    seen: np.ndarray  # (n,) nodes trained on

    @classmethod
    def of(cls, log: EventLog, val: float = 0.15, test: float = 0.15, hidden: float = 0.1, seed: int = 0) -> Parts:
        train, validation, final = log.split(val, test)
        parts = {"training": train, "validation": validation, "test": final}
        for name, part in parts.items():
            if not part.learnable.any():
                raise BadInput(f"the {name} part has no event to learn from: {_shortage(log)}")
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

    def is_new(self, part: EventLog) -> np.ndarray:
        """Which events (e,) of a part touch a node never trained on."""
        return touches(part, ~self.seen)


def measured(part: EventLog) -> EventLog:
    """The events of a part that are worth predicting."""
    return part if part.learnable.all() else part.where(part.learnable)


def destinations(log: EventLog) -> np.ndarray:
    """The distinct destinations of a log's learnable events, in order: where negatives are drawn from."""
    return np.unique(log.dst if log.learnable.all() else log.dst[log.learnable])


def _shortage(log: EventLog) -> str:
    events, times = len(log), len(log.group_starts)
    if log.learnable.sum() < events:
        return f"only {log.learnable.sum()} of {events} events are additions."
    if times < 3:
        return (
            f"{events} events at {times} distinct time{'s'[: times != 1]} cannot be cut in three by time. "
            "Is t= (--time) the right column?"
        )
    return f"{events} events at {times} distinct times are too few to cut 70 / 15 / 15 by time."
