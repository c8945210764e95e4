"""The page keeps what others wrote, says which rows differ, and comes out the same twice."""

from __future__ import annotations

import re

import pytest

from paper.jobs import SETTINGS
from paper.page import read_notes, render, write_page
from paper.plots import DRAWN
from paper.results import Results, commit
from pintgn.errors import BadFile, BadInput
from pintgn.learn.settings_files import published_rows
from tests.conftest import ROOT
from tests.paper.helpers import by_job, link_row
from tests.paper.test_tables import node_row, time_row

PUBLISHED = published_rows(SETTINGS)
ROWS = by_job(
    link_row(ap=(0.97, 0.9397), curve=[0.9, 0.92, None]),
    link_row(seed=1, ap=(0.96, 0.9397), ended="capped", epochs=3),
    link_row("pint-d20", ap=(0.9636, 0.95)),
    link_row("gat"),
    link_row("pint", "wikipedia", ap=(0.98, 0.97)),
    link_row("tgn", "enron", ended="failed", error="BadInput: no"),
    time_row("pint", "uci", 12.0, 0.5),
    time_row("caw", "uci", 120.0),
    node_row("pint", 0.9),
)
PAGE = "# Results\n\nBefore.\n\n<!-- reproduce:begin -->\nold\n<!-- reproduce:end -->\n\n## Our best\n\nAfter.\n"


def section(text: str, title: str) -> str:
    return re.split(r"^### ", text.split(f"### {title}")[1], flags=re.M)[0]


def test_everything_outside_the_marks_is_kept(tmp_path):
    path = tmp_path / "results.md"
    path.write_text(PAGE)
    write_page(path, ROWS, PUBLISHED)
    text = path.read_text()
    assert text.startswith("# Results\n\nBefore.\n\n<!-- reproduce:begin")
    assert text.endswith("<!-- reproduce:end -->\n\n## Our best\n\nAfter.\n")
    assert "old" not in text.split("reproduce:begin")[1].split("reproduce:end")[0].split()


def test_the_same_results_give_the_same_page_and_pictures(tmp_path):
    one, two = (write_page(tmp_path / name / "results.md", ROWS, PUBLISHED) for name in "ab")
    assert [path.name for path in one] == [
        "results.md", "reproduce-curves.svg", "reproduce-dims.svg", "reproduce-time.svg", "reproduce-nodes.svg",
    ]  # fmt: skip
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes()
    again = write_page(tmp_path / "a" / "results.md", ROWS, PUBLISHED)
    assert again[0].read_bytes() == two[0].read_bytes()
    assert not list(tmp_path.rglob(".*"))  # nothing half-written is left


@pytest.mark.parametrize("text", ["# Results\n", PAGE + PAGE, PAGE.replace("reproduce:end", "end")])
def test_a_page_without_one_pair_of_marks_is_refused_and_stays_as_it_is(tmp_path, text):
    path = tmp_path / "results.md"
    path.write_text(text)
    with pytest.raises(BadInput, match="needs one line that begins with"):
        write_page(path, ROWS, PUBLISHED)
    assert path.read_text() == text
    assert not (tmp_path / "img").exists()


def test_every_row_that_differs_by_more_than_the_papers_spread_is_explained():
    notes = {"pint/uci": "A reason of ours.", "*": "Said once."}
    found = section(render(ROWS, PUBLISHED, notes, {}), "Rows that differ")
    assert "Said once." in found
    lines = {line.split("|")[1].strip(): line for line in found.splitlines() if line.startswith("| PINT")}
    assert set(lines) == {"PINT, UCI", "PINT, d = 20, UCI", "PINT, Wikipedia"}
    assert "transductive +0.49" in lines["PINT, UCI"]  # (97 + 96) / 2 - 96.01
    assert "inductive" not in lines["PINT, UCI"]
    assert "Capped at epoch 3." in lines["PINT, UCI"]
    assert "A reason of ours." in lines["PINT, UCI"]
    assert "inductive +0.23" in lines["PINT, d = 20, UCI"]
    assert "No edge features here." in lines["PINT, Wikipedia"]
    assert "AUC +2.41" in lines["PINT, Wikipedia"]


def test_every_run_is_listed_with_its_cost_and_its_end():
    found = section(render(ROWS, PUBLISHED, {}, {}), "All runs")
    assert "| UCI | PINT | 1 | capped at epoch 3 | 2 | 96.00 | 93.97 | 61.2 | 100 | 2.0 |" in found
    assert "failed: BadInput: no" in found
    widths = {line.count("|") for line in found.splitlines() if line.startswith("|")}
    assert widths == {11}


def test_every_table_is_well_formed():
    text = render(ROWS, PUBLISHED, {}, {})
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({re.sub(r"\\\|", "", line).count("|") for line in table.splitlines()}) == 1, table
    assert "Wikipedia ¹" in text
    assert "`pintgn data fetch reddit`" in text


def test_nothing_measured_yet_is_a_page_too():
    assert "Not measured yet" in render({}, PUBLISHED, {}, {})


def test_notes_that_cannot_be_read_are_one_line(tmp_path):
    assert read_notes(tmp_path / "nowhere.toml") == {}
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(BadFile, match="cannot read the notes"):
        read_notes(tmp_path / "bad.toml")


# -- what is committed -----------------------------------------------------------------------------------------------


def test_the_committed_page_shows_the_committed_rows():
    results = Results(ROOT / "results" / "paper.jsonl")
    notes = read_notes(results.path.with_suffix(".notes.toml"))
    drawn = {name: path for name in DRAWN if (path := IMG / f"reproduce-{name}.svg").exists()}
    page = (ROOT / "docs" / "results.md").read_text()
    assert render(results.newest(), PUBLISHED, notes, drawn) in page, "run `make results`"


def test_every_committed_note_is_about_a_row_that_stands_out():
    results = Results(ROOT / "results" / "paper.jsonl")
    notes = read_notes(results.path.with_suffix(".notes.toml"))
    found = section(render(results.newest(), PUBLISHED, notes, {}), "Rows that differ")
    assert all(note in found for note in notes.values())


IMG = ROOT / "docs" / "img"


@pytest.mark.parametrize("name", ["best", "paper"])
def test_every_committed_row_says_which_commit_made_it(name):
    rows = Results(ROOT / "results" / f"{name}.jsonl").rows()
    assert [row["job"] for row in rows if not re.fullmatch("[0-9a-f]{7,}", row["versions"]["commit"] or "")] == []


def test_code_that_has_changed_since_its_commit_is_marked(monkeypatch):
    answers = {"rev-parse": "1a2b3c4", "status": " M ../src/pintgn/lazy.py"}
    monkeypatch.setattr("paper.results._git", lambda *words: answers[words[0]])
    assert commit() == "1a2b3c4+"
    answers["status"] = None
    assert commit() == "1a2b3c4"
    answers["rev-parse"] = None  # no checkout
    assert commit() is None
