"""Reasons of questions about columns: what is known about earlier events, and what is given with the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pintgn.explain.answer import Reason
from pintgn.explain.asked import Asked
from pintgn.explain.words import ago
from pintgn.explain.worlds import NONE, Absence, Frozen

Draft = tuple[Reason, Absence]
"""A reason before the answer without it is known, and what makes it."""


def given_drafts(asked: Asked) -> list[Draft]:
    """What was given with the question."""
    return [
        (Reason("given", "pair", _escaped(one.text), (), 0, (), 1, None), Absence(NONE, NONE, given=one.columns))
        for one in asked.given
    ]


def known_drafts(frozen: Frozen, src: int, dst: int, at: Any, asked: Asked, name: Callable[[int], Any]) -> list[Draft]:
    """What was known about earlier events of the pair, of the source and of the destination."""
    stream, events = frozen.stream, frozen.events
    late, schema = stream.history.late, stream.schema
    if late is None:
        return []
    numbers = np.arange(len(events.src)) if events.numbers is None else events.numbers
    there = (late.values[numbers, -1] > 0) & (late.known[numbers] < at)
    by_src, by_dst = events.src == src, events.dst == dst
    a, b = name(src), name(dst)
    chains: list[tuple[str, np.ndarray, str, tuple[Any, ...]]] = [
        ("src", by_src, f"as {schema.src}, {{0}}", (a,)),
        ("dst", by_dst, f"as {schema.dst}, {{0}}", (b,)),
    ]
    if not asked.of_node:
        chains.insert(0, ("pair", by_src & by_dst, "{0} and {1}", (a, b)))
    drafts: list[Draft] = []
    for of, mine, who, nodes in chains:
        rows = np.flatnonzero(mine & there)
        if not len(rows) or (drafts and of != "pair" and drafts[0][0].left_out == len(rows)):
            continue  # nothing, or only what is known of the pair
        rows = rows[np.argsort(late.known[numbers[rows]], kind="stable")]
        chosen = numbers[rows]
        newest = ago(at - late.known[chosen[-1]].item(), schema.time)
        words = _escaped(asked.known(late.values[chosen]))
        text = f"{who} had {words}, {'the last ' if len(rows) > 1 else ''}known {newest}"
        drafts.append((Reason("known", of, text, nodes, 0, (), len(rows), None), Absence(NONE, NONE, chosen)))
    return drafts


def _escaped(text: str) -> str:
    """Text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
