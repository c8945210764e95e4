"""Public names that load on first use. Their one list is the package's stub, which type checkers and editors read."""

from __future__ import annotations

import importlib
import os.path
import sys

TYPE_CHECKING = False  # what type checkers take for true; `typing`, which has it, would cost as much as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the stub (`__init__.pyi`) beside its `__init__.py`."""
    with open(f"{os.path.splitext(file)[0]}.pyi", encoding="utf-8") as stub:
        homes = dict(_home(package, line) for line in stub if line.startswith(("from ", "import ")))

    def load(name: str) -> Any:
        if name in homes:
            module = importlib.import_module(homes[name])
            found = module if homes[name] == f"{package}.{name}" else getattr(module, name)
            setattr(sys.modules[package], name, found)  # the next look needs no loading
            return found
        from pintgn.errors import suggest

        raise AttributeError(f"{package} has no {name!r}.{suggest(name, homes)}")

    return load, lambda: sorted(homes), list(homes)


def _home(package: str, line: str) -> tuple[str, str]:
    """A name and its module. Lines are looked at as text: importing `ast` would take longer than all the rest.

    >>> _home("pintgn", "from .events.log import Query as Query")
    ('Query', 'pintgn.events.log')
    >>> _home("pintgn", "from . import errors as errors")
    ('errors', 'pintgn.errors')
    """
    words = line.split()
    if len(words) != 6 or words[::2] != ["from", "import", "as"] or words[1][0] != "." or words[3] != words[5]:
        raise ImportError(f"the stub of {package} has {line.strip()!r}; it takes `from .MODULE import NAME as NAME`.")
    return words[3], f"{package}{words[1] if len(words[1]) > 1 else f'.{words[3]}'}"
