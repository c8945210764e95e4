"""`--workers N` on one machine: the same command in N processes that meet by a file; one that ends, ends all.

torchrun does the same over several machines. Here there is no port that could be taken, and one line where a worker is
lost.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

LOST = 3
"""Exit code of a worker that ends because another one has."""
STARTED = "PINTGN_WORKER"
"""Environment variable: this process was started here."""
GRACE = 20.0
"""Seconds that workers have to end by themselves when one is lost."""


def start(count: int, arguments: Sequence[str]) -> int:
    """Run `pintgn` with these arguments in so many processes; the exit code of all."""
    with tempfile.TemporaryDirectory(prefix="pintgn-") as folder:
        workers: list[subprocess.Popen] = []
        try:
            for rank in range(count):
                workers.append(_started(rank, count, arguments, Path(folder) / "meet"))
            return _watched(workers, arguments)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()


def _started(rank: int, count: int, arguments: Sequence[str], meet: Path) -> subprocess.Popen:
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    own = {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{count}", "LOCAL_WORLD_SIZE": f"{count}"}
    own |= {STARTED: "1", "PINTGN_MEET": meet.as_uri()}
    usual = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pintgn", *arguments],
        env=usual | dict(os.environ) | own,
        stdin=subprocess.PIPE,  # never written to: a worker that finds it closed knows that this process is gone
        process_group=0,  # Ctrl-C comes here alone, and is passed on once
    )


def _watched(workers: list[subprocess.Popen], arguments: Sequence[str]) -> int:
    """Wait until all have ended; where one ends with an error, end the others."""
    signal.signal(signal.SIGTERM, _interrupt)
    asked = False
    while True:
        try:
            codes = [worker.poll() for worker in workers]
            if lost := [(rank, code) for rank, code in enumerate(codes) if code]:
                return _ended(workers, lost, arguments)
            if all(code == 0 for code in codes):
                return 0
            time.sleep(0.05)
        except KeyboardInterrupt:
            for worker in workers:
                worker.send_signal(signal.SIGKILL if asked else signal.SIGINT)
            if asked:
                return 130
            asked = True


def _ended(workers: list[subprocess.Popen], lost: list[tuple[int, int]], arguments: Sequence[str]) -> int:
    """One line about a worker that was killed; one that had an error has said so itself."""
    deadline = time.monotonic() + GRACE
    killed = [(rank, -code) for rank, code in lost if code < 0]
    if killed:
        for worker in workers:
            worker.terminate()
        rank, number = killed[0]
        words = [word for word in arguments if word not in ("--overwrite", "--resume")]
        again = f"pintgn {shlex.join(words)}" + (" --resume" if words[:1] == ["train"] else "")
        why = " (out of memory?)" if number == 9 else ""
        name = signal.Signals(number).name
        print(f"LostWorker: worker {rank} was ended by {name}{why}, so all were. Go on with: {again}", file=sys.stderr)
    for worker in workers:  # others notice by themselves that one is gone
        try:
            worker.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            worker.kill()
    codes = [worker.wait() for worker in workers]
    own = [code for code in codes if code > 0 and code != LOST]
    return own[0] if own and not killed else LOST


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def end_with_parent() -> None:
    """In a worker: end as soon as the process that started it has ended, however that happened."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(LOST)

    if os.environ.get(STARTED):
        threading.Thread(target=wait, daemon=True).start()
