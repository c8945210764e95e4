"""What `fit` was given in place of a model and a log, in one line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.log import EventLog
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.models.base import Model

CALL = 'fit(model, log), as in fit("pint", log)'


def check_arguments(model: Any, log: Any, seed: Any) -> None:
    """Refuse a model or a log that is none."""
    if isinstance(model, EventLog):
        raise BadInput(f"fit was given a log where the model belongs: {CALL}.")
    if isinstance(model, type) and issubclass(model, Model):
        raise BadInput(f"fit was given the class {model.__name__}; make a model of it: fit({model.__name__}(), log).")
    if isinstance(model, Run):
        return  # a log is then whatever came after its own
    if not isinstance(model, Model | str | Settings):
        raise BadInput(f"fit was given {_named(model)} where the model belongs: {CALL}{_reading(model)}.")
    if log is None:
        raise BadInput(f"fit was given no log: {CALL}.")
    if not isinstance(log, EventLog):
        raise BadInput(f"fit was given {_named(log)} where the log belongs: {CALL}{_reading(log)}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise BadInput(f"seed={seed!r}; it is a whole number from 0 on.")


def warn_of_device(model: Model, settings: Settings) -> None:
    """Say it where a device was asked for that a model makes no use of."""
    if model.on_processor and torch.device(settings.stream.device).type != "cpu":
        what = f"{settings.name} computes on the processor; device={settings.stream.device!r} makes it no faster."
        warnings.warn(what, PintgnWarning, stacklevel=4)


def _named(given: Any) -> str:
    """
    >>> _named("trades.csv"), _named([1, 2]), _named(None)
    ("'trades.csv'", 'a list', 'nothing')
    """
    if given is None:
        return "nothing"
    if isinstance(given, str | Path):
        return repr(str(given))
    name = type(given).__name__
    return f"a{'n' if name[0] in 'AEIOUaeiou' else ''} {name}"


def _reading(given: Any) -> str:
    """How to make a log of it, where it may be data."""
    tabular = hasattr(given, "columns") or hasattr(given, "column_names")
    if isinstance(given, str | Path):
        return f", where log = pintgn.read_events({str(given)!r})"
    return ", where log = pintgn.read_events(table, src, dst, t) by column names" if tabular else ""
