"""The `pintgn` command: registers the commands, turns errors into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer
from typer import Option

from pintgn import __version__
from pintgn.cli import backup, data, demo, evaluation, feed, keys, promote, serve, theory, training, use
from pintgn.cli.help_format import apply_style
from pintgn.cli.shared_work import out_of_memory, ran_out, run_as_worker
from pintgn.errors import PintgnError, PintgnWarning

app = typer.Typer(
    name="pintgn",
    help="Learn from streams of timestamped interactions: who met whom, when.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command("simulate")(data.simulate)
app.command("train")(training.train)
app.command("evaluate")(evaluation.evaluate)
app.command("predict")(use.predict)
app.command("recommend")(use.recommend)
app.command("embed")(use.embed)
app.command("explain")(use.explain)
app.command("tune")(training.tune)
app.command("report")(evaluation.report)
app.command("serve")(serve.serve)
app.command("feed")(feed.feed)
app.command("promote")(promote.promote)
app.add_typer(keys.app, name="keys")
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(theory.app, name="theory")
app.command("demo")(demo.demo)
apply_style(app)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
    threads: Annotated[int | None, Option(min=1, help="Number of threads; one for each core by default.")] = None,
    debug: Annotated[bool, Option("--debug", help="Show the full traceback of an error.")] = False,
) -> None:
    if threads is not None:  # before torch is loaded, which reads it; our own kernels follow torch
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if debug:
        os.environ["PINTGN_DEBUG"] = "1"
    if version:
        print(f"pintgn {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    run(app)


def run(command: Callable[[], None]) -> None:
    """Run a command line. Exit codes: 0 done, 1 a fault of ours, 2 bad input or usage, 130 interrupted."""
    # threads that wait must not spin: on a busy machine that costs a factor of ten
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _one_line
    warnings.simplefilter("always", PintgnWarning)
    compiling = logging.getLogger("pintgn.compiled")
    compiling.addHandler(_NOTES)
    compiling.setLevel(logging.INFO)
    try:
        run_as_worker(command) if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ else command()
    except PintgnError as error:
        if os.environ.get("PINTGN_DEBUG"):
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if os.environ.get("PINTGN_DEBUG") or not ran_out(error):
            raise
        print(out_of_memory(error), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(str(stop) or "Interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `pintgn … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _one_line(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    """Our own warnings are notes to the user; others are ours to fix and shown only when debugging."""
    if issubclass(category, PintgnWarning) or os.environ.get("PINTGN_DEBUG"):
        print(f"note: {message}", file=sys.stderr)


class _Notes(logging.Handler):
    """Log messages, such as that kernels are being compiled, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr)


_NOTES = _Notes()


if __name__ == "__main__":
    main()
