"""A run that goes on living: its stream, users' ids, node table and quality, all moved by events alone.

The engine is a function of its run and of the events it has observed, in order: a restart, a replay of the store and a
service that never stopped arrive at the same state, bit for bit, whatever the batches were.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn.events.facts import AtLeast, read_arrays, read_json, reading
from pintgn.events.log import Query
from pintgn.events.schema import ADD, NODE
from pintgn.learn.live import Live
from pintgn.learn.protocol import destinations
from pintgn.learn.run import Run
from pintgn.models.past import Events
from pintgn.serve.batch import Batch
from pintgn.serve.intake import Intake
from pintgn.serve.nodes import NodeTable, Search
from pintgn.serve.quality import EVERY, Quality
from pintgn.serve.retention import Retention
from pintgn.stream import Stream

FACTS = {
    "total": AtLeast(0),
    "ids": [(str, int)],
    "sides": [AtLeast(0)],
    "self_loops": bool,
    "quality": {"judged": AtLeast(0), "positive": [float], "negative": [float], "history": [[float]]},
    "retention": {"forgotten": AtLeast(0)},
}
"""What a snapshot's engine.json says."""
BLOCK = 500
"""Events observed in one turn: what a question waits for at most."""


class Engine:
    """Live state of a service. One thread observes; others ask through `asking`, between two blocks.

    Args:
        run: used up: its stream moves on.
        retention: which contacts are kept; all by default.
        judge_every: one event in so many is judged before it happens; 0 for none.
        snapshot: a folder that `Captured.write` has written; the state after the run's own log when not given.
    """

    def __init__(
        self,
        run: Run,
        retention: Retention | None = None,
        judge_every: int = EVERY,
        snapshot: Path | None = None,
    ):
        self.run = run
        if snapshot is None or not run.finished:  # an unfinished run is calibrated when its stream is made
            self.live = Live(run, run.stream)
        if snapshot is not None:
            self.live = Live(run, Stream.open(snapshot / "stream", type(run.model)))
        self.live.model.eval()
        self.retention = retention or Retention()
        self.quality = Quality(run, judge_every)
        self.intake = Intake(self.live)
        self.nodes = NodeTable.of(run.log)
        self.search = Search(self.live.names)
        self.total = 0  # events observed after the run's own log
        self.pool = _Growing(_first_met(run))  # destinations in the order in which they were first met
        self._own = threading.local()
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def clock(self) -> Any:
        return self.live.clock

    @property
    def events(self) -> int:
        """All events ever observed, the run's log included."""
        return len(self.run.log) + self.total

    # -- observing -----------------------------------------------------------------------------------------------------

    def observe(self, batch: Batch, turn: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Let checked events happen, block by block; each block is a `turn` of its own."""
        features = self._scaled(batch)
        begin = 0
        while begin < len(batch):
            end = min(begin + BLOCK, len(batch), begin + self.retention.until_next(self.total))
            with turn():
                self._block(batch[begin:end], None if features is None else features[begin:end])
                self.retention.after(self)
            begin = end

    def skip(self, number: int) -> None:
        """Go on after an event that is lost; the numbers of the others stay what they are."""
        self.total = max(self.total, number)

    def _block(self, batch: Batch, features: np.ndarray | None) -> None:
        live, names = self.live, self.live.names
        src, dst = numbers_of(names, batch)
        live.stream.node_marks = names.marks
        events = Events(src, dst, batch.t, features)
        learnable = np.ones(len(batch), bool) if batch.op is None else batch.op == ADD
        if live.schema.dummy is not None:
            learnable &= (src != live.schema.dummy) & (dst != live.schema.dummy)
        before = self._meet_destinations(dst, learnable)
        numbers = np.arange(self.total + 1, self.total + 1 + len(batch))
        rows, negative = self.quality.draw(numbers, dst, learnable, self.pool.values, before)
        with torch.no_grad():
            if len(rows):
                asked = Query(src[rows], dst[rows], batch.t[rows])
                scores = live.stream.replay(events, [asked, asked.toward(negative)])
                positive, other = (one.numpy(force=True) for one in scores)
                self.quality.judge(positive, other, batch.t[rows])
            else:
                live.stream.observe(events)
        self.nodes.meet(src, dst, batch.t)
        live._self_loops |= bool((src == dst)[learnable].any())
        self.total += len(batch)

    def _meet_destinations(self, dst: np.ndarray, learnable: np.ndarray) -> np.ndarray:
        """Note new destinations; returns how many had been met before each event."""
        live = self.live
        live._meet(dst[:0])  # makes room for all nodes
        new = learnable & ~live._is_destination[dst]
        if new.any():
            first = np.zeros(len(dst), bool)
            first[np.flatnonzero(new)[np.unique(dst[new], return_index=True)[1]]] = True
            new = first
        before = len(self.pool) + np.cumsum(new) - new
        if new.any():
            self.pool.extend(dst[new])
            live._meet(dst[new])
        return before

    def _scaled(self, batch: Batch) -> np.ndarray | None:
        """Features as the model reads them: known categories and a common scale, by the run's training part."""
        if batch.features is None:
            return None
        schema, scaling, width = self.live.schema, self.run.scaling, self.live.schema.feature_width
        own, rest = batch.features[:, :width], batch.features[:, width:].copy()
        if scaling.node_updates is not None and schema.node_updates and batch.op is not None:
            rows = batch.op == NODE
            rest[rows, 2:] = scaling.node_updates(rest[rows, 2:])
        return np.concatenate([scaling.event_features(own), rest], 1)

    # -- asking --------------------------------------------------------------------------------------------------------

    def asking(self) -> Live:
        """The run for one question of one thread; many may ask at once, as long as nothing is observed meanwhile."""
        view = copy.copy(self.live)
        view.stream = self.live.stream.reader()
        if not hasattr(self._own, "numbering"):
            self._own.numbering = view.stream._numbering
        view.stream._numbering = self._own.numbering
        return view

    # -- on disk -------------------------------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """A copy of everything that a snapshot holds; writing it can wait."""
        live, log = self.live, self.run.log
        names = live.names
        facts = {
            "total": self.total,
            "ids": names.ids[log.nodes :],
            "sides": names.sides[log.nodes :],
            "self_loops": live._self_loops,
            "quality": self.quality.facts(),
            "retention": self.retention.facts(),
        }
        arrays = {f"nodes.{name}": column for name, column in self.nodes.arrays().items()}
        arrays["pool"] = self.pool.values.copy()
        return Captured(live.stream.fork(), facts, arrays)

    def _restore(self, folder: Path) -> None:
        """Become what `Captured.write` wrote there, besides the stream."""
        with reading(folder / "engine.json"):
            facts = read_json(folder / "engine.json", FACTS)
        arrays = read_arrays(folder / "engine.npz")
        with reading(folder):
            live, names = self.live, self.live.names
            for row, id in enumerate(facts["ids"]):
                names._number(id, facts["sides"][row] if facts["sides"] else 0)
            self.total = facts["total"]
            self.nodes = NodeTable.restored({name[6:]: array for name, array in arrays.items() if name[:6] == "nodes."})
            self.pool = _Growing(arrays["pool"])
            live._meet(self.pool.values)
            live._self_loops = facts["self_loops"]
            self.quality.restore(facts["quality"])
            self.retention.restore(facts["retention"])


class Captured:
    """An engine's state at one moment."""

    def __init__(self, stream: Stream, facts: dict[str, Any], arrays: dict[str, np.ndarray]):
        self.stream, self.facts, self.arrays = stream, facts, arrays
        self.clock, self.total = stream.clock, facts["total"]

    def write(self, folder: Path) -> None:
        """Plain files in an empty folder."""
        self.stream.save(folder / "stream")
        (folder / "engine.json").write_text(json.dumps(self.facts))
        np.savez(folder / "engine.npz", **self.arrays)  # type: ignore[arg-type]


class _Growing:
    """An array of node numbers that is added to at its end."""

    def __init__(self, values: np.ndarray):
        self._room, self._used = np.array(values, np.int64), len(values)

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> np.ndarray:
        return self._room[: self._used]

    def extend(self, values: np.ndarray) -> None:
        need = self._used + len(values)
        if need > len(self._room):
            grown = np.zeros(max(need, 2 * len(self._room)), np.int64)
            grown[: self._used] = self.values
            self._room = grown
        self._room[self._used : need] = values
        self._used = need


def _first_met(run: Run) -> np.ndarray:
    """The destinations of a run's log in the order in which they first occur."""
    log = run.log
    dst = log.dst[log.learnable]
    known, first = np.unique(dst, return_index=True)
    assert len(known) == len(destinations(log))
    return known[np.argsort(first)]


def numbers_of(names: Any, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Node numbers of checked events; new ids become nodes."""
    src, dst = list(map(names.space(0).get, batch.src)), list(map(names.space(1).get, batch.dst))
    if None in src or None in dst:
        for row in [row for row, ends in enumerate(zip(src, dst, strict=True)) if None in ends]:
            src[row], dst[row] = names._number(batch.src[row], 0), names._number(batch.dst[row], 1)
    return np.array(src, np.int64), np.array(dst, np.int64)
