"""Tables of our best results: for the terminal, and between the marks of docs/best.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean

from paper.page import between_marks
from paper.paired import Interval, Paired
from paper.results import Row, made_by
from paper.training_free import TRAINING_FREE
from pintgn.errors import BadFile
from pintgn.files import write_file
from pintgn.formatting import spread_of, text_table

SETS = {"uci": "UCI", "enron": "Enron", "wikipedia": "Wikipedia"}
OTHERS = {
    "uslegis": "US Legis: 12 times, 5,000 events each",
    "bitcoin_otc": "Bitcoin OTC: pairs never repeat",
    "digg_reply": "Digg: pairs hardly repeat",
    "radoslaw_email": "Radoslaw: 167 colleagues",
}
"""Logs that nothing was chosen on."""
PUBLISHED = {"uci": (97.35, 95.74), "enron": (93.22, 90.97), "wikipedia": (99.33, 98.94)}
"""The best published AP, all and new, random negatives: TPNet, DyG-Mamba, TFWaveFormer (Wikipedia with features)."""
KINDS = {
    "historical": {"uci": 93.96, "enron": 88.19, "wikipedia": 91.33},
    "inductive": {"uci": 86.95, "enron": 84.23, "wikipedia": 88.98},
}
"""The best published AP against other kinds of negatives, by models trained on random ones. Historical: PINT in others'
hands, RepeatMixer(F) on Enron. Inductive: TFWaveFormer, RepeatMixer(F) on Wikipedia."""
MRR = 0.8284
"""The best published MRR on tgbl-wiki: smoothed counts; TPNet has .827."""
VIEWS = {
    "papers": "as of each query",
    "blocks": "positions by block",
    "stale": "everything by block",
    "stream": "deployed stream",
}
TRAINED = {"default": "", "blocks": ", trained with positions by block", "stale": ", trained by block"}
"""Rows by how fresh what they look up is, in training too."""
PARTS = {
    "without-pair-history": "without pair_history at the readout",
    "one-question": "trained on random negatives alone",
    "without-positions": "without positions",
}

SIMPLER = {
    "default": "pintgn",
    "boosted": "boosted trees",
    "heuristic": "heuristic",
    "edgebank": "EdgeBank",
    "source-destination-recency": "source + destination recency",
    "pair-recency": "pair recency",
}

Table = tuple[list[str], list[list[str]]]


def row_line(row: Row) -> str:
    """One line for a row that is done."""
    if row["task"] == "rank":
        told = ", ".join(f"{view} {figures['all']['mrr']:.4f}" for view, figures in row["ranking"].items())
        return f"{row['row']}, seed {row['seed']}: MRR {told}"
    told = ", ".join(f"{view} {_percent(row, view)[0]:.2f}/{_percent(row, view)[1]:.2f}" for view in VIEWS)
    others = ", ".join(f"{kind} {_percent(row, 'papers', kind)[0]:.2f}" for kind in KINDS)
    return f"{row['row']}, seed {row['seed']}: {told}; {others}; {row['wall_seconds']:.0f} s"


def text(rows: Sequence[Row]) -> str:
    """All tables, for a terminal."""
    tables = [f"{title}\n\n{text_table(*table, left=1)}" for title, table in _tables(rows) if table[1]]
    return "\n\n".join([*tables, made_by(rows)])


def markdown(rows: Sequence[Row]) -> str:
    """All tables, for a page."""
    found = ""
    for title, (head, body) in _tables(rows):
        if not body:
            continue
        lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
        lines += ["| " + " | ".join(line) + " |" for line in body]
        found += f"### {title}\n\n" + "\n".join(lines) + "\n\n"
    return f"{found}{made_by(rows)}\n\n"


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """Write the tables between the marks of a page that is there."""
    try:
        text = between_marks(path.read_text(encoding="utf-8"), markdown(rows), path)
        write_file(path, text)
    except OSError as error:
        raise BadFile(f"cannot read or write {path}: {error.strerror or error}.") from error


def _tables(rows: Sequence[Row]) -> list[tuple[str, Table]]:
    return [
        ("Random negatives: AP over chunks of 200", _random(rows)),
        ("Other kinds of negatives: AP over chunks of 200, the same models", _other_kinds(rows)),
        (
            "Compared with simpler models: AP over chunks of 200, as of each query / everything by block",
            _simpler_models(rows),
        ),
        ("Other logs: AP over chunks of 200, all / new nodes", _elsewhere(rows)),
        ("Ranked against all destinations (tgbl-wiki)", _ranking(rows)),
        ("Ablations: AP without a part minus AP with it, random negatives, as of each query", _parts(rows)),
    ]


def _random(rows: Sequence[Row]) -> Table:
    head = ["", "seeds", "best published", *VIEWS.values(), "processor"]
    body = []
    for model, how in TRAINED.items():
        for data, some in _by_data(rows, model, "best"):
            shown = [model] if model in ("blocks", "stale") else [*VIEWS]
            # wall time says how busy the machine was
            seconds = f"{mean(row['processor_seconds'] for row in some):.0f} s"
            for k, group in enumerate(("all", "new nodes")):
                published = PUBLISHED[data][k]
                found = {view: [_percent(row, view)[k] for row in some] for view in shown}
                cells = (_judged(found.get(view, []), None if view == "stream" else published) for view in VIEWS)
                body.append([f"{SETS[data]}, {group}{how}", str(len(some)), f"{published:.2f}", *cells, seconds])
    return head, body


def _judged(values: Sequence[float], published: float | None, digits: int = 2) -> str:
    """Mean ± sample deviation (95 % interval of the mean), and on which side of the published figure that is."""
    if not values:
        return "-"
    interval = Interval.of(values)
    verdict = "" if published is None else f" {interval.against(published)}"
    return f"{spread_of(values, digits)} ({interval.shown(digits)}){verdict}"


def _other_kinds(rows: Sequence[Row]) -> Table:
    head = ["", "seeds", "best published", *(VIEWS[view] for view in ("papers", "stale")), "one score for all kinds"]
    body = []
    for kind, published in KINDS.items():
        for data, some in _by_data(rows, "default", "best"):
            views = (
                _judged([_percent(row, view, kind)[0] for row in some], published[data]) for view in ("papers", "stale")
            )
            one = _judged([_percent(row, "papers", kind, "one_score")[0] for row in some], published[data])
            body.append([f"{SETS[data]}, {kind}", str(len(some)), f"{published[data]:.2f}", *views, one])
    return head, body


def _simpler_models(rows: Sequence[Row]) -> Table:
    """Each kind of negatives in turn: the best published figure, ours, and those of boosted trees and no training."""
    shown = [data for data in SETS if any(row["model"] in TRAINING_FREE and row["data"] == data for row in rows)]
    body = []
    for kind in ("random", *KINDS) if shown else ():
        best = KINDS.get(kind) or {data: figures[0] for data, figures in PUBLISHED.items()}
        body.append([f"{kind}, best published", "-", *(f"{best[data]:.2f}" for data in shown)])
        lines = [(model, name, "test") for model, name in SIMPLER.items()]
        if kind in KINDS:
            lines.insert(1, ("default", "pintgn, one score for all kinds", "one_score"))
        for model, name, score in lines:
            if found := dict(_by_data(rows, model, "best")):
                cells = (_fresh_and_stale(found.get(data, []), kind, score) for data in shown)
                seeds = sorted({len(some) for some in found.values()})
                body.append([f"{kind}, {name}", " to ".join(map(str, seeds)), *cells])
    return ["", "seeds", *(SETS[data] for data in shown)], body


def _elsewhere(rows: Sequence[Row]) -> Table:
    """Ours, boosted trees and the heuristic in both protocols, on logs that nothing was chosen on."""
    ways = (("papers", "random"), ("stream", "random"), ("papers", "historical"))
    head = ["", "seeds", "as of each query", "deployed stream", "historical negatives, as of each query"]
    body = []
    for data, about in OTHERS.items():
        for model in ("default", "boosted", "heuristic"):
            some = [row for row in rows if (row["data"], row["model"], row["task"]) == (data, model, "best")]
            if some:
                cells = (
                    " / ".join(spread_of([_percent(row, view, kind)[k] for row in some]) for k in (0, 1))
                    for view, kind in ways
                )
                body.append([f"{about}, {SIMPLER[model]}", str(len(some)), *cells])
    return head, body


def _fresh_and_stale(some: Sequence[Row], kind: str, score: str) -> str:
    """All events, as of each query and with everything by block."""
    views = ([_percent(row, view, kind, score)[0] for row in some] for view in ("papers", "stale"))
    return " / ".join(spread_of(values) for values in views if values) or "-"


def _ranking(rows: Sequence[Row]) -> Table:
    views = {view: name for view, name in VIEWS.items() if view != "stream"}
    head = ["", "seeds", "best published", *views.values()]
    body = []
    for measure, name, digits, published in (
        ("mrr", "MRR", 4, MRR),
        ("hits@1", "Hits@1", 2, None),
        ("hits@10", "Hits@10", 2, None),
    ):
        for model, how in TRAINED.items():
            for data, some in _by_data(rows, model, "rank"):
                scale = 1 if measure == "mrr" else 100
                found = {
                    view: [scale * row["ranking"][view]["all"][measure] for row in some if view in row["ranking"]]
                    for view in views
                }
                cells = (_judged(values, published, digits) for values in found.values())
                best = "-" if published is None else f"{published:.{digits}f}"
                body.append([f"{SETS[data]}{how}, {name}", str(len(some)), best, *cells])
    return head, body


def _parts(rows: Sequence[Row]) -> Table:
    """The default without a part minus the default, seed by seed."""
    whole = dict(_by_data(rows, "default", "best"))
    body: list[list[str]] = []
    for model, name in PARTS.items():
        found = dict(_by_data(rows, model, "best"))
        for k, group in enumerate(("all events", "new nodes")) if found else ():
            of = {data: _by_seed(found.get(data, []), k) for data in SETS}
            cells = (str(Paired.of(of[data], _by_seed(whole.get(data, []), k))) if of[data] else "-" for data in SETS)
            body.append([f"{name}, {group}", *cells])
    return ["", *SETS.values()], body


def _by_seed(some: Iterable[Row], group: int) -> dict[int, float]:
    return {row["seed"]: _percent(row, "papers")[group] for row in some}


def _by_data(rows: Iterable[Row], model: str, task: str) -> list[tuple[str, list[Row]]]:
    chosen = [row for row in rows if row["model"] == model and row["task"] == task]
    return [(data, some) for data in SETS if (some := [row for row in chosen if row["data"] == data])]


def _percent(row: Row, view: str, kind: str = "random", score: str = "test") -> tuple[float, float]:
    """Chunked AP of all events and of those that touch new nodes."""
    figures = row[score][view][kind]
    return 100 * figures["all"]["chunked_ap"], 100 * (figures["new"]["chunked_ap"] or float("nan"))
