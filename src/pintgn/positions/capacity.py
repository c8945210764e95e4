"""How much memory there is, the error that says what would fit, and giving back what is free."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from pintgn.errors import TooLarge
from pintgn.formatting import size

SMALL = 2**24  # not worth asking the system about


def available() -> int:
    """Bytes that can still be taken: what the kernel says, and no more than a container's limit leaves."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    except (OSError, StopIteration, ValueError):
        try:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return 2**62  # unknown: let the allocation itself fail
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        found.append(limit - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(min(found), 0)


def require_memory(more: int, total: int, what: str, advice: str) -> None:
    """Refuse to take `more` bytes (for `total` in all) if they are not there."""
    if more > SMALL and more > (free := available()):
        raise TooLarge(f"{what} needs {size(total)}, {size(more)} more than now; {size(free)} are free. {advice}")


def give_back() -> None:
    """Let the system have what the C library keeps of freed memory; before something large is made, 100 MB and more.

    Only glibc keeps so much, and only there is anything done.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
