"""Numbers of a log are float32 where that holds them, and float64 where it would round away what they tell."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import EventLog, read_events
from pintgn.events import checks, columns


@pytest.mark.parametrize(("away", "kind"), [(63.0, "f4"), (65.0, "f8")])
def test_numbers_far_from_zero_are_kept_in_full(away, kind, tmp_path):
    y = np.tile([-1.0, 1.0], 50) * 1.1 + away * 1.1
    log = read_events({"src": [0] * 100, "dst": [1] * 100, "t": range(100), "y": y}, features=["y"])
    assert log.features.dtype == kind
    assert np.array_equal(log.features[:, 0], y.astype(kind))
    for ending in ("parquet", "arrow"):
        for part in (log, log[:1], log[:0]):
            part.save(tmp_path / f"log.{ending}")
            assert EventLog.open(tmp_path / f"log.{ending}") == part


@pytest.mark.parametrize("size", [1, 99, 100, 101])
def test_numbers_are_judged_and_narrowed_alike_in_pieces(size, monkeypatch):
    monkeypatch.setattr(checks, "PIECE", size)
    monkeypatch.setattr(columns, "NARROWED", size)
    table = {"src": [0] * 100, "dst": [1] * 100, "t": range(100), "y": np.linspace(0, 1, 100)}
    assert np.array_equal(read_events(table, features=["y"]).features[:, 0], table["y"].astype(np.float32))
    table["y"] = table["y"] + 1e9
    assert np.array_equal(read_events(table, features=["y"]).features[:, 0], table["y"])
