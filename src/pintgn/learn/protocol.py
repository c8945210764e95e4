"""What is trained on, what is measured, and against what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.splits import hidden_nodes, seen_nodes, touches


@dataclass(frozen=True)
class Parts:
    """A log cut for learning: 70 / 15 / 15 by time, with some nodes hidden from training.

    `new` nodes are those never trained on; an event is `new` when it touches one (the papers' inductive events), else
    `seen`.
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
        for name, part in (("training", train), ("validation", validation), ("test", final)):
            if not len(part):
                times = len(log.group_starts)
                raise BadInput(f"the {name} part is empty: {len(log)} events at {times} distinct times are too few.")
        masked = hidden_nodes(log, train, hidden, seed)
        trained = train.where(~touches(train, masked))
        if not len(trained):
            raise BadInput("every training event touches a hidden node; hide fewer nodes.")
        return cls(log, train, validation, final, trained, seen_nodes(train, masked))

    def is_new(self, part: EventLog) -> np.ndarray:
        """Which events (e,) of a part touch a node never trained on."""
        return touches(part, ~self.seen)


Negatives = Callable[[EventLog, np.random.Generator], Query]
"""For each event of a part a question whose answer should be no."""


def random_destination(log: EventLog) -> Negatives:
    """Each event's source and time with a destination drawn from all destinations of the log.

    As in TGN and PINT the true destination may be drawn, too.
    """
    pool = np.unique(log.dst)
    return lambda part, rng: part.query.toward(pool[rng.integers(0, len(pool), len(part))])
