"""`write_report`: one HTML page about runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pintgn.display.progress import phases, takes_progress
from pintgn.drawing.plot import chart_style
from pintgn.errors import BadInput
from pintgn.files import replacing, write_errors
from pintgn.formatting import plural
from pintgn.learn.negatives import Negatives
from pintgn.learn.run import Run
from pintgn.report import about, headline, results
from pintgn.report.figures import RANKING, Figures
from pintgn.report.labels import percent
from pintgn.report.markup import page, text, unbroken
from pintgn.report.study import Progress, Steps, open_runs, study


@dataclass(frozen=True)
class Report:
    """A written report: its path, headline and every figure."""

    path: Path
    headline: str
    summary: list[str]
    figures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"report": str(self.path), "headline": self.headline, "summary": self.summary} | self.figures

    def __str__(self) -> str:
        return "\n".join([self.headline + ".", *self.summary])


@takes_progress(phases)
def write_report(
    runs: Run | str | Path | Sequence[Run | str | Path],
    output: str | Path = "report.html",
    *,
    names: Sequence[str] | None = None,
    negatives: Mapping[str, Negatives] | None = None,
    rank: int | str = 20,
    seed: int = 0,
    progress: Progress | bool | None = None,
    steps: Steps | None = None,
) -> Report:
    """Write one self-contained page about one or more runs on the same data.

    The page needs no network and no other file. The same runs give the same page, byte for byte.

    Args:
        runs: results of `fit`, run folders, or folders of `seed-*` runs; on the same data with the same test part.
        output: the HTML file, written atomically.
        names: of the rows, one for each run; by default from model names and settings.
        negatives: your own kinds of negatives by name; the page leads with the first.
        rank: how many destinations each test event is ranked against, or `"all"`.
        seed: of the negatives that all runs share.
        progress: True for a bar, or a function that is called with the name of each phase.
        steps: called with the events done in a phase and their total.
    """
    assert callable(progress)  # by `takes_progress`
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"{target} does not end in .html; the report is an HTML page.")
    found = open_runs(runs)
    if found[0].answers and not found[0].task.tells_from_negatives:
        return _write_task_page(found, target)
    with replacing(target) as part:  # a file that cannot be written is found before anything is measured
        figures = Figures(study(found, names, negatives, rank, seed, progress, steps))
        progress("drawing")
        report = Report(target, *_opening(figures), figures.to_dict())
        html = _page(figures, report)
        with write_errors(target):
            part.write_text(html, encoding="utf-8")
    return report


def _write_task_page(runs: list[Run], target: Path) -> Report:
    """Write a page about runs that predict a column."""
    from pintgn.report import task_page

    title = {run.task.title() for run in runs}
    if len(title) > 1 or any(run.task.tells_from_negatives or not run.test for run in runs):
        raise BadInput("a report compares runs that have ended and are asked the same; write one page for each.")
    report = Report(
        target,
        task_page.headline(runs[0]),
        [line for line in (task_page.verdict(runs[0]),) if line],
        task_page.figures(runs),
    )
    body = (
        f'<header><p class="brand">pintgn report · {text(title.pop())} · {plural(len(runs[0].log), "event")}</p>'
        f"<h1>{unbroken(text(report.headline))}</h1>"
        f'<p class="verdict">{unbroken(text(" ".join(report.summary)))}</p></header>\n'
        f"<main>\n{task_page.body(runs)}\n</main>\n<footer>Written by pintgn.</footer>"
    )
    style = resources.files("pintgn.report").joinpath("style.css").read_text(encoding="utf-8") + chart_style()
    with replacing(target) as part, write_errors(target):
        part.write_text(page(f"{report.headline} · pintgn report", style, body), encoding="utf-8")
    return report


def _opening(figures: Figures) -> tuple[str, list[str]]:
    if figures.study.models:
        return headline.headline(figures), headline.summary(figures)
    names = ", ".join(row.name for row in figures.study.trained)
    next_step = "It does not score links. Its embeddings: pintgn embed RUN -o vectors.parquet."
    return f"{names} embeds nodes", [next_step]


def _page(figures: Figures, report: Report) -> str:
    study = figures.study

    def scored(section: Callable[[Figures], str]) -> str:
        return section(figures) if study.models else ""

    sections = {
        ("results", "Results"): scored(results.results),
        ("differences", "Differences"): scored(results.differences),
        ("data", "Data"): about.data(study),
        ("learning", "Learning"): scored(results.learning),
        ("scores", "Scores"): scored(results.scores),
        ("time", "Over time"): scored(results.over_time),
        ("positions", "Positions"): scored(results.positions),
        ("failures", "Where it fails"): scored(results.failures),
        ("cost", "Cost"): about.cost(study),
        ("settings", "Settings"): about.settings(study),
        ("reproduce", "Reproduce"): about.reproduce(study),
        ("notes", "Notes"): about.notes(study),
    }
    links = "".join(f'<a href="#{name}">{title}</a>' for (name, title), html in sections.items() if html)
    events = plural(len(study.log), "event")
    names = ", ".join(row.name for row in study.trained)
    body = (
        f'<header><p class="brand">pintgn report · {text(names)} · {events}</p>'
        f"<h1>{unbroken(text(report.headline))}</h1>"
        f'<p class="verdict">{unbroken(text(" ".join(report.summary)))}</p>{tiles(figures)}</header>\n'
        f"<nav><div>{links}</div></nav>\n<main>\n" + "\n".join(filter(None, sections.values())) + "\n</main>\n"
        "<footer>Written by pintgn. The page is complete: it loads nothing and can be sent as it is.</footer>"
    )
    style = resources.files("pintgn.report").joinpath("style.css").read_text(encoding="utf-8") + chart_style()
    return page(f"{names} · pintgn report", style, body)


def tiles(figures: Figures) -> str:
    """Four figures of the best row, with those of the best training-free row."""
    if not figures.study.models:
        return ""
    row, other = headline.best_row(figures), headline.baseline(figures)
    main = figures.study.main
    has_new = figures.table[row.name][main]["new"]["ap"].value is not None
    kinds = [
        (f"AP, {headline.negatives_of(main)}", main, "all", "ap"),
        ("AP, new nodes", main, "new", "ap")
        if has_new
        else (f"AUC, {headline.negatives_of(main)}", main, "all", "auc"),
        ("AP, historical negatives", "historical", "all", "ap"),
        (f"MRR among {figures.study.candidates}", RANKING, "all", "mrr"),
    ]
    made = ""
    for title, kind, group, metric in kinds:
        figure = figures.table[row.name][kind][group][metric]
        spread = "" if figure.spread is None else f" <small>± {percent(figure.spread, 1)}</small>"
        theirs = None if other is None else figures.table[other.name][kind][group][metric]
        below = "" if theirs is None or other is None else f"<span>{text(other.name)} {percent(theirs.value, 1)}</span>"
        made += (
            f'<div class="tile"><span class="what">{text(title)}</span><b>{percent(figure.value, 1)}{spread}</b>'
            f"{below}</div>"
        )
    return f'<div class="tiles">{made}</div>'


__all__ = ["Report", "write_report"]
