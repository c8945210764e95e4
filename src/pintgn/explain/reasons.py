"""Why a question is answered as it is: what joins its ends, what is known, and the answer without each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pintgn.display.progress import counting, takes_progress
from pintgn.errors import BadInput
from pintgn.events.schema import TimeUnit
from pintgn.explain.answer import Contact, Explanation, Reason, Without
from pintgn.explain.asked import Asked, Told, asked_link, turned
from pintgn.explain.known import Draft, given_drafts, known_drafts, relation_drafts
from pintgn.explain.paths import LONGEST, Contacts, Paths, Step, paths_of_three, paths_of_two
from pintgn.explain.replay import Progress, replayed_answers
from pintgn.explain.verbs import MET, Verb, verb_of
from pintgn.explain.words import ago, times, walks_of
from pintgn.explain.worlds import Absence, Frozen, WalkCounts, answers
from pintgn.formatting import plural
from pintgn.models.base import Model
from pintgn.stream import Stream

ONE_BY_ONE = 3
"""Newest contacts of the two that are removed one at a time: of many, one more or less hardly matters."""
LOOKED_AT = 10
"""Newest contacts of each end whose partners are tried as reasons, unless the model says how many it reads."""
NAMED = 3
"""Relations of several events that are named one by one."""


@takes_progress(counting("replaying"))
def explain(
    stream: Stream | Frozen,
    src: int,
    dst: int,
    at: Any,
    *,
    steps: int = LONGEST,
    limit: int = 5,
    replay: bool = False,
    progress: Progress | bool | None = None,
    name: Callable[[int], Any] = int,
    calibration: Callable[[np.ndarray], np.ndarray] | None = None,
    names: tuple[Any, Any] | None = None,
    asked: Asked | None = None,
) -> Explanation:
    """Explain the answer to a question at a time. Changes nothing; only events strictly before `at` are looked at.

    Args:
        stream: or a copy of one, `Frozen.of(stream, at)`, where others observe at the same time.
        src, dst: node numbers.
        at: a time, no earlier than the stream's clock.
        steps: longest walks that are listed one by one, 1 to 3.
        limit: how many reasons of each kind.
        replay: replay the log without each reason's events where nothing less is exact, as for models with memory;
            slow. `progress` shows how many reasons are done, and of how many: True for a bar, or a function of these.
        name: the id of a node number, for the answer; `names` those of src and dst, which may be strangers.
        calibration: probabilities of logits.
        asked: another question than whether the two meet.
    """
    assert callable(progress)  # by `takes_progress`
    if not 1 <= steps <= LONGEST:
        raise BadInput(f"steps={steps}; walks of 1 to {LONGEST} steps are listed (longer ones are counted).")
    if limit < 1:
        raise BadInput(f"limit={limit}; at least one reason of each kind is listed.")
    frozen = stream if isinstance(stream, Frozen) else Frozen.of(stream, at)
    ends = dict(zip((src, dst), names, strict=True)) if names else {}
    when = np.array([at], frozen.stream._time_dtype)
    asked = asked or asked_link(src, dst, when, frozen.stream.model, calibration)
    at = np.asarray(at).item()
    return _Question(
        frozen, src, dst, at, steps, limit, lambda n: ends[n] if n in ends else name(n), asked, replay, progress
    ).answer()


@dataclass
class _Question:
    frozen: Frozen
    src: int
    dst: int
    at: Any
    steps: int
    limit: int
    name: Callable[[int], Any]  # the id of a node number
    asked: Asked
    replay: bool
    progress: Progress

    @property
    def unit(self) -> TimeUnit:
        return self.frozen.stream.schema.time

    @property
    def verb(self) -> Verb:
        return MET if self.asked.by is not None else verb_of(self.frozen.stream.schema)

    @property
    def exact(self) -> bool:
        return self.replay or self.frozen.reproducible

    def answer(self) -> Explanation:
        index = self.frozen.stream.index
        near, far = (Contacts.of(index, node, self.at) for node in (self.src, self.dst))
        found: list[tuple[str, Paths]] = []
        for of, root, target in (("src", near, far), ("dst", far, near)) if not self.asked.of_node else ():
            if self.steps >= 2:
                found.append((of, paths_of_two(root, target)))
            if self.steps >= 3:
                found.append((of, paths_of_three(index, root, target)))
        joins = self._contacts(near) + [d for of, paths in found for d in self._walks(of, paths)]
        others = self._others("src", near, self.dst)
        if self.src != self.dst:
            others += self._others("dst", far, self.src)
        joins.sort(key=lambda draft: (draft[0].steps, draft[0].kind == "walks"))  # stable: newest stay first
        question = (self.frozen, self.src, self.dst, self.at, self.asked, self.name)
        joins = given_drafts(self.asked) + known_drafts(*question) + relation_drafts(*question) + joins
        told, facts, reasons = self._scored(joins + others)
        neighbors = sorted(reasons[len(joins) :], key=lambda one: -abs(one.without.adds) if one.without else 0.0)
        reached = self._reached()
        return Explanation(
            src=self.name(self.src),
            dst=None if self.asked.of_node else self.name(self.dst),
            at=self.at,
            when=self.unit.show(self.at),
            logit=None if told is None or self.is_value else told.number,
            probability=None if told is None else told.probability,
            summary=tuple(self._node_summary(near) if self.asked.of_node else self._summary(near, far, found, reached)),
            reached=reached,
            reasons=tuple(reasons[: len(joins)]),
            neighbors=tuple(r for of in ("src", "dst") for r in [n for n in neighbors if n.of == of][: self.limit]),
            exact=self.exact,
            note=self._note(told),
            said="" if told is None else told.head,
            measure=self.asked.measure,
            answer=facts,
            relation=None if self.asked.by is None else self.asked.by.name(self.asked.by.number),
        )

    # -- reasons -----------------------------------------------------------------------------------------------------

    def _contacts(self, near: Contacts) -> list[Draft]:
        """What happened between the two themselves: all of it at once, and the newest contacts one by one."""
        mine = near.group(self.dst)
        count = mine.stop - mine.start
        if not count:
            return []
        a, b = self.name(self.src), self.name(self.dst)
        ends = np.array([self.src, self.dst])
        steps = [near.step(mine.start + k) for k in range(min(count, self.limit, ONE_BY_ONE))]
        contacts = [self._contact(self.src, self.dst, step) for step in steps]
        drafts = []
        if count > 1:
            both = self._both(self.src, self.dst, near.events[mine])
            text = f"{both} {times(count)}{self._by(self.src, near.events[mine])}, the last {contacts[0].ago}"
            reason = Reason("contacts", "src", text, (a, b), count, tuple(contacts), count, None)
            drafts.append((reason, Absence(near.events[mine], ends)))
        for step, contact in zip(steps, contacts, strict=True):
            both = self._both(self.src, self.dst, np.array([step.event]), contact.op)
            text = f"{both}{self._by(self.src, step.event)} at {contact.when}, {contact.ago}"
            reason = Reason("contact", "src", text, (a, b), 1, (contact,), 1, None)
            drafts.append((reason, Absence(np.array([step.event]), ends)))
        return drafts

    def _walks(self, of: str, paths: Paths) -> list[Draft]:
        drafts = []
        for path in paths.best(self.limit):
            pairs = zip(path.nodes[:-1], path.nodes[1:], path.newest, strict=True)
            contacts = tuple(self._contact(a, b, step) for a, b, step in pairs)
            ends = zip(path.nodes[:-1], path.nodes[1:], path.newest, contacts, strict=True)
            met = [
                (self._met(a, b, [step.event], c.op, k > 0), self._by(a, step.event))
                for k, (a, b, step, c) in enumerate(ends)
            ]
            parts = enumerate(zip(contacts, met, strict=True))
            text = "; ".join(f"{{{k}}} {verb} {{{k + 1}}}{by} {c.ago}" for k, (c, (verb, by)) in parts)
            text += f" ({path.walks:,} such walks)" if path.walks > 1 else ""
            nodes, left_out = tuple(map(self.name, path.nodes)), len(path.absence.events)
            reason = Reason("walks", of, text, nodes, path.walks, contacts, left_out, None)
            drafts.append((reason, path.absence))
        return drafts

    def _others(self, of: str, mine: Contacts, other: int) -> list[Draft]:
        """Everyone among the newest contacts of an end, with all contacts the two have had."""
        looked_at = getattr(self.frozen.stream.model, "neighbors", None) or LOOKED_AT
        newest = self.frozen.stream.index.recent(mine.node, self.at, looked_at)
        drafts = []
        for node in dict.fromkeys(newest.ids[newest.mask].tolist()):
            if node == other:
                continue
            group = mine.group(node)
            count = group.stop - group.start
            contact = self._contact(mine.node, node, mine.step(group.start))
            whom = "itself" if node == mine.node else "{1}"
            often = f"{times(count)}, the last " if count > 1 else ""
            met, by = self._met(mine.node, node, mine.events[group]), self._by(mine.node, mine.events[group])
            text = f"{{0}} {met} {whom}{by} {often}{contact.ago}"
            reason = Reason("neighbor", of, text, (contact.a, contact.b), count, (contact,), count, None)
            drafts.append((reason, mine.absence(node)))
        return drafts

    @property
    def is_value(self) -> bool:
        return self.asked.measure != "logit"

    def _scored(self, drafts: list[Draft]) -> tuple[Told | None, dict[str, Any], list[Reason]]:
        if type(self.frozen.stream.model).forward is Model.forward:
            return None, {}, [reason for reason, _ in drafts]
        given = (self.frozen, self.asked.query, [absence for _, absence in drafts])
        replayed = self.replay and not self.frozen.reproducible
        found = replayed_answers(*given, self.progress) if replayed else answers(*given)
        now, *worlds = self.asked.read(found)
        reasons = []
        for (reason, _), told in zip(drafts, worlds, strict=True):
            logit, value = (None, told.number) if self.is_value else (told.number, None)
            without = Without(logit, told.probability, now.number - told.number, told.said, value)
            reasons.append(replace(reason, without=without))
        return now, self.asked.facts(found[:1]), reasons

    def _contact(self, a: int, b: int, step: Step) -> Contact:
        words = self._relations(a, step.event)
        return Contact(
            self.name(a), self.name(b), step.t, self.unit.show(step.t), self._ago(step.t), self._op(step.event),
            words[0] if words else None,
        )  # fmt: skip

    def _ago(self, t: Any) -> str:
        return ago(self.at - t, self.unit)

    def _op(self, event: int) -> str:
        """Whether an event is a deletion; its features are marked where the log has any."""
        schema, table = self.frozen.stream.schema, self.frozen.stream.history.event_table
        if schema.op is None or table is None:
            return "add"
        deleted, updated = table[event, schema.feature_width : schema.feature_width + 2]
        return "delete" if deleted else "node" if updated else "add"

    def _met(self, a: int, b: int, events: Any, op: str = "add", earlier: bool = False) -> str:
        """What one did to the other in some events between them; the neutral word where both acted."""
        if op != "add":
            return "had left" if earlier else "left"
        by_a, by_b = self._acted(a, events), self._acted(b, events)
        return (MET if by_a and by_b and a != b else self.verb).said(by_a, earlier)

    def _both(self, a: int, b: int, events: Any, op: str = "add") -> str:
        """What two did with each other in some events between them, as the wording of a sentence that goes on."""
        other = "{1}" if a != b else "itself"
        if op == "node":
            return "{0} was updated"
        if op == "delete" or self.verb is MET:
            return f"{{0}} and {other} {'parted' if op == 'delete' else 'met'}"
        by_a, by_b = self._acted(a, events), self._acted(b, events)
        if by_a and by_b and a != b:
            return f"{{0}} and {{1}} {self.verb.done} each other"
        return f"{{0}} {self.verb.said(by_a)} {other}"

    def _relations(self, node: int, events: Any) -> list[str]:
        """By which relations some events of a node were, as it sees them, the most frequent first."""
        by, numbers = self.asked.by, np.atleast_1d(events)
        if by is None:
            return []
        ordered = self.frozen.events
        out = ordered.src[ordered.index_of(numbers)] == node
        words = (by.name(number) for number in self.frozen.relation_of(numbers).tolist())
        seen = Counter(word if mine else turned(word) for word, mine in zip(words, out.tolist(), strict=True))
        return [word for word, _ in seen.most_common()]

    def _by(self, node: int, events: Any) -> str:
        """The same as a part of a wording."""
        words = [word.replace("{", "{{").replace("}", "}}") for word in self._relations(node, events)]
        if len(words) > NAMED:
            words = [*words[: NAMED - 1], f"{len(words) - NAMED + 1} other relations"]
        listed = ", ".join(words[:-1])
        return f" by {f'{listed} and ' if listed else ''}{words[-1]}" if words else ""

    def _acted(self, node: int, events: Any) -> bool:
        """Whether a node is the source of any of some events."""
        ordered = self.frozen.events
        return bool((ordered.src[ordered.index_of(np.asarray(events))] == node).any())

    # -- words -------------------------------------------------------------------------------------------------------

    def _reached(self) -> dict[str, tuple[float, ...]]:
        """Positions of each end relative to the other, as counts of walks of 1, 2, … steps."""
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
            met = f"{a} and {b} have met" if self.src != self.dst else f"{a} has met itself"
            newest = self._ago(near.t[direct.start].item())
            if self.verb is not MET:
                met = self._both(self.src, self.dst, near.events[direct]).format(a, b)
            lines.append(f"{met} {times(direct.stop - direct.start)}, the last time {newest}.")
        for of, paths in found:
            root, end = (a, b) if of == "src" else (b, a)
            if len(paths.walks):
                newest = self._ago(paths.last.max().item())
                only = "" if paths.through_others.any() else ", each visiting a node twice"
                count = walks_of(reached[of][paths.steps - 1], paths.steps)
                lines.append(f"{end} is reached from {root} by {count}, the last {newest}{only}.")
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

    def _note(self, told: Told | None) -> str:
        model = type(self.frozen.stream.model).__name__
        if told is None:
            return f"{model} does not score links: walks are shown, scores are not."
        what = "logit" if self.asked.measure == "logit" else "answer"
        note = f"Without: {model}'s {what} if those events had never happened, the model being the same."
        if self.asked.given:
            note += " A given column is as usual when it has its mean."
        if self.asked.by is not None:
            note += " Without knowing: if their relation had been none of those that training has met."
        if self.exact:
            return note
        if self.frozen.stream.model.remembers:
            return f"{note} What its memory keeps of them is not taken back."
        return f"{note} Positions lose the walks through them, as far as the stream still knows those."
