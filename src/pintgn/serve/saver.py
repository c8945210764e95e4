"""Snapshots while the service runs: the writer copies the state, another thread writes it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from pintgn.errors import BadFile, PintgnError
from pintgn.live.live import Live
from pintgn.live.snapshot import Snapshot
from pintgn.serve.prometheus import Metrics
from pintgn.serve.snapshots import SnapshotFolder

logger = logging.getLogger("pintgn.serve")


class Saver:
    """Writes one snapshot at a time. A snapshot that fails costs time at the next start, nothing else.

    Args:
        done: called after each, with the answers that were asked for meanwhile; None when nobody has asked.
    """

    def __init__(
        self, snapshots: SnapshotFolder, metrics: Metrics, done: Callable[[list[Future] | None], None], at: int = 0
    ):
        self.snapshots, self.metrics, self._done = snapshots, metrics, done
        self.at = at  # number of the last event that the newest snapshot has seen
        self.tried = at  # the same of the newest attempt, so that a full disk is not tried again with every batch
        self.everywhere = 0  # events up to this number are in every snapshot
        self.trouble: str | None = None  # why the newest snapshot could not be written
        self._mutex = threading.Lock()
        self._busy = False
        self._again: list[Future] | None = None
        self.thread: threading.Thread | None = None

    def save(self, live: Live, answers: list[Future]) -> None:
        """Copy the state and queue it for writing; called by the writer's thread."""
        with self._mutex:
            if self._busy:
                self._again = [*(self._again or []), *answers]
                return
            self._busy = True
        begin, before = time.perf_counter(), self.at
        self.at = self.tried = live.total
        try:
            captured = live.snapshot()
        except MemoryError as error:
            self._failed(error, before, answers)
            return
        self.metrics.snapshot_pause.set(time.perf_counter() - begin)
        job = (captured, begin, before, answers)
        self.thread = threading.Thread(target=self._write, args=job, name="pintgn-snapshot", daemon=True)
        self.thread.start()

    def join(self) -> None:
        if self.thread is not None:
            self.thread.join()

    def _write(self, captured: Snapshot, begin: float, before: int, answers: list[Future]) -> None:
        try:
            size = self.snapshots.write(captured)
            self.everywhere = self.snapshots.oldest()
        except Exception as error:
            self._failed(error, before, answers)
            return
        self.trouble = None
        self.metrics.snapshots.inc()
        self.metrics.snapshot_bytes.set(size)
        self.metrics.snapshot_events.set(captured.total)
        written = {"events": captured.total, "clock": captured.clock, "bytes": size}
        for answer in answers:
            answer.set_result(written | {"seconds": round(time.perf_counter() - begin, 3)})
        self._finish()

    def _failed(self, error: BaseException, before: int, answers: list[Future]) -> None:
        self.at, self.trouble = before, f"no snapshot was written: {error}"
        self.metrics.snapshot_failures.inc()
        logger.error("no snapshot: %s", error)
        said = error if isinstance(error, PintgnError) else BadFile(f"no snapshot was written: {error!r}.")
        for answer in answers:
            answer.set_exception(said)
        self._finish()

    def _finish(self) -> None:
        with self._mutex:
            self._busy = False
            again, self._again = self._again, None
        self._done(again)
