"""Tables of our best results: for the terminal, and between the marks of docs/best.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean

from paper.page import between_marks
from paper.results import Row
from pintgn.errors import BadFile
from pintgn.files import write_file
from pintgn.formatting import spread_of, text_table

SETS = {"uci": "UCI", "enron": "Enron", "wikipedia": "Wikipedia"}
PUBLISHED = {"uci": (97.35, 95.74), "enron": (93.22, 90.97), "wikipedia": (99.32, 98.91)}
"""The best published AP, all and new, random negatives: TPNet, DyG-Mamba, TPNet (Wikipedia with edge features)."""
HISTORICAL = {"uci": 93.96, "enron": 85.41, "wikipedia": 91.33}
"""The best published AP against historical negatives: PINT, in others' hands."""
MRR = 0.827
"""The best published MRR on tgbl-wiki: TPNet."""
VIEWS = ("papers", "blocks", "stream")
PARTS = {
    "default": "as it is",
    "without-pair-history": "without pair_history at the readout",
    "without-age": "without the age of each contact",
    "without-both": "without both",
    "without-positions": "without positions",
    "constant-rate": "with a constant learning rate",
}

Table = tuple[list[str], list[list[str]]]


def row_line(row: Row) -> str:
    """One line for a row that is done."""
    if row["task"] == "rank":
        return f"{row['row']}, seed {row['seed']}: MRR {row['ranking']['all']['mrr']:.4f}"
    told = ", ".join(f"{view} {_percent(row, view)[0]:.2f}/{_percent(row, view)[1]:.2f}" for view in VIEWS)
    return f"{row['row']}, seed {row['seed']}: {told}; historical {_historical(row):.2f}; {row['wall_seconds']:.0f} s"


def text(rows: Sequence[Row]) -> str:
    """All tables, for a terminal."""
    return "\n\n".join(f"{title}\n\n{text_table(*table, left=1)}" for title, table in _tables(rows) if table[1])


def markdown(rows: Sequence[Row]) -> str:
    """All tables, for a page."""
    found = ""
    for title, (head, body) in _tables(rows):
        lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
        lines += ["| " + " | ".join(line) + " |" for line in body]
        found += f"### {title}\n\n" + "\n".join(lines) + "\n\n"
    return found


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """Write the tables between the marks of a page that is there."""
    try:
        text = between_marks(path.read_text(encoding="utf-8"), markdown(rows), path)
        write_file(path, text)
    except OSError as error:
        raise BadFile(f"cannot read or write {path}: {error.strerror or error}.") from error


def _tables(rows: Sequence[Row]) -> list[tuple[str, Table]]:
    return [
        ("Random negatives: AP over chunks of 200, all / new nodes", _random(rows)),
        ("Historical negatives: AP over chunks of 200", _against_history(rows)),
        ("Ranked against all destinations (tgbl-wiki)", _ranking(rows)),
        ("What each part is worth (random negatives, one seed, papers' protocol, all / new)", _parts(rows)),
    ]


def _random(rows: Sequence[Row]) -> Table:
    head = ["", "seeds", "best published", "papers' protocol", "positions by block", "deployed stream", "processor"]
    body = []
    for model in ("default", "ranking"):
        for data, some in _by_data(rows, model, "best"):
            both = [[spread_of([_percent(row, view)[k] for row in some]) for k in (0, 1)] for view in VIEWS]
            name = SETS[data] + ("" if model == "default" else ", trained to rank")
            published = " / ".join(f"{figure:.2f}" for figure in PUBLISHED[data])
            seconds = (
                f"{mean(row['processor_seconds'] for row in some):.0f} s"  # wall time says how busy the machine was
            )
            body.append([name, str(len(some)), published, *(" / ".join(pair) for pair in both), seconds])
    return head, body


def _against_history(rows: Sequence[Row]) -> Table:
    head = [
        "",
        "seeds",
        "best published",
        "trained with historical negatives",
        "the same against random ones",
        "default",
    ]
    plain = dict(_by_data(rows, "default", "best"))
    body = []
    for data, some in _by_data(rows, "historical", "best"):
        beside = spread_of([_historical(row) for row in plain[data]]) if data in plain else ""
        ours, random = (
            spread_of([_historical(row) for row in some]),
            spread_of([_percent(row, "papers")[0] for row in some]),
        )
        body.append([SETS[data], str(len(some)), f"{HISTORICAL[data]:.2f}", ours, random, beside])
    return head, body


def _ranking(rows: Sequence[Row]) -> Table:
    head = ["", "seeds", "best published MRR", "MRR", "Hits@1", "Hits@10"]
    body = []
    for model, name in (("ranking", "trained to rank (5 negatives)"), ("default", "default")):
        for data, some in _by_data(rows, model, "rank"):
            figures = [[row["ranking"]["all"][key] for row in some] for key in ("mrr", "hits@1", "hits@10")]
            shown = [spread_of(figures[0], 4), *(spread_of([100 * x for x in column]) for column in figures[1:])]
            body.append([f"{SETS[data]}, {name}", str(len(some)), f"{MRR:.3f}", *shown])
    return head, body


def _parts(rows: Sequence[Row]) -> Table:
    first = {(row["model"], row["data"]): row for row in rows if row["task"] == "best" and row["seed"] == 0}
    shown = [data for data in SETS if any(key[1] == data and key[0] in PARTS for key in first)]
    body = []
    for model, name in PARTS.items():
        line = [name]
        for data in shown:
            row, whole = first.get((model, data)), first.get(("default", data))
            if row is None:
                line.append("-")
                continue
            told = " / ".join(f"{figure:.2f}" for figure in _percent(row, "papers"))
            if whole is not None and model != "default":
                pairs = zip(_percent(row, "papers"), _percent(whole, "papers"), strict=True)
                told += " (" + " / ".join(f"{mine - base:+.2f}" for mine, base in pairs) + ")"
            line.append(told)
        body.append(line)
    return ["", *(SETS[data] for data in shown)], body


def _by_data(rows: Iterable[Row], model: str, task: str) -> list[tuple[str, list[Row]]]:
    chosen = [row for row in rows if row["model"] == model and row["task"] == task]
    return [(data, some) for data in SETS if (some := [row for row in chosen if row["data"] == data])]


def _percent(row: Row, view: str, kind: str = "random") -> tuple[float, float]:
    """Chunked AP of all events and of those that touch new nodes."""
    figures = row["test"][view][kind]
    return 100 * figures["all"]["chunked_ap"], 100 * (figures["new"]["chunked_ap"] or float("nan"))


def _historical(row: Row) -> float:
    return _percent(row, "papers", "historical")[0]
