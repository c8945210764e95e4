"""Workers as threads of one process, which swap parcels through a list: for what they ask one another, not for how."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Threads:
    """`pintgn.workers.exchange.Exchange` between threads."""

    def __init__(self, rank: int, size: int, boxes: list[Any], barrier: threading.Barrier):
        self.rank, self.size, self.boxes, self.barrier = rank, size, boxes, barrier

    def swap(self, parcels: list[Any]) -> list[Any]:
        assert len(parcels) == self.size
        self.boxes[self.rank] = parcels
        self.barrier.wait(60)
        found = [box[self.rank] for box in self.boxes]
        self.barrier.wait(60)
        return found


def in_threads(count: int, work: Callable[[Threads], Any]) -> list[Any]:
    """What each of so many workers finds."""
    boxes, barrier, found = [None] * count, threading.Barrier(count), [None] * count

    def go(rank: int) -> None:
        try:
            found[rank] = work(Threads(rank, count, boxes, barrier))
        except BaseException as error:
            found[rank] = error  # type: ignore[call-overload]
            barrier.abort()

    threads = [threading.Thread(target=go, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found
