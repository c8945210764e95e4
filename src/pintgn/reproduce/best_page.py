"""Tables of our best results: for the terminal, and for docs/best.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

from pintgn.learn.tables import text_table
from pintgn.reproduce.results import Row

PUBLISHED = {"uci": (97.35, 95.74), "enron": (93.22, 90.97), "wikipedia": (99.32, 98.91)}
"""The best published AP, all and new, random negatives: TPNet, DyG-Mamba, TPNet."""
HISTORICAL = {"uci": 93.96, "enron": 85.41, "wikipedia": 91.33}
"""The best published AP against historical negatives: PINT, in others' hands."""
MRR = 0.827
"""The best published MRR on tgbl-wiki: TPNet."""
VIEWS = ("papers", "blocks", "stream")


def row_line(row: Row) -> str:
    """One line for a row that is done."""
    if row["task"] == "rank":
        return f"{row['row']}, seed {row['seed']}: MRR {row['ranking']['all']['mrr']:.4f}"
    told = (f"{view} {_pair(row, view, 'random')}" for view in VIEWS)
    against = _percent(row, "papers", "historical", "all")
    return f"{row['row']}, seed {row['seed']}: {', '.join(told)}; historical {against:.2f}; {row['wall_seconds']:.0f} s"


def text(rows: Iterable[Row]) -> str:
    """All that is there, as tables for a terminal."""
    return text_table(*_cells(rows), left=2)


def markdown(rows: Iterable[Row]) -> str:
    """The same for a page."""
    head, body = _cells(rows)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 2 + "---:|" * (len(head) - 2)]
    return "\n".join([*lines, *("| " + " | ".join(line) + " |" for line in body)]) + "\n"


def _cells(rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Chunked AP by row and data set: mean ± standard deviation over seeds."""
    head = ["row", "data", "seeds", "papers all", "papers new", "blocks all", "blocks new", "stream all", "stream new"]
    head += ["historical", "MRR", "train s"]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["data"]), []).append(row)
    body = []
    for (model, data), some in groups.items():
        judged = [row for row in some if row["task"] == "best"]
        ranked = [row["ranking"]["all"]["mrr"] for row in some if row["task"] == "rank"]
        if not judged:
            continue
        line = [model, data, str(len(judged))]
        for view in VIEWS:
            for group in ("all", "new"):
                line.append(spread([_percent(row, view, "random", group) for row in judged]))
        line.append(spread([_percent(row, "papers", "historical", "all") for row in judged]))
        line += [spread(ranked, 4) if ranked else "", f"{mean(row['training_seconds'] for row in judged):.0f}"]
        body.append(line)
    return head, body


def spread(values: Sequence[float], digits: int = 2) -> str:
    """
    >>> spread([97.8, 97.9]), spread([97.8])
    ('97.85 ± 0.07', '97.80')
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def _percent(row: Row, view: str, kind: str, group: str) -> float:
    return 100 * row["test"][view][kind][group]["chunked_ap"]


def _pair(row: Row, view: str, kind: str) -> str:
    return "/".join(f"{_percent(row, view, kind, group):.2f}" for group in ("all", "new"))
