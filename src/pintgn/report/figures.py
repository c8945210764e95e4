"""Figures of a report: metrics by row, negatives and novelty with their spread, and paired differences of rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from statistics import stdev
from typing import Any

import numpy as np

from pintgn.learn.metrics import LEAST, Scores, choice_error, of_enough, rank_metrics
from pintgn.report.spread import BootstrapBlocks, Draws, interval, mean_of, standard_error
from pintgn.report.study import Row, RunScores, Study

GROUPS = ("all", "seen", "new")
RANKING = "ranking"
"""Key of MRR and Hits@k among the kinds of negatives."""


@dataclass(frozen=True)
class Figure:
    """A metric, its spread, and the number of events it was measured on."""

    value: float | None
    spread: float | None
    events: int


@dataclass(frozen=True)
class Difference:
    """One row minus another on the same events and negatives; `low` to `high` is the paired 95 % interval."""

    first: str
    second: str
    kind: str
    group: str
    metric: str
    value: float
    low: float | None
    high: float | None
    events: int

    @property
    def is_clear(self) -> bool:
        """True if the interval does not contain zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Figures:
    """Every figure of a study."""

    def __init__(self, study: Study):
        self.study, self.blocks = study, BootstrapBlocks.cut(study.events.t, study.seed)
        self._cache: dict[Any, Draws] = {}

    # -- single figures ----------------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> dict[str, dict[str, dict[str, dict[str, Figure]]]]:
        """Figures by row, kind of negatives (or `RANKING`), group and metric."""
        kinds = [*self.study.drawn, RANKING]
        return {
            row.name: {kind: {group: self._figures(row, kind, group) for group in GROUPS} for kind in kinds}
            for row in self.study.scoring
        }

    def spread_of(self, row: Row) -> str:
        """Source of ± in a row: seeds if it has more than one run, otherwise blocks of the test part."""
        return "seeds" if len(row.members) > 1 else "blocks" if self.blocks.has_enough else "none"

    def _figures(self, row: Row, kind: str, group: str) -> dict[str, Figure]:
        metrics = [_metrics(one, kind, _rows(one, group)) for one in row.members]
        events = round(float(np.mean([one["events"] for one in metrics])))
        found = {}
        for name in (name for name in metrics[0] if name != "events"):
            values = [one[name] for one in metrics if one[name] is not None]
            value = float(np.mean(values)) if values else None
            if len(row.members) > 1:
                spread = stdev(values) if len(values) > 1 else None
            else:
                draws = self._draws(row.members[0], kind, group).get(name)
                spread = None if draws is None or value is None else standard_error(draws)
            found[name] = Figure(value, spread, events)
        return found

    def _draws(self, one: RunScores, kind: str, group: str) -> Draws:
        key = (id(one), kind, group)
        if key not in self._cache:
            self._cache[key] = self._drawn(one, kind, _rows(one, group))
        return self._cache[key]

    def _drawn(self, one: RunScores, kind: str, rows: np.ndarray) -> Draws:
        if kind != RANKING:
            return self.blocks.precision(one.scores[kind], rows)
        values = {"mrr": 1 / one.ranks} | {f"hits@{k}": (one.ranks <= k) * 1.0 for k in (1, 3, 10)}
        return {name: self.blocks.mean(value, rows) for name, value in values.items()}

    # -- differences -------------------------------------------------------------------------------------------------

    @cached_property
    def differences(self) -> list[Difference]:
        """Each trained row against the training-free ones, and the first against every other trained row."""
        trained, free = self.study.models, self.study.baselines
        pairs = [(trained[0], other) for other in trained[1:]] if trained else []
        pairs += [(row, other) for row in trained for other in reversed(free)]
        found = []
        for first, second in pairs:
            for kind in [*self.study.drawn, RANKING]:
                for group in GROUPS if kind in (self.study.main, RANKING) else GROUPS[:1]:
                    found += self.difference(first, second, kind, group)
        return found

    def difference(self, first: Row, second: Row, kind: str, group: str = "all") -> list[Difference]:
        """AP and AUC (or MRR) of one row minus another, on events that are in the group for both."""
        masks = [_rows(one, group) for row in (first, second) for one in row.members]
        rows = np.logical_and.reduce(masks)
        if rows.sum() < LEAST:
            return []
        same = all(np.array_equal(mask, rows) for mask in masks)

        def of(row: Row) -> tuple[dict[str, float], Draws]:
            values = [_metrics(one, kind, rows) for one in row.members]
            draws = [self._draws(one, kind, group) if same else self._drawn(one, kind, rows) for one in row.members]
            return {name: float(np.mean([v[name] for v in values])) for name in draws[0]}, mean_of(draws)

        (mine, my_draws), (theirs, their_draws) = of(first), of(second)
        found = []
        for name in ("mrr",) if kind == RANKING else ("ap", "auc"):
            low, high = interval(my_draws[name] - their_draws[name]) or (None, None)
            value = mine[name] - theirs[name]
            found.append(Difference(first.name, second.name, kind, group, name, value, low, high, int(rows.sum())))
        return found

    def find(self, first: str, second: str, kind: str, metric: str, group: str = "all") -> Difference | None:
        wanted = (first, second, kind, group, metric)
        return next((d for d in self.differences if (d.first, d.second, d.kind, d.group, d.metric) == wanted), None)

    def next_error(self, row: Row) -> float | None:
        """Expected calibration error of the first choice for the next destination, of a row's first run."""
        p, correct = row.members[0].next_probability, row.members[0].next_correct
        return None if p is None or correct is None else choice_error(p, correct)

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain numbers, for JSON."""
        rows = {}
        for row in self.study.scoring:
            kinds = {
                kind: {group: {name: asdict(f) for name, f in figures.items()} for group, figures in groups.items()}
                for kind, groups in self.table[row.name].items()
            }
            rows[row.name] = {
                "trained": row.is_trained,
                "runs": len(row.members),
                "spread": self.spread_of(row),
            } | kinds
            rows[row.name] |= {"next_calibration_error": self.next_error(row)}
        return {
            "events": len(self.study.events),
            "of_events": self.study.of_events,
            "candidates": self.study.candidates,
            "fallback": {kind: drawn.fallback_fraction for kind, drawn in self.study.drawn.items()},
            "blocks": self.blocks.count,
            "rows": rows,
            "differences": [asdict(one) for one in self.differences],
        }


def _rows(one: RunScores, group: str) -> np.ndarray:
    return np.ones_like(one.new) if group == "all" else ~one.new if group == "seen" else one.new


def _metrics(one: RunScores, kind: str, rows: np.ndarray) -> dict[str, Any]:
    if kind == RANKING:
        return of_enough(one.ranks[rows], rank_metrics)
    return of_enough(one.scores[kind][rows], Scores.metrics)


def over_time(row: Row, kind: str, edges: np.ndarray) -> np.ndarray:
    """AUC (mean over runs) of consecutive test events between the rows `edges`; NaN if undefined."""
    stretches = [slice(*ends) for ends in pairwise(edges.tolist())]
    found = [[one.scores[kind][stretch].metrics()["auc"] for one in row.members] for stretch in stretches]
    return np.array(found, np.float64).mean(1)
