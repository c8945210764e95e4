"""Reasons other than contacts: columns given with a question, and known targets or relations of earlier events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pintgn.explain.answer import Reason, ago, escaped
from pintgn.explain.counterfactuals import NONE, Absence, Frozen
from pintgn.explain.question import Question, inverse
from pintgn.formatting import plural

Draft = tuple[Reason, Absence]
"""A reason before its effect is computed, and what to leave out for that."""


def given_drafts(question: Question) -> list[Draft]:
    """A reason for each given column."""
    return [
        (Reason("given", "pair", escaped(one.text), (), 0, (), 1, None), Absence(NONE, NONE, given=one.columns))
        for one in question.given
    ]


def target_drafts(
    frozen: Frozen, src: int, dst: int, at: Any, question: Question, name: Callable[[int], Any]
) -> list[Draft]:
    """Targets known before `at`: of events of the pair, of the source and of the destination."""
    events, late, schema = frozen.events, frozen.stream.history.late, frozen.stream.schema
    if late is None:
        return []
    numbers = events.event_numbers
    known = (late.values[numbers, -1] > 0) & (late.known[numbers] < at)
    by_src, by_dst = known & (events.src == src), known & (events.dst == dst)
    drafts: list[Draft] = []
    for of, mine, who, nodes in (
        ("pair", by_src & by_dst & (not question.is_about_node), "{0} and {1}", (name(src), name(dst))),
        ("src", by_src, f"as {schema.src}, {{0}}", (name(src),)),
        ("dst", by_dst, f"as {schema.dst}, {{0}}", (name(dst),)),
    ):
        chosen = numbers[mine]
        chosen = chosen[np.argsort(late.known[chosen], kind="stable")]
        if _is_news(len(chosen), drafts):
            what = escaped(question.describe_targets(late.values[chosen]))
            newest = ago(at - late.known[chosen[-1]].item(), schema.time)
            text = f"{who} had {what}, {'the last ' if len(chosen) > 1 else ''}known {newest}"
            drafts.append(_known(of, text, nodes, chosen))
    return drafts


def relation_drafts(
    frozen: Frozen, src: int, dst: int, at: Any, question: Question, name: Callable[[int], Any]
) -> list[Draft]:
    """Events by the question's relation: of the pair, of the source, and of the destination by the inverse.

    None if training has never met the relation.
    """
    asked, relations, events = question.relation, frozen.stream.history.relations, frozen.events
    if asked is None or relations is None or not asked.number % relations.index.kinds:
        return []
    numbers, word = events.event_numbers, asked.name(asked.number)
    same = (frozen.relation_of(numbers) == asked.number % relations.index.kinds) & (events.when < at)
    near, far = (events.src, events.dst) if asked.number < relations.index.kinds else (events.dst, events.src)
    by, back = (f"by {escaped(one)}, {{0}} met" for one in (word, inverse(word)))
    drafts: list[Draft] = []
    for of, mine, who, nodes, others in (
        ("pair", same & (near == src) & (far == dst), f"{by} {{1}}", (name(src), name(dst)), None),
        ("src", same & (near == src), by, (name(src),), far),
        ("dst", same & (far == dst), back, (name(dst),), near),
    ):
        count = int(mine.sum())
        if _is_news(count, drafts):
            whom = "" if others is None else f" {plural(len(np.unique(others[mine])), 'node')}"
            newest = ago(at - events.when[mine].max().item(), frozen.stream.schema.time)
            text = f"{who}{whom} {plural(count, 'time')}, {'the last ' if count > 1 else ''}{newest}"
            drafts.append(_known(of, text, nodes, numbers[mine]))
    return drafts


def _known(of: str, text: str, nodes: tuple[Any, ...], events: np.ndarray) -> Draft:
    return Reason("known", of, text, nodes, 0, (), len(events), None), Absence(NONE, NONE, events)


def _is_news(count: int, drafts: list[Draft]) -> bool:
    """False if there are no events, or only those of the pair, which has a reason already."""
    return bool(count) and not (drafts and drafts[0][0].of == "pair" and drafts[0][0].left_out == count)
