"""Events that are durable and have no number yet: those that wait for their turn (`--lateness`), and those that came
too late for that and wait to be put in their places (`--too-late rewind`). Only the writer has them."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.ingest.codec import EventBatch
from pintgn.serve.admission import Admission
from pintgn.serve.held import HELD, LATE, Held, check_lateness, open_waiting
from pintgn.serve.late import Rewinder, check_choice, horizon
from pintgn.serve.store import StoreFull

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")


class Unnumbered:
    """Of one service."""

    def __init__(self, service: Service):
        self.service = service
        check_lateness(service.options.lateness)
        check_choice(service.options.too_late, service.run)
        self.held: Held | None = None  # events that wait for their turn
        self.late: Held | None = None  # events that wait to be put in their places
        self.rewinder: Rewinder | None = None
        self.begun = False

    def begin(self) -> None:
        """Read what waits, as the writer. Without a lateness it is due at once."""
        service, lateness = self.service, self.service.options.lateness
        self.held = open_waiting(service.where, service.store, HELD, lateness is not None, lateness or 0)
        if self.held is not None and not service.missing:
            self.held.release(self._released)
            if lateness is None and not len(self.held):  # nothing waits any more
                self.held.close()
                self.held = None
        self.late = open_waiting(service.where, service.store, LATE, service.options.too_late == "rewind")
        if self.late and not service.missing and lateness != math.inf:
            self._rewind(self.late)
        service.requests.codec.sorts = self.held is not None
        self.begun = True

    def end(self) -> Rewinder | None:
        """Let go of it; returns what may still be at work, but will change nothing any more."""
        waiting, rewinder = (self.held, self.late), self.rewinder
        self.held = self.late = self.rewinder = None
        self.begun = False
        if rewinder is not None:
            rewinder.give_up()
        for held in waiting:
            if held is not None:
                held.close()
        return rewinder

    def admission(self) -> Admission:
        """Who is let in now."""
        service = self.service
        late = self.late if service.options.too_late == "rewind" else None
        at = (service.live.clock, service.run.log.schema.time, service.max_ahead)
        return Admission(service.store, *at, self.held, late, functools.cache(lambda: horizon(service)))

    @contextmanager
    def keeping(self, late: list[EventBatch]) -> Iterator[None]:
        """Late events, to be put in their places; none of them, where the rest of their group cannot be kept."""
        if self.late is None or not late:
            yield
            return
        before = self.late.arrivals
        self.late.add(late)
        try:
            yield
        except StoreFull:
            self.late.take_back(before)
            raise
        self.late.settle()
        self._rewind(self.late)

    def let_in(self, new: list[tuple[EventBatch, bool]]) -> np.ndarray:
        """Events that are on time, and which are to be scored: they happen, or wait for their turn. Their scores."""
        service = self.service
        if self.held is None:
            return service.happen(new)
        with service.metrics.commit_seconds.time():
            self.held.add([batch for batch, _ in new])
        self.held.release(self._released)
        self.held.settle()
        return np.full(sum(len(batch) for batch, _ in new), np.nan)

    def _released(self, batch: EventBatch) -> bool:
        """Events whose turn has come; False when they have to wait on, because the store cannot take them now."""
        try:
            self.service.happen([(batch, False)])
        except StoreFull as error:
            self.service.store_failed(error)
            return False
        return True

    def _rewind(self, late: Held) -> None:
        if self.rewinder is None:
            self.rewinder = Rewinder(self.service, late)
            self.rewinder.start()

    def settle(self) -> None:
        """Wait until no late event has to be put in its place any more, or that has failed."""
        while (rewinder := self.rewinder) is not None and rewinder.trouble is None and self.service.healthy:
            time.sleep(0.02)

    # -- in words ------------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        rewinder = self.rewinder
        return None if rewinder is None else rewinder.trouble

    def acknowledged(self) -> dict[str, int]:
        """For an acknowledgement: how many wait."""
        named = {"held": self.held, "late": self.late}
        return {name: len(one) for name, one in named.items() if one is not None}

    def facts(self) -> dict[str, Any]:
        """How much waits for its turn, and until when; how many late events there are, and how many of them are being
        put in their places. As a service that follows saw it last."""
        held, late, rewinder, follower = self.held, self.late, self.rewinder, self.service.follower
        if not self.service.store.writes:
            return {"held": follower.held, "late": follower.late}
        rewinding = 0 if rewinder is None else rewinder.rewinding
        return {
            "held": None if held is None else held.facts(),
            "late": None if late is None else {"events": len(late), "rewinding": rewinding},
        }
