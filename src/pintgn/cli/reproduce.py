"""`pintgn reproduce`: the paper's tables and figures again, one row as soon as it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pintgn.cli.common import AsJson, console, emit_json
from pintgn.errors import BadInput

What = Annotated[
    str, typer.Argument(metavar="WHAT", help="table1, table2, dims, time, nodes, all of these; or best: ours.")
]


def reproduce(
    what: What,
    models: Annotated[str | None, typer.Option(help="Only these rows, with commas: pint,pint-plain,tgn,…")] = None,
    data: Annotated[str | None, typer.Option(help="Only these data sets, with commas: uci,enron,…")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many seeds (3), or which (0,4 or 2-4). By default 3 for PINT on UCI and Enron, 1 otherwise."
        ),
    ] = None,
    cap: Annotated[
        float,
        typer.Option(
            help="Processor seconds per run, after which its best epoch so far counts; 0 for no cap. Not for best."
        ),
    ] = 900.0,
    folder: Annotated[
        Path | None, typer.Option(help="Where the runs are kept, to be continued; runs/paper, for best runs/best.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="The file of results, a line of JSON per row; in the folder by default.")
    ] = None,
    data_folder: Annotated[
        Path | None, typer.Option(help="Where NAME.parquet is looked for, before what `pintgn data fetch` keeps.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The settings of every row; configs/paper.toml.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write tables and plots here too, between the marks of a Markdown page.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show the results that there are.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would run and for how long, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train and measure every row of the paper's tables by its own protocol, and put the figures beside its own.

    It can be stopped at any time; the same command goes on where it ended. Rows whose data is not here are listed.
    """
    from pintgn.reproduce.jobs import LAYOUT, jobs_of, parse_seeds, settings_file

    if what == "best":
        place = folder or Path("runs/best")
        _best(models, data, seeds, place, results, data_folder, config, page, show, dry_run, as_json)
        return
    folder = folder or Path("runs/paper")
    if cap < 0:
        raise BadInput(f"--cap {cap:g}; it is a number of seconds, or 0 for no cap.")
    config = config or settings_file("paper.toml")
    chosen = parse_seeds(seeds)
    from pintgn.learn.settings import published_rows
    from pintgn.reproduce import tables
    from pintgn.reproduce.results import Results

    published = published_rows(config)
    jobs = jobs_of(what, published, _split(models), _split(data), chosen)
    if not jobs:
        raise BadInput(f"{what} has no such rows. `pintgn reproduce {what} --dry-run` lists those that it has.")
    store = Results(results or folder / "results.jsonl")
    from pintgn.reproduce.runner import Runner

    runner = Runner(folder, store, config, data_folder, cap or None)
    if dry_run:
        _list(runner, jobs, as_json)
        return
    if not show:
        _run(runner, jobs, published)
    newest = store.newest()
    if page is not None:
        from pintgn.reproduce.page import read_notes, write_page

        written = write_page(page, newest, published, read_notes(store.path.with_suffix(".notes.toml")))
        console(stderr=True).print(f"wrote {', '.join(map(str, written))}", markup=False)
    if as_json:
        keys = {job.key for job in jobs}
        emit_json({"results": str(store.path), "rows": [row for key, row in newest.items() if key in keys]})
        return
    print(
        "\n\n".join(tables.text(one, newest, published, data_folder) for one in (LAYOUT if what == "all" else [what]))
    )


def _best(
    models: str | None,
    data: str | None,
    seeds: str | None,
    folder: Path,
    results: Path | None,
    data_folder: Path | None,
    config: Path | None,
    page: Path | None,
    show: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """The rows of configs/best.toml, on stderr as they are done, and their means. They end by themselves: no cap."""
    from pintgn.cli.train import EpochLines
    from pintgn.reproduce.best import best_jobs, run_best
    from pintgn.reproduce.best_page import row_line, text, write_page
    from pintgn.reproduce.jobs import parse_seeds, settings_file
    from pintgn.reproduce.results import Results
    from pintgn.reproduce.sets import find, missing

    config = config or settings_file("best.toml")
    store = Results(results or folder / "results.jsonl")
    jobs = best_jobs(config, _split(models), _split(data), parse_seeds(seeds))
    if dry_run:
        todo = [job for job in jobs if job.key not in store.newest()]
        if as_json:
            emit_json({"jobs": [job.key for job in todo]})
        else:
            print("\n".join([*(job.key for job in todo), f"{len(jobs)} rows, {len(jobs) - len(todo)} of them done."]))
        return
    if not show:
        for name in dict.fromkeys(job.data for job in jobs if find(job.data, data_folder) is None):
            console(stderr=True).print(f"{name} {missing(name)}.", markup=False)
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
        print(text(rows) if rows else f"{store.path} has no rows yet. `pintgn reproduce best` makes them.")


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _run(runner: Any, jobs: list[Any], published: Any) -> None:
    """Run what is open, with a line per epoch and per row on stderr."""
    from pintgn.cli.train import EpochLines
    from pintgn.reproduce.tables import row_line

    say = console(stderr=True).print
    todo = runner.open_jobs(jobs)
    say(f"{len(jobs)} rows, {len(jobs) - len(todo)} of them done; rows go to {runner.results.path}", markup=False)
    try:
        with EpochLines() as lines:

            def told(entry: dict[str, Any]) -> None:
                if "job" in entry:
                    lines.terminal.print(f"\n{entry['job']}", markup=False)
                if "job" not in entry or "phase" in entry:
                    lines(entry)

            runner.told = told
            for row in runner.run(jobs):
                lines.terminal.print(row_line(row, published), markup=False)
    except typer.Exit:
        say("The same command goes on where this one ended.", markup=False)
        raise


def _list(runner: Any, jobs: list[Any], as_json: bool) -> None:
    """What would run, and for how long."""
    from pintgn.learn.tables import text_table
    from pintgn.reproduce.estimate import NO_DATA, plan
    from pintgn.reproduce.sets import missing

    planned = plan(runner, jobs)
    if as_json:
        emit_json({"jobs": planned})
        return
    total = sum(one["estimated_seconds"] or 0 for one in planned)
    rows = [
        [one["task"], one["row"], str(one["seed"]), one["state"], _about(one["estimated_seconds"])] for one in planned
    ]
    print(text_table(["", "row", "seed", "state", "at most"], rows, left=4))
    unknown = sum(one["state"] == "to do" and one["estimated_seconds"] is None for one in planned)
    more = f", without {unknown} rows of unknown cost" if unknown else ""
    print(f"\nAt most {_about(total)} of processor time in all{more}.")
    for data in dict.fromkeys(job.data for job, one in zip(jobs, planned, strict=True) if one["state"] == NO_DATA):
        print(f"{data} {missing(data)}.")


def _about(seconds: float | None) -> str:
    """
    >>> _about(42.0), _about(1234.0), _about(8000.0), _about(None)
    ('42 s', '21 min', '2.2 h', '')
    """
    if seconds is None:
        return ""
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
