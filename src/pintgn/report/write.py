"""`write_report`: one HTML page about runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pintgn.display.progress import counting, takes_progress
from pintgn.drawing.plot import chart_style
from pintgn.errors import BadInput
from pintgn.files import replacing, write_errors
from pintgn.formatting import plural
from pintgn.learn.negatives import Negatives
from pintgn.learn.run import Run
from pintgn.report import about, results, task_page
from pintgn.report.figures import Figures
from pintgn.report.markup import anchor, page, section, text, unbroken
from pintgn.report.study import Content, Progress, open_runs, study


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


@takes_progress(counting("measuring", "events"))
def write_report(
    runs: Run | str | Path | Sequence[Run | str | Path],
    output: str | Path = "report.html",
    *,
    names: Sequence[str] | None = None,
    negatives: Mapping[str, Negatives] | None = None,
    rank: int | str = 20,
    seed: int = 0,
    progress: Progress | bool | None = None,
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
        progress: True for a bar, or a function that is called with events done, events in all, and what is being done.
    """
    assert callable(progress)  # by `takes_progress`
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"{target} does not end in .html; the report is an HTML page.")
    found = open_runs(runs)
    with replacing(target) as part:  # a file that cannot be written is found before anything is measured
        if found[0].answers and not found[0].task.tells_from_negatives:
            content = task_page.content(found, names)
        else:
            measured = Figures(study(found, names, negatives, rank, seed, progress))
            content = results.content(measured)
        with write_errors(target):
            part.write_text(_page(content), encoding="utf-8")
    return Report(target, content.headline, content.summary, content.figures)


def _page(content: Content) -> str:
    """The whole page: the contents for its kind of question, and the sections of every report."""
    study = content.study
    sections = content.sections | {
        "Learning": about.learning(study),
        "Data": about.data(study),
        "Cost": about.cost(study),
        "Settings": about.settings(study),
        "Reproduce": about.reproduce(study),
        "Notes": content.notes,
    }
    shown = {title: html for title, html in sections.items() if html}
    links = "".join(f'<a href="#{anchor(title)}">{title}</a>' for title in shown)
    names = ", ".join(row.name for row in study.trained)
    body = (
        f'<header><p class="brand">pintgn report · {text(names)} · {plural(len(study.log), "event")}</p>'
        f"<h1>{unbroken(text(content.headline))}</h1>"
        f'<p class="verdict">{unbroken(text(" ".join(content.summary)))}</p>{content.tiles}</header>\n'
        f"<nav><div>{links}</div></nav>\n<main>\n"
        + "\n".join(section(title, html) for title, html in shown.items())
        + "\n</main>\n<footer>Written by pintgn. The page loads nothing and can be sent as it is.</footer>"
    )
    style = resources.files("pintgn.report").joinpath("style.css").read_text(encoding="utf-8") + chart_style()
    return page(f"{names} · pintgn report", style, body)


__all__ = ["Report", "write_report"]
