"""Operator actions on a store that is not served: undo events after a time, or accept a loss.

A store that has lost acknowledged events is not served until somebody has put them back or accepted that. Once a loss
is accepted the events keep their numbers, snapshots that have seen what is missing are dropped, and the state is that
of a replay of what is left; lost events can be sent again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.events.moment import read_time
from pintgn.learn.run import Run
from pintgn.serve.event_store import Store
from pintgn.serve.model_history import open_models
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.stores import is_address, open_store


def refused(where: str, loss: str, missing: int | None) -> BadFile:
    """The error for a store that is not served, and what helps; `missing` events can be accepted as lost, where that is
    known."""
    steps = ["put back the newest backup of the database"]
    if not is_address(where):
        from pintgn.serve.store_backup import newest_backup  # which opens stores

        found = newest_backup(Path(where))
        backup = "the newest backup" if found is None else f"{found[0]} ({found[1]:,} live events)"
        steps = [
            f"restore {backup} with pintgn restore",
            "save what the file still holds with sqlite3 events.db .recover",
        ]
    if missing is not None:
        steps.append(f"go on without them: pintgn serve RUN --accept-loss {missing}")
    return BadFile(f"{where}: {loss}. Stop the service, then {', or '.join(steps)}.")


def check_intact(store: Store, *, every_event: bool = False) -> None:
    """Refuse a store that has lost events; with `every_event`, also one that holds damaged ones."""
    damaged = store.inspect()[0] if every_event else []
    said = [store.loss] if store.loss else []
    if damaged:
        said.append(f"{len(damaged):,} events are not what was written, the first is number {damaged[0]:,}")
    if said:
        raise refused(store.name, "; ".join(said), store.missing + len(damaged))


def accept_loss(run: Run, where: str | Path, count: int) -> dict[str, Any]:
    """Continue without so many acknowledged events; refused unless exactly so many are missing."""
    store, snapshots, covered = _opened(run, where)
    with store:
        damaged, breaks = store.inspect()
        missing = store.missing + len(damaged)
        if count != missing:
            raise BadInput(f"--accept-loss {count}, but {missing:,} events are missing from {store.name}.")
        facts: dict[str, Any] = {"lost": missing, "first": None, "events": store.total, "snapshots": []}
        if not missing and store.loss is None:
            return facts
        base = _base(store, snapshots, covered, breaks[0]) if missing else 0
        kept = [number for number in breaks if number > base]
        if missing:
            facts |= {"first": breaks[0], "snapshots": snapshots.forget_after(min(kept, default=base + 1) - 1)}
        store.accept_loss(damaged, base)
        return facts | {"events": store.total}


def _base(store: Store, snapshots: SnapshotFolder, covered: int, first: int) -> int:
    """The number of the oldest snapshot, where nothing from before the first missing event is left to begin with."""
    valid = [number for number, _ in snapshots.valid() if number >= store.dropped]
    if store.dropped <= covered or any(number < first for number in valid):
        return 0
    if not valid:
        raise BadInput(f"{store.name} was compacted, and none of its snapshots can be used. Put back a backup.")
    return min(valid)


def undo_after(run: Run, where: str | Path, after: Any) -> dict[str, Any]:
    """Undo all live events later than a time; returns a summary.

    The events are moved to a table of their own; their keys can be sent again. Snapshots that have seen any
    of them are dropped. The next start replays what is left, and arrives at the state of a service that never saw the
    others. Nothing is started here: it also helps a store that cannot start.
    """
    log = run.log
    t = read_time(after, log.schema.time, log.t.dtype).item()
    store, snapshots, _ = _opened(run, where)
    with store:
        check_intact(store)
        clocks = {number: snapshots.clock(number) for number, _ in snapshots.valid()}
        valid = [number for number, clock in clocks.items() if clock is not None and clock <= t]
        last = store.total
        upto = max(store.newest_until(t), *valid, 0)
        if store.dropped and not any(store.dropped <= number <= upto for number in valid):
            raise BadInput(
                f"{store.name} cannot be rewound to event {upto:,}: those up to {store.dropped:,} were dropped, and no "
                "snapshot was made in between. Put back a backup from before that time."
            )
        facts: dict[str, Any] = {"after": t, "undone": 0, "first": upto + 1, "last": last, "table": None}
        facts["snapshots"] = snapshots.forget_after(upto) if upto < last else []
        if upto < last or store.waiting:
            facts["undone"], facts["table"] = store.undo(t)
        return facts | {"left": upto, "dropped": store.dropped}


def _opened(run: Run, where: str | Path) -> tuple[Store, SnapshotFolder, int]:
    """The store of the served run, locked against writers, and how many events the run's log covers."""
    made, covered, own_log = open_models(where).served(run, lambda line: None)
    store, snapshots = open_store(where, made, own_log=own_log)
    if not store.writes:
        with store:
            raise BadInput(f"{store.name} is in use by {store.holder()}. Stop that first.")
    return store, snapshots, covered
