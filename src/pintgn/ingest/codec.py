"""Codec of single events, as programs and clients write them: ids, times, operations and features, read and checked.

Files and frames are read column by column (`builder`), because their types have to be found out first. Here the log's
schema is known. Whole columns are checked at once; only when a check fails are events looked at one by one, to name the
first that is wrong.
"""

from __future__ import annotations

import numbers
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, EventOrderError, suggest
from pintgn.events.columns import first_true, is_text
from pintgn.events.log import EventLog
from pintgn.events.moment import read_time, read_times
from pintgn.events.schema import ADD, LATEST, LATEST_ASKED, NODE, Schema, beyond
from pintgn.ingest.encode import Unseen, as_text, encode_features
from pintgn.ingest.ops import MEANING, REMOVE

LONGEST_ID = 1_000
"""Characters of an id that a client sends."""

TARGET = 2
"""The operation of a row of targets, beside those of events."""


@dataclass
class EventBatch:
    """Consecutive events in columns: users' own ids, times in the log's count, features encoded but not scaled."""

    src: list[Any]
    dst: list[Any]
    t: np.ndarray  # (e,) int64 or float64
    features: np.ndarray | None = None  # (e, schema.width) float32, or float64 where the log has them so
    op: np.ndarray | None = None  # (e,) int8, where the log has deletions or node events
    keys: list[str | None] | None = None  # what clients name their events by

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, rows: slice) -> EventBatch:
        return EventBatch(*(None if column is None else column[rows] for column in self._columns))  # type: ignore[arg-type]

    def take(self, rows: list[int]) -> EventBatch:
        """Some of the events, by row."""

        def taken(column: Any) -> Any:
            return [column[k] for k in rows] if isinstance(column, list) else None if column is None else column[rows]

        return EventBatch(*map(taken, self._columns))

    @property
    def _columns(self) -> tuple[Any, ...]:
        return self.src, self.dst, self.t, self.features, self.op, self.keys

    @property
    def holds_targets(self) -> bool:
        """Whether its rows are targets (`late_targets`); a batch holds either targets or events."""
        return self.op is not None and len(self.op) > 0 and bool(self.op[0] == TARGET)

    @classmethod
    def concat(cls, parts: Sequence[EventBatch]) -> EventBatch:
        def arrays(name: str) -> Any:
            return None if getattr(parts[0], name) is None else np.concatenate([getattr(p, name) for p in parts])

        src, dst = ([value for part in parts for value in getattr(part, name)] for name in ("src", "dst"))
        keys = None
        if any(part.keys is not None for part in parts):
            keys = [key for part in parts for key in part.keys or [None] * len(part)]
        return cls(src, dst, arrays("t"), arrays("features"), arrays("op"), keys)


