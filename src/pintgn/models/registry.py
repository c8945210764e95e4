"""The one table that maps a model's name to its class."""

from __future__ import annotations

import importlib

from pintgn.errors import UnknownName, suggest
from pintgn.models.base import Model

MODELS = {
    "pint": "pintgn.models.pint.PINT",
    "tgn": "pintgn.models.tgn.TGN",
    "tgat": "pintgn.models.tgn.TGAT",
    "jodie": "pintgn.models.tgn.JODIE",
    "dyrep": "pintgn.models.tgn.DyRep",
    "caw": "pintgn.models.caw.CAW",
    "gat": "pintgn.models.static.GAT",
    "graphsage": "pintgn.models.static.GraphSAGE",
    "ctdne": "pintgn.models.ctdne.CTDNE",
    "boosted": "pintgn.models.boosted.Boosted",
    "edgebank": "pintgn.models.heuristics.EdgeBank",
    "heuristic": "pintgn.models.heuristics.Heuristic",
}


def model_class(name: str) -> type[Model]:
    """The class of a model, by its name in lower case."""
    if name not in MODELS:
        raise UnknownName(f"there is no model {name!r}.{suggest(name.lower(), MODELS)}")
    module, _, cls = MODELS[name].rpartition(".")
    return getattr(importlib.import_module(module), cls)


def model_name(cls: type[Model]) -> str:
    """The name of a class in the table; its own path when it has none."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    return next((name for name, known in MODELS.items() if known == path), path)
