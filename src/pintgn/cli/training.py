"""`pintgn train` and `tune`: train on a log, select on validation, test, keep the run; search for settings."""

from __future__ import annotations

import shlex
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from pintgn.cli.common import AsJson, Bar, Overwrite, emit_json, next_steps, note, say
from pintgn.cli.evaluation import after_training
from pintgn.cli.option_groups import grouped
from pintgn.cli.shared_work import restarted, writes
from pintgn.cli.source import Reader, reads_events
from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.formatting import size
from pintgn.learn.figures_text import EpochBar


@dataclass
class TaskOptions:
    """The question of a run; the fields of `TaskSettings`."""

    predict: Annotated[
        str | None,
        Option(metavar="WHAT", help="What to predict: link (the default), or a column: numbers or categories."),
    ] = None
    given_columns: Annotated[
        str | None,
        Option("--given", metavar="COLUMNS", help="Columns that are known before the event, separated by commas."),
    ] = None
    known_after: Annotated[
        str | None, Option(metavar="TIME", help="How long after its event a target becomes known, such as 30d.")
    ] = None
    of: Annotated[str | None, Option("--of", metavar="END", help="The target is a state of this end: src or dst.")] = (
        None
    )
    within: Annotated[str | None, Option(metavar="TIME", help="Horizon of 'return' and 'meet', such as 30d.")] = None
    relation: Annotated[
        str | None,
        Option(
            metavar="COLUMN", help="Column of the relation by which two meet; the relation is part of the question."
        ),
    ] = None


@dataclass
class SettingsOptions:
    """Sources of settings, later ones over earlier ones."""

    model: Annotated[
        str | None, Option("--model", help="Model name: pint, tgn, tgat, …; or module:Class; pint by default.")
    ] = None
    settings: Annotated[
        list[str] | None,
        Option("--set", help="A setting, as in --set model.layers=2 or --set train.epochs=5; may be repeated."),
    ] = None
    config: Annotated[Path | None, Option(help="TOML file of settings: tables model, train and stream.")] = None
    row: Annotated[str | None, Option(help="Name of a row, in a settings file that has several.")] = None


@dataclass
class TrainingOptions:
    """Short for settings of [train]."""

    epochs: Annotated[int | None, Option(help="Maximum number of epochs; short for --set train.epochs.")] = None
    purpose: Annotated[
        str | None,
        Option(
            "--for",
            metavar="PURPOSE",
            help="ranking: for recommending; rank the next destination first, select on MRR. Default: scores.",
        ),
    ] = None
    train_until: Annotated[
        str | None,
        Option(metavar="TIME", help="Train on events before this date or time instead of the first 70 %."),
    ] = None
    val_until: Annotated[
        str | None, Option(metavar="TIME", help="Select on those before this one, test on the rest.")
    ] = None


@dataclass
class RunOptions:
    """Number and seeds of the runs, and what follows."""

    seed: Annotated[int, Option(help="Seed of hidden nodes, parameters and negatives.")] = 0
    runs: Annotated[int, Option(help="Number of runs, with seeds from --seed on; mean ± std.")] = 1
    refit: Annotated[
        bool, Option("--refit", help="Then train on the whole log, for use; figures stay those of the test part.")
    ] = False
    resume: Annotated[bool, Option("--resume", help="Continue a run; DATA may be its folder.")] = False
    workers: Annotated[int, Option(min=1, help="With --runs: number of runs that are trained at once.")] = 1
    on: Annotated[
        str | None, Option(help="Where they are trained: local, or ray (the cluster that RAY_ADDRESS names).")
    ] = None


