"""torchrun as a person uses it: one answer, one line about what went wrong, and going on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pintgn
from pintgn.learn.folder import KEY
from tests.cli.forked import pintgn as forked
from tests.workers.helpers import children, no_worker, run_together

PINTGN = [sys.executable, "-m", "pintgn"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("workers") / "events.parquet"
    pintgn.write_events(pintgn.simulate("shop", events=1_500, seed=0), path)
    return path


def pintgn_command(*arguments, check=True, **options):
    command = [*PINTGN, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, env=no_worker() | options, timeout=180)
    assert not check or ended.returncode == 0, ended.stderr
    return ended


SMALL = ("--epochs", "2", "--set", "dim=8", "--no-report")


def torchrun_command(*arguments):
    """The standard output of two workers on one machine."""
    command = [*TORCHRUN, "-m", "pintgn", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, env=no_worker(), timeout=180)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_train_and_evaluate_with_torchrun_answer_once_as_without(events, tmp_path):
    one = json.loads(forked("train", events, "-o", tmp_path / "one", *SMALL, "--json").stdout)
    two = json.loads(torchrun_command("train", events, "-o", tmp_path / "two", *SMALL, "--json"))
    assert two["history"][-1]["loss"] == pytest.approx(one["history"][-1]["loss"], rel=1e-3)
    assert two["folder"] == str(tmp_path / "two")
    assert pintgn.Run.open(tmp_path / "two").finished
    alone = json.loads(forked("evaluate", tmp_path / "two", "--rank", "5", "--json").stdout)
    shared = json.loads(torchrun_command("evaluate", tmp_path / "two", "--rank", "5", "--json"))
    for model, groups in alone["ranking"].items():
        assert shared["ranking"][model]["all"]["mrr"] == pytest.approx(groups["all"]["mrr"], abs=1e-6)


def test_an_error_of_all_workers_is_one_line(tmp_path):
    first, second = run_together("tests.workers.programs:command_on_no_file", 2, str(tmp_path / "none.csv"))
    assert (first.returncode, second.returncode) == (2, 2)
    (line,) = (first.stderr + second.stderr).splitlines()
    assert "none.csv" in line


def test_workers_are_for_several_runs(events, tmp_path):
    ended = pintgn_command("train", events, "-o", tmp_path / "run", "--workers", 2, check=False)
    assert ended.returncode == 2
    assert "--runs" in ended.stderr
    assert "torchrun" in ended.stderr


def test_a_port_in_use_is_one_line(events, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{taken.getsockname()[1]}"}
        ended = pintgn_command("train", events, "-o", tmp_path / "run", check=False, **own)
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "the port is in use; choose another MASTER_PORT" in ended.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc")
def test_a_worker_killed_amid_the_third_epoch_of_torchrun_resumes_to_the_same_figures(events, tmp_path):
    """As a training that nobody killed: weights, losses, validation and test figures, bit for bit."""
    options = ("--model", "tgn", "--set", "dim=8", "--no-report", "--epochs", "4", "--set", "train.batch=25")
    often = ("--set", "train.checkpoint_seconds=0")

    def command(name, *more):
        return [*TORCHRUN, "-m", "pintgn", "train", str(events), "-o", str(tmp_path / name), *options, *often, *more]

    ended = subprocess.run(command("whole"), capture_output=True, text=True, env=no_worker(), timeout=180)
    assert ended.returncode == 0, ended.stderr
    cut = subprocess.Popen(command("cut"), env=no_worker(), stdout=subprocess.DEVNULL, stderr=-1, text=True)
    try:
        while not ((at := progress(tmp_path / "cut"))[0] == 3 and at[1] >= 18):  # memory has moved twice
            assert cut.poll() is None, cut.communicate()
            assert at[0] <= 3, "the third epoch has passed"
            time.sleep(0.005)
        os.kill(children(cut.pid)[1], signal.SIGKILL)
        cut.communicate(timeout=60)
    finally:
        cut.terminate()
    assert cut.returncode != 0
    epoch, step = progress(tmp_path / "cut")
    assert (epoch, 18 <= step < 40) == (3, True)
    ended = subprocess.run(command("cut", "--resume"), capture_output=True, text=True, env=no_worker(), timeout=180)
    assert ended.returncode == 0, ended.stderr
    whole, again = (pintgn.Run.open(tmp_path / name) for name in ("whole", "cut"))
    weights = [run.model.state_dict() for run in (whole, again)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert [(entry["loss"], entry["val"]) for entry in again.history] == [(e["loss"], e["val"]) for e in whole.history]
    assert (again.test, again.best_epoch) == (whole.test, whole.best_epoch)


def progress(folder: Path) -> tuple[int, int]:
    """The epoch of the last checkpoint, and how many of its steps are done; from the head of its file."""
    path = folder / "last.safetensors"
    if not path.exists():
        return 0, 0
    with path.open("rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    facts = json.loads(head[KEY])
    return facts["epoch"], facts["step"]


@pytest.mark.parametrize(
    ("message", "of_torch", "told"),
    [
        ("Unable to allocate 30.8 GiB for an array", False, "Unable to allocate 30.8 GiB for an array"),
        pytest.param(
            "alloc_cpu.cpp:127 can't allocate memory: you tried to allocate 16 bytes.",
            True,
            "tried to allocate 16 bytes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_memory_that_runs_out_is_one_line(message, of_torch, told):
    first, second = run_together("tests.workers.programs:command_out_of_memory", 2, message, of_torch)
    assert second.returncode == 2
    assert first.returncode == 3
    (line,) = (first.stderr + second.stderr).splitlines()
    assert line.startswith(f"TooLarge: worker 1: memory ran out ({told}). Try")
