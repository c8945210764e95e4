"""The way back, a store as if the events after a time had never been sent; and the way on, without events that waited
in a file that is damaged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pintgn.errors import BadInput
from pintgn.events.moment import read_time
from pintgn.learn.run import Run
from pintgn.serve.held import HELD, LATE, open_waiting
from pintgn.serve.model_history import open_models
from pintgn.serve.stores import is_address, open_store
from pintgn.serve.waiting import keep_intact


def undo_after(run: Run, where: str | Path, after: Any) -> dict[str, Any]:
    """Take back every live event that is later than a time; returns what was done.

    The events are moved to a file of their own beside the store, with the store's own tables; their keys can be sent
    again. Snapshots that have seen any of them are dropped. The next start replays what is left, and arrives at the
    state of a service that never saw the others. Nothing is started here: it also helps a store that cannot start.
    """
    log = run.log
    t = read_time(after, log.schema.time, log.t.dtype).item()
    store, snapshots = open_store(where, run)
    with store:
        if not store.writes:
            raise BadInput(f"{store.name} is in use by {store.holder()}. Stop that first.")
        seen = max(snapshots.numbers(), default=0)
        clocks = {number: snapshots.clock(number) for number, _ in snapshots.valid()}
        valid = [number for number, clock in clocks.items() if clock is not None and clock <= t]
        last = max(store.total, seen, *(gap.last for gap in store.gaps), 0)
        upto = max(store.newest_until(t), *valid, 0)
        if store.dropped and not any(store.dropped <= number <= upto for number in valid):
            raise BadInput(
                f"{store.name} cannot be rewound to event {upto:,}: those up to {store.dropped:,} were dropped, and no "
                "snapshot was made in between. Put back a backup from before that time."
            )
        facts: dict[str, Any] = {
            "after": t,
            "undone": 0,
            "first": upto + 1,
            "last": last,
            "file": None,
            "snapshots": [],
        }
        if upto < last:
            facts["snapshots"] = snapshots.forget_after(upto)
            facts["undone"], facts["file"] = store.undo(upto + 1)
        for kind in (HELD, LATE):  # those that wait go, too
            if (held := open_waiting(where, store, kind, make=False)) is not None:
                held.rows.set_aside(time.strftime("%Y%m%d-%H%M%S"))
                facts["undone"] += held.drop_after(t)
                held.close()
        return facts | {"left": upto, "reports": store.reports}


def accept_lost(run: str | Path, where: str | Path, progress: Callable[[str], None]) -> list[str]:
    """Go on with what is intact of the events that wait beside a store; what was done, for people to read."""
    if is_address(where) or not Path(where).exists():
        return []
    made, _, log = open_models(where).served(Run.open(run), progress)
    done, store = [], open_store(where, made, own_log=log)[0]
    with store:
        for report in store.reports:
            progress(f"note: {report}")
        for kind in (HELD, LATE):
            path = Path(where) / f"{kind}.db"
            if (found := keep_intact(path, store.log, store.width, store.dtype)) is not None:
                kept, aside = found
                copy = "" if aside is None else f"; the damaged file is kept as {aside}"
                done.append(f"{kept:,} events that wait in {path.name} were intact{copy}")
    return done
