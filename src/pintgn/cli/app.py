"""The `pintgn` command: registers the commands, turns errors into one line and an exit code."""

from __future__ import annotations

import errno
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
from pintgn.cli.help_format import add_command, apply_style
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
for section, name, what, summary, *examples in (
    ("Events", "data", data.app, "Inspect and convert events, download public data sets"),
    ("Events", "simulate", data.simulate, "Simulate a world with known ground truth",
     "simulate shop -o shop.csv --events 20000"),
    ("Learning", "train", training.train, "Train a model, select its epoch on validation, test it",
     "train trades.csv --src buyer --dst seller --time when --features amount",
     "train shop.csv --model tgn --set model.dim=64 --runs 3 -o runs/tgn", "train runs/tgn --resume"),
    ("Learning", "tune", training.tune, "Search for better settings", "tune shop.csv --trials 30 --set train.epochs=5"),
    ("Learning", "evaluate", evaluation.evaluate, "Evaluate a run: AP, AUC, ranks",
     "evaluate runs/shop-pint --negatives all", "evaluate runs/shop-pint --rank all"),
    ("Learning", "report", evaluation.report, "Write one HTML page about a run, or several",
     "report runs/shop-pint runs/shop-tgn -o compare.html"),
    ("Using a run", "predict", use.predict, "Predict how likely each of these pairs is",
     "predict runs/shop-pint pairs.csv -o scored.csv"),
    ("Using a run", "recommend", use.recommend, "List the most likely next destinations",
     "recommend runs/shop-pint --src user1 -k 5"),
    ("Using a run", "embed", use.embed, "Write an embedding of every node", "embed runs/shop-pint -o nodes.npz"),
    ("Using a run", "explain", use.explain, "Explain the score of a pair", "explain runs/shop-pint user1 item7"),
    ("Serving", "serve", serve.serve, "Serve a run over HTTP", "serve runs/shop-pint --port 8000"),
    ("Serving", "feed", feed.feed, "Feed a service: Kafka, NATS, PostgreSQL, a growing file"),
    ("Serving", "promote", promote.promote, "Serve another run without a stop"),
    ("Serving", "keys", keys.app, "Make and remove the API keys of a service"),
    ("Serving", "backup", backup.backup, "Back up a run and its live events, also while it is served",
     "backup runs/shop-pint -o shop.tar"),
    ("Serving", "restore", backup.restore, "Restore a backup, verified",
     "restore shop.tar -o runs/restored", "restore shop.tar --check"),
    ("Looking deeper", "theory", theory.app, "Which models can distinguish what, and why"),
    ("Looking deeper", "demo", demo.demo, "Everything in a minute, without a download"),
):  # fmt: skip
    add_command(app, name, what, summary, section, examples)
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
    except RecursionError:  # such as of `Path.mkdir`, which calls itself for each folder above
        deepest = max(sys.argv, key=lambda given: given.count(os.sep))
        if os.environ.get("PINTGN_DEBUG") or (deep := deepest.count(os.sep)) < 500:
            raise
        print(f"BadInput: {deepest[:100]!r}… is {deep:,} folders deep: too many.", file=sys.stderr)
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
    except OSError as error:
        if os.environ.get("PINTGN_DEBUG") or error.errno != errno.ENAMETOOLONG:
            raise
        print(f"BadInput: no file is named {str(error.filename)[:100]!r}…: that is too long.", file=sys.stderr)
        sys.exit(2)


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
