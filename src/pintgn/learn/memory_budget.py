"""Memory budget: the peak memory of a training, predicted from counts before it starts.

The peak comes when the stream has observed the whole log: a large one is never held twice (`train.KEPT`). What is
predicted and what was measured stand side by side in docs/performance.md.
"""

from __future__ import annotations

import os
from pathlib import Path

from pintgn.errors import TooLarge
from pintgn.events.log import COLUMNS, EventLog
from pintgn.events.schema import Schema
from pintgn.formatting import plural, size
from pintgn.learn.protocol import cut
from pintgn.learn.settings import Settings, Streaming
from pintgn.learn.train import KEPT
from pintgn.models.aggregates import summed_columns
from pintgn.neighbors.adjacency import ENTRY
from pintgn.positions.capacity import available
from pintgn.positions.relative import BUDGET, WIDTH
from pintgn.positions.sketch import bytes_per_node

PROGRAM = 600_000_000
"""Python, torch, Arrow, machine code, and a batch on its way."""
SPARE = 1.5
"""Places in the index for each entry: segments are powers of two."""
PAIR = 4
"""Bytes of an earlier pair that historical negatives are drawn from: the row of its first event."""
ROW = 4
"""Bytes of an event that is trained on: its row."""


def predict(settings: Settings, log: EventLog) -> dict[str, int]:
    """Bytes at the peak of training, by what holds them; settings must be resolved (`defaults.resolved`)."""
    events, nodes, model = len(log), log.nodes, settings.model
    train = cut(log, **settings.train.split)[0]
    hidden = settings.train.hidden if isinstance(settings.train.hidden, float) else 0.1  # as dyglib's
    trained = int(len(train) * (1 - hidden))
    held = {name: getattr(log, name) for name in COLUMNS}
    columns = sum(column.nbytes for column in held.values() if column is not None)
    stream = {
        "index": int(2 * events * ENTRY * SPARE) + 16 * nodes,
        "event features": 4 * log.schema.width * events,
        "positions": positions(int(model.get("positions") or 0), nodes, settings.stream),
        "sums": sums(log.schema, bool(model.get("aggregates"))) * events,
    }
    found = {
        "program": PROGRAM,
        "log": columns,
        "scaled features": 4 * log.schema.width * events if settings.train.scale_features else 0,
        "training events": ROW * trained,
        "negatives": (PAIR * trained if model.get("historical") else 0) + 32 * (events - len(train)),
        "memory": 8 * int(model.get("memory") or 0) * nodes,
        **stream,
    }
    if sum(stream.values()) <= KEPT and not model.get("memory"):
        found["copies for validation"] = 2 * sum(stream.values())
    return {name: count for name, count in found.items() if count}


def sums(schema: Schema, aggregates: bool) -> int:
    """Bytes of an event in running sums of features and targets: four entries with room to grow, a key of a pair."""
    columns = len(summed_columns(schema)) if aggregates else 0
    late = schema.asking.late if schema.asking is not None else 0
    return sum(8 * (16 + 16 * count) + 100 for count in (columns, max(late - 1, 0)) if count)


def positions(length: int, nodes: int, kept: Streaming) -> int:
    """Bytes of the positions of so many nodes, at most."""
    levels = max(length - 1, 0)
    dense = levels * nodes * (4 * nodes + 24)
    sketch = nodes * bytes_per_node(levels, kept.positions_width or WIDTH) if levels else 0
    if kept.positions_backend == "sketch":
        return sketch
    if kept.positions_backend == "exact":
        return dense
    return min(dense, max(BUDGET + BUDGET // 10, sketch))  # tables are checked group by group


def require(settings: Settings, log: EventLog) -> dict[str, int]:
    """`predict`, refused in one line if this machine has less memory, with what would fit."""
    found = predict(settings, log)
    peak, free = sum(found.values()), available() + resident()
    if peak <= free:
        return found
    what = f"training on {plural(len(log), 'event')} between {plural(log.nodes, 'node')} takes about {size(peak)}"
    without = peak - found.get("positions", 0)
    share = max(free - PROGRAM, 0) / (peak - PROGRAM)
    if "positions" in found and without <= free:
        advice = f"Without positions it takes {size(without)}: --set model.positions=0."
    elif share * len(log) >= 1:
        advice = f"The newest {int(share * len(log)):,} events would fit."
    else:
        advice = "No log fits beside the program itself."
    raise TooLarge(f"{what}; {size(free)} are free. {advice}")


def resident() -> int:
    """Bytes that this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
