"""Bad columns at the command line: one clear line each, and notes about what may surprise."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.learn.tasks.values import FEW_VALUES
from tests.test_explain import command


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = ["payer,payee,when,amount,channel,fraud,stars,eleven,same,settled,grown"]
    for k in range(300):
        fraud = "" if k % 7 == 0 else str(bool(rng.random() < 0.3))
        grown = "late" if k > 280 else ("a", "b")[int(rng.integers(2))]
        channel = ("web", "shop")[int(rng.integers(2))]
        ends = f"p{rng.integers(9)},s{rng.integers(6)},{60 * k}"
        amount, stars, eleven = 50 * rng.random(), 1 + k % FEW_VALUES, k % (FEW_VALUES + 1)
        rows.append(f"{ends},{amount:.2f},{channel},{fraud},{stars},{eleven},7,{60 * k + 3600},{grown}")
    path = tmp_path_factory.mktemp("columns") / "pay.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def trained(table, tmp_path, monkeypatch, capsys, *arguments):
    ends = ("--src", "payer", "--dst", "payee", "--time", "when")
    quick = ("--model", "boosted", "--no-report", "-o", tmp_path / "run", "--overwrite")
    return command(monkeypatch, capsys, "train", table, *ends, *quick, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--predict", "fraud", "--given", "fraud,amount"), "cannot be given as well"),
        (
            ("--predict", "fraud", "--known-at", "settled", "--given", "settled"),
            "so it is no feature",
        ),
        (("--predict", "when"), "'when' is the time of every event"),
        (("--predict", "payee"), "'payee' is the destination of every event"),
        (("--predict", "same"), "is the same in all 210 training events"),
        (("--predict", "fraud", "--known-after", "20000"), "is longer than the training part"),
        (("--predict", "fraud", "--known-after", "-1"), "a length of time from 0 on"),
        (("--predict", "fraud", "--known-after", "5", "--known-at", "settled"), "exclude each other"),
        (("--predict", "fruad"), "Did you mean 'fraud'?"),
        (("--predict", "fraud", "--within", "30"), "task.within belongs to"),
    ],
)
def test_a_column_that_cannot_be_predicted_is_refused_in_one_line(
    table, tmp_path, monkeypatch, capsys, arguments, words
):
    code, _, err = trained(table, tmp_path, monkeypatch, capsys, *arguments)
    assert code == 2
    said = [line for line in err.splitlines() if not line.startswith(("note:", "Compiling"))]
    assert len(said) == 1
    assert words in said[0]
    assert not (tmp_path / "run").exists()


def test_what_may_surprise_is_said(table, tmp_path, monkeypatch, capsys):
    code, out, err = trained(table, tmp_path, monkeypatch, capsys, "--predict", "grown")
    assert code == 0
    assert "note: the training part has no grown='late'; 19 events" in err
    code, out, err = trained(table, tmp_path, monkeypatch, capsys, "--predict", "stars")
    assert f"note: stars holds {FEW_VALUES} whole numbers, 1 to {FEW_VALUES}, and is regressed" in err
    assert "--categorical stars" in err
    code, out, err = trained(table, tmp_path, monkeypatch, capsys, "--predict", "eleven")
    assert "whole numbers" not in err
    code, out, err = trained(table, tmp_path, monkeypatch, capsys, "--predict", "stars", "--categorical", "stars")
    assert code == 0
    assert "whole numbers" not in err
    assert "macro-F1" in out


def test_events_without_a_target_are_no_questions(table, tmp_path, monkeypatch, capsys):
    code, out, _ = trained(table, tmp_path, monkeypatch, capsys, "--predict", "fraud")
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("boosted")]
    assert " 39 " in rows[0]  # of 45 in the test part
