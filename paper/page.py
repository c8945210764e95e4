"""The Markdown page of all results, written between two marks of a page that may say more."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from paper.claims import claims, every_row, same_epoch
from paper.jobs import LAYOUT, MODELS, SETS
from paper.results import Row, made_by
from paper.sets import missing
from paper.tables import (
    HALVES,
    Cell,
    Published,
    cell,
    cells_of,
    columns_of,
    end_of,
    features_of,
    halves_of,
    rows_of,
    seconds,
)
from pintgn.errors import BadFile, BadInput
from pintgn.files import write_errors, write_file

BEGIN = "<!-- reproduce:begin"
END = "<!-- reproduce:end"
FIRST_LINE = f"{BEGIN} · everything between these two marks is written by `python -m paper … --page` -->"
LAST_LINE = f"{END} -->"

Notes = Mapping[str, str]
"""What we know about a row that stands out, by row; `*` is said below all of them."""


def write_page(path: Path, newest: Mapping[str, Row], published: Published, notes: Notes | None = None) -> list[Path]:
    """Write the tables between the marks of a page (a new one if there is none), and the plots beside it."""
    from paper.plots import write_plots

    with write_errors(path):
        before = path.read_text(encoding="utf-8") if path.exists() else f"# Results\n\n{FIRST_LINE}\n{LAST_LINE}\n"
        text = between_marks(before, "", path)  # a page without marks is refused before a plot is drawn
        path.parent.mkdir(parents=True, exist_ok=True)
        plots = write_plots(path.parent / "img", newest, published)
        text = between_marks(before, render(newest, published, notes or {}, plots), path)
        write_file(path, text)
    return [path, *plots.values()]


def between_marks(page: str, text: str, path: Path) -> str:
    """A page with new text between its marks; all the rest is kept."""
    pattern = re.compile(rf"^{re.escape(BEGIN)}[^\n]*\n.*?^{re.escape(END)}[^\n]*$", re.M | re.S)
    if len(pattern.findall(page)) != 1:
        raise BadInput(f"{path} needs one line that begins with {BEGIN!r} and one after it with {END!r}; put them in.")
    return pattern.sub(lambda _: f"{FIRST_LINE}\n{text}{LAST_LINE}", page)


def read_notes(path: Path) -> Notes:
    """Notes on rows, from a TOML file; none when there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise BadFile(f"cannot read the notes in {path}: {error}.") from error


def render(newest: Mapping[str, Row], published: Published, notes: Notes, plots: Mapping[str, Path]) -> str:
    """All sections."""
    drawn = {name: f"img/{path.name}" for name, path in plots.items()}
    curves = _picture("curves", "validation AP by epoch", drawn)
    parts = [INTRODUCTION, _claims(newest), _table("table1", newest, published) + (CURVES + curves if curves else "")]
    parts += [_table("table2", newest, published)]
    parts += [_dims(newest, published, drawn), _time(newest, drawn), _nodes(newest, published, drawn)]
    parts += [_differences(newest, published, notes), _rows(newest), made_by(newest.values())]
    return "\n\n".join(part for part in parts if part) + "\n"


INTRODUCTION = """
## Reproduction of the paper

Every row of the paper's tables, trained and measured as the paper does it: its settings
([paper/paper.toml](../paper/paper.toml)), 70 / 15 / 15 by time, one random negative per event, AP averaged over
chunks of 200 rows, memory and positions refreshed once per batch, at most 50 epochs and five without improvement.

```
python -m paper all --data-folder FOLDER --page results.md    # or a part: table1, table2, dims, time, nodes
```

makes it all (`make reproduce` with the sets that `pintgn data fetch` keeps), can be stopped at any time, and goes on
where it ended; `--dry-run` says what it would cost. All rows with their settings, seeds, versions, times and validation
curves are in [results/paper.jsonl](../results/paper.jsonl).

How to read the tables: ours first (mean ± standard deviation where there are several seeds), below it *the paper's
figure and the difference, in points*. A star marks rows with a run that was stopped at its cap of processor time and
measured with its best validation epoch so far; the list at the end says at which epoch. Such rows might still improve.
""".strip()


NO_BREAK = "\N{NO-BREAK SPACE}"


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = [":---" if k < left else "---:" for k in range(len(heads))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, rule, *lines))


def _place(one: Cell) -> str:
    """A place of a table: ours, below it the paper's figure, below that the difference; no figure is ever wrapped."""
    lines = [one.ours().replace("*", "\\*")]
    if one.paper is not None:
        lines.append(f"*{one.theirs()}*")
    if one.difference is not None:
        lines.append(f"*{one.beside()}*")
    return "<br>".join(lines).replace(" ± ", NO_BREAK.join(("", "±", "")))


