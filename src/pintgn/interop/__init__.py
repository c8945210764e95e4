"""Other people's tools: PyTorch Geometric, the Temporal Graph Benchmark, NetworkX, SciPy.

Every name loads on first use, and its package only when it is called: none of them is needed to use pintgn.
(pandas, Polars, Arrow, JSON lines and CSV go straight into `pintgn.read_events`.)
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "to_pyg": "pintgn.interop.pyg",
    "from_pyg": "pintgn.interop.pyg",
    "from_tgb": "pintgn.interop.tgb",
    "tgb_parts": "pintgn.interop.tgb",
    "evaluate_tgb": "pintgn.interop.tgb",
    "to_networkx": "pintgn.interop.graphs",
    "networkx_snapshots": "pintgn.interop.graphs",
    "sparse_positions": "pintgn.interop.graphs",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    from pintgn.errors import suggest

    raise AttributeError(f"pintgn.interop has no {name!r}.{suggest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
