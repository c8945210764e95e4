"""Small logs and quick settings that the tests of this room share."""

from __future__ import annotations

import numpy as np

import pintgn
from pintgn import EventLog
from pintgn.learn.settings import model_parameters

QUICK = {"epochs": 2, "batch": 50, "hidden": 0.1, "learning_rate": 3e-3}


def random_log(events=300, nodes=20, seed=0, ties=3, features=0, op=None, **columns) -> EventLog:
    """Random pairs with ties, repeats and self-loops; nodes keep appearing."""
    rng = np.random.default_rng(seed)
    late = np.linspace(nodes // 2, nodes, events).astype(int)
    src, dst = rng.integers(0, late), rng.integers(0, late)
    repeats = np.flatnonzero(rng.random(events) < 0.4)
    for row in repeats[repeats > 10]:
        src[row], dst[row] = src[row - 7], dst[row - 7]
    t = np.sort(rng.integers(0, max(events // ties, 1), events))
    if features:
        columns["features"] = rng.normal(size=(events, features)).astype(np.float32)
    return EventLog(src, dst, t, op=op, **columns)


def world(events=900, seed=0) -> EventLog:
    """A log with something to learn, quickly."""
    return pintgn.simulate("repeat", events=events, seed=seed)


def tiny(name, historical=None, **training) -> dict:
    """Settings of a model by name, small enough for seconds."""
    small = {"dim": 8, "memory": 8, "time_dim": 4, "neighbors": 3, "walks": 4, "length": 2, "heads": 2, "layers": 1}
    chosen = {key: value for key, value in small.items() if key in model_parameters(name)}
    chosen |= {} if historical is None else {"historical": historical}
    return {"model": {"name": name} | chosen, "train": QUICK | {"epochs": 1, "checkpoint_seconds": 0} | training}
