"""What an explanation is: plain values, in users' own ids and words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contact:
    """An event between two nodes, in either direction; or its end, where logs have deletions."""

    a: Any
    b: Any
    t: Any
    when: str
    ago: str
    op: str = "add"


@dataclass(frozen=True)
class Without:
    """The score if a reason's events had never happened; `adds` is what they add to the logit as it is."""

    logit: float
    probability: float
    adds: float


@dataclass(frozen=True)
class Reason:
    """Something that joins two nodes, or that one of them did, and what the score would be without it.

    `kind` is "contact" (one event between the two), "contacts" (all of them), "walks" (every walk along the same nodes)
    or "neighbor" (all contacts of one of the two with someone else). `of` says where the walks begin, or whose contacts
    they are: "src" or "dst".
    """

    kind: str
    of: str
    text: str
    nodes: tuple[Any, ...]
    walks: int  # walks along the nodes; contacts are walks of one step
    contacts: tuple[Contact, ...]  # the newest walk, its newest contact first
    left_out: int  # events that are removed
    without: Without | None  # None for models that do not score links

    @property
    def steps(self) -> int:
        return len(self.nodes) - 1


@dataclass(frozen=True)
class Explanation:
    """Why a link is scored as it is, as of a time. `print` it, or take `as_dict()`."""

    src: Any
    dst: Any
    at: Any
    when: str
    logit: float | None
    probability: float | None
    summary: tuple[str, ...]  # positions in words, most direct first
    reached: dict[str, tuple[float, ...]]  # walks of 1, 2, … steps from "src" back to dst, and from "dst" back to src
    reasons: tuple[Reason, ...]  # what joins the two: direct first, then newest
    neighbors: tuple[Reason, ...]  # what each did with others, largest effect first
    exact: bool  # whether "without" is as after a replay of the log without those events
    note: str

    @property
    def connected(self) -> bool:
        """Whether any walk joins the two."""
        return any(any(counts) for counts in self.reached.values())

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        made = dataclasses.asdict(self)
        made["connected"] = self.connected
        for name in ("reasons", "neighbors"):
            for row, reason in zip(made[name], getattr(self, name), strict=True):
                row["steps"] = reason.steps
        return _plain(made)

    def __str__(self) -> str:
        score = (
            ""
            if self.logit is None
            else f": logit {self.logit:.3f}, {self.probability:.4f} against one random destination"
        )
        lines = [f"{self.src} and {self.dst} at {self.when}{score}", ""]
        lines += [f"  {line}" for line in self.summary]
        for title, reasons in (("What joins them", self.reasons), ("What each does with others", self.neighbors)):
            if reasons:
                lines += ["", f"{title:<76}{'logit without' if self.logit is not None else '':>16}"]
                lines += [_line(reason) for reason in reasons]
        return "\n".join([*lines, "", self.note])


def _line(reason: Reason) -> str:
    without = reason.without
    effect = "" if without is None else f"{without.logit:10.3f} ({without.adds:+.3f})"
    if len(reason.text) > 72:
        return f"  {reason.text}\n{effect:>94}" if effect else f"  {reason.text}"
    return f"  {reason.text:<72}{effect:>20}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value