@reads_events
@grouped
def train(
    load: Reader,
    task: TaskOptions,
    chosen: SettingsOptions,
    short: TrainingOptions,
    how: RunOptions,
    folder: Annotated[
        Path | None, Option("--output", "-o", help="Folder of the run; runs/DATA-MODEL by default.")
    ] = None,
    newer: Annotated[
        str | None,
        Option(
            "--with", metavar="FILE", help="Newer events: continue from the weights of the run DATA, and test on these."
        ),
    ] = None,
    overwrite: Overwrite = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the resolved settings and the memory they will take, and exit.")
    ] = False,
    with_report: Annotated[
        bool, Option("--report/--no-report", help="Write a report at the end: FOLDER/report.html.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Train a model on the first 70 % of the events, select its epoch on the next 15 %, test it on the last 15 %."""
    given = read_given(chosen)  # mistyped settings are found before the data is read
    given.setdefault("train", {}).update({key: value for key, value in vars(short).items() if value is not None})
    data = load.shown
    one, many = ((Path(data) / name).exists() for name in ("run.json", "runs.json"))
    if (how.workers > 1 or how.on is not None) and how.runs < 2 and not (how.resume and many):
        raise BadInput(
            "--workers and --on spread the runs of --runs. Several processes train one run as "
            f"torchrun --nproc-per-node {max(how.workers, 2)} -m pintgn train ...; see docs/distributed.md."
        )
    read_task(given, load, task)
    from pintgn.positions import first_use

    if given.get("model", {}).get("name", "pint") == "pint":  # while the data is read
        first_use.start()
    if restarted():
        how.resume, overwrite = True, False
    if newer is not None or (how.resume and (one or many)):
        if newer is not None:
            check_newer(data, one, given, how.runs)
        ended = folder or free_folder(Path(data)) if newer is not None else Path(data)
        show_result(continued(data, one, newer, ended, given, how), ended, as_json, with_report)
        return
    if how.runs < 1:
        raise BadInput(f"--runs {how.runs}; at least one is needed.")
    if folder is not None and not (how.resume or overwrite) and writes() and holds_run(folder):
        ways = "Continue it with --resume, replace it with --overwrite, or choose another folder"
        raise BadInput(f"{folder} holds a run already. {ways}.")
    from pintgn.learn import memory_budget
    from pintgn.learn.defaults import resolved
    from pintgn.learn.settings import Settings
    from pintgn.learn.tasks.values import few_values

    settings = Settings.of(given)
    log = load()
    note(few_values(log, settings.task))
    found = resolved(settings, log)
    bytes_of = memory_budget.require(found, log)
    if dry_run:
        emit_json(found.to_dict() | {"memory": bytes_of}) if as_json else print(found.to_toml(), end="")
        parts = ", ".join(f"{n} {size(b)}" for n, b in sorted(bytes_of.items(), key=lambda one: -one[1]))
        say(f"memory: about {size(sum(bytes_of.values()))} at most ({parts})")
        return
    about = settings.task.relation if settings.task.scores_links else settings.task.predict
    folder = folder or free_folder(
        Path("runs") / f"{data_stem(data)}-{settings.name}{'' if about is None else f'-{about}'}"
    )
    if overwrite and writes():
        remove_run(folder)
    show_result(fitted(settings, log, folder, how), folder, as_json, with_report)


def fitted(settings: Any, log: EventLog, folder: Path, how: RunOptions) -> list[Any]:
    """One run, or one for each seed."""
    from pintgn.learn.fit import fit
    from pintgn.learn.seeds import fit_seeds
    from pintgn.workers.group import together

    with EpochLines() as lines, together(), jobs_of(how.on, how.workers) as jobs:
        options: dict[str, Any] = {"refit": how.refit, "progress": lines, "resume": how.resume}
        if how.runs > 1:
            return fit_seeds(settings, log, range(how.seed, how.seed + how.runs), folder, jobs=jobs, **options)
        return [fit(settings, log, folder=folder, seed=how.seed, **options)]


def continued(
    data: str, one: bool, newer: str | None, folder: Path, given: dict[str, Any], how: RunOptions
) -> list[Any]:
    """A run that continues the one in a folder with newer events; or stopped runs, completed."""
    from pintgn.learn.fit import fit, resume
    from pintgn.learn.run import Run
    from pintgn.learn.seeds import resume_seeds
    from pintgn.workers.group import together

    with EpochLines() as lines, together(), jobs_of(how.on, how.workers) as jobs:
        if newer is not None:
            later: Any = newer  # read like the log of the run
            options: dict[str, Any] = {"seed": how.seed, "resume": how.resume, "refit": how.refit, "progress": lines}
            return [fit(Run.open(data), later, folder=folder, **options, **given.get("train", {}))]
        if one:
            return [resume(data, progress=lines, refit=how.refit)]
        return resume_seeds(data, lines, how.refit, jobs)


@reads_events
@grouped
def tune(
    load: Reader,
    task: TaskOptions,
    chosen: SettingsOptions,
    folder: Annotated[
        Path | None,
        Option("--output", "-o", help="Folder of the search; runs/DATA-tune by default. An existing one is continued."),
    ] = None,
    space: Annotated[
        str, Option(help="default, paper (the paper's grid), or a TOML file: model.layers = [1, 2] …")
    ] = "default",
    trials: Annotated[int, Option(help="Total number of trials.")] = 20,
    seed: Annotated[int, Option(help="Seed of the search and of every trial.")] = 0,
    storage: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="Keep trials in a database (sqlite:///FILE, postgresql://…) that several processes share.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search for settings with optuna, over the paper's grid or your own space, selected on validation. Resumable."""
    given = read_given(chosen)
    read_task(given, load, task)
    from pintgn.learn.settings import Settings
    from pintgn.learn.tasks.values import few_values
    from pintgn.learn.tune import SPACES, read_space
    from pintgn.learn.tune import tune as search

    def progress(entry: dict[str, Any]) -> None:
        if "value" in entry:
            shown = {name: f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in entry["tried"].items()}
            tried = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in shown.items())
            say(f"trial {entry['trial']}  val {entry['value']:.4f}  {tried}")

    wanted = space if space in SPACES or not Path(space).exists() else read_space(space)
    folder = folder or Path("runs") / f"{data_stem(load.shown)}-tune"
    log = load()
    note(few_values(log, Settings.of(given).task))
    try:
        found = search(
            log, folder, settings=given, space=wanted, trials=trials, seed=seed, storage=storage, progress=progress
        )
    except KeyboardInterrupt as stop:  # typer would swallow what it says
        say(str(stop) or "Interrupted.")
        raise typer.Exit(130) from None
    if as_json:
        emit_json(found.to_dict() | {"folder": str(folder)})
    else:
        print((folder / "best.toml").read_text(), end="")
        data = f"{shlex.quote(load.shown)} {load.flags}".strip()
        say(f"\nNext: pintgn train {data} --config {shlex.quote(str(folder / 'best.toml'))}")


def jobs_of(on: str | None, workers: int) -> AbstractContextManager[Any]:
    """Workers for independent jobs; None where none are asked for."""
    from pintgn.workers.jobs import open_jobs

    return nullcontext() if on is None and workers == 1 else open_jobs(on or "local", workers)


def read_given(chosen: SettingsOptions) -> dict[str, Any]:
    """The settings of --config, --model and --set, later ones over earlier ones, names and types checked."""
    from pintgn.learn.settings import Settings
    from pintgn.learn.settings_files import merged, parse_setting, read_settings
    from pintgn.models.registry import trust

    given: dict[str, Any] = {} if chosen.config is None else read_settings(chosen.config, chosen.row)
    if chosen.config is None and chosen.row is not None:
        raise BadInput("--row names a row of a settings file; name the file with --config.")
    if chosen.model is not None:
        trust(chosen.model)
        given = merged(given, {"model": {"name": chosen.model}})
    name = given.get("model", {}).get("name", "pint")
    for text in chosen.settings or []:
        given = merged(given, parse_setting(text, name))
    Settings.of(given)
    return given


def read_task(given: dict[str, Any], load: Reader, asked: TaskOptions) -> None:
    """Add the question to the settings, and have its columns read."""
    from pintgn.learn.settings import Settings

    task = {name: value for name, value in vars(asked).items() if value is not None}
    if (columns := task.pop("given_columns", None)) is not None:
        task["given"] = [part.strip() for part in columns.split(",") if part.strip()]
    if task:
        given["task"] = given.get("task", {}) | task
    load.add_columns(Settings.of(given).task)


def data_stem(data: str) -> str:
    """The name of a data file without its extensions."""
    return "stdin" if data == "-" else Path(data.rstrip("/")).name.split(".")[0] or "run"


def holds_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("run.json", "runs.json"))


def remove_run(folder: Path) -> None:
    """Delete a run that is to be replaced; a folder that is not a run, or holds events of a service, stays."""
    if not folder.exists():
        return
    if any(folder.rglob("live/*")):
        raise BadInput(f"{folder} holds the events of a service in {folder / 'live'}. Choose another folder.")
    if any(folder.iterdir()) and not holds_run(folder):
        raise BadInput(f"{folder} holds something, but no run. Choose another folder.")
    shutil.rmtree(folder)


def free_folder(first: Path) -> Path:
    """A folder of this name, with a number behind it when that is taken."""
    folder, number = first, 2
    while folder.exists():
        folder, number = first.with_name(f"{first.name}-{number}"), number + 1
    return folder


def check_newer(data: str, is_run: bool, given: dict[str, Any], runs: int) -> None:
    """Check the arguments of --with: what it continues from, and what it cannot change."""
    if not is_run:
        raise BadInput(f"--with goes on from a run; {data} is none. Name the folder that `pintgn train` made.")
    if fixed := [table for table in ("model", "stream") if given.get(table)]:
        raise BadInput(f"--with goes on with the {fixed[0]} of the run; only settings of [train] can change.")
    if runs != 1:
        raise BadInput("--with goes on from one run; leave out --runs.")


def show_result(made: list[Any], folder: Path, as_json: bool, with_report: bool) -> None:
    """The answer on stdout; what to do next on stderr; and a report, if wanted."""
    from pintgn.learn.figures_text import seeds_table

    if made[0].folder is None:  # one of several workers, of which another writes
        return
    if not as_json:
        print(seeds_table(made) if len(made) > 1 else made[0])
    written = after_training(made, folder) if with_report else None
    if as_json:
        results = [
            run.result() | {"folder": str(run.folder.path), "settings": run.settings.to_dict(), "history": run.history}
            for run in made
        ]
        emit_json((results[0] if len(made) == 1 else {"folder": str(folder), "runs": results}) | {"report": written})
        return
    next_steps(
        f"\nSaved in {folder}" + (f"; report: {written}. " if written else ". ") + "Next:",
        *_steps(made[0], shlex.quote(str(made[0].folder.path)), shlex.quote(str(folder))),
    )


def _steps(run: Any, one: str, whole: str) -> list[str]:
    """Next steps with a run, as lines to paste."""
    if not run.answers:
        return [f"pintgn embed {one} -o vectors.parquet"]
    if not run.scores_links:
        first = f"pintgn evaluate {whole} --baselines boosted"
        return [first, f"pintgn predict {one} EVENTS.csv", f"pintgn serve {one}"]
    log, relation = run.log, run.task.newest
    src, dst = (shlex.quote(str(log.id(int(ends[log.learnable][-1])))) for ends in (log.src, log.dst))
    more = f" --relation {shlex.quote(relation)}" if relation else ""
    return [
        f"pintgn evaluate {whole} " + ("--most 1000" if relation else "--negatives historical --rank 100"),
        f"pintgn recommend {one} --src {src}{more}",
        f"pintgn explain {one} {src} {dst}{more}",
        f"pintgn serve {one}",
    ]


class EpochLines(EpochBar):
    """Progress on stderr: a bar over all epochs on a terminal, and one line per epoch."""

    def __enter__(self) -> EpochLines:
        self.bar = Bar("preparing", "events", "at most").__enter__()
        self.terminal = self.bar.terminal
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if isinstance(error[1], KeyboardInterrupt):  # typer would swallow what it says
            self.terminal.print(str(error[1]) or "Interrupted.", markup=False)
            raise typer.Exit(130) from None

    def __call__(self, entry: dict[str, Any]) -> None:
        from pintgn.learn.figures_text import epoch_line

        if "val" not in entry:
            super().__call__(entry)
            return
        width = self.terminal.width if self.terminal.is_terminal else None
        self.terminal.print(epoch_line(entry, self.epochs or entry["epoch"], width), markup=False)
