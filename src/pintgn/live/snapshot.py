"""Snapshots of a `Live`: its state as plain files, and restored."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.facts import AtLeast, Maybe, read_arrays, read_json, reading
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import NodeTable
from pintgn.live.observing import Retention
from pintgn.stream import Stream

FACTS = {
    "total": AtLeast(0),
    "targets": Maybe(AtLeast(0)),
    "ids": [(str, int)],
    "sides": [AtLeast(0)],
    "self_loops": bool,
    "first_loop": Maybe((int, float)),
    "settled": Maybe(AtLeast(0)),
    "prequential": {
        "scored": AtLeast(0),
        "positive": [float],
        "negative": [float],
        "history": [[float]],
        "answers": Maybe([[float]]),
        "truth": Maybe([float]),
        "waiting": Maybe([[(float, None)]]),
        "given_up": Maybe(AtLeast(0)),
    },
    "retention": {"forgotten": AtLeast(0)},
}
"""The shape of live.json."""


@dataclass
class Snapshot:
    """A copy of the state at one moment, without what is in the run."""

    stream: Stream
    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, live: Live) -> Snapshot:
        names, own = live.names, live.run.log.nodes
        facts = {
            "total": live.total,
            "targets": live.targets,
            "ids": names.ids[own:],
            "sides": names.sides[own:],
            "self_loops": live.destinations.first_loop is not None,
            "settled": live.destinations.settled,
            "prequential": live.prequential.facts(),
            "retention": {"forgotten": live.retention.forgotten},
        }
        if live.destinations.first_loop is not None:
            facts["first_loop"] = live.destinations.first_loop
        arrays = {f"nodes.{name}": column for name, column in live.nodes.arrays().items()}
        arrays["destinations"] = live.destinations.values.copy()
        return cls(live.stream.fork(), facts, arrays)

    @property
    def total(self) -> int:
        return self.facts["total"]

    @property
    def clock(self) -> Any:
        return self.stream.clock

    def write(self, folder: Path) -> None:
        """Plain files in an empty folder."""
        self.stream.save(folder / "stream")
        (folder / "live.json").write_text(json.dumps(self.facts))
        np.savez(folder / "live.npz", **self.arrays)  # type: ignore[arg-type]


def restore(
    run: Run, folder: Path, retention: Retention | None = None, evaluate_every: int = 0, covered: int = 0
) -> Live:
    """Restore a state written by `Snapshot.write`."""
    if not run.finished:
        run.stream  # noqa: B018 - an unfinished run is calibrated when its stream is made
    with reading(folder / "live.json"):
        facts = read_json(folder / "live.json", FACTS)
    arrays = read_arrays(folder / "live.npz")
    stream = Stream.open(folder / "stream", type(run.model), device=run.device or "cpu")
    live = Live(run, stream, retention, evaluate_every, covered)
    with reading(folder):
        for row, id in enumerate(facts["ids"]):
            live.names.add(id, facts["sides"][row] if facts["sides"] else 0)
        live.total = facts["total"]
        live.targets = facts.get("targets") or 0
        live.nodes = NodeTable.restore({name[6:]: array for name, array in arrays.items() if name[:6] == "nodes."})
        loop = facts.get("first_loop", -math.inf) if facts["self_loops"] else None  # earlier ones did not say when
        live.destinations.restore(arrays["destinations"], len(live.names), facts.get("settled"), stream.clock, loop)
        live.prequential.restore(facts["prequential"])
        live.retention.forgotten = facts["retention"]["forgotten"]
    return live