def _claims(newest: Mapping[str, Row]) -> str:
    lines = [[one.sentence, one.verdict().replace("*", "\\*")] for one in claims(newest)]
    text = f"### The claims of the paper, tested\n\n{VERDICTS}\n\n"
    text += _markdown(["claim", "here"], lines, left=2)
    pairs = (("PINT", "pint", "pint-plain"), ("TGN-Att", "tgn-positions", "tgn"))
    said = [(name, same_epoch(one, other, newest)) for name, one, other in pairs]
    alike = [f"- {name} with against without positions. {'; '.join(places)}." for name, places in said if places]
    return text + ("\n\nAt the same epoch, validation AP:\n\n" + "\n".join(alike) if alike else "")


VERDICTS = """
Two rows are compared on the seeds that both have, which hide the same nodes and draw the same negatives: the mean
difference in points, in brackets its 95 % interval (Student's t over the paired differences) and the number of seeds
that were paired. A claim *holds* where the interval is above zero, *does not hold* where it is below, and is *not
decided* where it contains zero, where fewer than two seeds are common, or where the row that is behind was stopped at
its cap. Against several rows the closest one is shown. Each place is judged by itself, so where there is no difference
about one in twenty would be decided by chance.
""".strip()

HEADINGS = {"table1": "### Table 1: link prediction, AP", "table2": "### Table 2: positions in TGN-Att, AP"}


def _table(table: str, newest: Mapping[str, Row], published: Published) -> str:
    """A table in the paper's layout."""
    columns, absent = columns_of(table, newest)
    heads = ["", "", *(_head(data, newest) for data in LAYOUT[table][1])]
    lines = []
    for figure, half in halves_of(table).items():
        for k, model in enumerate(LAYOUT[table][0]):
            cells = [cell(model, data, figure, newest, published) for data in LAYOUT[table][1]]
            lines.append([f"**{half}**" if k == 0 else "", MODELS[model], *map(_place, cells)])
    text = f"{HEADINGS[table]}\n\n{_markdown(heads, lines, left=2)}"
    if "wikipedia" in columns and not features_of("wikipedia", newest):
        text += "\n\n¹ Wikipedia here has no edge features; the paper's has 172."
    return text + _absent(absent, newest)


def _head(data: str, newest: Mapping[str, Row]) -> str:
    bare = data == "wikipedia" and any(row["data"] == data for row in newest.values()) and not features_of(data, newest)
    return SETS[data] + (" ¹" if bare else "")


def _absent(absent: Sequence[str], newest: Mapping[str, Row]) -> str:
    """What to do about data sets that nothing has been run on."""
    absent = [data for data in absent if all(row["data"] != data for row in newest.values())]
    lines = [
        f"- {SETS[data]} {missing(data).replace('pintgn data fetch ' + data, f'`pintgn data fetch {data}`')}."
        for data in absent
    ]
    lines = [line.replace("--data-folder FOLDER", "`--data-folder FOLDER`") for line in lines]
    return "\n\n" + "\n".join(lines) + "\n\nThese rows run the same way once the data is here." if lines else ""


CURVES = (
    "\n\nHow the runs of seed 0 learned. Where a line ends while it still rises, the run was capped; PINT with and "
    "without positions is best compared at the same epoch."
)


def _picture(name: str, about: str, drawn: Mapping[str, str]) -> str:
    return f"\n\n![{about}]({drawn[name]})" if name in drawn else ""


def _dims(newest: Mapping[str, Row], published: Published, drawn: Mapping[str, str]) -> str:
    from paper.jobs import DIMS

    columns, _ = columns_of("dims", newest)
    heads = ["d", *(f"{SETS[data]} {half.lower()}" for data in columns for half in HALVES.values())]
    lines = [
        [str(d), *(_place(cell(model, data, figure, newest, published)) for data in columns for figure in HALVES)]
        for d, model in DIMS.items()
    ]
    text = "### AP of PINT by the length of its positions\n\n" + _markdown(heads, lines)
    return (
        text + "\n\nThe paper prints two of these figures and draws the rest." + _picture("dims", "AP against d", drawn)
    )


