"""Search for settings with optuna, over the paper's grid or a space of your own, chosen on validation only.

Every finished trial is on disk at once (a journal in the folder), so a search that was stopped goes on where it was. A
trial that was cut off is tried again. No trial ever sees the test part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pintgn.display.bars import open_bar
from pintgn.display.progress import takes_progress
from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog
from pintgn.formatting import shown_address
from pintgn.learn.defaults import resolved
from pintgn.learn.folder import Folder
from pintgn.learn.hooks import Interrupted, Interruptible
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings, toml_tables
from pintgn.learn.settings_files import merged, read_toml
from pintgn.learn.train import Hook, Trainer, reproducible
from pintgn.packages import need

Space = dict[str, Any]
"""Setting -> a list of choices, or {low, high} with optional log and step: {"model.layers": [1, 2]}."""

SPACES: dict[str, Space] = {
    "default": {
        "train.learning_rate": {"low": 3e-4, "high": 1e-2, "log": True},
        "model.beta": {"low": 1e-3, "high": 1.0, "log": True},
        "model.neighbors": [10, 20],
        "model.dim": [64, 128],
        "model.positions": [4, 6],
    },
    # the grid of the paper's appendix; β is per raw unit of time there
    "paper": {
        "model.neighbors": [10, 20],
        "model.layers": [1, 2],
        "model.beta_rule": [
            "learned from 0.1",
            "learned from 0.5",
            "1e-3 per neighbor",
            "1e-4 per neighbor",
            "1e-5 per neighbor",
        ],
    },
}


@dataclass(frozen=True)
class Tuned:
    """Result of a search."""

    settings: dict[str, Any]  # the best trial's, as nested tables
    value: float  # its validation figure
    trials: list[dict[str, Any]]  # every trial: number, state, value, what it tried

    def to_dict(self) -> dict[str, Any]:
        return {"settings": self.settings, "value": self.value, "trials": self.trials}


@contextmanager
def trial_bar() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Progress bar that names the current trial and the last figure."""
    with open_bar("searching") as bar:

        def show(entry: dict[str, Any]) -> None:
            known = f"val {entry['value']:.4f}" if "value" in entry else f"epoch {entry['epoch']}"
            bar.doing(f"trial {entry['trial']}  {known}")

        yield show


@takes_progress(trial_bar)
def tune(
    log: EventLog,
    folder: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    space: Space | str = "default",
    trials: int = 20,
    seed: int = 0,
    storage: str | None = None,
    progress: Callable[[dict[str, Any]], None] | bool | None = None,
) -> Tuned:
    """Search a space of settings; the best go to `folder/best.toml`.

    Args:
        log: cut by time as in `fit`; trials train on its first part and are evaluated on its second.
        folder: keeps the journal of trials; a search of the same space and data that is there goes on.
        settings: tables (model, train, stream) that every trial shares.
        space: a name (`default`, `paper`) or a mapping; see `Space`.
        trials: how many in all, those already done included.
        seed: of the search and of every trial.
        storage: where trials are kept, in place of a journal in the folder: the address of a database that optuna
            takes, such as sqlite:///trials.db or postgresql://…. Several processes or machines that name the same
            search there, by the name of their folder, work on it together.
        progress: True for a bar, or a function that is called with a dict after every epoch and every trial.
    """
    assert callable(progress)  # by `takes_progress`
    optuna = need_optuna()
    base = dict(settings or {})
    chosen = _space(space)
    for name in chosen:  # mistyped names are found before the first trial
        _applied(base, {name: _first(chosen[name])})
    run_folder = Folder(folder)
    kept = storage or str((run_folder / "trials.journal").resolve())
    run_folder.path.mkdir(parents=True, exist_ok=True)
    alone = run_folder.locked() if storage is None else nullcontext()
    with alone, open_storage(optuna, kept) as opened, Interruptible() as stop:
        study = _study(optuna, run_folder, opened, chosen, log.fingerprint, seed)
        if storage is None:  # else they may be another machine's
            _retry_stopped(optuna, study)
        left = trials - sum(trial.state.is_finished() and not _was_stopped(optuna, trial) for trial in study.trials)

        def objective(trial: Any) -> float:
            tried, given = _trial(trial, chosen, base)
            try:
                value = value_of(given, log, seed, _TrialHook(optuna, trial, progress, stop))
            except BadInput as error:
                trial.set_user_attr("error", str(error))
                raise
            progress({"trial": trial.number, "value": value, "tried": tried})
            return value

        study.optimize(objective, n_trials=max(left, 0), catch=(BadInput,))
        done = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
        if not done:
            reasons = [trial.user_attrs["error"] for trial in study.trials if "error" in trial.user_attrs]
            raise BadInput(f"no trial was completed: {reasons[0] if reasons else 'every one was pruned or stopped.'}")
        best = _applied(base, study.best_params)
        title = f"# best of {len(done)} completed trials, by validation: {study.best_value:.4f}\n\n"
        run_folder.write("best.toml", title + toml_tables(best))
    listed = [
        {"trial": t.number, "state": t.state.name.lower(), "value": t.value, "tried": t.params} for t in study.trials
    ]
    return Tuned(best, float(study.best_value), listed)


def read_space(path: str | Path) -> Space:
    """A space from a TOML file: a table `space` (or the whole file) with settings as keys."""
    given = read_toml(path, "space")
    flat: Space = {}
    for name, value in given.get("space", given).items():
        tables = isinstance(value, Mapping) and not {"low", "high"} & value.keys()
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if tables else {name: value}
    return flat


