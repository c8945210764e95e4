"""`distinguish`: which classes of models can separate two nodes or events, without training.

A *class* is all models of one kind: every choice of parameters and widths, all neighbors and all walks (no
sampling), exact arithmetic. "Cannot" is a proof that every member gives both the same embedding. "Can" says that some
member (in fact almost every choice of parameters, with wide enough layers) gives different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pintgn.errors import BadInput, TooLarge, UnknownName, check_count, suggest
from pintgn.events.log import EventLog
from pintgn.theory.event_history import EventHistory, node_of, show_row
from pintgn.theory.separation import Ends, Separation, first_level, rooted
from pintgn.theory.symmetry import automorphism
from pintgn.theory.walks import LARGEST as MOST_WALKS
from pintgn.theory.walks import anonymize, rooted_copies, walk_totals_differ
from pintgn.theory.witness import Explainer

MODELS = {
    "mp-tgn": "message passing with injective layers, no memory",
    "mp-tgn+memory": "the same with injective recurrent memory",
    "tgat": "TGAT: attention, which sees neighborhoods only in proportion",
    "tgn-att": "TGN-Att: TGAT on memory with mean aggregation",
    "caw": "causal anonymous walks, mean over walks",
    "pint": "PINT: injective message passing on relative positions, no memory",
    "pint+memory": "PINT with injective recurrent memory",
    "temporal-wl": "the temporal WL test, refined until stable: MP-TGNs of any depth",
    "any": "any model that does not depend on how nodes are named",
}
"""Classes of models, by the keys of a `Distinction`."""

WITH_MEMORY = ("mp-tgn+memory", "tgn-att", "pint+memory")
SMALL = 100_000
"""Neighbor entries up to which colours are refined to stability, to name the depth that suffices."""


@dataclass(frozen=True)
class Verdict:
    """The result for one class of models: can it separate the two, and why.

    Attributes:
        can: True, False, or None where the class does not apply or the answer is out of reach.
        why: the witness: where trees, walks or positions differ, or why nothing does.
        level: the first level of the trees at which it shows.
        needs: the fewest layers with which this class can, where that is known and more than was asked.
        caveat: what "can" further rests on.
    """

    model: str
    can: bool | None
    why: str
    level: int | None = None
    needs: int | None = None
    caveat: str = ""

    @property
    def word(self) -> str:
        return {True: "can", False: "cannot", None: "-"}[self.can]

    @property
    def reason(self) -> str:
        """The witness or proof, and what would separate the two, in one line."""
        more = f" ({self.needs} layers would do)" if self.needs is not None else ""
        return f"{self.why}{more}" + (f" [{self.caveat}]" if self.caveat else "")

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


@dataclass(frozen=True)
class Distinction:
    """The answer of `distinguish`: a verdict for each class of models."""

    question: str
    settings: dict[str, Any]
    verdicts: dict[str, Verdict]

    def __getitem__(self, model: str) -> Verdict:
        if model not in self.verdicts:
            raise UnknownName(f"there is no class {model!r}.{suggest(model, self.verdicts)}")
        return self.verdicts[model]

    def can(self, model: str) -> bool | None:
        """True if this class can separate the two; None if unknown."""
        return self[model].can

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        lines = [f"{self.question} ({given})"]
        lines += [f"  {v.model:<14} {v.word:<7} {v.reason}" for v in self.verdicts.values()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {name: asdict(v) for name, v in self.verdicts.items()}
        for verdict in plain.values():
            del verdict["model"]
        return {"question": self.question, **self.settings, "verdicts": plain}


def distinguish(
    log: EventLog,
    a: Any,
    b: Any,
    t: Any = None,
    *,
    depth: int = 2,
    d: int = 4,
    steps: int | None = None,
    times: str = "exact",
    side: str | None = None,
) -> Distinction:
    """Find which classes of models can separate two nodes, or two unordered simultaneous events, as of t.

    Args:
        log: the events; those at or after t are not looked at.
        a, b: two nodes by the users' ids, or two events as pairs of ids: `{"u", "v"}` or `("u", "v")`. In a log with
            two name spaces, pairs are (source, destination).
        t: as of when; after the last event when not given.
        depth: layers L of message passing.
        d: length of the position vectors, for PINT.
        steps: longest walk of CAW, in steps; `depth` when not given.
        times: how finely models see time: "exact" as in the paper, "octaves" or "blind".
        side: "src" or "dst", for nodes of a log with two name spaces.

    >>> log = EventLog([0, 2, 1], [1, 3, 2], [1, 1, 2])  # 0-1 and 2-3 meet, then 1-2
    >>> answer = distinguish(log, (0, 1), (3, 1), t=3)
    >>> answer.can("mp-tgn"), answer.can("caw"), answer.can("pint")
    (False, True, True)
    """
    check_count(depth, "depth", least=0)
    check_count(d, "d", least=1)
    check_count(steps, "steps", least=1, none=True)
    steps = max(depth, 1) if steps is None else steps
    pair = Comparison(*read_question(log, a, b, t, times, side), depth, d, steps)
    settings = {"depth": depth, "d": d, "steps": steps} | ({} if times == "exact" else {"times": times})
    return Distinction(pair.question, settings, pair.all_verdicts())


def read_question(
    log: EventLog, a: Any, b: Any, t: Any = None, times: str = "exact", side: str | None = None
) -> tuple[EventHistory, Ends, Ends]:
    """Read two nodes or two events in the users' ids; anything else is an error."""
    history, events = EventHistory(log, t, times), [isinstance(one, set | frozenset | tuple | list) for one in (a, b)]
    if not any(events):
        return history, (node_of(log, a, side),), (node_of(log, b, side),)
    if not all(events):
        raise BadInput(f"{a!r} and {b!r}: compare two nodes, or two events as pairs of nodes, not one of each.")
    return history, _event(log, a), _event(log, b)


