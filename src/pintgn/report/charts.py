"""Charts of a report: figures with whiskers, learning curves, scores, calibration, test time, slices, data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pintgn.drawing.curves import Curve, curves
from pintgn.drawing.plot import Axis, Plot, Point, dot_plot, padded
from pintgn.events.log import EventLog
from pintgn.formatting import count, short, signed
from pintgn.learn.figures_text import AS_NUMBERS, HEADS
from pintgn.learn.metrics import LEAST
from pintgn.learn.protocol import Parts
from pintgn.report.figures import GROUPS, RANKING, Figure, Figures, over_time
from pintgn.report.labels import duration, percent, percent_tick, time_label, time_ticks
from pintgn.report.slices import Slice, in_slice
from pintgn.report.spread import BootstrapBlocks
from pintgn.report.study import Row, Study

Words = Callable[[float], str]
BINS, COLORS = 60, 6
GROUP_WORDS = {"all": "all events", "seen": "seen nodes", "new": "new nodes"}


def heads(columns: Sequence[tuple[str, str]]) -> list[str]:
    """Column heads of a table of (group, metric)."""
    names = HEADS | {"chunked_ap": "AP"}
    below = {group: words.removesuffix(" events") for group, words in GROUP_WORDS.items()}
    shown = [
        (names.get(metric, metric.capitalize()), "200-row chunks" if metric == "chunked_ap" else below[group])
        for group, metric in columns
    ]
    return ["", *(f"{name}<br><small>{words}</small>" for name, words in shown)]


def series(study: Study) -> dict[str, str]:
    """CSS class of each row, which gives its color on every chart; training-free rows are gray."""
    colors = {row.name: f"s{k % COLORS}" for k, row in enumerate(study.trained)}
    return colors | {row.name: f"h{k}" for k, row in enumerate(study.baselines)}


def _point(figure: Figure, words: str) -> Point | None:
    if figure.value is None:
        return None
    off = figure.spread or 0.0
    tip = f"{words}: {percent(figure.value)}" + (f" ± {percent(figure.spread)}" if figure.spread is not None else "")
    return figure.value, figure.value - off, figure.value + off, tip


def by_negatives(figures: Figures) -> str:
    """AP of every row against every kind of negatives."""
    columns = {kind: (kind, "all") for kind in figures.study.drawn}
    return _compared(figures, columns, "ap", "AP (%), all events", "by kind of negatives")


def by_novelty(figures: Figures, kind: str, metric: str) -> str:
    """A figure of every row for all events, those between seen nodes, and those with a new one."""
    study = figures.study
    tables = [figures.table[row.name][kind] for row in study.scoring]
    groups = [group for group in GROUPS if any(table[group][metric].value is not None for table in tables)]
    among = f"among {study.candidates} others" if kind == RANKING else f"against {kind} negatives"
    columns = {GROUP_WORDS[group]: (kind, group) for group in groups}
    return _compared(figures, columns, metric, f"{HEADS[metric]} (%) {among}", f"by novelty, {among}")


def _compared(figures: Figures, columns: dict[str, tuple[str, str]], metric: str, label: str, about: str) -> str:
    """A line for each (kind, group), with a dot for every row."""
    colors = series(figures.study)
    rows = []
    for row in figures.study.scoring:
        table = figures.table[row.name]
        points = [_point(table[kind][group][metric], f"{row.name}, {word}") for word, (kind, group) in columns.items()]
        rows.append((colors[row.name], points))
    return dot_plot(list(columns), rows, x_label=label, words=percent_tick, name=f"{HEADS[metric]} {about}").svg()


def differences(figures: Figures, first: str, second: str) -> str:
    """Paired differences of two rows with their 95 % intervals."""
    shown = [d for d in figures.differences if (d.first, d.second) == (first, second) and d.metric != "auc"]
    words = [
        ("MRR" if d.kind == RANKING else f"{d.kind} {HEADS[d.metric]}") + ("" if d.group == "all" else f", {d.group}")
        for d in shown
    ]
    points = [
        (
            d.value,
            d.value if d.low is None else d.low,
            d.value if d.high is None else d.high,
            f"{word}: {signed(d.value)} points" + ("" if d.low is None else f" ({signed(d.low)} to {signed(d.high)})"),
        )
        for d, word in zip(shown, words, strict=True)
    ]
    return dot_plot(
        words,
        [(series(figures.study)[first], points)],
        x_label="difference in points, 95 % interval",
        words=lambda v: "+" * (v > 0) + percent_tick(v),
        zero=True,
        name=f"{first} minus {second}",
    ).svg()


# -- learning --------------------------------------------------------------------------------------------------------


def loss(study: Study) -> str | None:
    """Training loss by epoch, a line for each run."""
    return _curves(study, lambda entry: entry["loss"], "training loss", short, "{:.4f}".format, False)


def validation(study: Study, group: str = "all") -> str | None:
    """The figure that a task is known by on validation, by epoch; a ring marks the epoch that was chosen."""
    first = next(run.history[0]["val"]["all"] for _, run in study.runs if run.history)
    metric = next(name for name in first if name != "events")
    share, where = metric not in AS_NUMBERS, "" if group == "all" else f", {GROUP_WORDS[group]}"
    label = f"validation {HEADS.get(metric, metric)}{' (%)' * share}{where}"
    ticks: tuple[Words, Words] = (percent_tick, percent) if share else (short, "{:.4f}".format)
    return _curves(study, lambda entry: entry["val"][group].get(metric), label, *ticks, True)


def _curves(study: Study, of: Callable[[Any], Any], label: str, ticks: Words, words: Words, ring: bool) -> str | None:
    """A value by epoch; None if no epoch has it."""
    shown = [
        Curve(
            series(study)[row.name],
            f"{row.name}, seed {run.seed}",
            [entry["epoch"] for entry in run.history],
            [np.nan if (value := of(entry)) is None else value for entry in run.history],
            run.best_epoch if ring else None,
        )
        for row, run in study.runs
        if run.history
    ]
    plot = curves(shown, label, ticks, words)
    return None if plot is None else plot.svg()


# -- scores ----------------------------------------------------------------------------------------------------------


def score_histogram(study: Study, row: Row) -> str:
    """Histograms of the scores of true links and negatives, of the row's first run."""
    one = row.members[0]
    kinds = study.kinds("historical")
    shown = [one.scores[study.main].positive, *(one.scores[kind].negative for kind in kinds)]
    both = np.concatenate(shown)
    low, high = np.quantile(both, [0.002, 0.998])
    low, high = (low - 1, high + 1) if low == high else (low, high)
    edges = np.linspace(low, high, 41)
    heights = [np.histogram(np.clip(values, low, high), edges)[0] / len(values) for values in shown]
    y = Axis(0, max(h.max() for h in heights) * 1.12, "share (%)", words=percent_tick)
    plot = Plot(Axis(low, high, "score (logit)"), y, name=f"Scores of {row.name}")
    plot.area(edges.tolist(), heights[0].tolist(), "yes")
    for k, height in enumerate(heights[1:]):
        plot.area(edges.tolist(), height.tolist(), ("no", "maybe")[k])
    return plot.svg()


