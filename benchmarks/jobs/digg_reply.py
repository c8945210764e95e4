"""To whom does this member of Digg reply next? Pairs hardly ever repeat.

Every baseline knows all replies strictly before the question; weights of SASRec and of the trees that rank were learned
on the training part.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import pintgn
from benchmarks.jobs.what_next import what_next


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "digg_reply.parquet")
    return frame, pintgn.read_events(frame)


JOB = what_next("digg_reply", "To whom does this member of Digg reply next?", read)
