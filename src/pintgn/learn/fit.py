"""fit: a model, a log and settings become a trained, tested and saved run; interrupted ones are continued."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn import __version__, compiled
from pintgn.display.progress import silent, takes_progress
from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.checks import same
from pintgn.events.log import EventLog
from pintgn.facts import check
from pintgn.learn.defaults import resolved
from pintgn.learn.figures_text import EpochBar, Progress
from pintgn.learn.folder import Folder
from pintgn.learn.hooks import Checkpoints, Interrupted, Interruptible, Reports, stop_message
from pintgn.learn.negatives import Negatives
from pintgn.learn.newer_events import Start, continued
from pintgn.learn.run import Run
from pintgn.learn.settings import (
    LEGACY_DEFAULTS,
    Settings,
    Streaming,
    TaskSettings,
    Training,
    check_names,
    dataclass_parameters,
)
from pintgn.learn.stack import add_trees
from pintgn.learn.train import Trainer, reproducible
from pintgn.models.base import Model
from pintgn.positions import first_use
from pintgn.positions.capacity import give_back
from pintgn.stream import Stream
from pintgn.workers.group import current


@takes_progress(EpochBar)
def fit(
    model: Model | str | Settings | Run | None = None,
    log: EventLog | None = None,
    *,
    folder: str | Path | None = None,
    seed: int = 0,
    resume: bool = True,
    negatives: Negatives | None = None,
    refit: bool = False,
    progress: Progress | bool | None = True,
    **settings: Any,
) -> Run:
    """Train on the first 70 % of a log, choose the epoch on the next 15 %, measure on the last.

    Args:
        model: a new model, taken as it is; or a name such as "pint", whose sizes are then chosen by the log; or
            `Settings`, which say all of it; or a run, with whose weights training begins and after whose log it is
            measured. A model is trained in place and ends with its best weights; a run that is continued has its own:
            `run.model`.
        log: everything there is; cut by time here. With a run, what came after its log, or both together.
        folder: where the run is kept. A run of the same settings and data that is already there is continued to a
            bit-identical end, or returned if it has ended.
        seed: of hidden nodes, parameters and negatives.
        resume: whether a run in `folder` may be continued; otherwise it is an error that there is one.
        negatives: what to tell events from; random destinations by default.
        refit: after the measurement, train on the whole log for as many epochs as validation chose. That model is then
            used (`run.deployed`); the figures stay those of the one that was measured.
        progress: True shows a bar in a terminal or a notebook, and nothing elsewhere; False or None shows none; a
            function is called with a dict, after every batch and every epoch: see `pintgn.learn.figures_text.Progress`.
        settings: fields of `Training` (epochs, learning_rate, …), of `Streaming` (memory_block, …) and of
            `TaskSettings`: `predict="fraud", given=["amount"]` asks about a column of events; see docs/tasks.md.

    >>> import pintgn
    >>> log = pintgn.simulate("shop", events=400, seed=0)
    >>> run = pintgn.fit(pintgn.PINT(dim=8), log, epochs=1)
    >>> run
    Run(pint, seed 0, best epoch 1 of 1)
    >>> sorted(run.test["all"])
    ['ap', 'auc', 'chunked_ap', 'events']
    """
    assert callable(progress)  # by `takes_progress`
    check_arguments(model, log, seed)
    start = None
    if isinstance(model, Run):
        model, log, start = continued(model, log, settings)
        settings = {}
    assert model is not None
    assert log is not None
    chosen = resolved(_settings_of(model, settings), log)
    made = model if isinstance(model, Model) else chosen.make_model()
    if made.on_processor and torch.device(chosen.stream.device).type != "cpu":
        what = f"{chosen.name} computes on the processor; device={chosen.stream.device!r} makes it no faster."
        warnings.warn(what, PintgnWarning, stacklevel=3)
    if made.positions:
        first_use.start()
    folder = current().writes(folder)
    run_folder = None if folder is None else Folder(folder)
    run = Run(chosen, seed, log, made, run_folder, start=start)
    run.task.check(run.parts)  # data that cannot be cut, or asked about, is refused before anything is written
    if run.scaling.vocabulary is not None:
        warnings.warn(str(run.scaling.vocabulary), PintgnWarning, stacklevel=3)
    if run_folder is None:
        return completed(run, negatives, refit, progress)
    with run_folder.locked():
        if run_folder.holds_run:
            run = existing_run(run_folder, chosen, seed, log, made, resume, start)
            check_negatives(run, negatives, refit)
        else:
            run.prepare()
            run.create(own_negatives=negatives is not None, refit=refit)
            run.note(f"started: {chosen.name}, seed {seed}, {log!r}")
        return completed(run, negatives, refit, progress)


def resume(
    folder: str | Path,
    model: Model | None = None,
    progress: Progress = silent,
    negatives: Negatives | None = None,
    refit: bool = False,
) -> Run:
    """Continue the run in a folder to its end; at once when it has ended. A run with own negatives needs them again."""
    run_folder = Folder(folder)
    refit = refit or run_folder.read_json("run.json").get("refit", False)
    if current().rank:  # another worker writes
        run = Run.open(folder, model, weights=False)
        if run.start is not None:
            run.start = replace(run.start, weights=run.start_weights())
        run.folder = None
        return completed(run, negatives, refit, progress)
    with run_folder.locked():
        run = Run.open(folder, model)
        check_negatives(run, negatives, refit)
        return completed(run, negatives, refit, progress)


def completed(run: Run, negatives: Negatives | None, refit: bool, progress: Progress) -> Run:
    """A completed run: trained, tested, and refitted on the whole log if requested."""
    agree(run, refit)
    if not run.finished:
        train(run, negatives, progress)
    if refit and run.refit is None:
        from pintgn.learn.refit import train_on_everything

        train_on_everything(run, negatives, progress)
    return run


def train(run: Run, negatives: Negatives | None = None, progress: Progress = silent) -> Run:
    """Train a run from its last saved step to its end."""
    with reproducible(run.settings.train.threads):
        if run.folder is None or not (run.folder / "last.safetensors").exists():
            progress({"phase": "preparing"})
            run.prepare()
        with Interruptible() as stop:
            trainer = Trainer(run, negatives, [Checkpoints(progress), Reports(progress), stop])
            trainer.learn()
        if run.model.with_trees:
            add_trees(run, trainer, negatives, progress)
        run.note(f"testing the weights of epoch {run.best_epoch}")
        try:
            measure_run(run, trainer.kept, negatives, progress)
        except KeyboardInterrupt:
            raise Interrupted(stop_message(run, "while testing")) from None
    return run


def measure_run(run: Run, kept: Stream | None, negatives: Negatives | None, progress: Progress) -> None:
    """Calibrate on validation and evaluate on test with the weights that validation chose; keep the stream.

    `kept` has observed the training part, and is used up.
    """
    started = compiled.working_time()
    progress({"phase": "test"})
    give_back()
    run.calibrate(lambda: run.stream_after(run.parts.train) if kept is None else kept, test=True, negatives=negatives)
    if run.answers:
        progress({"phase": "heuristics"})
        run.task.measure_baselines(run, negatives)
    run.finished = True
    run.spent = {
        "training_seconds": sum(entry["seconds"] for entry in run.history),
        "testing_seconds": compiled.working_time() - started,
        "compiling_seconds": compiled.seconds(),
    }
    if (memory := peak_memory()) is not None:
        run.spent["peak_memory_bytes"] = memory
    if run.folder is not None:
        progress({"phase": "saving"})
        with run.folder.errors(run.folder / "stream"):
            run.stream.save(run.folder / "stream")
        run.folder.write_json("result.json", run.result())
    run.write_metrics()


def peak_memory() -> int | None:
    """Peak resident memory of this process in bytes; None where the system does not report it.

    Linux counts what the process that started this one held as its own in `ru_maxrss`, but not in VmHWM.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


