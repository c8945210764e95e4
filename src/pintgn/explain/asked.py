"""What an explanation is about: a question, how its answer is read, and what is known about earlier answers.

`Link` asks whether two meet. Questions about columns come from whoever knows the task of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from pintgn.events.log import Query


class Told(Protocol):
    """An answer in words, and the number by which it is compared with others to the same question."""

    @property
    def head(self) -> str:
        """In full."""

    @property
    def said(self) -> str:
        """In short, beside others."""

    @property
    def number(self) -> float: ...

    @property
    def probability(self) -> float | None:
        """Where the answer is one."""


class Given(NamedTuple):
    """Something that was given with the question."""

    text: str
    columns: tuple[int, ...]  # of the question's given columns


class By(NamedTuple):
    """A relation that is part of the question."""

    number: int
    name: Callable[[int], str]  # of the number of a relation, ^ before the inverse

    @property
    def inverse(self) -> str:
        """How the other end sees it."""
        return turned(self.name(self.number))


def turned(relation: str) -> str:
    """A relation from the other end.

    >>> turned("likes"), turned("^likes")
    ('^likes', 'likes')
    """
    return relation[1:] if relation.startswith("^") else f"^{relation}"


@dataclass(frozen=True)
class Asked:
    """A question, and how its answer is told."""

    query: Query  # one row
    read: Callable[[np.ndarray], Sequence[Told]]  # answers (w, outputs) to it in several worlds
    known: Callable[[np.ndarray], str]  # what target columns (n, w) of earlier events say, in words
    measure: str  # what effects are counted in
    sides: tuple[int, ...] = (0, 1)  # the ends that are asked about; of a question about a node one
    given: tuple[Given, ...] = ()
    facts: Callable[[np.ndarray], dict[str, Any]] = lambda answer: {}  # an answer (1, outputs) as columns by name
    by: By | None = None

    @property
    def of_node(self) -> bool:
        return len(self.sides) == 1


class LinkTold(NamedTuple):
    """The logit of a link."""

    number: float
    probability: float

    @property
    def head(self) -> str:
        return f"probability {self.probability:.4f} against one random destination, logit {self.number:.3f}"

    @property
    def said(self) -> str:
        return f"{self.probability:.4f}"


def asked_link(
    src: int,
    dst: int,
    at: np.ndarray,
    model: Any,
    calibration: Callable[[np.ndarray], np.ndarray] | None,
    by: By | None = None,
) -> Asked:
    """Whether two meet, perhaps by a relation; `calibration` gives probabilities of logits."""

    def read(answers: np.ndarray) -> list[LinkTold]:
        logits = model.answer(answers, "anyone").ravel()
        return list(map(LinkTold, logits.tolist(), (calibration or _sigmoid)(logits).tolist()))

    given = None if by is None else np.array([[by.number]], np.float32)
    return Asked(Query(np.array([src]), np.array([dst]), at, given), read, lambda late: "", "logit", by=by)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))
