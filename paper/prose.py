"""Figures that pages state in prose, held against the results that they quote.

Below prose that states figures stands a list, invisible on the page, of where each comes from:

    <!-- figures
    90.01 = best default/enron papers random new
    90.97 = published enron new
    0.96 = published enron new - best default/enron papers random new
    94.6, 87.0 = elsewhere: trials on validation
    behind = best default/enron papers random new - published enron new
    -->

It speaks for all prose since the list or heading before it, figure by figure, in order. A figure is a number with a
decimal point, with or without its ± spread. `ahead`, `behind` and `not decided` are figures, too: what the 95 %
interval of a difference says, or of each of several with semicolons between them. Code, links and tables are no prose:
tables are generated, or are the record of what they say. Sources:

    best ROW VIEW KIND GROUP      our row of results/best.jsonl: chunked AP, mean over seeds
    one-score ROW VIEW KIND GROUP the same, by one score for all kinds of negatives
    rank ROW VIEW MEASURE         our row of that file: a measure of ranking, as a fraction
    paper ROW FIGURE              our row of results/paper.jsonl: all, new or auc
    printed ROW FIGURE            what the paper prints for that row
    published DATA WHAT           the best published figure: all, new, historical, inductive or mrr
    … seed N                      one seed instead of the mean
    A - B                         the difference of two of these
    elsewhere: WHY                in no file of results; not checked
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from paper.best_page import KINDS, MRR, PUBLISHED
from paper.jobs import ROOT, SETTINGS
from paper.paired import AHEAD, BEHIND, OPEN, Interval
from paper.results import Results, Row
from paper.tables import figure_of
from pintgn.errors import BadInput
from pintgn.formatting import spread_of
from pintgn.learn.settings_files import published_rows

VERDICTS = (AHEAD, BEHIND, OPEN)
PAGES = {"README.md": "## Results", "docs/best.md": "# Our best", "docs/results.md": "# Results"}
"""Pages that state our results, and the heading from which on every figure must say where it comes from."""
LIST = re.compile(r"^<!-- figures\n(.*?)^-->\n?", re.M | re.S)
FIGURE = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)\d*\.\d+(?: ± \d*\.\d+)?(?![\w.]*\d)"
    rf"|\b(?:{'|'.join(VERDICTS)})\b"
)
NO_PROSE = re.compile(
    r"^<!-- (?P<mark>\w+):begin.*?^<!-- (?P=mark):end[^\n]*|^```.*?^```|^ *\|[^\n]*|`[^`]*`|\]\([^)]*\)", re.M | re.S
)


def problems(page: str, text: str, sources: Sources) -> list[str]:
    """What is wrong with the figures of a page, a line each: a list that does not fit its prose, or a figure that is
    not what its source says."""
    found, checked = [], False
    for heading, prose, listed in sections(text):
        checked = checked or heading == PAGES.get(page)
        stated, names = FIGURE.findall(prose), [figure for figure, _ in listed]
        if stated != names and (checked or names):
            found.append(f"{page}, {heading!r}, states {_short(stated)}; its list of figures has {_short(names)}.")
        for figure, source in listed:
            if not source.startswith("elsewhere: ") and (now := sources.shown(source, figure)) != figure:
                found.append(f"{page} states {figure}; {source} is {now}.")
    return found


def _short(figures: list[str]) -> str:
    return ", ".join(figures) or "none"


def sections(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The page, cut at headings and lists: the heading, prose below it, and its list of figures with their sources."""
    heading = ""
    for part in re.split(r"(?=^#+ )", NO_PROSE.sub("", text), flags=re.M):
        heading = part.partition("\n")[0] if part.startswith("#") else heading
        pieces = LIST.split(part)  # prose, list, prose, …, prose
        for prose, listed in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
            lines = [line.partition(" = ") for line in listed.splitlines()]
            yield heading, prose, [(one, source.strip()) for names, _, source in lines for one in names.split(", ")]


class Sources:
    """The files of results, asked by the words of a list."""

    def __init__(self, folder: Path = ROOT / "results"):
        self.best = list(Results(folder / "best.jsonl").newest().values())
        self.paper = list(Results(folder / "paper.jsonl").newest().values())
        self.printed = published_rows(SETTINGS)

    def shown(self, source: str, like: str) -> str:
        """What a source says now, with as many digits as a figure has."""
        if like in VERDICTS:
            return ", ".join(dict.fromkeys(self.verdict(*pair.split(" - ")) for pair in source.split("; ")))
        digits = len(like.partition(" ")[0].partition(".")[2])
        terms = [self.values(term) for term in source.split(" - ")]
        if "±" in like:
            text = spread_of(terms[0], digits)
        else:
            text = f"{mean(terms[0]) - sum(mean(term) for term in terms[1:]):.{digits}f}"
        return text.removeprefix("0") if like.startswith(".") else text

    def verdict(self, mine: str, theirs: str) -> str:
        """Whether one is ahead of the other: seed by seed if both are ours, otherwise by the mean of ours."""
        ours, others = self.by_seed(mine), self.by_seed(theirs)
        if len(others) > 1:
            return Interval.of([ours[seed] - others[seed] for seed in ours.keys() & others.keys()]).against(0)
        return Interval.of(list(ours.values())).against(next(iter(others.values())))

    def values(self, source: str) -> list[float]:
        """Every seed of one source."""
        return list(self.by_seed(source).values())

    def by_seed(self, source: str) -> dict[int, float]:
        """The figure of every seed of one source; what others published has one."""
        words, _, seed = source.partition(" seed ")
        try:
            found = self._values(words.split(), int(seed) if seed else None)
        except (KeyError, ValueError) as error:
            raise BadInput(f"{source!r} is no source of figures; paper/prose.py lists them.") from error
        if not found:
            raise BadInput(f"{source!r}: there is no such row among the results.")
        return found

    def _values(self, words: list[str], seed: int | None) -> dict[int, float]:
        def rows(among: list[Row], task: str, row: str) -> list[Row]:
            return [one for one in among if (one["task"], one["row"]) == (task, row) and seed in (None, one["seed"])]

        match words:
            case ["best" | "one-score" as score, row, view, kind, group]:
                name = "test" if score == "best" else "one_score"
                found = rows(self.best, "best", row)
                return {one["seed"]: 100 * one[name][view][kind][group]["chunked_ap"] for one in found}
            case ["rank", row, view, measure]:
                found = rows(self.best, "rank", row)
                return {one["seed"]: one["ranking"][view]["all"][measure] for one in found if view in one["ranking"]}
            case ["paper", row, figure]:
                done = rows(self.paper, "nodes" if figure == "auc" else "links", row)
                return {one["seed"]: 100 * value for one in done if (value := figure_of(one, figure)) is not None}
            case ["printed", row, figure]:
                return {0: self.printed[row][figure][0]}
            case ["published", data, "all" | "new" as group]:
                return {0: PUBLISHED[data][group == "new"]}
            case ["published", "wikipedia", "mrr"]:
                return {0: MRR}
            case ["published", data, kind]:
                return {0: KINDS[kind][data]}
        raise ValueError(words)
