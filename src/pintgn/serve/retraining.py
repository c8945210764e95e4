"""A training beside a service, in a process of its own: `python -m pintgn.serve.retraining`, which the service starts.

It is told by the first line that it reads what to train. It ends when there is nothing more to read: then the service
has ended, however that happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pintgn.errors import BadInput, PintgnError
from pintgn.events.codec import Codec, EventBatch
from pintgn.learn.run import Run
from pintgn.serve.export import with_events
from pintgn.serve.rows import COLUMNS, FILE, batch_of
from pintgn.serve.stores import is_address

NICE = 10
"""How much a training gives way to the service."""
CHUNK = 10_000
"""Events read at once."""


def stored_after(run: Run, where: str, log: str, number: int) -> Iterator[EventBatch]:
    """The events of a store that another process serves, after a number, as of one moment."""
    width, dtype = run.written[0].width, run.log.t.dtype
    if is_address(where):
        from pintgn.serve.postgres import PostgresStore

        with PostgresStore(where, log, width, dtype, Codec.of(run.log).text, follow=True) as store:
            yield from (batch for _, batch in store.read(number))
        return
    with contextlib.closing(sqlite3.connect(f"{(Path(where) / FILE).absolute().as_uri()}?mode=ro", uri=True)) as db:
        found = db.execute(f"SELECT {COLUMNS} FROM events WHERE number > ? ORDER BY number", (number,))
        while rows := found.fetchmany(CHUNK):
            yield batch_of(rows, width, dtype)


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Go on training a run with all events since its log, then once more on everything; what it reached on its test.

    Where live events have the time of the log's last one, which a run cannot go on from, it is trained anew.
    """
    from pintgn.learn.train import fit

    run = Run.open(job["run"])
    log = with_events(run, list(stored_after(run, job["store"], job["log"], job["covered"])))
    if len(log) == len(run.log):
        raise BadInput("there are no events after the run's log.")
    later = log.t[len(run.log)] > run.log.t[-1]
    made = fit(run if later else run.asked or run.settings, log, folder=job["folder"], refit=True, progress=False)
    return {"events": len(log), "test": made.test.get("all")}


def main() -> None:
    """Train what the first line says."""
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICE)
    try:
        print(json.dumps(train(job)), flush=True)
    except (PintgnError, OSError, MemoryError, sqlite3.Error) as error:
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr, flush=True)
        sys.exit(1)


def _end_with_the_service() -> None:
    while os.read(0, 4096):
        pass
    os._exit(3)


if __name__ == "__main__":
    main()
