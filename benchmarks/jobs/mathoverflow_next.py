"""Whom does this member of MathOverflow turn to next? Of all others: acts on own posts are left out on both sides.

Every baseline knows all acts strictly before the question; weights of SASRec and of the trees that rank were learned
on the training part.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import pintgn
from benchmarks.jobs.what_next import what_next


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "mathoverflow.parquet").filter(pl.col("src") != pl.col("dst"))
    return frame, pintgn.read_events(frame.drop("kind"))


JOB = what_next("mathoverflow_next", "Whom does this member of MathOverflow turn to next?", read)