def reliability(study: Study, following: bool) -> str | None:
    """Observed frequency by predicted probability, of each row's first run: of links against one random destination, or
    of the first choice for the next destination; None if no row has probabilities."""
    rows = {}
    for row in study.scoring:
        one = row.members[0]
        if following and one.next_probability is not None and one.next_correct is not None:
            rows[row.name] = binned(one.next_probability, one.next_correct)
        elif not following and one.calibration is not None:
            scores = one.scores[study.main]
            likely = one.calibration(np.concatenate([scores.positive, scores.negative]))
            rows[row.name] = binned(likely, np.repeat([1.0, 0.0], len(scores)))
    if not rows:
        return None
    quarters = [(v, percent(v, 0)) for v in (0, 0.25, 0.5, 0.75, 1)]
    x = "probability of the first choice (%)" if following else "probability against a random one (%)"
    y = "it was the next (%)" if following else "true links (%)"
    plot = Plot(Axis(0, 1, x, quarters), Axis(0, 1, y, quarters), name=f"Calibration: {y} by {x}")
    plot.diagonal()
    for name, points in rows.items():
        plot.line([p for p, _, _ in points], [f for _, f, _ in points], series(study)[name])
        for p, frequency, examples in points:
            tip = f"{name}: of {count(examples)} given about {percent(p, 0)} %, {percent(frequency, 0)} % were true"
            plot.dot(p, frequency, series(study)[name], tip)
    return plot.svg()


