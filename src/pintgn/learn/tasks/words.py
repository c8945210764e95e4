"""Answers and known targets in words, for explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pintgn.formatting import number, plural
from pintgn.learn.answer_metrics import probabilities

CLASSES_NAMED = 3
"""Classes of known events that are counted one by one."""


class Told(NamedTuple):
    """An answer in words, in full and in short, and the number by which it is compared with others to the same
    question: a logit where there is a probability, else a value."""

    head: str
    said: str
    number: float
    probability: float | None = None


def told_classes(answers: np.ndarray, name: str, words: Sequence[Any]) -> list[Told]:
    """Logits of classes (w, k) of one question in several worlds: told by the second of two classes, of more by the
    one that is likeliest in the first world.

    >>> told_classes(np.array([[0.0, 0.0], [3.0, 0.0]]), "fraud", [False, True])[0].head
    'fraud=True with probability 0.5000'
    """
    p, z = probabilities(answers), np.asarray(answers, np.float64)
    k = 1 if len(words) == 2 else int(p[0].argmax())
    logits = z[:, k] - np.logaddexp.reduce(np.delete(z, k, 1), 1)
    found = []
    for logit, row in zip(logits.tolist(), p, strict=True):
        best = int(row.argmax())
        other = f" ({words[best]} {row[best]:.4f})" if len(words) > 2 and best != k else ""
        said = f"{row[k]:.4f}{other}"
        found.append(Told(f"{name}={words[k]} with probability {said}", said, logit, float(row[k])))
    return found


def told_values(answers: np.ndarray, name: str) -> list[Told]:
    """Values (w, 4) of one question in several worlds: mean, lower end, median, upper end. Told by the median, which
    is never outside the interval.

    >>> told_values(np.array([[5.0, 1.0, 4.5, 9.25]]), "amount")[0].head
    'amount 4.5, nine of ten between 1 and 9.25'
    """
    return [
        Told(f"{name} {number(half)}, nine of ten between {number(low)} and {number(high)}", number(half), half)
        for _, low, half, high in answers.tolist()
    ]


def known_classes(truth: np.ndarray, name: str, words: Sequence[Any]) -> str:
    """Which classes (n,) some events turned out to be of.

    >>> known_classes(np.array([1, 0, 0]), "fraud", [False, True])
    'fraud=True in 1 of 3 events'
    >>> known_classes(np.array([2, 0, 0]), "action", ["view", "cart", "buy"])
    'action=view in 2, buy in 1 of 3 events'
    """
    counts = np.bincount(truth.astype(np.int64), minlength=len(words))
    order = [1] if len(words) == 2 else [k for k in np.argsort(-counts, kind="stable")[:CLASSES_NAMED] if counts[k]]
    return f"{name}=" + ", ".join(f"{words[k]} in {counts[k]:,}" for k in order) + f" of {plural(len(truth), 'event')}"


def known_values(truth: np.ndarray, name: str) -> str:
    """Which values (n,) some events turned out to have, the last one last.

    >>> known_values(np.array([1.0, 2.0]), "amount")
    'amount 1.5 on average in 2 events, 2 in the last'
    """
    if len(truth) == 1:
        return f"{name} {number(float(truth[0]))} in 1 event"
    last = number(float(truth[-1]))
    return f"{name} {number(float(truth.mean()))} on average in {plural(len(truth), 'event')}, {last} in the last"
