"""To whom does this employee write next? Pairs repeat all the time, and one mail may go to many.

Every baseline knows all mail strictly before the question; weights of SASRec and of the trees that rank were learned
on the training part.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import pintgn
from benchmarks.jobs.what_next import what_next


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "radoslaw_email.parquet")
    return frame, pintgn.read_events(frame)


JOB = what_next("radoslaw_email", "To whom does this employee write next?", read)
