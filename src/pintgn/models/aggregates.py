"""What is usual for the source, the destination, the pair and everyone: counts, means and deviations over windows.

Of every feature that is known with its event, and of what is asked about events once that is known; all as of the
query's own time. A mean is drawn towards everyone's as if by one more event, so that one event is not taken for a rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.models.history_view import HistoryView
from pintgn.neighbors.running_sums import CHAINS, RunningSums

MOST_COLUMNS = 16
"""Feature columns that sums are kept of; more than these are seldom quantities that one would add up."""
MOST_TARGETS = 8
"""Columns of what is asked about, such as shares of classes, that there are aggregates of; of more, only what
`question_features` has."""
WINDOWS = 3
"""Windows that are chosen from a log with dates."""
SHARE_OF_SPAN = 1.5
"""The training part is at least so many of the longest window long; of times without a unit, twice as many."""
SECONDS = (60, 600, 3_600, 21_600, 86_400, 7 * 86_400, 30 * 86_400, 90 * 86_400, 365 * 86_400, 1_826 * 86_400)
"""Windows of logs with dates: a minute, ten, an hour, six, a day, 7, 30 and 90 days, a year and five."""
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NEWEST = (1, 3, 10)
"""Moments whose mean is taken, besides windows."""
ROOM = 0.05
"""Added to deviations that something is divided by; features are in units of their own deviation."""
FAR = 20.0
"""No value is further from a mean, in deviations."""
ALL = CHAINS.index("all")


def chosen_windows(train: EventLog) -> list[float]:
    """The longest windows that fit well into a training part, in the log's own unit: of dates, as people count; of
    numbers, whose unit nobody knows, a third of it and a quarter of each. None where nothing would be summed."""
    if not len(train) or not (summed_columns(train.schema) or (train.schema.asking and train.schema.asking.late)):
        return []
    longest, unit = (float(train.t[-1]) - float(train.t[0])) / SHARE_OF_SPAN, train.schema.time.unit
    if unit is None:
        least = 1 if train.t.dtype.kind == "i" else 0
        return [step for step in (longest / 32, longest / 8, longest / 2) if step >= least and step > 0]
    steps = [float(seconds * PER_SECOND[unit]) for seconds in SECONDS]
    return [step for step in steps if step <= longest][-WINDOWS:]


def summed_columns(schema: Schema) -> list[int]:
    """The feature columns that sums are kept of: none of a log with relations, nor of one with very many columns."""
    if schema.relation is not None:
        return []
    kinds = [feature.kind for feature in schema.features for _ in range(feature.width)]
    found = [column for column in range(schema.late.start) if kinds[column] != "hash"]
    return found if len(found) <= MOST_COLUMNS else []


class Aggregates:
    """The columns for a schema and windows: `names`, and `look_up`."""

    def __init__(self, schema: Schema, windows: list[float], unit: float):
        self.windows, self.unit, self.schema = windows, unit, schema
        self.chains = (0, ALL) if schema.alone else (0, 1, 2, ALL) if schema.separate_namespaces else range(len(CHAINS))
        columns, asking = schema.feature_columns(), schema.asking
        self.summed = summed_columns(schema)
        given = () if asking is None or asking.relations else asking.given
        self.given = [k for k, column in enumerate(given) if column in self.summed]  # of what comes with a question …
        self.given_at = [self.summed.index(given[k]) for k in self.given]  # … and which of the sums it is held against
        late = 0 if asking is None or not asking.late else asking.late - 1
        first = 1 if late > 1 else 0  # shares of classes add up to one
        self.late = slice(first, late) if late - first <= MOST_TARGETS else slice(0, 0)
        targets = columns[schema.late][:-1][self.late]
        self.names = self._names([columns[k] for k in self.summed], [columns[given[k]] for k in self.given])
        self.names += self._names(targets, [], "known ")

    def _names(self, values: list[str], given: list[str], what: str = "") -> list[str]:
        if not values:
            return []
        who = _people(self.schema)
        chains = [who[CHAINS[k]] for k in self.chains]
        spans = [f" of {_shown(window, self.schema)}" for window in self.windows] + [""]
        names = [f"{what}events of {chain}{span}" for chain in chains for span in spans]
        names += [f"recency of {what}events of {chain}{span}" for chain in chains for span in (*spans[:-1], "")]
        for stat in ("mean", "deviation", "total"):
            names += [f"{chain}'s {stat} of {what}{v}{span}" for chain in chains for span in spans for v in values]
        names += [
            f"{chain}'s {what}{v}, mean of the last {k}" if k > 1 else f"{chain}'s last {what}{v}"
            for chain in chains
            for k in NEWEST
            for v in values
        ]
        for sign in ("−", "in deviations from"):
            names += [f"{v} {sign} {chain}'s mean{span}" for chain in chains for span in spans for v in given]
        return names

    def look_up(self, query: Query, history: HistoryView) -> np.ndarray:  # (q, a), or (q c, a)
        """The columns of each query; of destinations (q, c), a row for each pair."""
        count = query.dst.size // max(len(query), 1)
        src, dst, t, given = query.src, query.dst.ravel(), history.t, query.given
        if query.dst.ndim > 1:
            src, t = src.repeat(count), t.repeat(count)
            given = None if given is None else given.repeat(count, 0)
        parts = []
        if self.summed:
            assert history.sums is not None
            parts += self._columns(history.sums, src, dst, t, slice(None), given)
        if self.late.stop:
            assert history.late is not None
            parts += self._columns(history.late.index, src, dst, t, self.late, None)
        return np.concatenate(parts, 1) if parts else np.zeros((len(src), 0), np.float32)

    def _columns(
        self, index: RunningSums, src: np.ndarray, dst: np.ndarray, t: np.ndarray, kept: slice, given: np.ndarray | None
    ) -> list[np.ndarray]:
        windows = np.array(self.windows)
        found = index.look_up(src, dst, t, windows, NEWEST, self.chains)
        width, everyone = found.last.shape[-1], list(self.chains).index(ALL)
        n = found.count.astype(np.float32)[..., None]  # (q, chains, windows + 1, 1)
        sums, squares = found.sums[..., :width][..., kept], found.sums[..., width:][..., kept]
        most = np.maximum(found.count[:, everyone, -1], 1)[:, None]  # (q, 1)
        usual, usual_square = sums[:, everyone, -1] / most, squares[:, everyone, -1] / most  # (q, c)
        mean = (sums + usual[:, None, None]) / (n + 1)
        deviation = np.sqrt(np.maximum((squares + usual_square[:, None, None]) / (n + 1) - mean**2, 0))
        there = n[:, :, -1] > 0  # (q, chains, 1)
        spans = np.append(windows, self.unit)
        recency = np.exp2(-found.dt[..., None] / spans) * there
        last = np.where(there[..., None], found.last[..., kept], usual[:, None, None])
        parts = [np.log1p(n), recency, mean, deviation, np.sign(sums) * np.log1p(np.abs(sums)), last]
        if given is not None and self.given:
            mine = given[:, None, None, self.given] - mean[..., self.given_at]
            parts += [mine, np.clip(mine / (deviation[..., self.given_at] + ROOM), -FAR, FAR)]
        return [part.reshape(len(src), -1).astype(np.float32) for part in parts]


def _people(schema: Schema) -> dict[str, str]:
    """The chains in the words of the log."""
    u, v = schema.src, schema.dst
    pair = f"{u} and {v}"
    other = {"u as destination": f"{u} as {v}", "v as source": f"{v} as {u}", "v to u": f"{v} to {u}"}
    return {"u": u, "v": v, "u to v": pair, "all": "everyone"} | other


def _shown(window: float, schema: Schema) -> str:
    """A window as a person writes it."""
    unit = schema.time.unit
    if unit is None:
        return f"{window:g}"
    seconds = window / PER_SECOND[unit]
    words = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
    size, word = next(((size, word) for size, word in words if seconds >= size), (1, "second"))
    return f"{seconds / size:g} {word}{'' if seconds == size else 's'}"


def checked_windows(windows: Sequence[float] | None) -> list[float] | None:
    """Windows as a setting, refused unless they are lengths of time."""
    if windows is None:
        return None
    listed = isinstance(windows, Sequence) and not isinstance(windows, str)
    if not listed or not all(type(window) in (int, float) and 0 < window <= 2.0**62 for window in windows):
        raise BadInput(f"windows={windows!r}; a list of lengths of time above 0 in the log's own unit, as [60, 3600].")
    return [float(window) for window in windows]
