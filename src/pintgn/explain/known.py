"""What is known about earlier events, of questions about columns and by relation; and what is given with a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pintgn.explain.answer import Reason
from pintgn.explain.asked import Asked
from pintgn.explain.words import ago, times
from pintgn.explain.worlds import NONE, Absence, Frozen
from pintgn.formatting import plural

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


def relation_drafts(
    frozen: Frozen, src: int, dst: int, at: Any, asked: Asked, name: Callable[[int], Any]
) -> list[Draft]:
    """What is known about the triple that is asked about, the source with its relation and the destination with the
    inverse. One that training has never met is no relation to know anything about."""
    by, relations, events = asked.by, frozen.stream.history.relations, frozen.events
    if by is None or relations is None or not by.number % relations.index.kinds:
        return []
    numbers = np.arange(len(events.src)) if events.numbers is None else events.numbers
    mine = (frozen.relation_of(numbers) == by.number % relations.index.kinds) & (events.when < at)
    near, far = (events.src, events.dst) if by.number < relations.index.kinds else (events.dst, events.src)
    met, meets = (f"by {_escaped(word)}, {{0}} met" for word in (by.name(by.number), by.inverse))
    a, b = name(src), name(dst)
    chains: list[tuple[str, np.ndarray, str, tuple[Any, ...], np.ndarray | None]] = [
        ("pair", mine & (near == src) & (far == dst), f"{met} {{1}}", (a, b), None),
        ("src", mine & (near == src), met, (a,), far),
        ("dst", mine & (far == dst), meets, (b,), near),
    ]
    drafts: list[Draft] = []
    for of, there, who, nodes, others in chains:
        rows = np.flatnonzero(there)
        if not len(rows) or (drafts and drafts[0][0].of == "pair" and drafts[0][0].left_out == len(rows)):
            continue  # nothing, or only what is known of the triple
        whom = "" if others is None else f" {plural(len(np.unique(others[rows])), 'node')}"
        newest = ago(at - events.when[rows].max().item(), frozen.stream.schema.time)
        text = f"{who}{whom} {times(len(rows))}, {'the last ' if len(rows) > 1 else ''}{newest}"
        drafts.append((Reason("known", of, text, nodes, 0, (), len(rows), None), Absence(NONE, NONE, numbers[rows])))
    return drafts


def _escaped(text: str) -> str:
    """Text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
