"""Values as they are said: in messages, and in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pintgn.errors import UnknownName, suggest


def only(given: Mapping[str, Any], known: Sequence[str], what: str, kind: str = "field") -> None:
    """Refuse names that are not known, with the near miss."""
    for name in given:
        if name not in known:
            raise UnknownName(f"{what} has a {kind} {shown(name)}, which is unknown.{suggest(name, known)}")


def shown(value: Any) -> str:
    """A value in an error message: short, and harmless to print."""
    try:
        text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"


def plain(value: Any) -> Any:
    """A NumPy number as Python's own."""
    return value.item() if hasattr(value, "item") else value
