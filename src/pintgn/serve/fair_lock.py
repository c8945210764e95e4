"""One writer, many readers, and everybody in the order of arrival."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A fair lock: readers share (`with lock.reading`), a writer is alone (`with lock.writing`), and nobody overtakes.

    Whoever waits is let in as soon as those who came before have left, so a reader waits for one turn of the writer
    at most, and the writer for one turn of the readers; neither can starve the other.
    """

    def __init__(self) -> None:
        self.reading, self.writing = _Turn(self, writes=False), _Turn(self, writes=True)
        self.mutex = threading.Lock()
        self.waiting: deque[tuple[_Turn, threading.Event]] = deque()
        self.inside = 0  # readers, or -1 for a writer


class _Turn:
    """Inside the lock, as a reader or as the writer."""

    def __init__(self, lock: FairLock, *, writes: bool):
        self.lock, self.writes = lock, writes

    def __enter__(self) -> None:
        lock = self.lock
        with lock.mutex:
            if not lock.waiting and (lock.inside == 0 or (lock.inside > 0 and not self.writes)):
                lock.inside = -1 if self.writes else lock.inside + 1
                return
            admitted = threading.Event()
            lock.waiting.append((self, admitted))
        admitted.wait()

    def __exit__(self, *error: object) -> None:
        lock = self.lock
        with lock.mutex:
            lock.inside = 0 if self.writes else lock.inside - 1
            while lock.waiting and (lock.inside == 0 or (lock.inside > 0 and not lock.waiting[0][0].writes)):
                turn, admitted = lock.waiting.popleft()
                lock.inside = -1 if turn.writes else lock.inside + 1
                admitted.set()
