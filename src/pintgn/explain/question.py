"""The question that an explanation is about: its query, what is given with it, and how an answer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pintgn.events.log import Query
from pintgn.formatting import number, plural

CLASSES_COUNTED = 3
"""Classes of earlier events that are counted one by one."""


class Answer(NamedTuple):
    """An answer as text, in full and in short, and the number that is compared: a logit, or a value."""

    text: str
    short: str
    number: float
    probability: float | None = None


class Given(NamedTuple):
    """A column given with the question."""

    text: str
    columns: tuple[int, ...]  # its indices in `Query.given`


class Relation(NamedTuple):
    """The relation that the question names."""

    number: int
    name: Callable[[int], str]  # of the number of any relation, ^ before an inverse


@dataclass(frozen=True)
class Question:
    """One query, and how its answers and the known targets of earlier events are read."""

    query: Query  # one row
    read: Callable[[np.ndarray], list[Answer]]  # of outputs (w, outputs), one row for each past
    measure: str = "logit"  # what effects are counted in
    describe_targets: Callable[[np.ndarray], str] = lambda late: ""  # of target columns (n, w)
    columns: Callable[[np.ndarray], dict[str, Any]] = lambda outputs: {}  # of outputs (1, outputs), as `ask` gives
    sides: tuple[int, ...] = (0, 1)  # 0 source, 1 destination; one of them if the question is about a node
    given: tuple[Given, ...] = ()
    relation: Relation | None = None

    @property
    def is_about_node(self) -> bool:
        return len(self.sides) == 1


def inverse(relation: str) -> str:
    """The name of a relation seen from its destination.

    >>> inverse("likes"), inverse("^likes")
    ('^likes', 'likes')
    """
    return relation[1:] if relation.startswith("^") else f"^{relation}"


def link_question(
    query: Query, model: Any, calibration: Callable[[np.ndarray], np.ndarray] | None, relation: Relation | None = None
) -> Question:
    """Do two nodes meet? `calibration` turns logits into probabilities."""

    def read(outputs: np.ndarray) -> list[Answer]:
        logits = model.answer(outputs, "anyone").ravel()
        p = 1 / (1 + np.exp(-logits)) if calibration is None else calibration(logits)
        return [
            Answer(f"probability {p:.4f} against one random destination, logit {z:.3f}", f"{p:.4f}", z, p)
            for z, p in zip(logits.tolist(), p.tolist(), strict=True)
        ]

    return Question(query, read, relation=relation)


def class_answers(logits: np.ndarray, labels: Sequence[str]) -> list[Answer]:
    """Logits of classes (w, k), compared by the second of two classes, or by the most likely class of the first row.

    >>> class_answers(np.array([[0.0, 0.0], [3.0, 0.0]]), ["fraud=False", "fraud=True"])[0].text
    'fraud=True with probability 0.5000'
    """
    z = np.asarray(logits, np.float64)
    p = np.exp(z - np.logaddexp.reduce(z, 1)[:, None])
    k = 1 if len(labels) == 2 else int(p[0].argmax())
    odds = z[:, k] - np.logaddexp.reduce(np.delete(z, k, 1), 1)
    found = []
    for logit, row in zip(odds.tolist(), p, strict=True):
        best = int(row.argmax())
        other = f" ({labels[best]} {row[best]:.4f})" if len(labels) > 2 and best != k else ""
        short = f"{row[k]:.4f}{other}"
        found.append(Answer(f"{labels[k]} with probability {short}", short, logit, float(row[k])))
    return found


def value_answers(values: np.ndarray, name: str) -> list[Answer]:
    """Mean, lower end, median and upper end (w, 4), compared by the median, which is always inside the interval.

    >>> value_answers(np.array([[5.0, 1.0, 4.5, 9.25]]), "amount")[0].text
    'amount 4.5, nine of ten between 1 and 9.25'
    """
    return [
        Answer(f"{name} {number(median)}, nine of ten between {number(low)} and {number(high)}", number(median), median)
        for _, low, median, high in values.tolist()
    ]


def count_classes(truth: np.ndarray, labels: Sequence[str]) -> str:
    """Numbers of events of each class, for n events (n,).

    >>> count_classes(np.array([2, 0, 0]), ["action=view", "action=cart", "action=buy"])
    'action=view in 2, action=buy in 1 of 3 events'
    """
    counts = np.bincount(truth.astype(np.int64), minlength=len(labels))
    order = [1] if len(labels) == 2 else [k for k in np.argsort(-counts, kind="stable")[:CLASSES_COUNTED] if counts[k]]
    return ", ".join(f"{labels[k]} in {counts[k]:,}" for k in order) + f" of {plural(len(truth), 'event')}"


def average_value(truth: np.ndarray, name: str) -> str:
    """The mean of n values (n,) and the last of them.

    >>> average_value(np.array([1.0, 2.0]), "amount")
    'amount 1.5 on average in 2 events, 2 in the last'
    """
    mean, last = number(float(truth.mean())), number(float(truth[-1]))
    return f"{name} {mean} on average in {plural(len(truth), 'event')}, {last} in the last"
