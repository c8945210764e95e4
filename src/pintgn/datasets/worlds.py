"""Interface of simulated worlds, and the best possible average precision."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pintgn.errors import BadInput, check_count
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog


def setting(default: Any, doc: str) -> Any:
    """A setting of a world: its default and one line that says what it does."""
    return dataclasses.field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class World(abc.ABC):
    """Base of simulated worlds. `log` is always a whole log as `simulate` made it, from its first event on."""

    name: ClassVar[str]
    summary: ClassVar[str]
    against: ClassVar[str]
    """Which wrong destinations `negatives` draws."""

    @abc.abstractmethod
    def ids(self) -> IdMap:
        """The nodes of this world, numbered so that its number says what each one is."""

    @abc.abstractmethod
    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        """A log of exactly so many events; the same seed gives the same log."""

    @abc.abstractmethod
    def negatives(self, log: EventLog, seed: int = 0) -> np.ndarray:
        """A wrong destination (e,) for every event."""

    @abc.abstractmethod
    def truth(self, log: EventLog, dst: Any = None, first: int = 0) -> np.ndarray:
        """The ideal score: the probability that each source would meet `dst` (by default its real destination).

        Event i is scored by the events strictly before it and by the rules of this world, which no model knows.
        `dst` has one node for each event from number `first` on.
        """

    @abc.abstractmethod
    def best_ap(self, log: EventLog, first: int = 0) -> float:
        """The AP that no scorer exceeds on average over the events from number `first` on."""

    @classmethod
    def settings(cls) -> dict[str, tuple[Any, str]]:
        """Name of every setting, its default and what it does."""
        return {field.name: (field.default, field.metadata["doc"]) for field in dataclasses.fields(cls)}

    def candidates(self, log: EventLog, dst: Any, first: int) -> np.ndarray:
        """The destinations to score, one for each event from `first` on; an error where the log is not this world's."""
        if log.first:
            raise BadInput(f"this log was cut off at event {log.first}; pass the whole log and first={log.first}.")
        if log.ids != self.ids():
            raise BadInput(
                f"the nodes are not numbered as in this world ({self}). "
                "Pass the log that its simulate returned, or that log saved as Parquet."
            )
        if not 0 <= first < len(log):
            raise BadInput(f"first={first}, but the log has events 0 to {len(log) - 1}.")
        wanted = log.dst[first:] if dst is None else np.asarray(dst, np.int64)
        if wanted.shape != (len(log) - first,):
            raise BadInput(f"dst has shape {wanted.shape}, but there are {len(log) - first} events from {first} on.")
        return wanted

    def _at_least(self, least: int, *names: str) -> None:
        for name in names:
            check_count(getattr(self, name), f"{self.name}: {name}", least)

    def _share(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if isinstance(value, str) or not 0 <= value <= 1:
                raise BadInput(f"{self.name}: {name}={value!r}; a share between 0 and 1 is needed.")


def expected_ap(positive: np.ndarray, negative: np.ndarray) -> float:
    """AP of ranking by likelihood ratio, ties in random order, in the limit of many events.

    Args:
        positive, negative: the share of positives and of negatives in each group of equal evidence; each sums to 1.

    Ranking by positive/negative is best: it has the most positives above any share of negatives (Neyman and
    Pearson), so no other ranking has better precision at any recall. Within a group that holds a share p of the
    positives and n of the negatives, after P and N above it, precision at a fraction x is
    (P + p x) / (P + N + (p + n) x); AP adds up p times its integral over x from 0 to 1.

    >>> expected_ap(np.array([1.0]), np.array([1.0]))
    0.5
    """
    ratio = np.divide(positive, negative, out=np.full(len(positive), np.inf), where=negative > 0)
    order = np.argsort(-ratio, kind="stable")
    order = order[positive[order] > 0]
    p, n = positive[order], negative[order]
    above = np.cumsum(p) - p
    ranked = above + np.cumsum(n) - n
    size = p + n
    integral = p / size
    later = ranked > 0
    slope = np.log1p(size[later] / ranked[later]) / size[later]
    integral[later] += (above[later] - p[later] * ranked[later] / size[later]) * slope
    return float((p * integral).sum())


def generator(world: World, events: int, seed: int, purpose: str = "events") -> np.random.Generator:
    """Draws that depend on the seed, the world's name and the purpose, so that none repeats another's."""
    if isinstance(events, bool) or not isinstance(events, int | np.integer) or events < 1:
        raise BadInput(f"events={events!r}; a log of at least one event is needed.")
    check_count(seed, "seed", least=0)
    return np.random.default_rng([int(seed), *f"{world.name} {purpose}".encode()])


def some_times(rng: np.random.Generator, count: int) -> np.ndarray:
    """Distinct int64 times about a minute apart."""
    return np.cumsum(rng.integers(1, 120, count))


def any_other(rng: np.random.Generator, than: np.ndarray, count: int) -> np.ndarray:
    """Uniform draws from 0 … count-1, never the given number."""
    drawn = rng.integers(0, count - 1, len(than))
    return drawn + (drawn >= than)


def rank_in_order(values: np.ndarray) -> np.ndarray:
    """How many equal values stand before each one in a sorted array."""
    row = np.arange(len(values))
    start = np.zeros(len(values), np.int64)
    new = np.flatnonzero(values[1:] != values[:-1]) + 1
    start[new] = new
    return row - np.maximum.accumulate(start)
