"""One writer, many readers, and everybody in the order of arrival."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A fair lock: readers share, a writer is alone, and nobody overtakes.

    Whoever waits is let in as soon as those who came before have left, so a reader waits for one turn of the writer
    at most, and the writer for one turn of the readers; neither can starve the other.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[tuple[bool, threading.Event]] = deque()
        self._readers = 0
        self._writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Share with other readers."""
        self._enter(False)
        try:
            yield
        finally:
            self._leave(False)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be alone."""
        self._enter(True)
        try:
            yield
        finally:
            self._leave(True)

    def _enter(self, writes: bool) -> None:
        with self._mutex:
            if not self._waiting and self._may(writes):
                self._admit(writes)
                return
            turn = threading.Event()
            self._waiting.append((writes, turn))
        turn.wait()

    def _leave(self, wrote: bool) -> None:
        with self._mutex:
            if wrote:
                self._writing = False
            else:
                self._readers -= 1
            while self._waiting and self._may(self._waiting[0][0]):
                writes, turn = self._waiting.popleft()
                self._admit(writes)
                turn.set()

    def _may(self, writes: bool) -> bool:
        return not self._writing and not (writes and self._readers)

    def _admit(self, writes: bool) -> None:
        if writes:
            self._writing = True
        else:
            self._readers += 1
