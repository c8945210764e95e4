"""`report`: which links of a log each class of models can separate, before any training.

For links that came true after a time T and a wrong destination for each, every class of models either can separate the
two as of T or provably gives both the same score. The share that it cannot separate bounds how well it can rank them:
at best a coin toss there. Classes that see exact times are flattered by data whose timestamps are almost all distinct,
because a timestamp then works like a name; so every share is also given for models that see times to a power of two
("octaves"), and not at all ("blind").

Separating two links is not the same as knowing which one comes true. The `probe` measures how well coarse facts about
nodes rank the links, and how much positions add: whether positions are worth their cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pintgn.display.progress import counting, takes_progress
from pintgn.errors import BadInput, check_count
from pintgn.events.log import EventLog
from pintgn.formatting import size, text_table
from pintgn.theory.event_history import TIMES, EventHistory
from pintgn.theory.probe import Probe, probe
from pintgn.theory.separation import CLASSES, Pair, Separation
from pintgn.theory.walks import position_vectors, temporal_diameter

WORTH = 0.01
"""Share of links from which positions are called necessary."""
PROBED = 1000
"""Links that the probe ranks; it learns from twice as many."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Share:
    """Numbers of pairs that a class can separate, cannot separate, and that were too large to decide."""

    can: int
    cannot: int
    unknown: int = 0

    @classmethod
    def of(cls, verdicts: list[bool | None]) -> Share:
        return cls(verdicts.count(True), verdicts.count(False), verdicts.count(None))

    @property
    def pairs(self) -> int:
        return self.can + self.cannot + self.unknown

    @property
    def ceiling(self) -> float:
        """The best probability to rank the true one of a pair first: 1 where the class can separate them, else 1/2."""
        return 1 - 0.5 * self.cannot / self.pairs if self.pairs else 1.0

    def to_dict(self) -> dict[str, float]:
        return asdict(self) | {"ceiling": self.ceiling}

    def __str__(self) -> str:
        can = f"{self.can / self.pairs:.1%}" if self.pairs else "-"
        return can + (f" +{self.unknown / self.pairs:.0%}?" if self.unknown else "")


@dataclass(frozen=True)
class View:
    """Shares for models that see time at one resolution."""

    links: dict[str, Share]
    colors: list[int]
    """Number of WL colours after each round, until stable."""
    levels: list[int]
    """Numbers of pairs of links that the temporal WL test first separates at each depth."""

    @property
    def gain(self) -> float:
        """Share of links that positions make separable at the depth asked for."""
        with_, without = self.links["pint"], self.links["mp-tgn"]
        return (without.cannot - with_.cannot) / with_.pairs if with_.pairs else 0.0

    @property
    def depth(self) -> int:
        """The depth from which deeper trees separate no more of the links than the temporal WL test does."""
        return max((level for level, count in enumerate(self.levels) if count), default=0)

    def to_dict(self) -> dict[str, Any]:
        links = {model: share.to_dict() for model, share in self.links.items()}
        return {"links": links, "colors": self.colors, "first_level": self.levels, "gain_of_positions": self.gain}


@dataclass(frozen=True)
class DataReport:
    """The result of `report` as text (`str`) and plain values (`to_dict`)."""

    at: Any
    at_words: str
    events: int
    active_nodes: int
    temporal_diameter: int
    settings: dict[str, Any]
    views: dict[str, View]
    position_density: float
    """Share of nodes with a non-zero position relative to a root, from sampled roots."""
    position_megabytes: float
    """Of exact positions of all nodes: eight bytes for each of d counts and for the node's number, where not zero."""
    probe: Probe

    @property
    def advice(self) -> str:
        """Are positions worth their cost? In two sentences."""
        needed, memory = self.views["exact"].gain, size(1e6 * self.position_megabytes)
        rank = f"coarse facts rank {self.probe.both:.0%} of the pairs right with them, {self.probe.nodes:.0%} without."
        if needed >= WORTH:
            verdict = f"Positions are necessary: without them {needed:.0%} of the links equal a negative to any model."
        elif self.probe.useful:
            verdict = f"Positions are worth their cost: trees separate the links, too, but {rank}"
        else:
            verdict = f"Positions are hardly worth their cost: trees separate the links, too, and {rank}"
        return f"{verdict} Exact positions take about {memory} here ({self.position_density:.1%} dense)."

    def __str__(self) -> str:
        """The report as text tables."""
        settings, p = self.settings, self.probe
        depth, d, steps = (settings[name] for name in ("depth", "d", "steps"))
        views = [self.views[times] for times in TIMES]
        rows = [[model, *(str(view.links[model]) for view in views)] for model in CLASSES]
        colors = [[str(len(view.colors) - 1), f"{view.colors[-1]:,}", str(view.depth)] for view in views]
        rows += [
            [name, *column]
            for name, column in zip(("WL rounds", "WL colours", "depth needed"), zip(*colors, strict=True), strict=True)
        ]
        return "\n".join([
            f"As of t={self.at_words}: {self.events:,} events, {self.active_nodes:,} active nodes, longest walk back "
            f"in time {self.temporal_diameter:,} steps.",
            "",
            f"Share of {settings['pairs']} later links that a class can tell from a link to a wrong destination,",
            f"by how finely it sees time ({depth} layers, d={d}, walks of {steps} steps; +?: too many walks to list):",
            "",
            text_table(["", *TIMES], rows),
            "",
            "Ranked right by coarse facts (naive Bayes on earlier links): "
            f"nodes alone {p.nodes:.1%}, positions alone {p.positions:.1%}, both {p.both:.1%};",
            f"positions add {p.gain:+.1%} ± {p.error:.1%}",
            "",
            self.advice,
        ])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name not in ("at_words", "settings")}
        views = {name: view.to_dict() for name, view in self.views.items()}
        return plain | self.settings | {"views": views, "probe": asdict(self.probe), "advice": self.advice}