# -- what is asked for, and whether a folder holds it ------------------------------------------------------------------


def check_arguments(model: Any, log: Any, seed: Any) -> None:
    """Refuse a wrong model or log, and say how to make one."""
    call = 'fit(model, log), as in fit("pint", log)'
    if isinstance(model, EventLog):
        raise BadInput(f"fit was given a log where the model belongs: {call}.")
    if isinstance(model, type) and issubclass(model, Model):
        raise BadInput(f"fit was given the class {model.__name__}; make a model of it: fit({model.__name__}(), log).")
    if not isinstance(model, Model | str | Settings | Run):
        raise BadInput(f"fit was given {_named(model)} where the model belongs: {call}{_reading(model)}.")
    if log is None:
        raise BadInput(f"fit was given no log: {call}.")
    if not isinstance(model, Run) and not isinstance(log, EventLog):  # after a run's log anything that can be read
        raise BadInput(f"fit was given {_named(log)} where the log belongs: {call}{_reading(log)}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise BadInput(f"seed={seed!r}; it is a whole number from 0 on.")


def _named(given: Any) -> str:
    """
    >>> _named("trades.csv"), _named([1, 2]), _named(None)
    ("'trades.csv'", 'a list', 'nothing')
    """
    if given is None or isinstance(given, str | Path):
        return "nothing" if given is None else repr(str(given))
    name = type(given).__name__
    return f"a{'n' if name[0] in 'AEIOUaeiou' else ''} {name}"


def _reading(given: Any) -> str:
    """Text on how to make a log of an argument, if it may be data."""
    if isinstance(given, str | Path):
        return f", where log = pintgn.read_events({str(given)!r})"
    tabular = hasattr(given, "columns") or hasattr(given, "column_names")
    return ", where log = pintgn.read_events(table, src, dst, t) by column names" if tabular else ""


def _settings_of(model: Model | str | Settings, given: Mapping[str, Any]) -> Settings:
    """Arguments of `fit` as settings."""
    if isinstance(model, Settings):
        if given:
            raise BadInput(f"fit was given Settings and {', '.join(given)} besides; put them into the Settings.")
        return model
    kinds = {"train": Training, "stream": Streaming, "task": TaskSettings}
    known = {table: dataclass_parameters(kind) for table, kind in kinds.items()}
    check_names(given, [name for names in known.values() for name in names], "fit")
    tables: dict[str, Any] = {
        table: {key: given[key] for key in given if key in names} for table, names in known.items()
    }
    if isinstance(model, str):
        return Settings.of({"model": {"name": model}, **tables})
    return Settings.of_model(model, tables)


def check_negatives(run: Run, negatives: Negatives | None, refit: bool) -> None:
    """Check that a run in a folder is resumed with negatives of the caller's own if, and only if, it was started with
    some."""
    own, ended = negatives is not None, run.finished and not (refit and run.refit is None)
    assert run.folder is not None
    if not ended and run.folder.read_json("run.json").get("own_negatives", own) != own:
        begun, what = ("random negatives", "leave out") if own else ("your own negatives", "from Python, pass the same")
        raise BadInput(f"the run in {run.folder.path} was begun with {begun}; {what} `negatives`.")


def existing_run(
    run_folder: Folder, settings: Settings, seed: int, log: EventLog, model: Model, resume: bool, start: Start | None
) -> Run:
    """The run in a folder, if it is the requested one."""
    if not resume:
        raise BadInput(f"{run_folder.path} holds a run already. Continue it with --resume, or choose another folder.")
    path = run_folder / "run.json"
    facts = check(run_folder.read_json(path.name), {"asked": dict, "data": str}, str(path), "Train again.")
    differs = ""
    if facts["seed"] != seed:
        differs = f"of seed {facts['seed']}, not {seed}"
    for table, values in settings.to_dict().items():
        for key, value in values.items():
            had = facts["asked"].get(table, {}).get(key, LEGACY_DEFAULTS.get(table, {}).get(key, value))
            if had != value and key not in ("threads", "checkpoint_seconds"):
                differs = differs or f"with {table}.{key} = {had!r}, not {value!r}"
    if log.fingerprint != facts["data"]:
        differs = differs or "on other data"
    if facts.get("start") != (start and start.facts()):
        differs = differs or "that began with other weights"
    if not differs:
        found = Run.open(run_folder.path, type(model))
        if settings.task.scores_links or same(found.log.label, log.label):
            return found
        differs = "on other labels"
    raise BadInput(f"{run_folder.path} holds a run {differs}. Choose another folder.")


def agree(run: Run, refit: bool) -> None:
    """Synchronise workers before the first step: refuse other data, settings or versions, and share the progress of the
    run. The first worker passes on what it reads from the folder, so the others need no access to it."""
    group = current()
    if group.size == 1:
        return
    asked = run.asked or run.settings
    group.check_same({
        "versions": f"pintgn {__version__}, torch {torch.__version__}, numpy {np.__version__}",
        "Python": platform.python_version(),
        "data": run.log.fingerprint,
        "settings": replace(asked, train=replace(asked.train, threads=None, checkpoint_seconds=0.0)).to_toml(),
        "seed": f"{run.seed}",
        "weights to begin with": "none" if run.start is None else f"those after {run.start.events} events",
        "use of --refit": f"{refit}",
    })  # fmt: skip
    found = group.from_first(lambda: (run.finished, run.refit is not None, run.best_epoch))
    if group.rank:
        run.finished, refitted, run.best_epoch = found
        run.refit = run if refitted else None
