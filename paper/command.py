"""`python -m paper`: the paper's tables and figures again, one row as soon as it is done."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from paper.jobs import BEST, LAYOUT, SETTINGS, jobs_of, parse_seeds, shown_seeds
from pintgn.cli.app import run
from pintgn.cli.common import AsJson, emit_json, say
from pintgn.cli.help_format import apply_style
from pintgn.errors import BadInput

if TYPE_CHECKING:
    from paper.results import Results

On = Annotated[str, Option(help="Where workers run: local, or ray (the cluster that RAY_ADDRESS names).")]
What = Annotated[str, Argument(metavar="WHAT", help="table1, table2, dims, time, nodes, all of these; or best: ours.")]


def reproduce(
    what: What,
    models: Annotated[str | None, Option(help="Only these rows, with commas: pint,pint-plain,tgn,…")] = None,
    data: Annotated[str | None, Option(help="Only these data sets, with commas: uci,enron,…")] = None,
    seeds: Annotated[
        str | None,
        Option(help="Which seeds: 7, or 3,5, or 0-9. By default 0-2 on UCI and Enron, 0 of slow rows; best: 0-9."),
    ] = None,
    runs: Annotated[int | None, Option(min=1, help="How many seeds, from 0 on, instead of --seeds.")] = None,
    cap: Annotated[
        float,
        Option(help="Processor seconds per run, after which its best epoch so far counts; 0 for no cap. Not for best."),
    ] = 900.0,
    folder: Annotated[
        Path | None, Option(help="Where the runs are kept, to be continued; runs/paper, for best runs/best.")
    ] = None,
    results: Annotated[
        Path | None, Option(help="The file of results, a line of JSON per row; in the folder by default.")
    ] = None,
    data_folder: Annotated[
        Path | None, Option(help="Where NAME.parquet is looked for, before what `pintgn data fetch` keeps.")
    ] = None,
    config: Annotated[Path | None, Option(help="The settings of every row; paper/paper.toml.")] = None,
    page: Annotated[
        Path | None, Option(help="Write tables and plots here too, between the marks of a Markdown page.")
    ] = None,
    show: Annotated[bool, Option("--show", help="Run nothing; show the results that there are.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="List what would run and for how long, and stop.")] = False,
    threads: Annotated[int | None, Option(min=1, help="How many threads to compute with.")] = None,
    workers: Annotated[int, Option(min=1, help="How many rows to compute at once, with one thread each.")] = 1,
    on: On = "local",
    as_json: AsJson = False,
) -> None:
    """Train and measure every row of the paper's tables by its own protocol, and put the figures beside its own.

    It can be stopped at any time; the same command goes on where it ended. Rows whose data is not here are listed.
    """
    if threads is not None:  # before torch is loaded, which reads it
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if cap < 0:
        raise BadInput(f"--cap {cap:g}; it is a number of seconds, or 0 for no cap.")
    from paper.results import Results

    folder = folder or Path("runs/best" if what == "best" else "runs/paper")
    store = Results(results or folder / "results.jsonl")
    chosen = _split(models), _split(data), parse_seeds(seeds, runs)
    spread = (on, workers) if (on, workers) != ("local", 1) else None
    if what == "best" and spread is not None:
        raise BadInput("--workers and --on spread the rows of the paper's tables; `best` has none of them.")
    if spread is not None and threads not in (None, 1):
        raise BadInput(f"--threads {threads}: workers have one thread each. Leave it out.")
    if what == "best":
        _best(chosen, folder, store, data_folder, config or BEST, page, show, dry_run, as_json)
    else:
        _tables(what, chosen, folder, store, data_folder, config or SETTINGS, cap, page, show, dry_run, as_json, spread)


Chosen = tuple[list[str] | None, list[str] | None, list[int] | None]
"""Only these models, data sets and seeds; None for all."""


def _tables(
    what: str, chosen: Chosen, folder: Path, store: Results, data_folder: Path | None, config: Path, cap: float,
    page: Path | None, show: bool, dry_run: bool, as_json: bool, spread: tuple[str, int] | None = None,
) -> None:  # fmt: skip
    """The paper's own rows, and the tables that they make."""
    from paper import tables
    from paper.runner import Runner
    from pintgn.learn.settings_files import published_rows

    published = published_rows(config)
    jobs = jobs_of(what, published, *chosen)
    if not jobs:
        raise BadInput(f"{what} has no such rows. `python -m paper {what} --dry-run` lists those that it has.")
    runner = Runner(folder, store, config, data_folder, cap or None)
    if dry_run:
        _list(runner, jobs, as_json)
        return
    if not show:
        _run(runner, jobs, published, spread)
    newest = store.newest()
    if page is not None:
        from paper.page import read_notes, write_page

        written = write_page(page, newest, published, read_notes(store.path.with_suffix(".notes.toml")))
        say(f"wrote {', '.join(map(str, written))}")
    if as_json:
        keys = {job.key for job in jobs}
        emit_json({"results": str(store.path), "rows": [row for key, row in newest.items() if key in keys]})
        return
    shown = LAYOUT if what == "all" else [what]
    print("\n\n".join(tables.text(one, newest, published, data_folder) for one in shown))


