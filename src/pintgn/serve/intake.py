"""From what a client sends to checked columns, in users' own ids. Nothing here knows what has happened so far.

Whole columns are checked at once; only when a check fails are events looked at one by one, to name the first that is
wrong. Everything that could go wrong later, when events are stored and observed, is refused here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, suggest
from pintgn.events.schema import ADD, DELETE, LATEST, LATEST_ASKED, NODE, Schema, beyond
from pintgn.learn.live import Live
from pintgn.learn.names import as_time
from pintgn.serve.batch import Batch
from pintgn.serve.features import Features
from pintgn.serve.words import only, shown

FIELDS = ("src", "dst", "t", "features", "op", "key")
OPS = {"add": ADD, "delete": DELETE, "node": NODE, 1: ADD, -1: DELETE, 0: NODE}
ARROW = "application/vnd.apache.arrow.stream"
LONGEST_ID, LONGEST_KEY = 1_000, 200


class Intake:
    """Reads events and questions as clients write them, for the log of one run."""

    def __init__(self, live: Live):
        self.schema: Schema = live.schema
        self.features = Features(live.schema)
        self.dtype = live.run.log.t.dtype
        self.text = live.names.text
        kind = live.names.type
        self.least, self.most = 0, 0
        if not self.text:
            limits = np.iinfo(kind.to_pandas_dtype())
            self.least, self.most = max(int(limits.min), -(2**63)), min(int(limits.max), 2**63 - 1)
        self.dummy = None if self.schema.dummy is None else live.names.ids[self.schema.dummy]

    # -- events --------------------------------------------------------------------------------------------------------

    def batch(self, body: bytes, content_type: str = "application/json") -> Batch:
        """Events from a request's body: one event, {"events": […]}, {"columns": {…}}, or an Arrow stream."""
        if content_type == ARROW:
            return self._columns(arrow_columns(body))
        given = parsed(body)
        if isinstance(given, list):
            return self.rows(given)
        if not isinstance(given, dict):
            raise BadInput('the body is {"events": [...]}, one event such as {"src": …, "dst": …, "t": …}, or columns.')
        if "events" in given:
            only(given, ("events",), "the body")
            if not isinstance(given["events"], list):
                raise BadInput('"events" is a list of events.')
            return self.rows(given["events"])
        if "columns" in given:
            only(given, ("columns",), "the body")
            if not isinstance(given["columns"], dict):
                raise BadInput('"columns" is an object with a list for each of src, dst and t.')
            return self._columns(given["columns"])
        only(given, ("events", "columns", *FIELDS), "the body")
        return self.rows([given])

    def rows(self, events: list[Any]) -> Batch:
        """Events as a list of objects."""
        for row, event in enumerate(events):
            if type(event) is not dict:
                raise BadInput(f'event {row} is {shown(event)}; an event is {{"src": …, "dst": …, "t": …}}.')
        names = set().union(*events) if events else set()
        if not names <= set(FIELDS):
            row = next(row for row, event in enumerate(events) if not event.keys() <= set(FIELDS))
            only(events[row], FIELDS, f"event {row}")
        columns: dict[str, Any] = {name: [event.get(name) for event in events] for name in ("src", "dst", "t")}
        for name in ("features", "op", "key"):
            if name in names:
                columns[name] = [event.get(name) for event in events]
        return self._checked(**columns)

    def _columns(self, columns: Mapping[str, Any]) -> Batch:
        only(columns, FIELDS, "the columns")
        for name in ("src", "dst", "t"):
            if columns.get(name) is None:
                raise BadInput(f"there is no column {name!r}; src, dst and t are needed.")
        lists = {name: columns[name] for name in FIELDS if columns.get(name) is not None}
        for name, column in lists.items():
            if name != "features" and not isinstance(column, list):
                raise BadInput(f"column {name!r} is a list, given {shown(column)}.")
        count = len(lists["src"])
        features = lists.get("features")
        if isinstance(features, dict):  # a column for each feature
            for name, column in features.items():
                if not isinstance(column, list) or len(column) != count:
                    raise BadInput(f"feature {name!r} is a list of {count} values, one for each src.")
            named = list(features)
            lists["features"] = [dict(zip(named, row, strict=True)) for row in zip(*features.values(), strict=True)]
            if not named:
                del lists["features"]
        elif features is not None and not isinstance(features, list):
            raise BadInput(f'"features" is a list of rows or an object of columns, given {shown(features)}.')
        for name, column in lists.items():
            if len(column) != count:
                raise BadInput(f"column {name!r} has {len(column)} values, but src has {count}.")
        return self._checked(**lists)

    def _checked(
        self,
        src: list,
        dst: list,
        t: list,
        features: list | None = None,
        op: list | None = None,
        key: list | None = None,
    ) -> Batch:
        if not src:
            raise BadInput("there are no events in the body.")
        kinds = self._ops(op, len(src))
        if kinds is not None and (kinds == NODE).any():
            dst = [self._other_end(*ends) for ends in zip(src, dst, kinds.tolist(), strict=True)]
        self.check_ids(src, "src")
        self.check_ids(dst, "dst")
        times = self.times(t)
        late = np.flatnonzero(times[1:] < times[:-1])
        if len(late):
            row = int(late[0]) + 1
            show = self.schema.time.show
            raise BadInput(
                f"event {row} is at {show(times[row])}, earlier than event {row - 1} ({show(times[row - 1])}). "
                "Sort the events of a batch by time."
            )
        return Batch(src, dst, times, self.features(features, kinds, len(src)), kinds, self._keys(key))

    def _other_end(self, src: Any, dst: Any, kind: int) -> Any:
        """A node event is a self-loop, or ends at the dummy of a discrete-time log; its dst may be left out."""
        if kind != NODE:
            return dst
        end = src if self.dummy is None else self.dummy
        if dst is not None and dst != end:
            raise BadInput(f"a node event of {src!r} cannot end at {dst!r}. Leave out its dst.")
        return end

    def _ops(self, given: list | None, count: int) -> np.ndarray | None:
        if self.schema.op is None:
            for row, op in enumerate(given or []):
                if op is not None and OPS.get(op if isinstance(op, str) else None) != ADD:
                    raise BadInput(
                        f"event {row} has op={shown(op)}; this run was trained on a log of additions only. "
                        "Train on a log with an op column to send deletions."
                    )
            return None
        found = np.full(count, ADD, np.int8)
        for row, op in enumerate(given or []):
            if op is None:
                continue
            code = OPS.get(op.strip().lower() if isinstance(op, str) else op) if _plain(op) else None
            if code is None:
                near = suggest(op, ["add", "delete", "node"]) if isinstance(op, str) else ""
                extra = " Send a deletion for each of its edges." if op == "remove" else near
                raise BadInput(f"event {row} has op={shown(op)}; an op is add, delete or node.{extra}")
            found[row] = code
        return found

    def check_ids(self, ids: list[Any], name: str) -> None:
        """Refuse what cannot be an id of this log."""
        kinds = set(map(type, ids))
        if self.text and kinds <= {str}:
            try:
                "".join(ids).encode()
            except UnicodeEncodeError:
                row = next(row for row, id in enumerate(ids) if not _is_unicode(id))
                raise BadInput(f"event {row}: {name} is not valid Unicode.") from None
            if min(map(len, ids), default=1) > 0 and max(map(len, ids), default=0) <= LONGEST_ID:
                return
        elif not self.text and kinds <= {int} and (not ids or (self.least <= min(ids) and max(ids) <= self.most)):
            return
        kind: type = str if self.text else int
        id: Any
        for row, id in enumerate(ids):
            place = f"event {row}" if len(ids) > 1 else "this"
            if id is None:
                raise BadInput(f"{place} has no {name}.")
            fits = type(id) is kind
            if not fits:
                expected = "text" if self.text else "whole numbers"
                raise BadInput(f"{place}: node ids here are {expected}, given {name}={shown(id)}.")
            if self.text and not 0 < len(id) <= LONGEST_ID:
                raise BadInput(f"{place}: an id has 1 to {LONGEST_ID:,} characters; {name} has {len(id):,}.")
            if not self.text and not self.least <= id <= self.most:
                raise BadInput(f"{place}: {name} is not between {self.least} and {self.most}.")

    def times(self, given: list[Any]) -> np.ndarray:
        """Times of events in the log's count."""
        kinds = set(map(type, given))
        if kinds <= ({int} if self.dtype.kind == "i" else {int, float}) and given:
            least, most = min(given), max(given)
            exact = self.dtype.kind == "i" or kinds == {float} or max(abs(least), abs(most)) <= 2**53
            if exact and least >= -LATEST and most <= LATEST:  # no NaN: JSON has none
                return np.array(given, self.dtype)
        found = np.array([self._time(t, row) for row, t in enumerate(given)], self.dtype)
        far = beyond(found)
        if far >= 0:
            raise BadInput(f"event {far}: times of events are within ±{LATEST:.3g}, given {shown(given[far])}.")
        return found

    def _time(self, value: Any, row: int) -> Any:
        if value is None:
            raise BadInput(f"event {row} has no t.")
        try:
            return self.time(value)
        except BadInput as error:
            raise BadInput(f"event {row}: {error}") from None

    def time(self, value: Any) -> Any:
        """One time, as a client writes it."""
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            raise BadInput(f"a time is a number or a date, given {shown(value)}.")
        if isinstance(value, int | float) and not abs(value) <= LATEST_ASKED:
            raise BadInput(f"times are within ±{LATEST_ASKED:.3g}, given {shown(value)}.")
        try:
            return as_time(value, self.schema.time, self.dtype)
        except (OverflowError, TypeError) as error:
            raise BadInput(f"{shown(value)} is not a time of this log.") from error

    def _keys(self, given: list | None) -> list[str | None] | None:
        if given is None or set(map(type, given)) == {type(None)}:
            return None
        for row, key in enumerate(given):
            if key is not None and not (isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and _is_unicode(key)):
                raise BadInput(f"event {row} has key={shown(key)}; a key is a text of 1 to {LONGEST_KEY} characters.")
        return given


def parsed(body: bytes) -> Any:
    """JSON, strictly: no NaN, no infinity."""

    def refuse(name: str) -> Any:
        raise BadInput(f"the body holds {name}, which is no JSON. Numbers are finite.")

    try:
        return json.loads(body, parse_constant=refuse)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput("the body is nested too deeply.") from None
    except ValueError as error:
        raise BadInput(f"the body is no JSON: {str(error)[:200]}.") from None


def arrow_columns(body: bytes) -> dict[str, Any]:
    """The columns of an Arrow stream; columns that are no field of an event are features."""
    try:
        with pa.ipc.open_stream(io.BytesIO(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, TypeError, UnicodeError, OverflowError) as error:
        raise BadInput(f"the body is no Arrow stream: {str(error)[:200]}.") from None
    if len(columns) != table.num_columns:
        raise BadInput("two columns of the Arrow stream have the same name.")
    features = {name: columns.pop(name) for name in list(columns) if name not in FIELDS}
    if features:
        columns["features"] = features
    return columns


def _plain(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
