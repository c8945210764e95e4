"""`--workers` and torchrun as a person uses them: one answer, one line about what went wrong, and going on."""

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
from tests.workers.helpers import children, no_worker, run_together

PINTGN = [sys.executable, "-m", "pintgn"]


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


def test_train_and_evaluate_with_workers_answer_once_as_without(events, tmp_path):
    one = json.loads(pintgn_command("train", events, "-o", tmp_path / "one", *SMALL, "--json").stdout)
    two = json.loads(pintgn_command("train", events, "-o", tmp_path / "two", *SMALL, "--json", "--workers", 2).stdout)
    assert two["history"][-1]["loss"] == pytest.approx(one["history"][-1]["loss"], rel=1e-3)
    assert two["folder"] == str(tmp_path / "two")
    alone = json.loads(pintgn_command("evaluate", tmp_path / "two", "--rank", "5", "--json").stdout)
    shared = json.loads(pintgn_command("evaluate", tmp_path / "two", "--rank", "5", "--json", "--workers", 2).stdout)
    for model, groups in alone["ranking"].items():
        assert shared["ranking"][model]["all"]["mrr"] == pytest.approx(groups["all"]["mrr"], abs=1e-6)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc")
@pytest.mark.slow
def test_a_killed_worker_ends_all_in_one_line_and_the_run_goes_on_to_the_same_bits(events, tmp_path):
    often = ("--set", "train.checkpoint_seconds=0", "--model", "tgn", *SMALL[2:], "--epochs", "6")
    pintgn_command("train", events, "-o", tmp_path / "whole", *often, "--workers", 2)
    command = [*PINTGN, "train", str(events), "-o", str(tmp_path / "cut"), *often, "--workers", "2"]
    parent = subprocess.Popen(command, env=no_worker(), stdout=-1, stderr=-1, text=True)
    while not (tmp_path / "cut" / "last.safetensors").exists():
        time.sleep(0.02)
        assert parent.poll() is None, parent.communicate()
    os.kill(children(parent.pid)[1], signal.SIGKILL)
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == 3
    assert out == ""
    said = [line for line in err.splitlines() if not line.startswith(("epoch", "Compiling"))]
    assert len(said) == 1, err
    assert said[0].startswith("LostWorker: worker 1 was ended by SIGKILL (out of memory?), so all were.")
    assert said[0].endswith("--resume")
    pintgn_command("train", events, "-o", tmp_path / "cut", *often, "--workers", 2, "--resume")
    weights = [pintgn.Run.open(tmp_path / name).model.state_dict() for name in ("whole", "cut")]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_an_error_of_all_workers_is_one_line(tmp_path):
    ended = pintgn_command("train", tmp_path / "none.csv", "-o", tmp_path / "run", "--workers", 2, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "none.csv" in ended.stderr
    ended = pintgn_command("train", "-", "-o", tmp_path / "run", "--workers", 2, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert "standard input can be read once" in ended.stderr


def test_a_port_in_use_is_one_line(events, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{taken.getsockname()[1]}"}
        ended = pintgn_command("train", events, "-o", tmp_path / "run", check=False, **own)
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "the port is in use; choose another MASTER_PORT" in ended.stderr


@pytest.mark.slow
def test_torchrun_trains_a_run(events, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "pintgn", "train", str(events), "-o", str(tmp_path / "run"), *SMALL, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, env=no_worker(), timeout=180)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["folder"] == str(tmp_path / "run")
    assert pintgn.Run.open(tmp_path / "run").finished


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc")
def test_a_worker_killed_amid_the_third_epoch_of_torchrun_resumes_to_the_same_figures(events, tmp_path):
    """As a training that nobody killed: weights, losses, validation and test figures, bit for bit."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ("--model", "tgn", "--set", "dim=8", "--no-report", "--epochs", "4", "--set", "train.batch=25")
    often = ("--set", "train.checkpoint_seconds=0")

    def command(name, *more):
        return [*torchrun, "-m", "pintgn", "train", str(events), "-o", str(tmp_path / name), *options, *often, *more]

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc")
def test_workers_end_with_the_process_that_started_them(events, tmp_path):
    command = [*PINTGN, "train", str(events), "-o", str(tmp_path / "run"), "--epochs", "500", "--workers", "2"]
    parent = subprocess.Popen(command, env=no_worker(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "run" / "run.json").exists():
        time.sleep(0.05)
        assert parent.poll() is None
    workers = children(parent.pid)
    assert sorted(workers) == [0, 1]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 60
    while any(running(pid) for pid in workers.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie that nobody has asked about."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("message", "of_torch", "told"),
    [
        ("Unable to allocate 30.8 GiB for an array", False, "Unable to allocate 30.8 GiB for an array"),
        (
            "alloc_cpu.cpp:127 can't allocate memory: you tried to allocate 16 bytes.",
            True,
            "tried to allocate 16 bytes",
        ),
    ],
)
def test_memory_that_runs_out_is_one_line(message, of_torch, told):
    first, second = run_together("tests.workers.programs:command_out_of_memory", 2, message, of_torch)
    assert second.returncode == 2
    assert first.returncode == 3
    (line,) = (first.stderr + second.stderr).splitlines()
    assert line.startswith(f"TooLarge: worker 1: memory ran out ({told}). Try")