class _TrialHook(Hook):
    """Reports a trial's epochs to optuna, which prunes hopeless trials between epochs."""

    def __init__(self, optuna: Any, trial: Any, progress: Any = lambda entry: None, stop: Interruptible | None = None):
        self.optuna, self.trial, self.progress, self.stop = optuna, trial, progress, stop

    def on_step(self, trainer: Trainer) -> None:
        if self.stop is not None and self.stop.asked:
            raise Interrupted("Stopped. The search goes on where it was when it is started again.")

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        self.trial.report(trainer.task.value(entry["val"]["all"], trainer.settings), entry["epoch"])
        self.progress({"trial": self.trial.number, **entry, "epochs": trainer.settings.epochs})
        if self.trial.should_prune():
            raise self.optuna.TrialPruned
        self.on_step(trainer)


def value_of(given: dict[str, Any], log: EventLog, seed: int, hook: Hook) -> float:
    """Train one trial and return its best validation figure."""
    chosen = resolved(Settings.of(given), log)
    run = Run(chosen, seed, log, chosen.make_model())
    with reproducible(chosen.train.threads):
        trainer = Trainer(run, None, [hook])
        trainer.learn()
    return trainer.cursor.best_value


def _space(given: Space | str) -> Space:
    if isinstance(given, str):
        if given not in SPACES:
            raise UnknownName(f"there is no space {given!r}.{suggest(given, SPACES)}")
        given = SPACES[given]
    if not given:
        raise BadInput("the space is empty; name at least one setting, such as model.layers = [1, 2].")
    for name, options in given.items():
        choices = isinstance(options, list) and options
        bounds = isinstance(options, Mapping) and {"low", "high"} <= options.keys() <= {"low", "high", "log", "step"}
        if not choices and not bounds:
            raise BadInput(f"{name} = {options!r} is neither a list of choices nor {{low = …, high = …, log = true}}.")
    return given


def _first(options: Any) -> Any:
    return options[0] if isinstance(options, list) else options["low"]


def _suggested(trial: Any, name: str, options: Any) -> Any:
    if isinstance(options, list):
        return trial.suggest_categorical(name, options)
    low, high, log, step = options["low"], options["high"], options.get("log", False), options.get("step")
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(name, low, high, step=step or 1, log=log)
    return trial.suggest_float(name, low, high, step=step, log=log)


def _applied(base: Mapping[str, Any], tried: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with a trial's values laid over; checked. The paper's rules for β become β once neighbors are known."""
    given = dict(base)
    for name, value in tried.items():
        table, dot, key = name.partition(".")
        if not dot:
            raise BadInput(f"{name!r} in a space needs its table, as in model.{name} or train.{name}.")
        given = merged(given, {table: {key: value}})
    model = dict(given.get("model", {}))
    if "beta_rule" in model:
        words = model.pop("beta_rule").split()
        learned = words[0] == "learned"
        beta = float(words[-1]) if learned else float(words[0]) * model.get("neighbors", 10)
        given["model"] = model | {"beta": beta, "learn_beta": learned, "time_unit": 1.0}
    Settings.of(given)
    return given


def _trial(trial: Any, space: Space, base: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of a trial, and the settings made of them."""
    tried = {name: _suggested(trial, name, options) for name, options in space.items()}
    return tried, _applied(base, tried)


@contextmanager
def open_storage(optuna: Any, kept: str) -> Iterator[Any]:
    """The storage of trials: a journal file, or a database by its address."""
    if "://" not in kept:
        yield optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(kept))
        return
    address = kept.replace("postgresql://", "postgresql+psycopg://", 1)
    try:
        opened = optuna.storages.RDBStorage(address)
    except Exception as error:  # of SQLAlchemy, of its drivers, of the server
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(f"trials cannot be kept at {shown_address(kept)}: {reason}") from None
    try:
        yield opened
    finally:
        opened.remove_session()
        opened.engine.dispose()


def pruner(optuna: Any) -> Any:
    return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)


def _study(optuna: Any, run_folder: Folder, opened: Any, space: Space, data: str, seed: int) -> Any:
    journal = isinstance(opened, optuna.storages.JournalStorage)
    choices = all(isinstance(options, list) for options in space.values())
    sampler = optuna.samplers.GridSampler(space, seed=seed) if choices else optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(
        study_name="pintgn" if journal else f"pintgn {run_folder.path.resolve().name}",
        storage=opened,
        sampler=sampler,
        pruner=pruner(optuna),
        direction="maximize",
        load_if_exists=True,
    )
    attributes = {"space": space, "data": data, "seed": seed}
    if study.user_attrs and study.user_attrs != attributes:
        differs = next(key for key in attributes if study.user_attrs.get(key) != attributes[key])
        raise BadInput(f"{run_folder.path} holds a search with another {differs}. Choose another folder.")
    for key, value in attributes.items():
        study.set_user_attr(key, value)
    return study


def _retry_stopped(optuna: Any, study: Any) -> None:
    """Trials that were cut off are put in line again, each once."""
    again = {trial.user_attrs.get("again") for trial in study.trials}
    for trial in study.trials:
        if trial.state == optuna.trial.TrialState.RUNNING:  # its process was killed
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        elif not _was_stopped(optuna, trial):
            continue
        if trial.number not in again:
            study.enqueue_trial(trial.params, user_attrs={"again": trial.number})


def _was_stopped(optuna: Any, trial: Any) -> bool:
    """Whether a trial was stopped from outside, not by an error of its own."""
    return trial.state == optuna.trial.TrialState.FAIL and "error" not in trial.user_attrs


def need_optuna() -> Any:
    optuna = need("optuna", extra="tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
