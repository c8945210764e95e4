"""`Explanation`: reasons and their effects as plain values with the user's own ids."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from typing import Any

from pintgn.display.html import folded, paragraph, table
from pintgn.events.schema import TimeUnit
from pintgn.formatting import PER_SECOND, plural
from pintgn.packages import data_frame

MAIN = 3
"""Reasons that are printed first."""
WHERE = "details(), or --all on the command line"
LENGTHS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def ago(dt: Any, unit: TimeUnit) -> str:
    """Time between an event and the question.

    >>> ago(312, TimeUnit("s")), ago(90_000_000, TimeUnit("ms")), ago(40, TimeUnit("us"))
    ('5 minutes ago', '1 day ago', 'less than a second ago')
    >>> ago(1627, TimeUnit()), ago(0.25, TimeUnit())
    ('1,627 time units ago', '0.25 time units ago')
    """
    if unit.unit is None:
        count = f"{dt:,}" if float(dt).is_integer() else f"{dt:,.4g}"
        return f"{count} time unit{'' if dt == 1 else 's'} ago"
    seconds = dt / PER_SECOND[unit.unit]
    name, length = next((one for one in LENGTHS if seconds >= one[1]), ("", 0))
    return f"{plural(int(seconds // length), name)} ago" if name else "less than a second ago"


def escaped(text: str) -> str:
    """Text that `str.format` leaves unchanged."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Contact:
    """An event between two nodes in either direction, or its deletion."""

    a: Any
    b: Any
    t: Any
    when: str
    ago: str
    op: str = "add"
    relation: str | None = None  # from the end of `a`: ^ before it if `a` is the destination


@dataclass(frozen=True)
class Without:
    """The answer if a reason's events had never happened, and what they add to it, in `Explanation.measure`."""

    logit: float | None  # None if the answer is a value
    probability: float | None
    adds: float
    said: str = ""  # as text
    value: float | None = None

    @property
    def number(self) -> float:
        """The logit, or the value."""
        return self.value if self.logit is None else self.logit  # type: ignore[return-value]


@dataclass(frozen=True)
class Reason:
    """Contacts, walks or known facts behind an answer, and the answer without them.

    `kind` is "contact" (one event between the two), "contacts" (all of them), "walks" (every walk along the same nodes)
    or "neighbor" (all contacts of one of the two with another node); for columns and relations also "known" (the events
    stay, but their targets or relations are unknown) and "given" (the column has its mean). `of` is where the walks
    begin, or whose contacts, targets or relations they are: "src", "dst" or "pair".
    """

    kind: str
    of: str
    wording: str  # with {0}, {1}, … for the nodes
    nodes: tuple[Any, ...]
    walks: int  # walks along the nodes; contacts are walks of one step
    contacts: tuple[Contact, ...]  # the newest walk, its newest contact first
    left_out: int  # number of events to leave out
    without: Without | None  # None for models that do not score links

    @property
    def text(self) -> str:
        return self.wording.format(*self.nodes)

    @property
    def steps(self) -> int:
        return len(self.nodes) - 1


