"""torchrun: a command that several processes compute together, of which one speaks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from pintgn.errors import LostWorker, PintgnError

LOST = 3
"""Exit code of a worker that ends because another one has."""


def writes() -> bool:
    """Whether this process writes files: the only one, or the first of several."""
    return int(os.environ.get("RANK", "0")) == 0


def restarted() -> bool:
    """Whether torchrun has started the workers again after it lost one."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def run_as_worker(command: Callable[[], None]) -> None:
    """Run a command as one of several workers: the first one speaks, and one line tells of an error."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # before torch: errors come as exceptions, and are told here
    from pintgn.workers import group

    stderr = sys.stderr
    if int(os.environ["RANK"]):
        quiet = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        sys.stdout = sys.stderr = quiet
    try:
        group.join()
        command()
    except PintgnError as error:
        if os.environ.get("PINTGN_DEBUG"):
            raise
        if group.first_to_say():
            print(f"{type(error).__name__}: {error}", file=stderr, flush=True)
        _leave(LOST if isinstance(error, LostWorker) else 2)
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
    """One line for memory that ran out where it had not been counted before."""
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
