"""Some events of a log, by their rows: what a mask leaves of a large log without a second copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import COLUMNS, EventLog
from pintgn.events.schema import NODE

NARROW = 2**31 - 1
"""Events of the whole log up to which a row is four bytes."""


def index_of(rows: np.ndarray, row: int) -> int:
    """How many of the rows, which rise, are before one; in their own type, for with another NumPy converts them all."""
    return int(np.searchsorted(rows, rows.dtype.type(row)))


class ChosenLog(EventLog):
    """A log that holds the rows of its events in another, four bytes each, and no columns.

    A column is made whenever it is looked at, so look at `batches`, which are plain logs, or at short cuts. Everything
    else is as of `log.where(keep)`.

    >>> log = EventLog(src=[0, 1, 0], dst=[1, 2, 2], t=[10, 20, 30])
    >>> some = ChosenLog.of(log, [True, False, True])
    >>> some, some.dst.tolist(), some == log.where([True, False, True])
    (EventLog: 2 events, 3 nodes, 10 to 30, [1, 2], True)
    """

    whole: EventLog
    rows: np.ndarray  # (e,) rising

    @classmethod
    def of(cls, log: EventLog, keep: Any) -> ChosenLog:
        """The events marked in a boolean column; event numbers start anew."""
        keep = np.asarray(keep, bool)
        if keep.shape != log.t.shape:
            raise BadInput(f"the mask has {keep.size} rows, the log {len(log)}.")
        return cls._made(log, np.flatnonzero(keep).astype(np.int32 if len(log) <= NARROW else np.int64), 0)

    @classmethod
    def _made(cls, whole: EventLog, rows: np.ndarray, first: int) -> ChosenLog:
        log = object.__new__(cls)
        log.__dict__.update(
            whole=whole, rows=rows, first=first, ids=whole.ids, _schema=whole.schema, node_features=whole.node_features
        )
        return log

    def __getattr__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise AttributeError(f"a log has no {name!r}.")
        return self._column(name)

    def _column(self, name: str) -> np.ndarray | None:
        column, rows = getattr(self.whole, name), self.rows
        if column is None:
            return None
        if name == "node_updates":
            rows = np.searchsorted(self._node_rows, self.rows[self.whole.op[self.rows] == NODE])  # type: ignore[index]
        made = column[rows]
        made.flags.writeable = False
        return made

    @cached_property
    def _node_rows(self) -> np.ndarray:
        """Rows of the whole log's node events."""
        return np.zeros(0, np.int64) if self.whole.op is None else np.flatnonzero(self.whole.op == NODE)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, keep: np.ndarray) -> EventLog:
        keep = np.asarray(keep, bool)
        if keep.shape != self.rows.shape:
            raise BadInput(f"the mask has {keep.size} rows, the log {len(self)}.")
        return ChosenLog._made(self.whole, self.rows[keep], 0)

    def batches(self, size: int) -> Iterator[EventLog]:
        held, schema = [name for name in COLUMNS if getattr(self.whole, name) is not None], self.schema
        for cut in super().batches(size):
            assert isinstance(cut, ChosenLog)
            columns = {name: cut._column(name) if name != "node_features" else self.node_features for name in held}
            yield EventLog.trusted(columns, cut.ids, schema, cut.first)

    def row_at(self, t: Any) -> int:
        return index_of(self.rows, self.whole.row_at(t))

    def ends(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.whole.ends(self.rows[rows])

    def _cut(self, start: int, stop: int) -> EventLog:
        cut = ChosenLog._made(self.whole, self.rows[start:stop], self.first + start)
        cut.__dict__["_node_rows"] = self._node_rows
        return cut