class Codec:
    """Reads events and queries for logs of one schema.

    Args:
        schema: of the log.
        ids: the type of its ids.
        dtype: of its times.
        dummy: the id at which node events end in a discrete-time log.
        optional: a feature that events may lack, as what is predicted may not be known yet: NaN, or no category.
        wide: features that are float64 in the log.
    """

    def __init__(
        self,
        schema: Schema,
        ids: pa.DataType,
        dtype: np.dtype,
        dummy: Any = None,
        optional: str | None = None,
        wide: Collection[str] = (),
    ):
        self.schema, self.dtype, self.dummy, self.optional, self.wide = schema, dtype, dummy, optional, wide
        self.alone = schema.alone  # events have no destination
        self.sorts = False  # the events of a batch may come in any order of time
        self.text = is_text(ids)
        self.least, self.most = 0, 0
        if not self.text:
            limits = np.iinfo(ids.to_pandas_dtype())
            self.least, self.most = max(int(limits.min), -(2**63)), min(int(limits.max), 2**63 - 1)

    @classmethod
    def of(cls, log: EventLog, schema: Schema | None = None, optional: str | None = None) -> Codec:
        """The codec of a log's events, or of another schema if they are written otherwise."""
        dummy = None if log.schema.dummy is None else log.id(log.schema.dummy)
        schema = schema or log.schema
        narrow = log.features is not None and log.features.dtype == np.float32
        own = [feature.name for feature in log.schema.features] if narrow else []
        wide = [one.name for one in schema.features if one.kind == "number" and one.name not in own]
        return cls(schema, log.ids.type, log.t.dtype, dummy, optional, wide)

    def batch(
        self,
        src: list[Any],
        dst: list[Any],
        t: list[Any],
        features: list[Any] | None = None,
        op: list[Any] | None = None,
        keys: list[str | None] | None = None,
        *,
        ids_checked: bool = False,
        unseen: Unseen | None = None,
    ) -> EventBatch:
        """Columns of events, in order of time.

        Args:
            features: of each event a dict by name, a list in the log's order, or None.
            op: of each event add, delete or node; or None for add.
            ids_checked: ids have the right type and length already; only `dst` may be missing.
            unseen: called with a feature's name and a category that the log does not have, which counts as none.
        """
        ops = self._ops(op, len(src))
        if ops is not None and (ops == NODE).any():
            dst = [self._other_end(*ends) for ends in zip(src, dst, ops.tolist(), strict=True)]
        if self.alone:
            dst = [self._other_end(*ends, NODE) for ends in zip(src, dst, strict=True)]
        if not ids_checked:
            self.check_ids(src, "src")
        if not ids_checked or None in dst:
            self.check_ids(dst, "dst")
        encoded = None
        if features is not None or self.schema.width:
            encoded = encode_features(features, ops, len(src), self.schema, unseen, self.optional, self.wide)
        found = EventBatch(src, dst, self.times(t), encoded, ops, keys)
        if (row := first_true(found.t[1:] < found.t[:-1]) + 1) > 0:
            if self.sorts:
                return found.take(np.argsort(found.t, kind="stable").tolist())
            show = self.schema.time.show
            raise EventOrderError(
                f"event {row} is at {show(found.t[row])}, earlier than event {row - 1} ({show(found.t[row - 1])}). "
                "Sort the events of a batch by time."
            )
        return found

    # -- ids -----------------------------------------------------------------------------------------------------------

    def id(self, value: Any) -> Any:
        """One id in the type of this log's ids, from anything of that kind."""
        if self.text and isinstance(value, str | uuid.UUID):
            return str(value)
        if not self.text and isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return int(value)
        raise BadInput(f"node ids here are {self.id_kind}, given {value!r} ({type(value).__name__}).")

    def ids(self, values: Sequence[Any]) -> list[Any]:
        """Many ids, as `id` reads each."""
        kinds = set(map(type, values))
        return list(values) if kinds <= {str if self.text else int} else [self.id(value) for value in values]

    def id_from_text(self, text: str) -> Any:
        """One id from its text in an address or a text file."""
        if self.text:
            return text
        if len(text) < 30 and text.isascii() and text.strip().lstrip("+-").isdecimal():
            return int(text)
        raise BadInput(f"{text[:60]!r} is no node: ids here are whole numbers.")

    @property
    def id_kind(self) -> str:
        return "text" if self.text else "whole numbers"

    def check_ids(self, ids: list[Any], name: str) -> None:
        """Refuse what a client cannot have meant as an id of this log."""
        kinds = set(map(type, ids))
        if self.text and kinds <= {str}:
            if (not ids or 0 < min(map(len, ids)) <= max(map(len, ids)) <= LONGEST_ID) and is_unicode("".join(ids)):
                return
        elif not self.text and kinds <= {int} and (not ids or (self.least <= min(ids) and max(ids) <= self.most)):
            return
        for row, id in enumerate(ids):
            if why := self._why_no_id(id, name):
                raise BadInput(f"{f'event {row}' if len(ids) > 1 else 'this'}{why}.")

    def _why_no_id(self, id: Any, name: str) -> str:
        if id is None:
            return f" has no {name}"
        kinds: tuple[type, ...] = (str,) if self.text else (int,)
        if type(id) not in kinds:
            return f": node ids here are {self.id_kind}, given {name}={as_text(id)}"
        if self.text and not 0 < len(id) <= LONGEST_ID:
            return f": an id has 1 to {LONGEST_ID:,} characters; {name} has {len(id):,}"
        if self.text and not is_unicode(id):
            return f": {name} is not valid Unicode"
        if not self.text and not self.least <= id <= self.most:
            return f": {name} is not between {self.least} and {self.most}"
        return ""

    # -- times ---------------------------------------------------------------------------------------------------------

    def time(self, value: Any) -> Any:
        """One time that is asked about, in the log's count."""
        found = read_time(value, self.schema.time, self.dtype)
        if not -LATEST_ASKED <= found <= LATEST_ASKED:
            raise BadInput(f"times are within ±{LATEST_ASKED:.3g}, given {as_text(value)}.")
        return found

    def times(self, given: list[Any]) -> np.ndarray:
        """Times of events in the log's count."""
        kinds = set(map(type, given))
        if kinds <= ({int} if self.dtype.kind == "i" else {int, float}) and given:
            least, most = min(given), max(given)
            exact = self.dtype.kind == "i" or kinds == {float} or max(abs(least), abs(most)) <= 2**53
            if exact and least >= -LATEST and most <= LATEST and (kinds == {int} or np.isfinite(sum(given))):
                return np.array(given, self.dtype)
        dates = read_times(given, self.schema.time) if kinds == {str} and self.dtype.kind == "i" else None
        found = np.array([self._time(t, row) for row, t in enumerate(given)], self.dtype) if dates is None else dates
        if (far := beyond(found)) >= 0:
            raise BadInput(f"event {far}: times of events are within ±{LATEST:.3g}, given {as_text(given[far])}.")
        return found

    def _time(self, value: Any, row: int) -> Any:
        if value is None:
            raise BadInput(f"event {row} has no t.")
        try:
            return self.time(value)
        except BadInput as error:
            raise BadInput(f"event {row}: {error}") from None

    # -- operations ----------------------------------------------------------------------------------------------------

    def _ops(self, given: list[Any] | None, count: int) -> np.ndarray | None:
        """The operation of each event; None in a log of additions only."""
        found = np.full(count, ADD, np.int8)
        for row, op in enumerate(given or []):
            if op is None:
                continue
            code = MEANING.get(str(op).strip().lower()) if isinstance(op, str | int) else None
            if self.schema.op is None and code != ADD:
                raise BadInput(
                    f"event {row} has op={as_text(op)}; this run was trained on a log of additions only. "
                    "Train on a log with an op column to send deletions."
                )
            if code is None or code == REMOVE:
                near = suggest(op, ["add", "delete", "node"]) if isinstance(op, str) else ""
                extra = " Send a deletion for each of its edges." if code == REMOVE else near
                raise BadInput(f"event {row} has op={as_text(op)}; an op is add, delete or node.{extra}")
            found[row] = code
        return None if self.schema.op is None else found

    def _other_end(self, src: Any, dst: Any, op: int) -> Any:
        """A node event is a self-loop, or ends at the dummy of a discrete-time log; its dst may be left out. So is
        every event of a log without destinations."""
        if op != NODE:
            return dst
        end = src if self.dummy is None else self.dummy
        if dst is not None and dst != end:
            what = "an event here has no destination" if self.alone else "a node event is its node's own"
            raise BadInput(f"{what}: one of {src!r} cannot end at {dst!r}. Leave out its dst.")
        return end


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