def _best(
    chosen: Chosen, folder: Path, store: Results, data_folder: Path | None, config: Path,
    page: Path | None, show: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """The rows of paper/best.toml, on stderr as they are done, and their means. They end by themselves: no cap."""
    from paper.best import best_jobs, run_best
    from paper.best_page import row_line, text, write_page
    from paper.sets import find, missing
    from pintgn.cli.training import EpochLines

    jobs = best_jobs(config, *chosen)
    todo = [job for job in jobs if job.key not in store.newest()]
    if dry_run:
        if as_json:
            emit_json({"jobs": [job.key for job in todo]})
        else:
            print("\n".join([*(job.key for job in todo), f"{_summary(jobs, len(todo))}."]))
        return
    if not show:
        say(f"{_summary(jobs, len(todo))}; rows go to {store.path}")
        for name in dict.fromkeys(job.data for job in jobs if find(job.data, data_folder) is None):
            say(f"{name} {missing(name)}.")
        with EpochLines() as lines:

            def told(entry: dict[str, Any]) -> None:
                if "job" in entry:
                    lines.terminal.print(f"\n{entry['job'].row}, seed {entry['job'].seed}", markup=False)
                else:
                    lines(entry)

            for row in run_best(jobs, folder, store, config, data_folder, told):
                lines.terminal.print(row_line(row), markup=False)
    rows = list(store.newest().values())
    if page is not None:
        write_page(page, rows)
    if as_json:
        emit_json({"results": str(store.path), "rows": rows})
    else:
        print(text(rows) if rows else f"{store.path} has no rows yet. `python -m paper best` makes them.")


def _summary(jobs: list[Any], todo: int) -> str:
    """How many rows there are, of which seeds, and how many of them are done."""
    return f"{len(jobs)} rows of {shown_seeds(jobs)}, {len(jobs) - todo} of them done"


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _run(runner: Any, jobs: list[Any], published: Any, spread: tuple[str, int] | None) -> None:
    """Run what is open, with a line per epoch and per row on stderr; on workers, a line per row."""
    from paper.tables import row_line
    from pintgn.cli.training import EpochLines
    from pintgn.workers.jobs import open_jobs

    todo = runner.open_jobs(jobs)
    say(f"{_summary(jobs, len(todo))}; rows go to {runner.results.path}")
    try:
        with EpochLines() as lines:

            def told(entry: dict[str, Any]) -> None:
                if "job" in entry:
                    lines.terminal.print(f"\n{entry['job']}", markup=False)
                if "job" not in entry or "phase" in entry:
                    lines(entry)

            runner.told = told
            with open_jobs(*spread) if spread else nullcontext() as workers:
                for row in runner.run(jobs, workers):
                    lines.terminal.print(row_line(row, published), markup=False)
    except typer.Exit:
        say("The same command goes on where this one ended.")
        raise


def _list(runner: Any, jobs: list[Any], as_json: bool) -> None:
    """What would run, and for how long."""
    from paper.estimate import NO_DATA, plan
    from paper.sets import missing
    from pintgn.formatting import span, text_table

    planned = plan(runner, jobs)
    if as_json:
        emit_json({"jobs": planned})
        return
    total = sum(one["estimated_seconds"] or 0 for one in planned)
    rows = [
        [
            one["task"],
            one["row"],
            str(one["seed"]),
            one["state"],
            "" if one["estimated_seconds"] is None else span(one["estimated_seconds"]),
        ]
        for one in planned
    ]
    print(text_table(["", "row", "seed", "state", "at most"], rows, left=4))
    unknown = sum(one["state"] == "to do" and one["estimated_seconds"] is None for one in planned)
    more = f", without {unknown} rows of unknown cost" if unknown else ""
    print(f"\nAt most {span(total)} of processor time in all{more}.")
    for data in dict.fromkeys(job.data for job, one in zip(jobs, planned, strict=True) if one["state"] == NO_DATA):
        print(f"{data} {missing(data)}.")


app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(reproduce)
apply_style(app)


def main() -> None:
    """Run the command, with the errors and exit codes of `pintgn`."""
    run(app)
