"""What a training will take is told before it starts, and refused where it cannot be."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pintgn import PINT, EventLog, Stream
from pintgn.errors import TooLarge
from pintgn.learn import memory_budget
from pintgn.learn.defaults import resolved
from pintgn.learn.settings import Settings, Streaming
from pintgn.positions.relative import BUDGET


def log_of(events: int, nodes: int, features: int = 0) -> EventLog:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, nodes - 1, (2, events))
    src[-1] = nodes - 1
    return EventLog(src, dst, np.arange(events), features=rng.random((events, features)) if features else None)


def predicted(log: EventLog, **settings: dict) -> dict[str, int]:
    return memory_budget.predict(resolved(Settings.of({"model": {"name": "pint"}} | settings), log), log)


def test_more_events_nodes_and_features_take_more():
    few = predicted(log_of(2000, 200))
    more_events, more_nodes = predicted(log_of(20_000, 200)), predicted(log_of(2000, 2000))
    wide = predicted(log_of(2000, 200, features=8))
    for name in ("log", "training events", "index"):
        assert more_events[name] == pytest.approx(10 * few[name], rel=0.1)
    assert more_nodes["positions"] > 50 * few["positions"], "exact tables of nodes and nodes"
    assert wide["event features"] == 2000 * 8 * 4
    assert "event features" not in few
    assert "sums" not in few


@pytest.mark.parametrize("features", [1, 4])
def test_sums_take_about_what_is_said(features):
    log = log_of(60_000, 3_000, features)
    stream = Stream(PINT(dim=4, positions=0, aggregates=True), log.schema)
    stream.observe(log)
    said = predicted(log)["sums"]
    assert 0.6 * said < stream.history.sums.nbytes < 1.6 * said


def kept(backend: str, width: int | None = None) -> Streaming:
    return Streaming(positions_backend=backend, positions_width=width)


def test_positions_are_counted_by_their_backend():
    assert memory_budget.positions(4, 1000, kept("exact")) == 3 * 1000 * (4 * 1000 + 24)
    assert memory_budget.positions(4, 1000, kept("sketch")) == 1000 * (3 * 128 * 4 + 9)
    assert memory_budget.positions(4, 100, kept("auto")) == memory_budget.positions(4, 100, kept("exact"))
    assert memory_budget.positions(4, 50_000, kept("auto")) == BUDGET + BUDGET // 10
    assert memory_budget.positions(4, 1_000_000, kept("auto")) == memory_budget.positions(4, 1_000_000, kept("sketch"))
    assert memory_budget.positions(0, 1000, kept("auto")) == 0
    assert memory_budget.positions(4, 1000, kept("sketch", 64)) == 1000 * (3 * 64 * 4 + 9)


@pytest.mark.parametrize(
    ("less", "advice"),
    [
        (1, "--set model.positions=0"),
        (10**12, "No log fits"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_would(less, advice, monkeypatch):
    log = log_of(3000, 300)
    settings = resolved(Settings.of({"model": {"name": "pint"}}), log)
    peak = sum(memory_budget.predict(settings, log).values())
    monkeypatch.setattr(memory_budget, "resident", lambda: 0)
    monkeypatch.setattr(memory_budget, "available", lambda: peak)
    assert sum(memory_budget.require(settings, log).values()) == peak
    monkeypatch.setattr(memory_budget, "available", lambda: max(peak - less, 0))
    with pytest.raises(TooLarge, match=f"3,000 events between 300 nodes takes about .* are free. .*{advice}"):
        memory_budget.require(settings, log)


def test_where_even_no_positions_do_not_fit_the_newest_events_may(monkeypatch):
    log = log_of(3000, 300)
    settings = resolved(Settings.of({"model": {"name": "edgebank"}}), log)
    peak = sum(memory_budget.predict(settings, log).values())
    monkeypatch.setattr(memory_budget, "resident", lambda: 0)
    monkeypatch.setattr(memory_budget, "available", lambda: memory_budget.PROGRAM + (peak - memory_budget.PROGRAM) // 2)
    with pytest.raises(TooLarge, match=r"The newest 1,(499|500) events would fit"):
        memory_budget.require(settings, log)


def test_a_small_training_takes_about_what_was_predicted_whatever_started_it(tmp_path):
    large = np.ones(150_000_000)  # 1.2 GB, which a child that this process starts does not hold
    program = (
        "import sys, pintgn; from pintgn.learn.memory_budget import predict;"
        "log = pintgn.simulate('repeat', events=2000, seed=0);"
        "run = pintgn.fit('pint', log, folder=sys.argv[1], epochs=1, threads=1);"
        "print(run.spent['peak_memory_bytes'] / sum(predict(run.settings, log).values()))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "run")], capture_output=True, check=True)
    assert large.nbytes > 2**30
    assert 0.6 < float(done.stdout) < 1.2, "the program itself, nearly all of it"
