"""Which jobs a table has; the settings file against the paper itself."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from paper.jobs import DIMS, LAYOUT, MODELS, SETS, SETTINGS, SLOW, Job, jobs_of, parse_seeds
from pintgn.errors import BadInput, UnknownName
from pintgn.learn.settings_files import published_rows
from tests.conftest import ROOT

ROWS = published_rows(SETTINGS)


def test_table1_has_every_model_on_every_set_that_the_paper_or_we_measure():
    jobs = jobs_of("table1", ROWS, data=["uci", "enron", "wikipedia"], seeds=[0])
    assert len(jobs) == 27
    assert {job.model for job in jobs} == set(LAYOUT["table1"][0])


def test_three_seeds_on_uci_and_enron_and_one_for_wikipedia_and_what_takes_long():
    counts = Counter((job.model, job.data) for job in jobs_of("all", ROWS) if job.task == "links")
    several = {key for key, count in counts.items() if count == 3}
    assert several == {(model, data) for model, data in counts if data in ("uci", "enron") and model not in SLOW}
    assert {count for key, count in counts.items() if key not in several} == {1}


def test_a_row_that_seeds_tables_share_is_one_job():
    jobs = jobs_of("all", ROWS)
    assert len(jobs) == len(set(jobs))
    assert Job("links", "pint", "uci") in jobs_of("table1", ROWS)
    assert Job("links", "pint", "uci") in jobs_of("dims", ROWS)
    assert jobs.count(Job("links", "pint", "uci")) == 1


def test_a_whole_table_comes_before_its_second_seed():
    seeds = [job.seed for job in jobs_of("table1", ROWS, seeds=[0, 1]) if job.task == "links"]
    assert seeds == sorted(seeds)


def test_every_length_of_positions_has_its_settings():
    from pintgn.learn.settings_files import read_settings

    for data in ("uci", "enron"):
        plain = read_settings(SETTINGS, f"pint/{data}")["model"]
        for d, model in DIMS.items():
            assert read_settings(SETTINGS, f"{model}/{data}")["model"] == plain | {"positions": d}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tabel1",), "Did you mean 'table1'"),
        (("table1", ["pnt"]), "--models pnt"),
        (("table2", ["caw"]), "there is no such row here"),
        (("table1", None, ["ucl"]), "Did you mean 'uci'"),
    ],
)
def test_a_name_that_does_not_exist_is_one_line_with_the_near_miss(arguments, message):
    with pytest.raises(UnknownName) as error:
        jobs_of(arguments[0], ROWS, *arguments[1:])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", [7]), ("0", [0]), ("3,5", [3, 5]), ("0-9", [*range(10)]), ("7-7", [7]), ("0-1, 4", [0, 1, 4])],
)
def test_seeds_are_what_they_look_like(text, seeds):
    assert parse_seeds(text) == seeds


def test_a_number_of_seeds_is_said_by_runs():
    assert parse_seeds(None, runs=3) == [0, 1, 2]


@pytest.mark.parametrize("text", ["", "x", "1,x", "-1", "3-1", "1-2-3", "-1,2", "1,", "²", "1" * 5000])
def test_seeds_that_cannot_be_read_are_refused(text):
    with pytest.raises(BadInput, match="--seeds"):
        parse_seeds(text)


# -- the settings file holds what the paper prints -------------------------------------------------------------------


def printed(tex: str, label: str) -> str:
    """The table with some label, one row per line, without decoration."""
    table = next(part for part in tex.split(r"\begin{table}")[1:] if label in part.split(r"\end{table}")[0])
    body = table.split(r"\toprule")[1].split(r"\bottomrule")[0]
    body = re.sub(
        r"\\textcolor\{lb\}|\\bf|\\scriptsize|\\initials|\\parbox.*?\{90\}|[{}$]", " ", body.replace("\n", " ")
    )
    return body.replace(r"\\", "\n")


def figures(line: str) -> list[list[float] | None]:
    """The cells of a row: [mean, std], or None for a dash."""
    found = []
    for place in line.split("&"):
        numbers = re.findall(r"\d*\.?\d+", place) if r"\pm" in place else []
        if numbers:
            found.append([float(numbers[-2]), float(numbers[-1])])
        elif place.strip() == "-":
            found.append(None)
    return found


@pytest.fixture
def tex():
    path = ROOT.parent / "shared" / "paper.tex"
    if not path.exists():
        pytest.skip("the paper is not here: ../shared/paper.tex")
    return path.read_text()


def test_published_figures_are_those_that_table1_prints(tex):
    lines = [line for line in printed(tex, "tab:transductive").splitlines() if len(figures(line)) == 6]
    models = LAYOUT["table1"][0]
    assert len(lines) == 2 * len(models)
    for number, line in enumerate(lines):
        half, model = ("all", "new")[number // len(models)], models[number % len(models)]
        for data, cell in zip(SETS, figures(line), strict=True):
            assert ROWS.get(f"{model}/{data}", {}).get(half) == cell, (half, model, data)


def test_published_figures_are_those_that_table2_prints(tex):
    lines = [line for line in printed(tex, "tab:tgn_pe").splitlines() if len(figures(line)) == 6]
    assert len(lines) == 3
    for model, line in zip(LAYOUT["table2"][0], lines, strict=True):
        for k, cell in enumerate(figures(line)):
            data, half = LAYOUT["table2"][1][k % 3], ("all", "new")[k // 3]
            assert ROWS[f"{model}/{data}"][half] == cell, (model, data, half)


def test_published_figures_are_those_that_the_node_table_prints(tex):
    lines = [line for line in printed(tex, "tab:node").splitlines() if len(figures(line)) == 2]
    for model, line in zip(LAYOUT["nodes"][0], lines, strict=True):
        for data, cell in zip(LAYOUT["nodes"][1], figures(line), strict=True):
            assert ROWS[f"{model}/{data}"]["auc"] == cell, (model, data)


def test_every_row_of_every_table_has_a_name():
    assert {model for models, _ in LAYOUT.values() for model in models} == set(MODELS)
