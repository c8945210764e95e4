"""A follower or standby: its state keeps up with the store, and a standby may take over."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pintgn.serve.event_store import StoreGone, StoreLost

if TYPE_CHECKING:
    from pintgn.serve.writer import Writer

logger = logging.getLogger("pintgn.serve")
TICK = 0.25
"""Seconds between two attempts to become the writer, and to notice that the service is to end."""
RETRY_SECONDS = 0.5
"""Seconds between two attempts to connect."""


class Follower:
    """Replays what another process writes.

    Args:
        takes_over: become the writer when there is none.
    """

    def __init__(self, writer: Writer, takes_over: bool):
        self.writer, self.takes_over = writer, takes_over
        self.trouble: str | None = None  # why the store cannot be read
        self.level = time.monotonic()  # when the state was last known to be that of the newest event
        self._tried = self._looked = 0.0

    @property
    def seconds(self) -> float:
        """Lag in seconds: how old the state may be."""
        return 0.0 if self.writer.store.writes else time.monotonic() - self.level

    @property
    def events(self) -> int:
        """Lag in events: how many stored events are not in the state yet, as far as is known."""
        return max(0, self.writer.store.total - self.writer.live.total)

    def until_writer(self) -> bool:
        """Keep up until this process may write (True), or the service ends (False)."""
        store = self.writer.store
        while not self.writer.closed:
            try:
                if self.trouble is not None:
                    store.connect()
                    logger.warning("connected to %s again", store.name)
                    self.trouble = None
                self.catch_up()
                self._look_around()
                if self.writer.closed:  # its end may have been among the jobs
                    break
                if self.takes_over and self._take():
                    self.catch_up()
                    logger.warning("this process writes to %s now, after event %d", store.name, store.total)
                    return True
                store.wait(TICK)
            except StoreLost as error:
                if self.trouble is None:
                    logger.error("%s Answers are as of event %d.", error, self.writer.live.total)
                self.trouble = f"{error} Answers are as of event {self.writer.live.total:,}; trying again."
                time.sleep(RETRY_SECONDS)
        return False

    def _look_around(self) -> None:
        """Calls that wait; now and then, what the service that writes says besides events."""
        self.writer.do_calls()
        if time.monotonic() - self._looked >= RETRY_SECONDS:
            self._looked = time.monotonic()
            self.writer.follow_model()

    def _take(self) -> bool:
        if time.monotonic() - self._tried < TICK:
            return False
        self._tried = time.monotonic()
        return self.writer.store.take()

    def catch_up(self) -> None:
        """Observe all stored events."""
        writer = self.writer
        store, live = writer.store, writer.live
        if store.total < live.total:
            raise StoreGone(
                f"{store.name} ends at event {store.total:,}, but {live.total:,} were observed here: events that were "
                "acknowledged are lost. Put back the newest copy of the database, then restart the service."
            )
        for first, batch in store.read(live.total):
            live.skip_to(first - 1)
            with writer.metrics.observe_seconds.time():
                live.observe_batch(batch, writer.state.lock.writing)
            if writer.candidate is not None:
                writer.candidate.observe(batch)
            writer.rate.add(len(batch.t))
            if writer.closed:
                return
        self.level = time.monotonic()
