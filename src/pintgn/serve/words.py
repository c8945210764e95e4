"""Values as they stand in JSON."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """A NumPy number as Python's own."""
    return value.item() if hasattr(value, "item") else value
