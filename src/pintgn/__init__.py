"""pintgn: learn from streams of timestamped interactions.

Public names load on first use, so that `import pintgn` and `pintgn --help` stay fast.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ADD": "pintgn.events.schema",
    "DELETE": "pintgn.events.schema",
    "NODE": "pintgn.events.schema",
    "EventLog": "pintgn.events.log",
    "Query": "pintgn.events.log",
    "hidden_nodes": "pintgn.events.splits",
    "read_events": "pintgn.events.ingest",
    "write_events": "pintgn.events.ingest",
    "from_snapshots": "pintgn.events.snapshots",
    "to_snapshots": "pintgn.events.snapshots",
    "simulate": "pintgn.events.simulate",
    "NeighborIndex": "pintgn.neighbors.index",
    "RelativePositions": "pintgn.positions",
    "Model": "pintgn.models.base",
    "PINT": "pintgn.models.pint",
    "TGN": "pintgn.models.tgn",
    "TGAT": "pintgn.models.tgat",
    "JODIE": "pintgn.models.tgn",
    "DyRep": "pintgn.models.tgn",
    "CAW": "pintgn.models.caw",
    "GAT": "pintgn.models.static",
    "GraphSAGE": "pintgn.models.static",
    "CTDNE": "pintgn.models.ctdne",
    "EdgeBank": "pintgn.models.heuristics",
    "Heuristic": "pintgn.models.heuristics",
    "Stream": "pintgn.stream",
    "check_model": "pintgn.check",
    "fit": "pintgn.learn.train",
    "evaluate": "pintgn.learn.evaluate",
    "classify": "pintgn.learn.classify",
    "tune": "pintgn.learn.tune",
    "open": "pintgn.learn.live",
    "Live": "pintgn.learn.live",
    "Run": "pintgn.learn.run",
    "Explanation": "pintgn.explain",
    "Service": "pintgn.serve.service",
    "write_report": "pintgn.report.write",
}
_ROOMS = ("errors", "events", "theory", "interop")

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"pintgn.{name}")
    from pintgn.errors import suggest

    raise AttributeError(f"pintgn has no {name!r}.{suggest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
