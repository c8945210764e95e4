"""Parts for training and evaluation: a log cut by time, with some nodes hidden from training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.log import EventLog
from pintgn.events.splits import hidden_nodes, seen_nodes, touches
from pintgn.learn.metrics import LEAST

PROTOCOLS = ("stream", "paper")
"""`stream`: what a deployed system would know. `paper`: as TGN and PINT measure; see `paper.py`."""


@dataclass(frozen=True)
class Parts:
    """A log cut for learning: 70 / 15 / 15 by time, or at times, with some nodes hidden from training.

    `new` nodes are those never trained on; an event is `new` when it touches one (the papers' inductive events), else
    `seen`. Deletions, node events and events of the dummy node happen to the stream, but are neither trained on nor
    scored: `EventLog.scored_events` leaves them out.
    """

    log: EventLog
    train: EventLog
    val: EventLog
    test: EventLog
    trained: EventLog  # the training events that touch no hidden node
    seen: np.ndarray  # (n,) nodes trained on

    @classmethod
    def of(cls, log: EventLog, *, hidden: float | str = 0.1, seed: int = 0, links: bool = True, **split: Any) -> Parts:
        """Arguments as of `cut` and `hidden_nodes`; `links`: whether destinations are distinguished from each other."""
        train, validation, final = cut(log, **split)
        shares = {name: split[name] for name in ("val", "test") if name in split}
        asked = [train, validation] if split.get("train_until") is not None else log.split(**shares)[:2]
        if [len(part) for part in asked] != [len(train), len(validation)]:
            found = " / ".join(f"{100 * len(part) / len(log):.0f}" for part in (train, validation, final))
            warnings.warn(
                f"the log is cut {found} % by time, not as asked: simultaneous events are never parted, and "
                f"validation and test need at least {LEAST} events each.",
                PintgnWarning,
                stacklevel=2,
            )
        if links and log.schema.alone:
            raise BadInput(
                "this log has no destinations, so there are no links to predict. Ask about its nodes, as in "
                "predict='return', within='30d' (--predict return --within 30d)."
            )
        if links and len(destinations(train)) < 2:
            raise BadInput(
                "every training event goes to one destination, so there is no other to tell it from. "
                "Is dst= (--dst) the right column?"
            )
        masked = hidden_nodes(log, train, hidden, seed)
        trained = train.where(~touches(train, masked)) if masked.any() else train
        if not trained.learnable.any():
            raise BadInput(f"every training event touches a hidden node; hide fewer nodes (hidden={hidden}).")
        return cls(log, train, validation, final, trained, seen_nodes(train, masked))

    @classmethod
    def unsplit(cls, log: EventLog) -> Parts:
        """All of a log to train on: nothing hidden, nothing left to evaluate on."""
        nothing = log[len(log) :]
        return cls(log, log, nothing, nothing, log, seen_nodes(log, np.zeros(log.nodes, bool)))

    def named(self, name: str) -> EventLog:
        """A part by its name: train, val or test."""
        if name not in ("train", "val", "test"):
            raise BadInput(f"there is no part {name!r}; there are train, val and test.")
        return getattr(self, name)

    def before(self, part: EventLog) -> EventLog:
        """All events before a part."""
        return self.log[: part.first - self.log.first]

    def until(self, part: EventLog) -> EventLog:
        """Everything up to the end of a part, from which its negatives are drawn. Never the future."""
        return self.log[: part.first - self.log.first + len(part)]

    def is_new(self, part: EventLog) -> np.ndarray:
        """Which events (e,) of a part touch a node never trained on."""
        return touches(part, ~self.seen)


def cut(
    log: EventLog, val: float = 0.15, test: float = 0.15, train_until: Any = None, val_until: Any = None
) -> tuple[EventLog, EventLog, EventLog]:
    """Training, validation and test part: by time quantiles, as `EventLog.split`, or at two times.

    Where large groups of simultaneous events leave a part with too few events to learn from or to measure by, the
    borders between groups that come closest to the quantiles and give every part enough are taken instead.
    Times are taken as they are, or refused.
    """
    if train_until is not None:
        return _cut_at(log, train_until, val_until)
    for name, share, needed in (("val", val, "choose the epoch and to calibrate"), ("test", test, "measure")):
        if share == 0:
            raise BadInput(
                f"train.{name}=0 leaves no events to {needed} by; give it a share, such as 0.15. "
                "To train on everything after that, add --refit (refit=True)."
            )
    parts = log.split(val, test)
    if not _shortage(parts):
        return parts
    borders = log.group_starts[1:]
    wanted = np.array([1 - val - test, 1 - test]) * len(log)
    near = [borders[np.argsort(np.abs(borders - row), kind="stable")[:8]].tolist() for row in wanted]
    learnable = np.concatenate([[0], np.cumsum(log.learnable)])
    fitting = [
        (abs(one - wanted[0]) + abs(two - wanted[1]), one, two)
        for one in near[0]
        for two in near[1]
        if learnable[one] and min(learnable[two] - learnable[one], learnable[-1] - learnable[two]) >= LEAST
    ]
    if not fitting:
        raise BadInput(_too_few(log, _shortage(parts)))
    _, first, second = min(fitting)
    return log[:first], log[first:second], log[second:]


def _cut_at(log: EventLog, train_until: Any, val_until: Any) -> tuple[EventLog, EventLog, EventLog]:
    first, second = (len(log.between(None, until)) for until in (train_until, val_until))
    parts = log[:first], log[first : max(first, second)], log[max(first, second) :]
    if short := _shortage(parts):
        begin, end = (log.schema.time.show(log.t[row]) for row in (0, -1)) if len(log) else ("nowhere", "nowhere")
        raise BadInput(
            f"train_until={train_until} and val_until={val_until} leave {short}. The log goes from {begin} to {end}."
        )
    return parts


def _shortage(parts: tuple[EventLog, EventLog, EventLog]) -> str:
    """Text on what is missing for training or evaluation; empty if nothing is."""
    train, val, test = (int(part.learnable.sum()) for part in parts)
    if not train:
        return "no event to train on"
    for count, what in ((val, "choose the epoch"), (test, "measure")):
        if count < LEAST:
            return f"{count} event{'s'[: count != 1]} to {what} by, which takes at least {LEAST}"
    return ""


def destinations(log: EventLog) -> np.ndarray:
    """The distinct destinations of a log's learnable events, in order: where negatives are drawn from."""
    met = np.zeros(log.nodes, bool)  # no copy of a column, and nothing to sort
    met[log.dst if log.learnable.all() else log.dst[log.learnable]] = True
    return np.flatnonzero(met)


def _too_few(log: EventLog, short: str) -> str:
    events, times = len(log), len(log.group_starts)
    at = f"{events} event{'s'[: events != 1]} at {times} distinct time{'s'[: times != 1]}"
    if times < 3:
        return f"{at} cannot be cut in three by time. Is t= (--time) the right column?"
    if log.learnable.sum() < events:
        return f"{at} cannot be cut in three parts to learn from: only {log.learnable.sum()} of them are additions."
    return f"{at} are too few to cut in three by time: that leaves {short}."
