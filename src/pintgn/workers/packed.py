"""Results on their way to the process that started this one: large arrays by memory that both see, not by a pipe.

A pipe takes an array in pieces of 64 kB, for each of which writer and reader wait for each other. And memory is used
again: a page that is touched for the first time costs far more than copying it.
"""

from __future__ import annotations

import mmap
import os
import pickle
from functools import lru_cache
from itertools import accumulate, count, pairwise
from typing import Any

LARGE = 1 << 16
"""Bytes from which an array goes by shared memory."""
ROOM = 1 << 24
"""Bytes of a tray: what does not fit goes by the pipe."""

Address = tuple[str, int]
"""Where a tray is opened, and its number: files of different ones may have the same path, one after the other."""
Packed = tuple[bytes, list[int]]
"""The pickled result without its large buffers, and where each of those ends in the tray."""
_numbers = count()


class Tray:
    """Memory in which a worker leaves the large arrays of one result. It has no name that could outlive this process.

    Raises:
        OSError: it cannot be had here, as on systems other than Linux.
    """

    def __init__(self) -> None:
        if not hasattr(os, "memfd_create"):
            raise OSError("no memory without a name")
        self._file = os.memfd_create("pintgn")
        os.truncate(self._file, ROOM)
        self.memory = mmap.mmap(self._file, ROOM)
        self.address = f"/proc/{os.getpid()}/fd/{self._file}", next(_numbers)

    def close(self) -> None:
        self.memory.close()
        os.close(self._file)


@lru_cache(64)
def _opened(address: Address) -> mmap.mmap:
    with open(address[0], "r+b") as file:
        return mmap.mmap(file.fileno(), ROOM)


def packed(result: Any, address: Address | None) -> Packed:
    """A result, ready to be sent; its large arrays lie in the tray at this address, if there is one."""
    large: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE or sum(one.nbytes for one in large) + raw.nbytes > ROOM:
            return True  # among the rest
        large.append(raw)
        return False

    try:
        memory = _opened(address) if address is not None else None
    except OSError:
        memory = None
    rest = pickle.dumps(result, protocol=5, buffer_callback=None if memory is None else keep)
    ends = [0, *accumulate(one.nbytes for one in large)]
    for one, (begin, end) in zip(large, pairwise(ends), strict=True):
        assert memory is not None
        memory[begin:end] = one  # type: ignore[assignment]
    return rest, ends


def unpacked(rest: bytes, ends: list[int], tray: Tray | None) -> Any:
    """The result, in memory of its own: the tray can be used again."""
    if tray is None:
        return pickle.loads(rest)
    with memoryview(tray.memory) as memory:
        return pickle.loads(rest, buffers=[bytearray(memory[begin:end]) for begin, end in pairwise(ends)])