def binned(p: np.ndarray, truth: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """(mean probability, share that was true, examples) of equally filled bins."""
    order = np.array_split(np.argsort(p, kind="stable"), bins)
    return [(float(p[r].mean()), float(truth[r].mean()), len(r)) for r in order if len(r)]


# -- test time -------------------------------------------------------------------------------------------------------


def stretches(events: int, most: int = 20, least: int = 25) -> np.ndarray:
    """Rows that cut events into at most `most` stretches of at least `least`."""
    return np.linspace(0, events, max(1, min(most, events // least)) + 1).astype(int)


def through_test(study: Study, kind: str) -> str | None:
    """AUC along the test part."""
    edges = stretches(len(study.events))
    if len(edges) < 4:
        return None
    t, unit = study.events.t, study.log.schema.time
    start = study.log.t[0]
    middle = [float(t[(a + b) // 2]) for a, b in pairwise(edges.tolist())]
    lines = {row.name: over_time(row, kind, edges) for row in study.scoring}
    values = np.concatenate(list(lines.values()))
    span = padded(float(np.nanmin(values)), float(np.nanmax(values)), 0.08)
    origin = start if unit.unit is None else t[0]
    ticks = [tick for tick in time_ticks(origin, t[-1], unit, 6) if tick[0] >= t[0]]
    x = Axis(float(t[0]), float(t[-1]), time_label(unit, t[0], t[-1]), ticks)
    plot = Plot(x, Axis(*span, f"AUC (%) against {kind} negatives", words=percent_tick))
    for row in reversed(study.scoring):
        color = series(study)[row.name]
        plot.line(middle, lines[row.name].tolist(), color, dash=not row.is_trained)
        for k, value in enumerate(lines[row.name].tolist()):
            around = unit.show(t[(edges[k] + edges[k + 1]) // 2])
            tip = f"{row.name}, {count(edges[k + 1] - edges[k])} events around {around}: {percent(value)}"
            plot.dot(middle[k], value, color, tip, radius=2.4)
    return plot.svg()


# -- slices ----------------------------------------------------------------------------------------------------------


def by_slice(study: Study, slices: Sequence[Slice], label: str, blocks: BootstrapBlocks) -> str:
    """MRR of every row slice by slice; gray bars are shares of the test events."""
    ticks = [(float(k), part.label) for k, part in enumerate(slices)]
    y = Axis(0, 1.04, "MRR (%), bars: share of test events (%)", words=percent_tick)
    plot = Plot(Axis(-0.5, len(slices) - 0.5, label, ticks), y)
    for k, part in enumerate(slices):
        share = part.events / len(study.events)
        tip = f"{part.label}: {count(part.events)} test events ({percent(share, 1)} %)"
        plot.bar(k - 0.5, k + 0.5, 0, share, "ghost", tip, gap=4)
    shown = study.scoring
    for index, row in enumerate(shown):
        shift = (index - (len(shown) - 1) / 2) * min(0.16, 0.6 / len(shown))
        found = [in_slice(row, part, blocks) for part in slices]
        color = series(study)[row.name]
        for k, (value, error) in enumerate(found):
            if slices[k].events < LEAST:
                continue
            off = error or 0.0
            plot.whisker((k + shift, max(value - off, 0)), (k + shift, min(value + off, 1)), color)
            spread = "" if error is None else f" ± {percent(error, 1)}"
            tip = f"{row.name}, {slices[k].label}: {percent(value, 1)}{spread}"
            plot.dot(k + shift, value, color, tip, radius=3)
    return plot.svg()


# -- data -----------------------------------------------------------------------------------------------------------


def events_over_time(parts: Parts) -> str:
    """A histogram of times over training, validation and test part."""
    log, unit = parts.log, parts.log.schema.time
    low, high = log.t[0], log.t[-1]
    bins = min(BINS, max(len(log.group_starts), 1))
    edges = np.linspace(float(low), float(high), bins + 1)
    heights, _ = np.histogram(log.t.astype(np.float64), edges)
    step = duration((float(high) - float(low)) / bins, unit)
    x = Axis(float(low), float(high), time_label(unit, low, high), time_ticks(low, high, unit))
    plot = Plot(x, Axis(0, heights.max() * 1.12, f"events per {step}"), name="Events over time")
    borders = [float(low), *(float(part.t[0]) for part in (parts.val, parts.test)), float(high)]
    for k, words in enumerate((("training",), ("validation", "val"), ("test",))):
        plot.span(borders[k], borders[k + 1], f"part{k}", words)
    for k, height in enumerate(heights):
        at = unit.show(log.t.dtype.type(edges[k]))
        plot.bar(edges[k], edges[k + 1], 0, height, "ink", f"{count(height)} events from {at}", gap=0.4)
    return plot.svg()


def novelty(log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """True for events whose pair, and whose two nodes, occur in an earlier row."""
    pair = log.src * np.int64(max(log.nodes, 1)) + log.dst
    ends = seen_before(np.stack([log.src, log.dst], 1).ravel())
    return seen_before(pair), ends[::2] & ends[1::2]


def seen_before(values: np.ndarray) -> np.ndarray:
    """True for values that occur earlier in the array."""
    seen = np.ones(len(values), bool)
    seen[np.unique(values, return_index=True)[1]] = False
    return seen


def links_over_time(log: EventLog) -> str:
    """Shares of repeated links, new links between known nodes and links of a new node, over the log."""
    seen_pair, seen_nodes = novelty(log)
    edges = np.unique(np.linspace(0, len(log), min(40, len(log)) + 1).astype(int))
    y = Axis(0, 1, "share of events (%)", words=percent_tick)
    plot = Plot(Axis(0, len(log), "events, in order of time"), y, name="New and repeated links")
    for first, last in pairwise(edges.tolist()):
        again = float(seen_pair[first:last].mean())
        fresh = float((~seen_nodes[first:last]).mean())
        rest = 1 - again - fresh
        floor = 0.0
        for share, series, word in (
            (again, "k0", "repeated links"),
            (rest, "k1", "new links between known nodes"),
            (fresh, "k2", "links of a new node"),
        ):
            tip = f"events {first:,} to {last - 1:,}: {percent(share, 1)} % {word}"
            plot.bar(first, last, floor, floor + share, series, tip, gap=0.3)
            floor += share
    return plot.svg()
