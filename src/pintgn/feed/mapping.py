"""Mapping of a source's columns to events: by default by the names of the log that the served run was trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pintgn.errors import BadInput, suggest
from pintgn.feed.stream_source import Row


class BadRow(BadInput):
    """A row that is not an event."""


@dataclass
class ColumnMapping:
    """Names of the columns in the source; `key` names a column of keys of the source's own."""

    src: str
    dst: str
    t: str
    op: str | None = None
    key: str | None = None
    features: tuple[tuple[str, str], ...] = ()  # names and kinds
    numbers: bool = False  # ids are whole numbers
    text: bool = False  # all values are texts

    @classmethod
    def of(cls, data: Mapping[str, Any], given: Mapping[str, str | None], text: bool = False) -> ColumnMapping:
        """Columns from a service's /status, overridden by what a user gives."""
        own, kinds = data["columns"], data["feature_kinds"]
        names = {role: given.get(role) or own[role] for role in ("src", "dst", "t")}
        features = tuple(zip(data["features"], kinds, strict=True))
        return cls(
            **names, op=own["op"], key=given.get("key"), features=features, numbers=data["ids"] == "numbers", text=text
        )

    def event(self, row: Row) -> dict[str, Any]:
        """An event as `POST /events` takes it."""
        if row.error is not None:
            raise BadRow(row.error)
        values = row.values
        missing = next((name for name in (self.src, self.t) if values.get(name) in (None, "")), None)
        if missing is not None:
            raise BadRow(f"it has no {missing!r}.{suggest(missing, list(values))}")
        found = {"src": self._id(values[self.src], self.src), "t": values[self.t], "key": row.key}
        if values.get(self.dst) not in (None, ""):
            found["dst"] = self._id(values[self.dst], self.dst)
        if self.features:
            found["features"] = {name: self._feature(values.get(name), name, kind) for name, kind in self.features}
        if self.op is not None and values.get(self.op) not in (None, ""):
            found["op"] = values[self.op]
        if self.key is not None:
            if values.get(self.key) in (None, ""):
                raise BadRow(f"it has no {self.key!r}, which names the events")
            found["key"] = str(values[self.key])
        return found

    def _id(self, value: Any, name: str) -> Any:
        if not self.numbers:
            return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        return value if not isinstance(value, str) else _read(int, value, name, "a whole number")

    def _feature(self, value: Any, name: str, kind: str) -> Any:
        if not self.text:
            return value
        if value is None or (value == "" and kind != "text"):
            return None
        if kind == "number":
            return _read(float, value, name, "a number")
        if kind == "whole":
            return _read(int, value, name, "a whole number")
        return value.strip().lower() in ("true", "1", "t", "yes") if kind == "boolean" else value


def _read(kind: Callable[[str], Any], text: str, name: str, what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise BadRow(f"{name} is {text[:60]!r}, which is not {what}") from None
