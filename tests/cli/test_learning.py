"""train, evaluate, predict, recommend, embed and tune as a person uses them."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

import pintgn
from pintgn.cli.app import app, main
from tests.conftest import ROOT


def run(*arguments, monkeypatch=None, capsys=None):
    """The command in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["pintgn", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def pintgn_command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(*arguments, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Events in two files, the second later than the first."""
    folder = tmp_path_factory.mktemp("shop")
    log = pintgn.simulate("shop", events=1_200, seed=0)
    pintgn.write_events(log[:1_000], folder / "old.csv")
    pintgn.write_events(log[1_000:], folder / "new.csv")
    return folder


@pytest.fixture(scope="module")
def trained(shop):
    from typer.testing import CliRunner

    result = CliRunner().invoke(
        app, ["train", str(shop / "old.csv"), "--epochs", "1", "--set", "dim=8", "-o", str(shop / "run")]
    )
    assert result.exit_code == 0, result.output
    return shop / "run"


def test_train_keeps_a_run_and_says_where(pintgn_command, shop):
    code, out, err = pintgn_command("train", shop / "old.csv", "--epochs", "1", "--set", "model.dim=8")
    assert code == 0, err
    assert "Test part" in out
    assert "epoch 1/1  loss" in err
    assert "events/s" in err
    assert "Saved in runs/old-pint" in err
    code, out, err = pintgn_command("train", shop / "old.csv", "--epochs", "1", "--set", "dim=8", "--json")
    answer = json.loads(out)
    assert answer["folder"] == "runs/old-pint-2"
    assert answer["settings"]["model"]["dim"] == 8
    assert answer["test"]["all"]["ap"] > 0
    code, _, err = pintgn_command("train", shop / "old.csv", "-o", "runs/old-pint")
    assert code == 2
    assert "--resume" in err


def test_dry_run_prints_the_settings_as_resolved_and_trains_nothing(pintgn_command, shop, tmp_path):
    code, out, _ = pintgn_command("train", shop / "old.csv", "--dry-run", "--set", "train.batch=77", "--for", "ranking")
    assert code == 0
    assert 'purpose = "ranking"' in out
    (tmp_path / "again.toml").write_text(out)
    code, again, told = pintgn_command("train", shop / "old.csv", "--dry-run", "--config", tmp_path / "again.toml")
    assert again == out
    assert "memory: about" in told
    assert "program" in told
    assert "batch = 77" in out
    assert "learning_rate" in out
    assert not (tmp_path / "runs").exists()


def test_a_published_row_by_its_name(pintgn_command, shop):
    paper = ROOT / "paper" / "paper.toml"
    code, out, _ = pintgn_command(
        "train", shop / "old.csv", "--dry-run", "--config", paper, "--row", "pint/uci", "--set", "epochs=3", "--json"
    )
    answer = json.loads(out)
    assert code == 0
    assert answer["model"]["positions_transform"] == "l1"
    assert answer["train"]["epochs"] == 3
    code, _, err = pintgn_command("train", shop / "old.csv", "--config", paper, "--row", "pint/ucl")
    assert code == 2
    assert "pint/uci" in err


def test_several_runs(pintgn_command, shop):
    code, out, err = pintgn_command(
        "train", shop / "old.csv", "--runs", "2", "--epochs", "1", "--set", "dim=8", "-o", "r"
    )
    assert code == 0, err
    assert "mean ± standard deviation of 2 runs" in out
    shutil.rmtree("r/seed-1")  # as if stopped after the first
    code, again, err = pintgn_command("train", "r", "--resume")
    assert (code, again) == (0, out), err
    code, out, _ = pintgn_command("evaluate", "r", "--rank", "3")
    assert "mean ± standard deviation of 2 runs" in out


def test_evaluate_all_kinds_of_negatives_and_ranks(pintgn_command, trained):
    code, out, err = pintgn_command("evaluate", trained, "--negatives", "all", "--rank", "all")
    assert code == 0, err
    for word in ("random", "historical", "inductive", "per-event", "MRR", "Hits@10", "new nodes", "200-row chunks"):
        assert word in out
    code, out, _ = pintgn_command("evaluate", trained, "--protocol", "paper", "--part", "val", "--json")
    assert json.loads(out)["protocol"] == "paper"


def test_predict_in_users_own_ids_after_observing_newer_events(pintgn_command, trained, shop, tmp_path):
    with open(shop / "new.csv") as file:
        newer = list(csv.DictReader(file))
    (tmp_path / "pairs.csv").write_text(f"src,dst\n{newer[-1]['src']},{newer[-1]['dst']}\nsomeone,{newer[-1]['dst']}\n")
    code, out, err = pintgn_command("predict", trained, "pairs.csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["src"] for row in rows] == [newer[-1]["src"], "someone"]
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
    code, later, err = pintgn_command("predict", trained, "pairs.csv", "--observe", shop / "new.csv")
    assert code == 0, err
    assert "observed 200 events" in err
    assert later != out
    code, _, _ = pintgn_command("predict", trained, "pairs.csv", "-o", "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column_names[-3:] == ["logit", "probability", "notes"]
    code, _, err = pintgn_command("predict", trained, "nowhere.csv")
    assert (code, "nowhere.csv" in err) == (2, True)


def test_where_recommendations_go_is_checked_before_any_are_made(pintgn_command, trained, tmp_path, monkeypatch):
    ask = ("recommend", trained, "--src", "user1", "-k", "2", "-o")
    assert pintgn_command(*ask, tmp_path / "some.csv")[0] == 0
    assert pintgn_command(*ask, tmp_path / "some.csv", "--overwrite")[0] == 0
    code, out, _ = pintgn_command(*ask, "-")
    assert code == 0
    assert len(out.splitlines()) == 3
    monkeypatch.setattr("pintgn.cli.use.open_live", None)  # nothing is opened
    assert "exists already" in pintgn_command(*ask, tmp_path / "some.csv")[2]
    assert "neither .csv nor .parquet" in pintgn_command(*ask, tmp_path / "some.xlsx")[2]


def test_recommend_and_embed(pintgn_command, trained, shop, tmp_path):
    code, out, err = pintgn_command("recommend", trained, "--src", "user1", "-k", "3", "--json")
    assert code == 0, err
    found = json.loads(out)["recommended"]
    assert len(found) == 3
    assert all(one["dst"].startswith("item") for one in found)
    code, out, _ = pintgn_command("recommend", trained, "--src", "user1", "-k", "2", "--observe", shop / "new.csv")
    assert "against one random" in out
    code, out, err = pintgn_command("embed", trained, "-o", "nodes.parquet", "--at", "2024-06-01T00:00:00Z")
    assert code == 0, err
    assert "nodes.parquet" in out
    assert pintgn_command("embed", trained)[0] == 0
    assert (trained / "embeddings.parquet").exists()
    table = pq.read_table(tmp_path / "nodes.parquet")
    assert table.column_names == ["id", "embedding", "notes"]
    assert len(table.column("embedding")[0]) == 8
    assert pintgn_command("embed", trained, "-o", "nodes.npz", "--at", "2024-06-01T00:00:00Z")[0] == 0
    arrays = np.load(tmp_path / "nodes.npz")  # no pickles: ids are plain text
    assert arrays["id"].tolist() == table["id"].to_pylist()
    assert arrays["embedding"].tolist() == table["embedding"].to_pylist()
    some = ("--node", "user1", "--node", "nobody", "--at", "2024-06-01T00:00:00Z")
    code, out, err = pintgn_command("embed", trained, "-o", "some.csv", *some, "--json")
    assert json.loads(out)["notes"] == {"unknown": 1}
    assert "1 node noted: unknown" in err
    rows = pyarrow.csv.read_csv(tmp_path / "some.csv")
    assert rows.column_names == ["id", *(f"e{k}" for k in range(8)), "notes"]
    assert rows["id"].to_pylist() == ["user1", "nobody"]
    known = table["embedding"][table["id"].to_pylist().index("user1")].as_py()
    assert [rows[f"e{k}"][0].as_py() for k in range(8)] == pytest.approx(known, rel=1e-6)
    (tmp_path / "ids.csv").write_text("id\nuser1\nuser2\n")
    assert "2 nodes" in pintgn_command("embed", trained, "-o", "two.parquet", "--node-file", "ids.csv")[1]
    assert "cannot both" in pintgn_command("embed", trained, "-o", "x.csv", *some, "--node-file", "ids.csv")[2]
    code, _, err = pintgn_command("recommend", trained, "--src", "user1", "--at", "2020-01-01T00:00:00Z")
    assert (code, "already observed" in err) == (2, True)


def test_tune_on_the_command_line(pintgn_command, shop, tmp_path):
    (tmp_path / "space.toml").write_text('"model.dim" = [4, 8]\n')
    code, out, err = pintgn_command(
        "tune", shop / "old.csv", "--space", "space.toml", "--trials", "2", "--set", "train.epochs=1", "-o", "t"
    )
    assert code == 0, err
    assert "[model]" in out
    assert "trial 1" in err
    code, out, _ = pintgn_command("train", shop / "old.csv", "--config", "t/best.toml", "--dry-run")
    assert code == 0
    assert "epochs = 1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "nowhere"), "holds no run"),
        (("evaluate", "RUN", "--negatives", "historic"), "historical"),
        (("evaluate", "RUN", "--rank", "many"), "neither a number nor 'all'"),
        (("predict", "nowhere", "pairs.csv"), "holds no run"),
        (("recommend", "RUN", "--src", "user1", "-k", "0"), "k=0"),
        (("embed", "RUN", "-o", "nodes.txt"), ".parquet"),
        (("train", "nowhere.csv"), "nowhere.csv"),
        (("train", "DATA", "--runs", "0"), "--runs 0"),
        (("train", "DATA", "--row", "x"), "--config"),
        (("train", "DATA", "--set", "train.epochs=x"), "whole number"),
        (("train", "DATA", "--seed", "-1"), "seed=-1"),
        (("tune", "DATA", "--space", "papr"), "paper"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_two(pintgn_command, trained, shop, arguments, message):
    places = {"RUN": trained, "DATA": shop / "old.csv"}
    code, out, err = pintgn_command(*(places.get(a, a) for a in arguments))
    assert code == 2
    assert out == ""
    assert message in err.strip().splitlines()[-1]
    assert "Traceback" not in err


def test_interrupted_training_says_how_to_go_on(shop, tmp_path, ctrl_c):
    command = [sys.executable, "-m", "pintgn", "train", str(shop / "old.csv"), "-o", "run", "--set", "tolerance=0"]
    command += ["--set", "patience=5000", "--epochs", "5000"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("epoch 2"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait() == 130
    assert "pintgn train run --resume" in rest
    assert "Traceback" not in rest
    assert pintgn.open(tmp_path / "run").recommend("user1", 1)


def test_resume_on_the_command_line(pintgn_command, shop, tmp_path):
    def finished(folder):
        answer = json.loads((tmp_path / folder / "result.json").read_text())
        return answer["test"]

    options = ["--epochs", "2", "--set", "dim=8", "--set", "train.checkpoint_seconds=0"]
    assert pintgn_command("train", shop / "old.csv", "-o", "whole", *options)[0] == 0
    with subprocess.Popen(
        [sys.executable, "-m", "pintgn", "train", str(shop / "old.csv"), "-o", "cut", *options],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())},
    ) as process:
        while not (tmp_path / "cut" / "last.safetensors").exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    code, out, err = pintgn_command("train", "cut", "--resume")
    assert code == 0, err
    assert "Test part" in out
    assert finished("cut") == finished("whole")


def test_newer_events_that_need_more_than_a_name_are_converted_as_the_error_says(pintgn_command, trained, shop):
    lines = (shop / "new.csv").read_text().splitlines()
    with open("shuffled.csv", "w", encoding="latin-1") as file:
        file.write("\n".join([lines[0], *lines[:0:-1]]).replace("user", "üser") + "\n")
    code, _, err = pintgn_command("recommend", trained, "--src", "user1", "--observe", "shuffled.csv")
    assert code == 2
    advised = shlex.split(err.partition("Here: pintgn ")[2])
    assert "latin-1" in advised
    assert pintgn_command(*advised)[0] == 0
    code, _, err = pintgn_command("recommend", trained, "--src", "user1", "--observe", advised[-1])
    assert code == 0, err
    assert "observed 200 events" in err
