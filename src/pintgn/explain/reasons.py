"""`explain`: the contacts, walks and known facts behind an answer, and the answer without each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.schema import TimeUnit
from pintgn.explain.answer import Contact, Explanation, Reason, Without, ago, escaped
from pintgn.explain.counterfactuals import Absence, Frozen, WalkCounts, answers
from pintgn.explain.known_facts import Draft, given_drafts, relation_drafts, target_drafts
from pintgn.explain.question import Answer, Question, inverse, link_question
from pintgn.explain.walk_paths import LONGEST, Contacts, Paths, Step, paths_of_three, paths_of_two
from pintgn.formatting import listed, plural
from pintgn.models.base import Model
from pintgn.stream import Stream

ONE_BY_ONE = 3
"""Newest contacts of the pair that are left out one at a time; of many, one hardly matters."""
LOOKED_AT = 10
"""Newest contacts of each end whose other ends become reasons, unless the model says how many it reads."""
NAMED = 3
"""Relations that are named one by one."""


def walks_of(count: float, steps: int) -> str:
    """
    >>> walks_of(3, 2), walks_of(4e18, 12)
    ('3 walks of 2 steps', '4e+18 walks of 12 steps')
    """
    shown = f"{int(count):,}" if count < 1e12 else f"{count:.0e}"
    return f"{shown} walk{'' if count == 1 else 's'} of {plural(steps, 'step')}"


def explain(
    stream: Stream | Frozen,
    src: int,
    dst: int,
    at: Any,
    *,
    steps: int = LONGEST,
    limit: int = 5,
    name: Callable[[int], Any] = int,
    calibration: Callable[[np.ndarray], np.ndarray] | None = None,
    names: tuple[Any, Any] | None = None,
    question: Question | None = None,
) -> Explanation:
    """Explain the answer to a question at a time. Changes nothing, and reads only events strictly before `at`.

    Args:
        stream: or a copy of one, `Frozen.of(stream, at)`, if the stream goes on in another thread.
        src, dst: node numbers.
        at: a time, no earlier than the stream's clock.
        steps: longest walks that are listed one by one, 1 to 3.
        limit: how many reasons of each kind.
        name: the id of a node number; `names` are the ids of src and dst, which may be unknown to the stream.
        calibration: turns logits into probabilities.
        question: by default, whether the two meet.
    """
    if not 1 <= steps <= LONGEST:
        raise BadInput(f"steps={steps}; walks of 1 to {LONGEST} steps are listed (longer ones are counted).")
    if limit < 1:
        raise BadInput(f"limit={limit}; at least one reason of each kind is listed.")
    frozen = stream if isinstance(stream, Frozen) else Frozen.of(stream, at)
    ends = dict(zip((src, dst), names, strict=True)) if names else {}
    when = np.array([at], frozen.stream.time_dtype)
    if question is None:
        question = link_question(Query(np.array([src]), np.array([dst]), when), frozen.stream.model, calibration)
    at = np.asarray(at).item()
    return _Explainer(
        frozen, src, dst, at, steps, limit, lambda n: ends[n] if n in ends else name(n), question
    ).explanation()


@dataclass
class _Explainer:
    frozen: Frozen
    src: int
    dst: int
    at: Any
    steps: int
    limit: int
    name: Callable[[int], Any]  # the id of a node number
    question: Question

    @property
    def unit(self) -> TimeUnit:
        return self.frozen.stream.schema.time

    def explanation(self) -> Explanation:
        index = self.frozen.stream.index
        near, far = (Contacts.of(index, node, self.at) for node in (self.src, self.dst))
        found: list[tuple[str, Paths]] = []
        for of, root, target in (("src", near, far), ("dst", far, near)) if not self.question.is_about_node else ():
            if self.steps >= 2:
                found.append((of, paths_of_two(root, target)))
            if self.steps >= 3:
                found.append((of, paths_of_three(index, root, target)))
        joins = self._contacts(near) + [d for of, paths in found for d in self._walks(of, paths)]
        others = self._others("src", near, self.dst)
        if self.src != self.dst:
            others += self._others("dst", far, self.src)
        joins.sort(key=lambda draft: (draft[0].steps, draft[0].kind == "walks"))  # stable: newest stay first
        about = (self.frozen, self.src, self.dst, self.at, self.question, self.name)
        joins = given_drafts(self.question) + target_drafts(*about) + relation_drafts(*about) + joins
        answer, columns, reasons = self._scored(joins + others)
        neighbors = sorted(reasons[len(joins) :], key=lambda one: -abs(one.without.adds) if one.without else 0.0)
        reached, relation = self._reached(), self.question.relation
        return Explanation(
            src=self.name(self.src),
            dst=None if self.question.is_about_node else self.name(self.dst),
            at=self.at,
            when=self.unit.show(self.at),
            logit=None if answer is None or self.is_value else answer.number,
            probability=None if answer is None else answer.probability,
            summary=tuple(
                self._node_summary(near) if self.question.is_about_node else self._summary(near, far, found, reached)
            ),
            reached=reached,
            reasons=tuple(reasons[: len(joins)]),
            neighbors=tuple(r for of in ("src", "dst") for r in [n for n in neighbors if n.of == of][: self.limit]),
            exact=self.frozen.is_exact,
            note=self._note(answer),
            said="" if answer is None else answer.text,
            measure=self.question.measure,
            answer=columns,
            relation=None if relation is None else relation.name(relation.number),
        )

    # -- reasons -----------------------------------------------------------------------------------------------------

    def _contacts(self, near: Contacts) -> list[Draft]:
        """Contacts of the pair: all of them at once, and the newest one by one."""
        mine = near.group(self.dst)
        count = mine.stop - mine.start
        if not count:
            return []
        nodes, ends = (self.name(self.src), self.name(self.dst)), np.array([self.src, self.dst])
        steps = [near.step(mine.start + k) for k in range(min(count, self.limit, ONE_BY_ONE))]
        contacts = [self._contact(self.src, self.dst, step) for step in steps]
        drafts = []
        if count > 1:
            met, by = self._met(self.src, self.dst), self._by(self.src, near.events[mine])
            text = f"{met} {plural(count, 'time')}{by}, the last {contacts[0].ago}"
            reason = Reason("contacts", "src", text, nodes, count, tuple(contacts), count, None)
            drafts.append((reason, Absence(near.events[mine], ends)))
        for step, contact in zip(steps, contacts, strict=True):
            met, by = self._met(self.src, self.dst, contact.op), self._by(self.src, step.event)
            text = f"{met}{by} at {contact.when}, {contact.ago}"
            reason = Reason("contact", "src", text, nodes, 1, (contact,), 1, None)
            drafts.append((reason, Absence(np.array([step.event]), ends)))
        return drafts

    def _walks(self, of: str, paths: Paths) -> list[Draft]:
        drafts = []
        for path in paths.best(self.limit):
            contacts, parts = [], []
            for k, (a, b, step) in enumerate(zip(path.nodes[:-1], path.nodes[1:], path.newest, strict=True)):
                contacts.append(self._contact(a, b, step))
                parts.append(f"{self._met(a, b, contacts[k].op, k)}{self._by(a, step.event)} {contacts[k].ago}")
            text = "; ".join(parts) + (f" ({path.walks:,} such walks)" if path.walks > 1 else "")
            nodes, left_out = tuple(map(self.name, path.nodes)), len(path.absence.events)
            reason = Reason("walks", of, text, nodes, path.walks, tuple(contacts), left_out, None)
            drafts.append((reason, path.absence))
        return drafts

    def _others(self, of: str, mine: Contacts, other: int) -> list[Draft]:
        """Each node among an end's newest contacts, with all contacts between the two."""
        looked_at = getattr(self.frozen.stream.model, "neighbors", None) or LOOKED_AT
        newest = self.frozen.stream.index.recent(mine.node, self.at, looked_at)
        drafts = []
        for node in dict.fromkeys(newest.ids[newest.mask].tolist()):
            if node == other:
                continue
            group = mine.group(node)
            count = group.stop - group.start
            contact = self._contact(mine.node, node, mine.step(group.start))
            often = f"{count:,} times, the last " if count > 1 else ""
            text = f"{self._met(mine.node, node)}{self._by(mine.node, mine.events[group])} {often}{contact.ago}"
            reason = Reason("neighbor", of, text, (contact.a, contact.b), count, (contact,), count, None)
            drafts.append((reason, mine.absence(node)))
        return drafts

    @property
    def is_value(self) -> bool:
        return self.question.measure != "logit"

    def _scored(self, drafts: list[Draft]) -> tuple[Answer | None, dict[str, Any], list[Reason]]:
        if type(self.frozen.stream.model).forward is Model.forward:
            return None, {}, [reason for reason, _ in drafts]
        found = answers(self.frozen, self.question.query, [absence for _, absence in drafts])
        now, *without = self.question.read(found)
        reasons = []
        for (reason, _), other in zip(drafts, without, strict=True):
            logit, value = (None, other.number) if self.is_value else (other.number, None)
            effect = Without(logit, other.probability, now.number - other.number, other.short, value)
            reasons.append(replace(reason, without=effect))
        return now, self.question.columns(found[:1]), reasons

    def _contact(self, a: int, b: int, step: Step) -> Contact:
        relation = next(iter(self._relations(a, step.event)), None)
        when, ago = self.unit.show(step.t), self._ago(step.t)
        return Contact(self.name(a), self.name(b), step.t, when, ago, self._op(step.event), relation)

    def _ago(self, t: Any) -> str:
        return ago(self.at - t, self.unit)

    def _op(self, event: int) -> str:
        """The operation of an event: add, delete or node."""
        schema, table = self.frozen.stream.schema, self.frozen.stream.history.event_table
        if schema.op is None or table is None:
            return "add"
        deleted, updated = table[event, schema.feature_width : schema.feature_width + 2]
        return "delete" if deleted else "node" if updated else "add"

    def _met(self, a: int, b: int, op: str = "add", k: int = 0) -> str:
        """The wording of a contact between the k-th node of a reason and the next."""
        if op == "node":
            return f"{{{k}}} was updated"
        if self.frozen.stream.schema.alone and op == "add":
            return f"{{{k}}} acted"
        return f"{{{k}}} {'parted from' if op == 'delete' else 'met'} {'itself' if a == b else f'{{{k + 1}}}'}"

    def _relations(self, node: int, events: Any) -> list[str]:
        """Relations of a node's events from its own end, the most frequent first."""
        relation, numbers = self.question.relation, np.atleast_1d(events)
        if relation is None:
            return []
        ordered = self.frozen.events
        is_source = ordered.src[ordered.index_of(numbers)] == node
        names = (relation.name(number) for number in self.frozen.relation_of(numbers).tolist())
        seen = Counter(name if out else inverse(name) for name, out in zip(names, is_source.tolist(), strict=True))
        return [name for name, _ in seen.most_common()]

    def _by(self, node: int, events: Any) -> str:
        names = [escaped(name) for name in self._relations(node, events)]
        if len(names) > NAMED:
            names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} other relations"]
        return f" by {listed(names)}" if names else ""

    # -- text -------------------------------------------------------------------------------------------------------

    def _reached(self) -> dict[str, tuple[float, ...]]:
        """Positions of each end relative to the other: counts of walks of 1, 2, … steps."""
        levels = max(self.frozen.stream.model.positions, self.steps + 1)
        ends = np.array([self.src, self.dst])
        walks = WalkCounts(self.frozen, self.frozen.before(self.at), levels, ends)
        pairs = (("src", self.src, self.dst), ("dst", self.dst, self.src))
        return {of: tuple(walks.read(root, np.array([node]))[0, 1:].tolist()) for of, root, node in pairs}

    def _summary(
        self, near: Contacts, far: Contacts, found: list[tuple[str, Paths]], reached: dict[str, tuple[float, ...]]
    ) -> list[str]:
        a, b = self.name(self.src), self.name(self.dst)
        lines = []
        direct = near.group(self.dst)
        if direct.stop > direct.start:
            met = self._met(self.src, self.dst).format(a, b)
            newest = self._ago(near.t[direct.start].item())
            lines.append(f"{met} {plural(direct.stop - direct.start, 'time')}, the last {newest}.")
        for of, paths in found:
            root, end = (a, b) if of == "src" else (b, a)
            if len(paths.walks):
                newest = self._ago(paths.last.max().item())
                count = walks_of(reached[of][paths.steps - 1], paths.steps)
                lines.append(f"{end} is reached from {root} by {count}, the last {newest}.")
        for of, root, end in (("src", a, b), ("dst", b, a)):
            longer = [walks_of(count, k) for k, count in enumerate(reached[of], 1) if k > self.steps and count]
            if longer:
                lines.append(f"Longer: {end} is reached from {root} by {', '.join(longer)}.")
        if not lines:
            most = plural(len(reached["src"]), "step")
            rest = "the score rests on what each of them did with others."
            lines.append(f"No walk of up to {most} joins {a} and {b}: {rest}")
        for contacts, who in ((near, a), (far, b)):
            if not len(contacts):
                lines.append(f"{who} has no contacts before {self.unit.show(self.at)}.")
        return list(dict.fromkeys(lines))

    def _node_summary(self, near: Contacts) -> list[str]:
        who = self.name(self.src)
        if not len(near):
            return [f"{who} has no contacts before {self.unit.show(self.at)}."]
        return [f"{who} has {plural(len(near), 'contact')}, the last {self._ago(near.t.max().item())}."]

    def _note(self, answer: Answer | None) -> str:
        model = type(self.frozen.stream.model).__name__
        if answer is None:
            return f"{model} does not score links: walks are shown, scores are not."
        what = "logit" if self.question.measure == "logit" else "answer"
        note = f"Without: {model}'s {what} if those events had never happened, the model being the same."
        if self.question.given:
            note += " A given column is as usual when it has its mean."
        if self.question.relation is not None:
            note += " Without knowing: if their relation had been none that training has met."
        if self.frozen.is_exact:
            return note
        if self.frozen.stream.model.remembers:
            return f"{note} What its memory keeps of them is not taken back."
        return f"{note} Positions lose the walks through them, as far as the stream still knows those."
