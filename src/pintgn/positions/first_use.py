"""First use on a machine: positions, which take longest to compile, are compiled in a second process."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from pintgn import compiled

running: list[subprocess.Popen[bytes]] = []
"""The process that compiles; `wait` for it before positions are used."""


def start() -> None:
    """Start compiling positions in a second process, unless they are cached or there is only one core."""
    where, cores = (
        compiled.folder(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )
    if where is None or running or (cores or 1) < 2 or any(where.glob("positions_*/kernels_passes.exact_pass-*.nbc")):
        return
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        command = [sys.executable, "-P", "-m", __name__]
        running.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))


def wait() -> None:
    """Wait for the second process; if it failed, compile here. Counts as compiling."""
    compiled._clock.on_start()
    with suppress(subprocess.TimeoutExpired):
        running.pop().wait(compiled.LONGEST_WAIT)
    compiled._clock.on_end()


if __name__ == "__main__":
    import numpy as np

    from pintgn.positions import RelativePositions

    RelativePositions(2).observe(np.array([0, 1]), np.array([1, 2]), np.array([1, 2]))