@dataclass(frozen=True)
class Explanation:
    """An answer about a link or a column as of a time, and the reasons for it.

    `print` shows the three reasons with the largest effect, `details()` all; `as_dict()` is for JSON, `to_pandas()` a
    frame of reasons.

    >>> import pintgn
    >>> trades = {"buyer": ["ann", "bob"] * 50, "seller": ["cay", "dan"] * 50, "when": range(100)}
    >>> log = pintgn.read_events(trades, "buyer", "seller", "when")
    >>> why = pintgn.open(pintgn.fit("edgebank", log, hidden=0.0)).explain("ann", "cay", at=200)
    >>> why.main[0].text
    'ann met cay 50 times, the last 102 time units ago'
    """

    src: Any
    dst: Any
    at: Any
    when: str
    logit: float | None
    probability: float | None
    summary: tuple[str, ...]  # positions as text, most direct first
    reached: dict[str, tuple[float, ...]]  # walks of 1, 2, … steps from "src" back to dst, and from "dst" back to src
    reasons: tuple[Reason, ...]  # what joins the two: direct first, then newest
    neighbors: tuple[Reason, ...]  # what each did with others, largest effect first
    exact: bool  # True if every `without` equals a replay of the log without those events
    note: str
    said: str = ""  # the answer as text
    measure: str = "logit"  # what effects are counted in
    answer: dict[str, Any] = dataclasses.field(default_factory=dict)  # for columns, the result of `ask`
    relation: str | None = None  # the relation of the question

    @property
    def connected(self) -> bool:
        """True if a walk joins the two."""
        return any(any(counts) for counts in self.reached.values())

    @property
    def by_effect(self) -> tuple[Reason, ...]:
        """All reasons, largest effect first."""
        every = (*self.reasons, *self.neighbors)
        return tuple(sorted(every, key=lambda one: -abs(one.without.adds) if one.without else 0.0))

    @property
    def main(self) -> tuple[Reason, ...]:
        """Up to three reasons with the largest effect, no two about the same third node."""
        chosen: list[Reason] = []
        covered: set[Any] = set()
        for reason in self.by_effect:
            others = set(reason.nodes) - {self.src, self.dst} or {None}  # None: between the two themselves
            if reason.kind in ("known", "given"):
                others = {(reason.kind, reason.of, reason.text)}
            if not others & covered and len(chosen) < MAIN:
                chosen.append(reason)
                covered |= others
        return tuple(chosen)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The main reasons as sentences with the answer without each; the summary if there are none."""
        return tuple(map(_sentence, self.main)) or self.summary[:MAIN]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        made = dataclasses.asdict(self)
        made |= {"connected": self.connected, "sentences": self.sentences}
        made["main"] = [dataclasses.asdict(reason) for reason in self.main]
        for name in ("reasons", "neighbors", "main"):
            for row, reason in zip(made[name], getattr(self, name), strict=True):
                row |= {"text": reason.text, "steps": reason.steps}
        return _plain(made)

    def to_pandas(self) -> Any:
        """A frame with one row for each reason, largest effect first."""
        rows = []
        for one in self.by_effect:
            without = dict.fromkeys(("adds", f"{self.measure}_without", "probability_without"))
            if one.without is not None:
                without = dict(
                    zip(without, (one.without.adds, one.without.number, one.without.probability), strict=True)
                )
            rows.append({"reason": one.text, **without, "kind": one.kind, "of": one.of, "walks": one.walks})
        return data_frame(rows)

    def __repr__(self) -> str:
        return f"Explanation({self._head()}; {plural(len(self.by_effect), 'reason')})"

    def __str__(self) -> str:
        lines = [self._head(), "", *(f"  {k}. {line}" for k, line in enumerate(self.sentences, 1))]
        more = len(self.by_effect) - len(self.main)
        lines += [] if self.exact else ["", self.note]
        return "\n".join([*lines, *(["", f"{plural(more, 'more reason')}: {WHERE}."] if more > 0 else [])])

    def details(self) -> str:
        """The summary and every reason with the answer without it, as text."""
        lines = [self._head(), ""]
        lines += [f"  {line}" for line in self.summary]
        joins = "What joins them" if self.dst is not None else "What is known"
        whose = "What each does with others" if self.dst is not None else f"What {self.src} does with others"
        for title, reasons in ((joins, self.reasons), (whose, self.neighbors)):
            if reasons:
                lines += ["", f"{title:<76}{f'{self.measure} without' if self.said else '':>16}"]
                lines += [_line(reason) for reason in reasons]
        return "\n".join([*lines, "", self.note])

    def _repr_html_(self) -> str:
        listed = "".join(f"<li>{escape(line)}</li>" for line in self.sentences)
        effects = [_effect(reason) for reason in self.by_effect]
        rows = [[one.text, *effect] for one, effect in zip(self.by_effect, effects, strict=True)]
        every = table(["", f"{self.measure} without", "adds"], rows) if rows else ""
        rest = "".join(map(paragraph, self.summary)) + every + paragraph(self.note)
        return f"{paragraph(self._head(), strong=True)}<ol>{listed}</ol>{folded('Everything', rest)}"

    def _head(self) -> str:
        who = self.src if self.dst is None else f"{self.src} and {self.dst}"
        who = who if self.relation is None else f"{who} by {self.relation}"
        return f"{who} at {self.when}{f': {self.said}' if self.said else ''}"


def _sentence(reason: Reason) -> str:
    if reason.without is None:
        return f"{reason.text}."
    if reason.kind == "given":
        return f"{reason.text}. If that were as usual: {reason.without.said}."
    what = "knowing " if reason.kind == "known" else ""
    return f"{reason.text}. Without {what}{'it' if reason.left_out == 1 else 'that'}: {reason.without.said}."


def _effect(reason: Reason) -> tuple[str, str]:
    without = reason.without
    return ("", "") if without is None else (f"{without.number:.3f}", f"{without.adds:+.3f}")


def _line(reason: Reason) -> str:
    logit, adds = _effect(reason)
    effect = f"{logit:>10} ({adds})" if logit else ""
    if len(reason.text) > 72:
        return f"  {reason.text}\n{effect:>94}" if effect else f"  {reason.text}"
    return f"  {reason.text:<72}{effect:>20}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value
