"""How a service starts: the newest snapshot that can be used, else the run's own log; then every event after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pintgn.errors import BadFile, PintgnError
from pintgn.live.live import Live
from pintgn.live.retention import NEVER
from pintgn.serve.late import again
from pintgn.serve.repair import advice, described
from pintgn.serve.rows import Gap
from pintgn.serve.states import state_of
from pintgn.serve.store import StoreRewound

if TYPE_CHECKING:
    from pintgn.serve.service import Service


class Start(NamedTuple):
    """A state, and how many events were replayed for it; which events are missing, and what to do about it."""

    live: Live
    replayed: int
    missing: list[Gap]
    loss: str


def started(service: Service, progress: Callable[[str], None]) -> Start:
    """The state after all stored events."""
    while True:
        try:
            return _replayed(service, _restored(service, progress), progress)
        except StoreRewound:  # by the service that writes, meanwhile
            service.store.accept_rewind()
            service.run = again(service.run)


def _restored(service: Service, progress: Callable[[str], None]) -> Live:
    begin, snapshots, dropped = time.perf_counter(), service.snapshots, service.store.dropped
    for number, folder in snapshots.valid():
        try:
            if number < dropped:
                raise BadFile(f"events up to {dropped:,} are no longer in the store")
            live = state_of(service.run, service.options, service.covered, folder)
        except (PintgnError, KeyError, ValueError) as error:
            snapshots.discard(number, str(error))
            continue
        service.saver.at = service.saver.tried = number
        progress(f"snapshot after {number:,} events read in {time.perf_counter() - begin:.1f} s")
        return live
    if dropped > service.covered:
        raise BadFile(
            f"the store in {service.store.name} was compacted, and none of its snapshots can be used: "
            + (" ".join(snapshots.reports) or "they belong to another run, or there is none.")
            + " Put back a snapshot from a backup, or start an empty store with --store."
        )
    live = state_of(service.run, service.options, service.covered)
    progress(f"the run's own log: {len(service.run.log):,} events")
    return live


def _replayed(service: Service, live: Live, progress: Callable[[str], None]) -> Start:
    store = service.store
    store.know(live.total)
    first, clock, replayed = live.total, live.clock, 0
    for number, batch in store.read(live.total):
        live.skip_to(number - 1)
        live.observe_batch(batch)
        replayed += len(batch)
        progress(f"replayed {live.total - first:,} of {store.total - first:,} events")
    live.skip_to(store.total)
    store.know(live.total)
    missing, loss = store.missing, ""
    if missing:
        service.saver.tried = NEVER  # the snapshots that there are stay
        between = [gap for gap in missing if gap.last > first and gap.first <= live.total]
        since = store.time_before(between[0]) if between else live.clock
        show = service.run.log.schema.time.show(clock if since is None else since)
        loss = f"{described(missing)}. {advice(missing, first, bool(between), show)}"
    return Start(live, replayed, missing, loss)