def _event(log: EventLog, given: Any) -> Ends:
    """The ends of an event."""
    is_set, ends = isinstance(given, set | frozenset), tuple(given)
    if len(ends) != 2 and not (is_set and len(ends) == 1):
        raise BadInput(f"{given!r}: an event has two ends, as in (u, v).")
    found = _ends(log, ends[0], ends[-1])
    return tuple(sorted(found)) if is_set else found  # a set has no order; show the same one every time


def _ends(log: EventLog, u: Any, v: Any) -> tuple[int, int]:
    if not log.ids.separate_namespaces:
        return node_of(log, u), node_of(log, v)

    def fits(src: Any, dst: Any) -> bool:
        return all(log.ids.encode([id], side, missing="mark")[0] >= 0 for id, side in ((src, "src"), (dst, "dst")))

    if fits(v, u) and not fits(u, v):  # a set has no order, and sources and destinations are named apart
        u, v = v, u
    return node_of(log, u, "src"), node_of(log, v, "dst")


class Comparison(Separation):
    """Two nodes (one number each) or two events (two numbers each): a verdict with its witness for each class."""

    def __init__(self, history: EventHistory, a: Ends, b: Ends, depth: int, d: int, steps: int):
        super().__init__(history, depth, d, steps, SMALL)
        self.a, self.b = a, b

    @property
    def question(self) -> str:
        names = [", ".join(map(self.history.name, ends)) for ends in (self.a, self.b)]
        what = "nodes {} and {}" if len(self.a) == 1 else "events {{{}}} and {{{}}}"
        return f"{what.format(*names)} at t={self.history.log.schema.time.show(self.history.t)}"

    def all_verdicts(self) -> dict[str, Verdict]:
        if sorted(self.a) == sorted(self.b):
            return {model: Verdict(model, False, "they are the same") for model in MODELS}
        found = [
            self.messages("mp-tgn"),
            self.messages("mp-tgn+memory"),
            self.messages("tgat"),
            self.tgn_att(),
            self.caw(),
            self.pint("pint"),
            self.pint("pint+memory"),
            self.temporal_wl(),
            self.any(),
        ]
        return {verdict.model: verdict for verdict in found}

    # -- message passing -----------------------------------------------------------------------------------

    def messages(self, model: str) -> Verdict:
        """A class of message-passing models, by colour refinement."""
        colors, entries = self.colors[model], self.history.entries
        return self._by_colors(model, colors, self.a, self.b, self._state_words(model), entries)

    def _by_colors(
        self, model: str, colors: list, a: Sequence[int], b: Sequence[int], state: Any, entries: Any
    ) -> Verdict:
        level, proportions = first_level(colors, a, b), model in ("tgat", "tgn-att")
        if level is not None and level <= self.depth:
            explain = Explainer(self.history, entries, colors, state, proportions)
            return Verdict(model, True, explain.words(a, b, level), level)
        alike = "equal in proportion" if proportions else "isomorphic"
        extras = ["memory"] * (model in WITH_MEMORY) + ["positions"] * model.startswith("pint")
        annotated = f" with {' and '.join(extras)}" if extras else ""
        deep = "to any depth" if level is None and len(entries.neighbor) <= SMALL else f"to level {self.depth}"
        return Verdict(model, False, f"trees{annotated} are {alike} {deep}", None, level)

    def _state_words(self, model: str) -> Callable[[int, int], str]:
        """Text for two nodes whose initial colours differ, by features or by memory."""
        history = self.history

        def words(x: int, y: int) -> str:
            names = history.name(x), history.name(y)
            if model not in WITH_MEMORY or history.state[x] != history.state[y]:
                rows = history.log.node_features
                shown = ["no features" if rows is None else f"features {show_row(rows[node])}" for node in (x, y)]
                return " and ".join(f"{name} has {features}" for name, features in zip(names, shown, strict=True))
            return f"the memories of {names[0]} and {names[1]} differ"

        return words

    def tgn_att(self) -> Verdict:
        verdict = self.messages("tgn-att")
        kinds = max(int(self.history.state.max(initial=0)), int(self.history.feature.max(initial=0))) + 1
        if verdict.can and kinds > 2 and not self.messages("tgat").can:
            caveat = "for generic features: different mixtures of particular features may have the same mean"
            return replace(verdict, caveat=caveat)
        return verdict

    def temporal_wl(self) -> Verdict:
        colors = self.colors["temporal-wl"]
        level = first_level(colors, self.a, self.b)
        if level is None:
            return Verdict("temporal-wl", False, f"the same colours, stable after round {len(colors) - 1}")
        return Verdict("temporal-wl", True, f"colours differ from round {level} on", level)

    # -- positions -----------------------------------------------------------------------------------------

    def pint(self, model: str) -> Verdict:
        """Trees whose nodes j carry s_j, r_{j->own root} and, for events, r_{j->other root} (Sec. 4)."""
        n, copies = self.history.nodes, [*rooted(self.a), *rooted(self.b)]
        vectors = self.positions({*self.a, *self.b})
        state = self.memory if model == "pint+memory" else self.history.state
        own, entries, roots = rooted_copies(self.history, copies, vectors, state)
        colors = [own]
        a, b = roots[: len(self.a)], roots[len(self.a) :]
        if first_level(colors, a, b) is None:
            colors = self.refined(own, entries)

        def relative(node: int, root: int) -> str:
            values = ",".join(map(str, vectors[root][node].tolist()))
            return f"{self.history.name(node)} relative to {self.history.name(root)} is [{values}]"

        def differ(x: int, y: int) -> str:
            (first, i), (second, j) = divmod(x, n), divmod(y, n)
            odd = [
                f"{relative(i, r)}, {relative(j, q)}"
                for r, q in zip(copies[first], copies[second], strict=True)
                if not np.array_equal(vectors[r][i], vectors[q][j])
            ]
            return " and ".join(odd) or self._state_words(model)(i, j)

        return self._by_colors(model, colors, a, b, differ, entries)

    # -- walks ---------------------------------------------------------------------------------------------

    def caw(self, most: int = MOST_WALKS) -> Verdict:
        """Anonymised walks, as shares of all the event's walks."""
        if len(self.a) == 1:
            return Verdict("caw", None, "CAW embeds events, not nodes")
        totals, pair = self.totals, (self.a, self.b)
        many = max(totals[list(set(ends)), -1].sum() for ends in pair)
        if many > most:
            if walk_totals_differ(totals[:, -1], *pair):
                counts = [" and ".join(f"{n:,.0f}" for n in totals[list(ends), -1]) for ends in pair]
                return Verdict("caw", True, f"{counts[0]} walks start at the ends of one, {counts[1]} of the other", 0)
            fits = [k for k in range(1, self.steps) if max(totals[list(ends), k].sum() for ends in pair) <= most]
            advice = f"; {fits[-1]} steps fit" if fits else ""
            return Verdict("caw", None, f"{many:,.0f} walks are too many to list{advice}")
        first, second = (anonymize(self.history, ends[0], ends[-1], self.steps) for ends in pair)
        walk = first.difference(second)
        if walk is None:
            return Verdict("caw", False, "the anonymised walks are the same")
        counts = [f"{w.counts.get(walk, 0)} of {w.total}" for w in (first, second)]
        return Verdict("caw", True, f"{first.show(walk)} is {counts[0]} walks, against {counts[1]}", len(walk) - 1)

    # -- symmetry ------------------------------------------------------------------------------------------

    def any(self) -> Verdict:
        """Any model: a symmetry of the temporal graph that maps one to the other makes them inseparable."""
        if self.history.times != "exact":
            return Verdict("any", None, "symmetries are searched at exact times only")
        try:
            for image in dict.fromkeys([self.b, self.b[::-1]]):
                found = automorphism(self.history, self.a, image)
                if found is not None:
                    name = self.history.name
                    moved = [f"{name(x)}→{name(y)}" for x, y in sorted(found.items()) if x != y]
                    shown = ", ".join(moved[:12]) + (", …" if len(moved) > 12 else "")
                    return Verdict("any", False, f"a symmetry of the graph maps one to the other: {shown}")
        except TooLarge as error:
            return Verdict("any", None, str(error).rstrip("."))
        return Verdict("any", True, "no symmetry of the graph maps one to the other")
