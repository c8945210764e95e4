"""Training ends the same however often it is killed, stopped or continued; and it learns."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import pintgn
from pintgn import DELETE, PINT, EventLog, Run, fit
from pintgn.errors import BadFile, BadInput
from pintgn.learn import fit as fitting
from pintgn.learn import seeds
from pintgn.learn.folder import Folder
from pintgn.learn.hooks import Interrupted
from pintgn.learn.settings import Settings
from pintgn.models.registry import MODELS
from tests.learn.helpers import QUICK, random_log, tiny, world

pytestmark = pytest.mark.learning

WITH_MEMORY = {"dim": 8, "memory": 6, "positions": 2, "neighbors": 3}


class Killed(BaseException):
    """Stands for kill -9: nothing may be written after it."""


def outcome(run: Run) -> dict:
    """All that must not depend on how a run came to its end."""
    timeless = [{k: v for k, v in entry.items() if "second" not in k} for entry in run.history]
    weights = {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()}
    memory = {} if run.stream.state is None else {k: v.tobytes() for k, v in run.stream.state.arrays().items()}
    return {
        "history": timeless,
        "weights": weights,
        "memory": memory,
        "test": run.test,
        "best": run.best_epoch,
        "calibration": dataclasses.asdict(run.calibration),
    }


def quick(log, folder=None, model=None, progress=lambda entry: None, **settings):
    made = PINT(**(model or WITH_MEMORY))
    options = QUICK | {"checkpoint_seconds": 0, "memory_block": 30} | settings
    return fit(made, log, folder=folder, progress=progress, **options)


@pytest.fixture(scope="module")
def log():
    return random_log(500, 20, ties=4, features=2)


@pytest.fixture(scope="module")
def whole(log):
    return outcome(quick(log))


# -- killed, stopped, continued ------------------------------------------------------------------------------------


@pytest.mark.parametrize("moments", [[1], [3, 5], [7, 1, 2]])
def test_a_run_killed_between_any_steps_ends_bit_identically(log, whole, tmp_path, moments):
    for moment in moments:
        steps = iter(range(moment))

        def kill(entry, steps=steps):
            if "done" in entry and next(steps, None) is None:
                raise Killed

        with pytest.raises(Killed):
            quick(log, tmp_path / "run", progress=kill)
    assert outcome(quick(log, tmp_path / "run")) == whole
    assert outcome(Run.open(tmp_path / "run")) == whole


def test_a_run_that_goes_on_says_how_its_stream_is_rebuilt(log, tmp_path, monkeypatch):
    def kill(entry):
        if entry.get("done", 0) >= 200:
            raise Killed

    with pytest.raises(Killed):
        quick(log, tmp_path / "run", progress=kill)
    monkeypatch.setattr("pintgn.learn.measure.PIECE", 100)
    told = []
    run = quick(log, tmp_path / "run", progress=told.append)
    steps = [(entry["observed"], entry["of"]) for entry in told if entry.get("phase") == "rebuilding"]
    assert len(steps) > 1
    assert steps[-1][0] == steps[-1][1]
    assert f"rebuilt the stream from {steps[-1][1]} events, " in (run.folder / "run.log").read_text()


@pytest.mark.parametrize("moment", [2, 4, 9, 14, 17, 18])
def test_a_run_killed_while_writing_ends_bit_identically(log, whole, tmp_path, monkeypatch, moment):
    """Every file is written under another name first; die before, between and after."""
    count, replace = iter(range(10_000)), os.replace

    def dying(source, target):
        number = next(count)
        if number == moment:
            raise Killed
        replace(source, target)
        if number == moment + 1:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        with pytest.raises(Killed):
            quick(log, tmp_path / "run")
    assert outcome(quick(log, tmp_path / "run")) == whole


def test_a_process_killed_for_good_leaves_a_run_that_continues(log, whole, tmp_path):
    log.save(tmp_path / "log.parquet")
    code = (
        "import sys, time, os; sys.path.insert(0, sys.argv[3])\n"
        "from pintgn import EventLog\n"
        "from tests.learn.test_train import quick\n"
        "def slowly(entry):\n"
        "    print('step', flush=True)\n"
        "    time.sleep(0.05)\n"
        "quick(EventLog.open(sys.argv[1]), sys.argv[2], progress=slowly)\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    command = [sys.executable, "-c", code, str(tmp_path / "log.parquet"), str(tmp_path / "run"), root]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        for _ in range(5):
            process.stdout.readline()
        with pytest.raises(BadInput, match=f"in use by process {process.pid}"):
            quick(log, tmp_path / "run")  # the second process on one folder is refused
        process.kill()
    assert outcome(quick(log, tmp_path / "run")) == whole


def test_interrupting_ends_cleanly_with_a_usable_run(log, whole, tmp_path, ctrl_c):
    steps = iter(range(3))

    def press(entry):
        if "done" in entry and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="--resume"):
        quick(log, tmp_path / "run", progress=press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    stopped = Run.open(tmp_path / "run")
    assert not stopped.finished
    assert stopped.stream.events == len(log), "a stopped run can be used"
    assert stopped.calibration is not None
    assert outcome(fitting.resume(tmp_path / "run")) == whole
    assert "stopped by the user" in (tmp_path / "run" / "run.log").read_text()


def test_interrupting_the_test_leaves_a_usable_run(log, whole, tmp_path, ctrl_c):
    def press(entry):
        if entry.get("phase") == "heuristics":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="Stopped while testing"):
        quick(log, tmp_path / "run", progress=press)
    assert Run.open(tmp_path / "run").stream.events == len(log)
    assert outcome(fitting.resume(tmp_path / "run")) == whole


def test_where_ctrl_c_is_ignored_training_goes_on_to_its_end(log, whole, no_ctrl_c):
    """`nohup pintgn train … &`: what stops the script that began it does not stop the training."""

    def press(entry):
        signal.raise_signal(signal.SIGINT)

    try:
        run = quick(log, progress=press)
    except Interrupted:
        pytest.fail("it was stopped")
    assert outcome(run) == whole
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_run_stopped_before_its_first_checkpoint_says_so(log, tmp_path):
    def kill(entry):
        raise Killed

    with pytest.raises(Killed):
        quick(log, tmp_path / "run", progress=kill, checkpoint_seconds=100)
    with pytest.raises(BadFile, match="before its first checkpoint"):
        _ = Run.open(tmp_path / "run").stream


def test_the_same_call_again_returns_the_finished_run(log, whole, tmp_path):
    quick(log, tmp_path / "run")
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    again = quick(log, tmp_path / "run", progress=lambda entry: pytest.fail("trained again"))
    assert again.test == whole["test"]
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"batch": 60}}, "train.batch = 50, not 60"),
        ({"model": WITH_MEMORY | {"dim": 9}}, "model.dim = 8, not 9"),
        ({"seed": 1}, "seed 0, not 1"),
        ({"log": random_log(500, 20, 5, ties=4, features=2)}, "other data"),
        ({"resume": False}, "holds a run already"),
    ],
)
def test_another_run_is_not_mixed_into_a_folder(log, tmp_path, change, message):
    quick(log, tmp_path / "run", epochs=1)
    settings = {"epochs": 1} | change.get("settings", {})
    options = QUICK | {"checkpoint_seconds": 0, "memory_block": 30} | settings
    extra = {key: change[key] for key in ("seed", "resume") if key in change}
    with pytest.raises(BadInput, match=message):
        fit(
            PINT(**change.get("model", WITH_MEMORY)),
            change.get("log", log),
            folder=tmp_path / "run",
            **extra,
            **options,
        )


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_leaves_the_last_checkpoint_whole(log, whole, tmp_path, monkeypatch):
    writes = iter(range(10_000))

    def full(descriptor):
        if next(writes) >= 7:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BadFile, match=r"cannot write .*No space left on device\. Make room"):
            quick(log, tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*part"))
    assert outcome(quick(log, tmp_path / "run")) == whole


@pytest.mark.parametrize("damage", ["cut", "noise", "foreign", "other run"])
def test_a_checkpoint_that_is_not_this_runs_own_is_refused_in_one_line(log, tmp_path, damage):
    from safetensors.numpy import save_file

    def stop(entry):
        if "val" in entry:
            raise Killed

    with pytest.raises(Killed):
        quick(log, tmp_path / "run", progress=stop)
    path = tmp_path / "run" / "last.safetensors"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "noise":
        path.write_bytes(b"x" * 500)
    elif damage == "foreign":
        save_file({"a": np.zeros(3)}, path)
    else:
        with pytest.raises(Killed):
            quick(log, tmp_path / "other", progress=stop, learning_rate=1e-3)
        os.replace(tmp_path / "other" / "last.safetensors", path)
    with pytest.raises(BadFile, match="damaged|not written by pintgn|another run") as error:
        quick(log, tmp_path / "run")
    assert str(path) in str(error.value)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(BadFile, match="holds no run"):
        Run.open(tmp_path)
    with pytest.raises(BadFile, match="holds no run"):
        fitting.resume(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_settings_and_data_of_a_run_belong_together(log, tmp_path):
    quick(log, tmp_path / "run", epochs=1)
    settings = tmp_path / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace("batch = 50", "batch = 51"))
    with pytest.raises(BadFile, match="do not belong together"):
        Run.open(tmp_path / "run")


def test_a_run_folder_holds_no_pickle(log, tmp_path):
    import pickletools
    import zipfile

    quick(log, tmp_path / "run", epochs=1)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"settings.toml", "metrics.jsonl", "run.log", "best.safetensors", "last.safetensors"} <= {
        path.name for path in files
    }
    for path in files:
        data = path.read_bytes()
        if zipfile.is_zipfile(path):
            assert all(name.endswith(".npy") for name in zipfile.ZipFile(path).namelist())
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever pickletools says about what is no pickle
            list(pickletools.genops(data[:1000]))


def test_two_threads_on_one_folder_are_refused(log, tmp_path):
    place = Folder(tmp_path / "run")
    with place.locked(), pytest.raises(BadInput, match="in use"):
        quick(log, tmp_path / "run")


# -- learning ------------------------------------------------------------------------------------------------------


def test_training_learns():
    run = fit("pint", world(1_500), epochs=6)
    assert run.test["all"]["ap"] > 0.65  # 0.78 to 0.81 over four seeds; 0.5 is chance
    assert run.history[-1]["loss"] < run.history[0]["loss"]


def same_learning(one: Run, other: Run) -> bool:
    """The same but for last bits: every loss agrees. AP may jump where two scores are nearly equal."""
    losses, others = ([entry["loss"] for entry in run.history] for run in (one, other))
    close = one.test["all"]["ap"] == pytest.approx(other.test["all"]["ap"], abs=0.03)
    return close and losses == pytest.approx(others, rel=1e-3)


@pytest.mark.parametrize("unit", [1_000, 1 / 86_400])
def test_seconds_milliseconds_and_days_give_the_same_result(unit):
    log = world(800)
    other = EventLog(log.src, log.dst, log.t * unit if unit > 1 else log.t * np.float64(unit))
    assert len(np.unique(other.t)) == len(np.unique(log.t))
    found = [fit("pint", one, epochs=2) for one in (EventLog(log.src, log.dst, log.t), other)]
    ones, others = (run.settings.to_dict() for run in found)
    assert ones == others
    assert same_learning(*found)


def test_cents_and_dollars_give_the_same_result():
    log = random_log(400, 20, features=2)
    cents = EventLog(log.src, log.dst, log.t, features=log.features * np.float32([128, 1 / 64]) + np.float32([64, 0]))
    found = [fit("pint", one, epochs=1, batch=50) for one in (log, cents)]
    assert same_learning(*found)


def test_features_are_scaled_by_the_training_part_alone():
    log = random_log(400, 20, features=2)
    changed = np.array(log.features)
    changed[300:] *= 1_000
    later = EventLog(log.src, log.dst, log.t, features=changed)
    one, other = (Run(fitting.resolved(fitting.Settings.of({}), x), 0, x, PINT()) for x in (log, later))
    assert one.scaling == other.scaling
    assert np.abs(other.parts.log.features).max() < 20, "no outlier drowns the rest"


def test_hidden_events_deletions_and_later_events_are_never_trained_on():
    rng = np.random.default_rng(0)
    log = random_log(400, 20, op=np.where(rng.random(400) < 0.2, DELETE, 1))
    asked = []

    def watch(part, rng):
        asked.append(part)
        return part.query.toward(np.roll(part.dst, 1))

    run = fit(PINT(dim=8), log, negatives=watch, **QUICK | {"epochs": 1})
    trained = sum(map(len, [part for part in asked if part.t[-1] <= run.parts.train.t[-1]]))
    assert trained == run.parts.trained.learnable.sum()
    assert all((part.op == 1).all() for part in asked)
    assert run.test["all"]["events"] == run.parts.test.learnable.sum()
    assert run.stream.events == len(log), "at the end the stream has observed everything"


def test_a_diverging_loss_is_one_line():
    with pytest.raises(BadInput, match="smaller learning rate"):
        fit(PINT(dim=8), random_log(400, 20), **QUICK | {"learning_rate": 1e30, "clip": 0, "epochs": 20})


def test_training_in_a_thread_leaves_signals_and_torch_as_they_were(log):
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    state = torch.random.get_rng_state()
    worker = threading.Thread(target=lambda: quick(log, epochs=1))
    worker.start()
    worker.join()
    assert torch.get_num_threads() == threads
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert torch.equal(torch.random.get_rng_state(), state)


def test_several_runs_have_a_mean_and_a_standard_deviation(log, tmp_path):
    from pintgn.learn.figures_text import seeds_table

    settings = Settings.of({"model": {"dim": 8}, "train": QUICK | {"epochs": 1}})
    runs = seeds.fit_seeds(settings, log, [0, 1], tmp_path / "runs")
    aps = [run.test["all"]["ap"] for run in runs]
    assert aps[0] != aps[1]
    assert f"{100 * np.mean(aps):.2f} ± {100 * np.std(aps, ddof=1):.2f}" in seeds_table(runs)
    assert (tmp_path / "runs" / "seed-1" / "result.json").exists()
    with pytest.raises(BadInput, match="holds 2 runs"):
        Run.open(tmp_path / "runs")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_can_be_trained_continued_and_opened(name, tmp_path):
    log = random_log(300, 15)

    def kill(entry):
        if entry.get("done", 0) >= 100:
            raise Killed

    run = fitting.fit(Settings.of(tiny(name)), log)
    with contextlib.suppress(Killed):  # a model without parameters has no steps to be killed between
        fitting.fit(Settings.of(tiny(name)), log, folder=tmp_path / "run", progress=kill)
    again = fitting.fit(Settings.of(tiny(name)), log, folder=tmp_path / "run")
    assert again.settings == run.settings
    if not run.scores_links:
        assert run.test == {}
        assert pintgn.open(tmp_path / "run").embed([0])[1].any()
        return
    assert outcome(again) == outcome(run)
    assert run.test["all"]["ap"] > 0
    assert pintgn.open(tmp_path / "run").score(0, [1, 2]) == pintgn.open(run).score(0, [1, 2])
    other = {"edgebank": "heuristic"}.get(name, "edgebank")
    assert run.heuristics[other]["all"]["events"] == run.test["all"]["events"]


def test_what_a_model_settles_by_the_training_events_is_kept(tmp_path):
    log = random_log(300, 15)
    asked = {"model": {"name": "gat", "freeze": "train", "dim": 8}, "train": QUICK | {"epochs": 1}}
    run = fitting.fit(Settings.of(asked), log, folder=tmp_path / "run")
    assert run.settings.model["freeze"] == run.parts.trained.t[-1] + 1
    assert Run.open(tmp_path / "run").settings == run.settings
    again = fitting.fit(Settings.of(asked), log, folder=tmp_path / "run")
    assert again.test == run.test


def test_patience_and_tolerance_end_training_early():
    run = fit(PINT(dim=8), random_log(400, 20), **QUICK | {"epochs": 30, "patience": 2, "tolerance": 0.5})
    assert len(run.history) == 3  # the first epoch counts, then two that are not half a point better
    best = max(run.history, key=lambda entry: entry["val"]["all"]["ap"])
    assert run.best_epoch == best["epoch"], "the best epoch is kept however small its lead"


def test_a_run_with_own_negatives_goes_on_with_them_or_not_at_all(log, tmp_path):
    def mine(events, rng):
        return events.query.toward(np.zeros(len(events), np.int64))

    def stop(told):
        if told.get("epoch") == 1 and "val" in told:
            raise KeyboardInterrupt

    options = {"folder": tmp_path / "run", **QUICK}
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit(PINT(dim=8), log, negatives=mine, progress=stop, **options)
    with pytest.raises(BadInput, match="your own negatives; from Python, pass the same"):
        fitting.resume(tmp_path / "run")
    with pytest.raises(BadInput, match="your own negatives"):
        fit(PINT(dim=8), log, resume=True, **options)
    assert fitting.resume(tmp_path / "run", negatives=mine).finished
    assert fit(PINT(dim=8), log, resume=True, **options).finished, "what has ended needs nothing"
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit(PINT(dim=8), log, progress=stop, **options | {"folder": tmp_path / "plain"})
    with pytest.raises(BadInput, match="random negatives; leave out"):
        fitting.resume(tmp_path / "plain", negatives=mine)