@takes_progress(counting("comparing"))
def report(
    log: EventLog,
    at: Any = None,
    *,
    depth: int = 2,
    d: int = 4,
    steps: int = 2,
    pairs: int = 300,
    roots: int = 200,
    seed: int = 0,
    negatives: np.ndarray | None = None,
    progress: Progress | bool | None = None,
) -> DataReport:
    """Measure what each class of models can separate in a log as of a time.

    Args:
        log: the events, before and after `at`.
        at: as of when; where the last 15 % of the events begin when not given.
        depth, d, steps: layers, length of position vectors, longest walk of CAW.
        pairs: how many links that came true after `at` are drawn.
        roots: how many nodes are drawn to measure the density of positions.
        seed: the same seed draws the same.
        negatives: a wrong destination for every event of the log; any other destination seen before `at` when not
            given.
        progress: True for a bar, or a function that is called with steps done, steps in all and what is being done.
    """
    assert callable(progress)  # by `takes_progress`
    for name, value, least in (("depth", depth, 0), ("d", d, 1), ("steps", steps, 1), ("pairs", pairs, 1)):
        check_count(value, name, least)
    if at is None and len(log):
        at = log.t[int(np.searchsorted(log.t, log.t[int(0.85 * len(log))], "left"))]
    history = EventHistory(log, at)
    rng = np.random.default_rng(seed)
    links = _sample_links(history, pairs, negatives, rng)
    total = len(TIMES) + 2
    views: dict[str, View] = {}
    verdicts: dict[str, list[bool | None]] = {}
    for done, times in enumerate(reversed(TIMES)):  # coarse times first: what they separate, finer ones do too
        progress(done, total, f"{times} times")
        separation = Separation(EventHistory(log, history.t, times), depth, d, steps)
        views[times] = _view(separation, links, verdicts)
    progress(len(TIMES), total, "probe")
    test = _sample_links(history, PROBED, negatives, rng)
    probed = probe(*_earlier_links(history, 2 * PROBED, negatives, rng), history, test, d)
    progress(len(TIMES) + 1, total, "density of positions")
    drawn = rng.choice(history.nodes, min(roots, history.nodes), replace=False)
    density = float((position_vectors(history, drawn, d) != 0).any(2).mean())
    answer = DataReport(
        history.t.item() if hasattr(history.t, "item") else history.t,
        log.schema.time.show(history.t),
        history.count,
        int(history.present.sum()),
        temporal_diameter(log, history.t),
        {"depth": depth, "d": d, "steps": steps, "pairs": len(links), "seed": seed},
        {times: views[times] for times in TIMES},
        density,
        density * history.nodes**2 * 8 * (d + 1) / 1e6,
        probed,
    )
    progress(total, total, "done")
    return answer


def _view(separation: Separation, links: np.ndarray, verdicts: dict[str, list[bool | None]]) -> View:
    """The shares at one resolution of time; `verdicts` about links hold those at a coarser one, and then these."""
    events: list[Pair] = [((u, v), (u, w)) for u, v, w in links.tolist()]
    for model in CLASSES:
        verdicts[model] = separation.verdicts(model, events, verdicts.get(model, ()))
    of_links = {model: Share.of(verdicts[model]) for model in CLASSES}
    present = separation.history.present
    counts = [len(np.unique(color[present])) for color in separation.colors["temporal-wl"]]
    return View(of_links, counts, separation.first_levels(events))


def _earlier_links(
    history: EventHistory, pairs: int, negatives: np.ndarray | None, rng: np.random.Generator
) -> tuple[EventHistory, np.ndarray]:
    """An earlier history, and links that came true between it and now: as many events as come after now, or half."""
    log = history.log
    row = max(2 * history.count - len(log), history.count // 2)
    row = int(np.searchsorted(log.t, log.t[row], "right")) if log.t[row] == log.t[0] else row
    if row >= history.count:
        raise BadInput(
            f"all events before t={history.t} are simultaneous, so there is nothing to learn from. Ask later."
        )
    earlier = EventHistory(log[: history.count], log.t[row])
    return earlier, _sample_links(earlier, pairs, None if negatives is None else negatives[: history.count], rng)


def _sample_links(
    history: EventHistory, pairs: int, negatives: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Rows (source, destination that came true, wrong destination)."""
    log = history.log
    rows = np.flatnonzero(log.learnable[history.count :]) + history.count
    if not len(rows):
        raise BadInput(f"no event at or after t={history.t}, so there is no link to ask about. Pass an earlier time.")
    if negatives is not None:
        given = np.asarray(negatives)
        if given.shape != log.t.shape or given.dtype.kind not in "iu":
            raise BadInput(
                f"negatives has shape {given.shape}; one node number for each of {len(log)} events is needed."
            )
        rows = rows[given[rows] != log.dst[rows]]  # the true destination, drawn by chance, is no wrong one
    rows = np.sort(rng.choice(rows, min(pairs, len(rows)), replace=False))
    if negatives is not None:
        wrong = given[rows]
    else:
        pool = np.unique(history.dst[log.learnable[: history.count]])
        if len(pool) < 2:
            raise BadInput("fewer than two destinations have been seen before that time. Pass a later one.")
        wrong = rng.choice(pool, len(rows))
        again = wrong == log.dst[rows]
        wrong[again] = pool[(np.searchsorted(pool, wrong[again]) + 1) % len(pool)]
    return np.stack([log.src[rows], log.dst[rows], wrong], 1)
