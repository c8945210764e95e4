"""A service beside the one that writes: its state keeps up with the store, and it may take over."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pintgn.errors import BadFile
from pintgn.serve.late import base, replace_state
from pintgn.serve.store import StoreGone, StoreLost, StoreRewound

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")
TICK = 0.25
"""Seconds between two attempts to become the writer, and to notice that the service is to end."""
AGAIN = 0.5
"""Seconds between two attempts to connect."""


class Follower:
    """Replays what another process writes, as it is written.

    Args:
        takes_over: become the writer when there is none.
    """

    def __init__(self, service: Service, takes_over: bool):
        self.service, self.takes_over = service, takes_over
        self.trouble: str | None = None  # why the store cannot be read
        self.level = time.monotonic()  # when the state was last known to be that of the newest event
        self.held: dict[str, Any] | None = None  # how much waits for its turn, at the service that writes
        self.late: dict[str, Any] | None = None  # how many late events it has to put in their places
        self._tried = self._looked = 0.0
        self._due: int | None = None  # from which number on the state is of another order than the store

    @property
    def seconds(self) -> float:
        """How old the state may be: the time since it was that of the newest event in the store."""
        return 0.0 if self.service.store.writes else time.monotonic() - self.level

    @property
    def events(self) -> int:
        """How many events of the store are not in the state yet, as far as is known."""
        return max(0, self.service.store.total - self.service.live.total)

    def until_writer(self) -> bool:
        """Keep up until this process may write (True), or the service ends (False)."""
        store = self.service.store
        while not self.service.closed:
            try:
                if self.trouble is not None:
                    store.connect()
                    log.warning("connected to %s again", store.name)
                    self.trouble = None
                if self._due is not None:
                    self._rebuild(self._due)
                self.catch_up()
                self._look_around()
                if self.service.closed:  # its end may have been among the jobs
                    break
                if self.takes_over and self._take():
                    self.catch_up()
                    log.warning("this process writes to %s now, after event %d", store.name, store.total)
                    return True
                store.wait(TICK)
            except StoreRewound as error:
                log.info("%s The state is rebuilt.", error)
                self.trouble, self._due = None, min(error.first, self._due or error.first)
            except StoreLost as error:
                if self.trouble is None:
                    log.error("%s Answers are as of event %d.", error, self.service.live.total)
                self.trouble = f"{error} Answers are as of event {self.service.live.total:,}; trying again."
                time.sleep(AGAIN)
        return False

    def _look_around(self) -> None:
        """Calls that wait; now and then, what the service that writes says besides events."""
        self.service.do_calls()
        if time.monotonic() - self._looked >= AGAIN:
            self._looked = time.monotonic()
            self.service.follow_model()
            count = self.service.store.count("pintgn_held")
            self.held = {"events": count, "watermark": None} if count else None
            count = self.service.store.count("pintgn_late")
            self.late = {"events": count, "rewinding": 0} if count else None

    def _take(self) -> bool:
        if time.monotonic() - self._tried < TICK:
            return False
        self._tried = time.monotonic()
        return self.service.store.take()

    def _rebuild(self, first: int) -> None:
        """The state with late events in their places, from the newest snapshot before them; answers come from the one
        that there is meanwhile. It stays due until it is done, whatever is lost or put in its place meanwhile."""
        service, store = self.service, self.service.store
        store.accept_rewind()
        if service.live.total >= first:
            try:
                live = base(service, service.run, store.dropped, lambda number: number < first)
            except BadFile as error:  # snapshots have a session of their own
                raise StoreLost(str(error)) from error
            for number, batch in store.read(live.total):
                live.skip_to(number - 1)
                live.observe_batch(batch)
                if service.closed:
                    return
            replace_state(service, live, first - 1)
        self._due = None

    def catch_up(self) -> None:
        """Observe all that is stored."""
        service = self.service
        store, live = service.store, service.live
        if store.total < live.total:
            raise StoreGone(
                f"{store.name} ends at event {store.total:,}, but {live.total:,} were observed here: events that were "
                "acknowledged are lost. Put back the newest copy of the database, then restart the service."
            )
        for _, batch in store.read(live.total):
            with service.metrics.observe_seconds.time():
                live.observe_batch(batch, service.lock.writing)
            if service.candidate is not None:
                service.candidate.observe(batch)
            service.rate.add(len(batch.t))
            if service.closed:
                return
        self.level = time.monotonic()
