"""The commands of the tutorials do what their pages say, in order, on a small log. (Blocks: tests/test_docs.py.)"""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

import pintgn
from paper.command import app as reproduce
from pintgn.cli.app import app
from tests.conftest import ROOT
from tests.test_docs import shell_lines

pytestmark = pytest.mark.learning

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Run a line of a page as a shell would, `pintgn …` or `python -m paper …`; the answer on stdout."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        words = shlex.split(line)
        done = CliRunner().invoke(*((app, words[1:]) if words[0] == "pintgn" else (reproduce, words[3:])))
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
        return done.stdout

    return run


def commands(name: str, *without: str) -> list[str]:
    lines = shell_lines((TUTORIALS / name).read_text())
    return [line for line in lines if line.startswith(("pintgn ", "python -m paper ")) and not line.startswith(without)]


def test_one_row_of_the_paper_is_run_capped_and_continued(ask, tmp_path):
    """A small log stands in for UCI, and seconds for minutes."""
    pintgn.simulate("repeat", events=1_500, seed=0, nodes=60).save(tmp_path / "uci.parquet")
    smaller = {" --threads 1": "", "--cap 60": "--cap 0.5", "--cap 240": "--cap 2"}
    answers = {}
    for line in commands("one-row.md", "pintgn data fetch"):
        short = re.sub("|".join(smaller), lambda found: smaller[found[0]], line)
        short += " --data-folder ." if "-m paper" in short else ""
        answers[line] = ask(short)
    capped, longer = (
        next(a for line, a in answers.items() if line.endswith(f"{cap} --threads 1")) for cap in (60, 240)
    )
    assert re.search(r"PINT +\d\d\.\d\d\* +96\.01", capped), "a capped row is marked, beside the paper's figure"
    assert re.search(r"Jodie +\d\d\.\d\d\*? +86\.73", longer)
    shown = json.loads(next(a for line, a in answers.items() if line.endswith("--show --json")))
    rows = {row["model"]: row for row in shown["rows"]}
    assert set(rows) == {"jodie", "pint"}
    assert rows["pint"]["epochs"] >= 1


def test_the_shop_is_also_told_on_the_command_line(ask):
    answers = {line: ask(line.replace("12000", "1500")) for line in commands("shop.md", "pintgn serve")}
    recommended = next(answer for line, answer in answers.items() if " recommend " in line)
    assert len(re.findall(r"^item\d+ +\d+\.\d % ", recommended, re.M)) == 5


def test_new_ratings_are_scored_from_the_command_line(ask, tmp_path):
    log = pintgn.simulate("repeat", events=1_500, seed=0, nodes=60)
    lines = [f"p{a},p{b},{t},{a % 5}" for a, b, t in zip(log.src, log.dst, log.t, strict=True)]
    (tmp_path / "ratings.csv").write_text("\n".join(["rater,rated,when,rating", *lines[:1_400]]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["rater,rated,when,rating", *lines[1_400:]]) + "\n")
    for line in commands("trust-network.md", "pintgn serve"):
        ask(line + (" --epochs 1" if " train " in line else ""))
    assert len((tmp_path / "scored.csv").read_text().splitlines()) == 101
