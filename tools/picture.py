"""Draw docs/img/published.svg, the picture of the README, and write its table of results.

What others publish is in results/published.toml; ours are the `default` rows of results/best.jsonl, what `pintgn train`
does without any setting, as means over the seeds that there are. A row per method, a panel per data set; a filled dot
is for all events (transductive), a ring for those with a new node (inductive). Three rows are ours: each query as of
its own time, with positions brought up to date once per block of 200 events, and with everything brought up to date so,
as others do.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from statistics import mean
from typing import Any

from paper.paired import Interval
from pintgn.drawing.svg import document, element, path, tip
from pintgn.formatting import spread_of

ROOT = Path(__file__).parents[1]
PICTURE, README = ROOT / "docs" / "img" / "published.svg", ROOT / "README.md"
OURS = {"pintgn": "papers", "pintgn, by blocks": "blocks", "pintgn, all stale": "stale"}
INK, FAINT, LINE, MARK = "#1d2433", "#6b7383", "#dfe3e9", "#c2571a"
NAMES, PANEL, GAP, ROW, TOP = 168, 206, 36, 25, 58
TABLE = re.compile(r"(<!-- results:begin[^\n]*-->\n).*?(<!-- results:end -->)", re.S)


def best_rows(data: str) -> list[dict[str, Any]]:
    """The newest default run of each seed on a data set."""
    lines = (ROOT / "results" / "best.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if (row["task"], row["row"]) == ("best", f"default/{data}")]
    return list({row["seed"]: row for row in rows}.values())


def figures(rows: list[dict[str, Any]], view: str) -> tuple[list[float], list[float]]:
    """AP over 200-row chunks, all and new, of each seed, in percent."""
    all_new = [[100 * row["test"][view]["random"][group]["chunked_ap"] for row in rows] for group in ("all", "new")]
    return all_new[0], all_new[1]


def collected() -> dict[str, dict[str, Any]]:
    """By data set: its name, and (all, new) of every method, ours last."""
    published = tomllib.loads((ROOT / "results" / "published.toml").read_text())
    for data, one in published.items():
        rows = best_rows(data)
        for name, view in OURS.items() if rows else ():
            one["methods"][name] = [mean(values) for values in figures(rows, view)]
    return published


# -- the picture -----------------------------------------------------------------------------------------------------


def axis(rows: dict[str, list[float]]) -> tuple[float, float, float]:
    """Lowest and highest value of a panel, in whole ticks, and their distance."""
    values = [value for pair in rows.values() for value in pair]
    span = max(values) - min(values)
    tick = 1.0 if span < 4 else 2.0 if span < 12 else 5.0
    return min(values) // tick * tick, -(-max(values) // tick) * tick, tick


def draw(sets: dict[str, dict[str, Any]]) -> str:
    """The whole picture."""
    names = list(dict.fromkeys(name for one in sets.values() for name in one["methods"]))
    width, height = NAMES + (PANEL + GAP) * len(sets) - 10, TOP + ROW * len(names) + 32
    legend = "events of new nodes · AP in percent, further right is better"
    parts = [
        dot(NAMES + 6, 16, FAINT),
        words(NAMES + 16, 20.5, "all events", fill=FAINT),
        ring(NAMES + 106, 16, FAINT),
        words(NAMES + 116, 20.5, legend, fill=FAINT),
    ]
    for place, name in enumerate(names):
        look = {"fill": MARK, "font_weight": 700} if name in OURS else {"fill": INK}
        parts.append(words(NAMES - 14, TOP + ROW * (place + 0.5) + 4.5, name, text_anchor="end", **look))
    for number, one in enumerate(sets.values()):
        parts += panel(one["name"], one["methods"], names, NAMES + (PANEL + GAP) * number)
    title = "Average precision of published methods and pintgn"
    return document("\n".join(parts), width, height, title, font_family="system-ui, sans-serif", font_size=13)


def words(x: float, y: float, text: str, **look: Any) -> str:
    return element("text", text, x=x, y=y, **look)


def dot(x: float, y: float, color: str, about: str = "") -> str:
    return element("circle", tip(about), cx=x, cy=y, r=5, fill=color)


def ring(x: float, y: float, color: str, about: str = "") -> str:
    return element("circle", tip(about), cx=x, cy=y, r=4.2, fill="#fff", stroke=color, stroke_width=1.8)


def panel(title: str, rows: dict[str, list[float]], names: list[str], left: float) -> list[str]:
    """One data set: a grid, and two dots for each method."""
    low, high, tick = axis(rows)
    bottom = TOP + ROW * len(names)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * PANEL

    parts = [words(left, TOP - 10, title, fill=INK, font_weight=700)]
    for step in range(round((high - low) / tick) + 1):
        value = low + step * tick
        parts.append(element("path", d=path("M", x(value), TOP, "V", bottom), stroke=LINE))
        parts.append(words(x(value), bottom + 18, f"{value:g}", fill=FAINT, font_size=11, text_anchor="middle"))
    for place, name in enumerate(names):
        if name not in rows:
            continue
        y, color = TOP + ROW * (place + 0.5), MARK if name in OURS else FAINT
        every, new = rows[name]
        line = {"stroke": color, "stroke_width": 1.5, "opacity": 0.5}
        parts += [
            element("path", d=path("M", x(new), y, "H", x(every)), **line),
            ring(x(new), y, color, f"{name}, {title}, new nodes: {new:.2f}"),
            dot(x(every), y, color, f"{name}, {title}, all events: {every:.2f}"),
        ]
    return parts


# -- the table -------------------------------------------------------------------------------------------------------


def table(sets: dict[str, dict[str, Any]]) -> str:
    """Best published beside ours, for all events and for new nodes, and what it cost."""
    fresh = ["pintgn", "95 % of the mean", "", "positions by block", "all by block"]
    heads = ["test AP", "the paper", "best published", "seeds", *fresh, "one core"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for data, one in sets.items():
        others = {name: pair for name, pair in one["methods"].items() if name not in OURS}
        rows = best_rows(data)
        for group, which in enumerate(("all", "new nodes")) if rows else ():
            paper, best = others["PINT (paper)"][group], max(pair[group] for pair in others.values())
            found = [figures(rows, view)[group] for view in OURS.values()]
            interval = Interval.of(found[0])
            cells = [f"{one['name']}, {which}", f"{paper:.2f}", f"{best:.2f}", f"{len(rows)}"]
            cells.append(f"**{spread_of(found[0])}**")
            cells += [str(interval), interval.against(best), *map(spread_of, found[1:])]
            cells.append(f"{mean(row['processor_seconds'] for row in rows):.0f} s" if not group else "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sets = collected()
    PICTURE.write_text(draw(sets))
    text = README.read_text()
    README.write_text(TABLE.sub(lambda found: found[1] + table(sets) + found[2], text))
    print("wrote docs/img/published.svg and the table in README.md")
