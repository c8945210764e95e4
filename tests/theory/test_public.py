"""The package's public names: found, lazy, and never hidden by a module of the same name."""

from __future__ import annotations

import importlib
import pkgutil

import pintgn
from pintgn import theory


def test_every_public_name_is_what_it_says():
    for name in theory.__all__:
        assert getattr(theory, name) is not None
    for module in pkgutil.iter_modules(theory.__path__):
        importlib.import_module(f"pintgn.theory.{module.name}")
        assert module.name not in theory.__all__
    assert callable(pintgn.theory.distinguish)
    assert set(theory.__all__) <= set(dir(theory))