def _time(newest: Mapping[str, Row], drawn: Mapping[str, str]) -> str:
    columns, absent = columns_of("time", newest)
    if not columns:
        return ""
    heads = ["", *(f"{SETS[data]} {kind}" for data in columns for kind in ("wall", "processor"))]
    lines = []
    loads = [row["load"] for row in newest.values() if row["task"] == "time" and row["ended"] != "failed"]
    machine = next(row["machine"] for row in newest.values() if row["task"] == "time" and row["ended"] != "failed")
    for model in LAYOUT["time"][0]:
        found = [next(rows_of("time", model, data, newest), None) for data in columns]
        done = [None if row is None or row["ended"] == "failed" else row for row in found]
        line = [seconds(row and row[name]) for row in done for name in ("epoch_wall", "epoch_processor")]
        lines.append([MODELS[model], *line])
        if any(row and row["positions_processor"] for row in done):
            rest = [_without_positions(row) for row in done]
            lines.append(["… without updating positions", *(part for one in rest for part in ("", one))])
    about = (
        f"Seconds of training per epoch, one thread on {machine['cores']} cores ({machine['processor']}), other "
        f"programs running beside it (load {min(loads):.1f} to {max(loads):.1f}), the models taking turns; processor "
        "time is the fairer column. As in the paper, every message-passing model has PINT's layers and neighbors, CAW "
        "its own sizes. The paper computes positions once, before training; here they are updated along with the "
        "events in every epoch, so there is no one-off cost: the row below PINT's is without what updating them costs."
    )
    text = f"### Time per epoch\n\n{about}\n\n{_markdown(heads, lines)}{_picture('time', 'seconds per epoch', drawn)}"
    return text + _absent(absent, newest)


def _without_positions(row: Row | None) -> str:
    return "-" if row is None else seconds(row["epoch_processor"] - row["positions_processor"])


def _nodes(newest: Mapping[str, Row], published: Published, drawn: Mapping[str, str]) -> str:
    columns, absent = columns_of("nodes", newest)
    if not columns:
        return ""
    lines = [
        [MODELS[model], *(_place(cell(model, data, "auc", newest, published)) for data in LAYOUT["nodes"][1])]
        for model in LAYOUT["nodes"][0]
    ]
    table = _markdown(["", *(_head(data, newest) for data in LAYOUT["nodes"][1])], lines)
    about = "A decoder on the frozen embeddings of the runs above tells which editors are about to be banned; AUC."
    return f"### Node classification\n\n{about}\n\n{table}{_picture('nodes', 'AUC', drawn)}{_absent(absent, newest)}"


def _differences(newest: Mapping[str, Row], published: Published, notes: Notes) -> str:
    """Every figure that differs by more than the paper's spread, and why, as far as we know."""
    cells = [one for table in ("table1", "table2", "dims", "nodes") for one in cells_of(table, newest, published)]
    out: dict[str, list[Cell]] = {}
    for one in dict.fromkeys(cells):
        if one.stands_out:
            out.setdefault(f"{one.model}/{one.data}", []).append(one)
    if not out:
        return ""
    lines = []
    for row, found in out.items():
        model, data = row.split("/")
        figures = ", ".join(f"{FIGURES[one.figure]} {one.beside()}" for one in found)
        lines.append([f"{MODELS[model]}, {SETS[data]}", figures, " ".join(_reasons(row, found, newest, notes))])
    head = "### Rows that differ from the paper by more than its spread\n\n"
    common = f"{notes['*']}\n\n" if "*" in notes else ""
    return head + common + _markdown(["row", "difference", "why, as far as we know"], lines, left=3)


FIGURES = {"all": "transductive", "new": "inductive", "auc": "AUC"}


def _reasons(row: str, found: Sequence[Cell], newest: Mapping[str, Row], notes: Notes) -> list[str]:
    reasons = []
    capped = [one for one in rows_of(found[0].task, found[0].model, found[0].data, newest) if one["ended"] == "capped"]
    if capped:
        reasons.append(f"{', '.join(dict.fromkeys(end_of(one) for one in capped)).capitalize()}.")
    if found[0].data == "wikipedia" and not features_of("wikipedia", newest):
        reasons.append("No edge features here.")
    if row in notes:
        reasons.append(notes[row])
    return reasons


def _rows(newest: Mapping[str, Row]) -> str:
    """Every row of links, with what it cost."""
    lines = []
    for row in every_row(newest):
        name = [SETS[row["data"]], MODELS[row["model"]], str(row["seed"])]
        if row["ended"] == "failed":
            lines.append([*name, f"failed: {row['error']}", "", "", "", "", ""])
            continue
        test = [f"{100 * row['test'][g]['chunked_ap']:.2f}" for g in ("all", "new")]
        cost = [seconds(row["processor_seconds"]), seconds(row["wall_seconds"]), f"{row['load']:.1f}"]
        lines.append([*name, end_of(row), str(row["best_epoch"]), *test, *cost])
    heads = ["data", "row", "seed", "ended", "best epoch", "AP", "new-node AP", "processor s", "wall s", "load"]
    return "### All runs\n\n" + _markdown(heads, [line + [""] * (10 - len(line)) for line in lines], left=4)
