"""Stores by address: a folder is a SQLite store, postgresql://… one that several processes share."""

from __future__ import annotations

from pathlib import Path

from pintgn.errors import BadInput
from pintgn.ingest.codec import Codec
from pintgn.learn.run import Run
from pintgn.serve.event_store import Store, log_fingerprint
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.sqlite import SqliteStore


def is_address(where: str | Path) -> bool:
    """Whether this names a database rather than a folder.

    >>> is_address("postgresql://ann@db/shop"), is_address("runs/shop/live")
    (True, False)
    """
    return str(where).startswith(("postgresql:", "postgres:"))


def home_of(run: Path, where: str | Path | None) -> Path:
    """The folder of a service's own files, such as its keys: the store's, or RUN/live where that is no folder."""
    return run / "live" if where is None or is_address(where) else Path(where)


def open_store(
    where: str | Path, run: Run, follow: bool = False, own_log: str | None = None
) -> tuple[Store, SnapshotFolder]:
    """The store at an address, to continue the log of a run, and the run's snapshots there.

    Args:
        follow: only read, beside the process that writes.
        own_log: fingerprint of the log that the store continues, where the log of the run only begins with it.
    """
    log, width = run.log, run.event_schema[0].width
    if is_address(where):
        from pintgn.serve.postgres import PostgresStore
        from pintgn.serve.postgres_snapshots import PostgresSnapshots

        own = own_log or log_fingerprint(log)
        made = PostgresStore(str(where), own, width, log.t.dtype, Codec.of(log).text, follow)
        return made, PostgresSnapshots(made, run)
    if follow:
        raise BadInput("--follow needs a store that processes can share: --store postgresql://USER@HOST/DATABASE.")
    snapshots = SnapshotFolder(where, run)
    seen = max(snapshots.numbers(), default=0)
    own = own_log or log_fingerprint(log)
    return SqliteStore(where, own, width, log.t.dtype, seen), snapshots
