"""Available memory, the error that says what would fit, and the release of freed memory."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from pintgn.errors import TooLarge
from pintgn.formatting import size

SMALL = 2**24  # not worth asking the system about


def available() -> int:
    """Bytes that can still be allocated: what the kernel reports, within a container's limit."""
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
    """Raise unless `more` bytes (for `total` in all) can be allocated."""
    if more > SMALL and more > (free := available()):
        raise TooLarge(f"{what} needs {size(total)}, {size(more)} more than now; {size(free)} are free. {advice}")


def give_back() -> None:
    """Return memory that the C library holds to the system: 100 MB and more, before something large is allocated.

    Only glibc keeps so much, and only there is anything done.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
