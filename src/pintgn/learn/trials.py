"""Trials of a search on workers: one process asks and tells, workers train and report their epochs to the storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.folder import Folder
from pintgn.learn.reproducible import Stopper
from pintgn.learn.tune import need_optuna, open_storage, pruner, value_of
from pintgn.workers.jobs import Jobs

Asked = Callable[[Any], tuple[dict[str, Any], dict[str, Any]]]
"""What a trial tries, and the settings that this makes."""


def try_on(
    jobs: Jobs,
    optuna: Any,
    study: Any,
    kept: str,
    log: EventLog,
    folder: Folder,
    asked: Asked,
    left: int,
    seed: int,
    progress: Callable[[dict[str, Any]], None],
) -> None:
    """Try so many settings on workers. One whose worker was lost is tried again; each is told once, here."""
    path = (folder / "events.parquet").resolve()
    with folder.errors(path):
        log.save(path)
    running: list[tuple[Any, dict[str, Any]]] = []

    def coming() -> Iterator[tuple[Any, ...]]:
        for _ in range(left):
            trial = study.ask()
            tried, given = asked(trial)
            running.append((trial, tried))
            yield study.study_name, kept, trial._trial_id, given, str(path), seed

    try:
        for number, (value, error) in jobs.run(try_one, coming()):
            trial, tried = running[number]
            if error is not None:
                trial.set_user_attr("error", error)
                _tell(study, trial, state=optuna.trial.TrialState.FAIL)
            elif value is None:
                _tell(study, trial, state=optuna.trial.TrialState.PRUNED)
            else:
                _tell(study, trial, values=value)
                progress({"trial": trial.number, "value": value, "tried": tried})
    finally:
        path.unlink(missing_ok=True)


def _tell(study: Any, trial: Any, **result: Any) -> None:
    """Store a result. With a grid's last point, its sampler stops a loop that there is not."""
    try:
        study.tell(trial, **result)
    except RuntimeError as error:  # the result is stored by now
        if "Study.stop" not in str(error):
            raise


def try_one(
    name: str, kept: str, trial_id: int, given: dict[str, Any], log: str, seed: int
) -> tuple[float | None, str | None]:
    """A trial by a worker: its best validation figure, None where it was pruned; or what was wrong with it."""
    optuna = need_optuna()
    with open_storage(optuna, kept) as opened:
        study = optuna.load_study(study_name=name, storage=opened, pruner=pruner(optuna))
        trial = optuna.trial.Trial(study, trial_id)
        try:
            return value_of(optuna, trial, given, EventLog.open(log), seed, Stopper(), lambda entry: None), None
        except optuna.TrialPruned:
            return None, None
        except BadInput as error:
            return None, str(error)
