"""`--workers`: a command that several processes compute together, of which one speaks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer import Option

from pintgn.errors import BadInput, LostWorker, PintgnError

Workers = Annotated[
    int, Option(min=1, help="Number of processes on this machine that share the work; for several machines: torchrun.")
]


def share_out(count: int, data: str = "") -> None:
    """Start so many workers with this very command, and end with them. Nothing in a process that is one already."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        if count not in (1, size):
            raise BadInput(f"--workers {count}, but {size} were started; leave out --workers under torchrun.")
        return
    if count == 1:
        return
    if data == "-":
        raise BadInput("--workers reads the data in every process, and standard input can be read once. Name a file.")
    from pintgn.workers.start import start

    if code := start(count, sys.argv[1:]):
        raise typer.Exit(code)
    raise typer.Exit


def writes() -> bool:
    """Whether this process writes files: the only one, or the first of several."""
    return int(os.environ.get("RANK", "0")) == 0


def restarted() -> bool:
    """Whether torchrun has started the workers again after it lost one."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def run_as_worker(command: Callable[[], None]) -> None:
    """Run a command as one of several workers: the first one speaks, and one line tells of an error."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # before torch: errors come as exceptions, and are told here
    from pintgn.workers import group, start

    start.end_with_parent()
    stderr = sys.stderr
    if int(os.environ["RANK"]):
        quiet = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        sys.stdout = sys.stderr = quiet
    try:
        group.join()
        command()
    except PintgnError as error:
        started, lost = os.environ.get(start.STARTED), isinstance(error, LostWorker)
        if os.environ.get("PINTGN_DEBUG"):
            raise
        if not (started and lost) and group.first_to_say():  # who started us says who was lost
            print(f"{type(error).__name__}: {error}", file=stderr, flush=True)
        _leave(start.LOST if lost else 2)
    except (MemoryError, RuntimeError) as error:
        if os.environ.get("PINTGN_DEBUG") or not ran_out(error):
            raise
        if group.first_to_say():
            print(out_of_memory(error, int(os.environ["RANK"])), file=stderr, flush=True)
        _leave(2)
    except KeyboardInterrupt as stop:
        print(str(stop) or "Interrupted.", file=sys.stderr, flush=True)
        _leave(130)
    except SystemExit as stop:
        _leave(stop.code if isinstance(stop.code, int) else int(stop.code is not None))


def ran_out(error: MemoryError | RuntimeError) -> bool:
    """Whether an error is about memory; torch has no class of its own for that.

    >>> ran_out(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 bytes."))
    True
    """
    return isinstance(error, MemoryError) or bool(re.search("allocate memory|out of memory", str(error)))


def out_of_memory(error: MemoryError | RuntimeError, rank: int | None = None) -> str:
    """One line for memory that ran out where nobody had counted it before."""
    who = "" if rank is None else f"worker {rank}: "
    what = (str(error).splitlines() or [""])[0].strip().removesuffix(".")
    if tried := re.search(r"tried to allocate [\d.]+ \w+", what, re.IGNORECASE):  # torch says more than helps
        what = tried[0].lower()
    advice = "fewer workers on one machine" if rank is not None else "fewer events"
    return f"TooLarge: {who}memory ran out{f' ({what})' if what else ''}. Try a smaller --set train.batch, or {advice}."


def _leave(code: int) -> None:
    """End at once: threads that wait for other workers would hold the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
