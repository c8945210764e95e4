"""Registry of models: names and their classes."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from importlib.metadata import entry_points

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.models.base import Model

MODELS = {
    "pint": "pintgn.models.pint.PINT",
    "pint+trees": "pintgn.models.stacked.PINTAndTrees",
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


GROUP = "pintgn.models"
"""Entry points by which other packages give their models names."""
OWN = "PINTGN_MODELS"
"""Environment variable: classes of your own that may be imported by name, as in habits:Habits, separated by commas."""


def model_class(name: str) -> type[Model]:
    """The class of a model: by its name in lower case, by an entry point, or a class of your own by module and name.

    A class of your own is imported only if the user has named it (`--model habits:Habits`, or in PINTGN_MODELS): a file
    of a run may say any name.
    """
    if name in MODELS:
        return getattr(importlib.import_module(MODELS[name].rpartition(".")[0]), MODELS[name].rpartition(".")[2])
    if "." in dotted(name):
        return _own(dotted(name))
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if name in installed:
        return _checked(installed[name].load(), f"the entry point {name!r} of {GROUP}")
    known = [*MODELS, *installed]
    raise UnknownName(f"there is no model {name!r}.{suggest(name.lower(), known)} Your own is named module:Class.")


def model_name(cls: type[Model]) -> str:
    """The name of a class in the table; its own path when it has none."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    return next((name for name, known in MODELS.items() if known == path), path)


def dotted(name: str) -> str:
    """A class name as it is saved: `habits:Habits` is habits.Habits."""
    return name.replace(":", ".")


def trust(name: str) -> None:
    """Allow a class of the user's own to be imported by its name."""
    if ":" in name:
        os.environ[OWN] = ",".join([*filter(None, [os.environ.get(OWN)]), name])


def _own(name: str) -> type[Model]:
    if name not in [dotted(one.strip()) for one in os.environ.get(OWN, "").split(",")]:
        module, _, cls = name.rpartition(".")
        raise BadInput(
            f"{name} is a class of its own, which is not imported unasked. Allow it with {OWN}={module}:{cls}, "
            f"or pass the class in Python, as in pintgn.open(folder, {cls})."
        )
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a command's own path is where it is installed
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"the model {name} cannot be imported from {os.getcwd()} or PYTHONPATH: {error}.") from error
    return _checked(found, name)


def _checked(found: object, what: str) -> type[Model]:
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise BadInput(f"{what} is {found!r}, not a class derived from pintgn.Model.")
    return found
