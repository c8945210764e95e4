"""Figures in prose are those of the results, and a figure that is not is found."""

from __future__ import annotations

import json

import pytest

from paper.prose import FIGURE, LIST, PAGES, VERDICTS, Sources, problems, sections
from pintgn.errors import BadInput
from tests.conftest import ROOT

LISTED = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
ENRON = "best default/enron papers random new"
PAGE = """# Our best

Lower on Enron ({} against 90.97, `--set x=0.5`), see [there](a/1.5.md). Also 1.5 Eqs.

| a table | 12.34 |
|---|---|

<!-- figures
{} = best default/enron papers random new
90.97 = published enron new
1.5 = elsewhere: of equations
-->

## Next

Nothing, under Apache-2.0.
"""


@pytest.fixture(scope="module")
def sources():
    return Sources()


def page(stated, listed=None):
    return PAGE.format(stated, stated if listed is None else listed)


@pytest.mark.parametrize("name", LISTED)
def test_no_page_states_a_figure_that_the_results_contradict(name, sources):
    assert problems(name, (ROOT / name).read_text(), sources) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_of_a_page_that_is_changed_in_prose_alone_or_in_both_is_found(name, sources):
    """Each figure in turn, also the spread: the list keeps the prose, and the results keep the list."""
    text = (ROOT / name).read_text()
    checked = [pair for _, _, listed in sections(text) for pair in listed if not pair[1].startswith("elsewhere")]
    assert checked
    for figure, source in checked:
        if figure in VERDICTS:
            wrong = VERDICTS[(VERDICTS.index(figure) + 1) % 3]
        else:
            wrong = figure[:-1] + str((int(figure[-1]) + 1) % 10)
        assert sources.shown(source, figure) != wrong
        entry = f"{figure} = {source}"
        assert problems(name, text.replace(entry, f"{wrong} = {source}"), sources), entry
        at = text.rindex(figure, 0, text.index(entry))
        assert problems(name, text[:at] + wrong + text[at + len(figure) :], sources), entry


def test_a_new_row_of_results_that_moves_a_figure_is_found(sources):
    true = sources.shown(ENRON, "00.00")
    assert problems("docs/best.md", page(true), sources) == []
    assert problems("docs/best.md", page("12.30"), sources) == [f"docs/best.md states 12.30; {ENRON} is {true}."]


def test_figures_without_a_list_and_lists_without_their_figure_are_found(sources):
    true = sources.shown(ENRON, "00.00")
    told = problems("docs/best.md", page("12.30", true), sources)
    assert told == [
        f"docs/best.md, '# Our best', states 12.30, 90.97, 1.5; its list of figures has {true}, 90.97, 1.5."
    ]
    assert "has none" in problems("docs/best.md", LIST.sub("", page(true)), sources)[0]
    assert problems("docs/tasks.md", LIST.sub("", page(true)), sources) == []  # only some pages have to list all
    assert problems("docs/tasks.md", page("12.30"), sources)


def test_figures_are_numbers_with_a_point_and_their_spread():
    assert FIGURE.findall("97.8, MRR .845; 96.02 ± 0.15 (3 seeds, 1e-3, v1.2.3, PINT-2.0), -0.5.") == [
        "97.8",
        ".845",
        "96.02 ± 0.15",
        "0.5",
    ]


def test_who_is_ahead_follows_from_the_interval_of_the_mean_or_of_the_difference_seed_by_seed(tmp_path):
    def row(model, seed, ap):
        figures = {"papers": {"random": {"all": {"chunked_ap": ap}}}}
        told = {"format": 1, "task": "best", "row": model, "seed": seed, "ended": "by itself", "test": figures}
        return json.dumps(told | {"job": f"{model} {seed}"})

    mine = {0: 0.9740, 1: 0.9750, 2: 0.9760}  # mean 97.50, 95 % by t(2): 97.25 to 97.75
    theirs = {0: 0.9738, 1: 0.9748, 2: 0.9757}  # behind by 0.02, 0.02, 0.03: surely, though the means overlap
    rows = [row(name, seed, ap) for name, some in (("a/uci", mine), ("b/uci", theirs)) for seed, ap in some.items()]
    (tmp_path / "best.jsonl").write_text("\n".join(rows))
    sources, a, b = Sources(tmp_path), "best a/uci papers random all", "best b/uci papers random all"
    assert sources.shown(f"{a} - {b}", "behind") == "ahead"
    assert sources.shown(f"{b} - {a}", "ahead") == "behind"
    assert sources.shown(f"{a} - published uci all", "ahead") == "not decided"  # 97.35
    assert sources.shown(f"{a} - published uci new", "behind") == "ahead"  # 95.74
    assert sources.shown(f"{a} - {b}; {a} - published uci all", "ahead") == "ahead, not decided"


def test_sources_are_shown_with_as_many_digits_as_the_figure_has(sources):
    enron = sources.values(ENRON)
    assert sources.shown(ENRON, "90.0") == f"{sum(enron) / len(enron):.1f}"
    assert sources.shown(f"{ENRON} seed 0", "90.00") == f"{enron[0]:.2f}"
    assert sources.shown("published uci all - published uci new", "1.61") == "1.61"  # 97.35 - 95.74
    assert sources.shown("rank default/wikipedia papers mrr", ".845").startswith(".8")
    assert " ± " in sources.shown(ENRON, "90.01 ± 0.47")


@pytest.mark.parametrize(
    "source", ["bets default/uci papers random all", "best default/uci papers random", "published uci old", "best x y"]
)
def test_a_source_that_does_not_exist_is_refused(source, sources):
    with pytest.raises(BadInput, match="no source of figures"):
        sources.shown(source, "1.00")


def test_a_source_without_rows_is_refused(sources):
    with pytest.raises(BadInput, match="no such row"):
        sources.shown("best defualt/uci papers random all", "1.00")
