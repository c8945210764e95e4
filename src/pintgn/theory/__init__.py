"""What can be told apart, and why: slow, obviously right code that the fast rooms are tested against.

    from pintgn.theory import distinguish, temporal_wl, report

Public names load on first use. Modules have other names than the functions in them, because a module that is imported
becomes an attribute of the package and would hide the function.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "distinguish": "judge",
    "Distinction": "judge",
    "Verdict": "judge",
    "MODELS": "judge",
    "temporal_wl": "wl",
    "temporal_wl_test": "wl",
    "Coloring": "wl",
    "computation_tree": "trees",
    "monotone_tree": "trees",
    "Tree": "trees",
    "anonymous_walks": "anonymous",
    "caw_readout": "anonymous",
    "gallery": "items",
    "item": "items",
    "graph_properties": "properties",
    "temporal_diameter": "properties",
    "report": "data_report",
    "Report": "data_report",
    "TemporalCode": "injective",
    "float_limit": "injective",
    "float_limits": "injective",
    "forgetting_age": "injective",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"pintgn.theory.{_HOMES[name]}"), name)
    from pintgn.errors import suggest

    raise AttributeError(f"pintgn.theory has no {name!r}.{suggest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
