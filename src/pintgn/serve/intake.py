"""From what a client sends to checked columns, in users' own ids. Nothing here knows what has happened so far.

Whole columns are checked at once; only when a check fails are events looked at one by one, to name the first that is
wrong. Everything that could go wrong later, when events are stored and observed, is refused here. A body is read piece
by piece (`jsonbody`, `arrowbody`), so that neither its memory nor the time for which it stops others grows with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pintgn.errors import BadInput, suggest
from pintgn.events.moment import read_time
from pintgn.events.schema import ADD, DELETE, LATEST, LATEST_ASKED, NODE, Schema, beyond
from pintgn.learn.live import Live
from pintgn.serve import arrowbody, jsonbody
from pintgn.serve.batch import Batch
from pintgn.serve.features import Features
from pintgn.serve.jsonbody import Pieces
from pintgn.serve.limits import Limits
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
        self.names = [*(feature.name for feature in self.schema.features), *self.schema.node_updates]
        jsonbody.read(b" " * jsonbody.SMALL + b"[]", 1)  # compiled now, not when somebody waits

    # -- events --------------------------------------------------------------------------------------------------------

    def batch(
        self,
        body: bytes | bytearray,
        content_type: str = "application/json",
        most: int = Limits.batch,
        room: int = Limits.body,
    ) -> Batch:
        """Events from a request's body: one event, {"events": […]}, {"columns": {…}}, or an Arrow stream.

        No more than `most` events, and no more than `room` bytes when an Arrow stream is unpacked.
        """
        if content_type == ARROW:
            known = [*arrowbody.FIELDS, *self.names]
            return self._joined(self._column_pieces(arrowbody.read(body, known, most, room)))
        given = jsonbody.read(body, most, len(self.names))
        if isinstance(given, Pieces):
            return self._joined(self._row_pieces(given))
        if not isinstance(given, dict):
            raise BadInput('the body is {"events": [...]}, one event such as {"src": …, "dst": …, "t": …}, or columns.')
        if "events" in given:
            only(given, ("events",), "the body")
            if not isinstance(given["events"], Pieces):
                raise BadInput('"events" is a list of events.')
            return self._joined(self._row_pieces(given["events"]))
        if "columns" in given:
            only(given, ("columns",), "the body")
            if not isinstance(given["columns"], dict):
                raise BadInput('"columns" is an object with a list for each of src, dst and t.')
            return self._joined(self._column_pieces(self._aligned(given["columns"])))
        only(given, ("events", "columns", *FIELDS), "the body")
        return self.rows([jsonbody.whole(given, len(self.names) + jsonbody.FIELDS)])

    def rows(self, events: list[Any]) -> Batch:
        """Events as a list of objects."""
        return self._joined(self._row_pieces(Pieces.of(events)))

    def _joined(self, parts: Iterator[Batch]) -> Batch:
        """All events of a body, in order of time."""
        found = list(parts)
        if not found:
            raise BadInput("there are no events in the body.")
        batch = Batch.joined(found)
        late = np.flatnonzero(batch.t[1:] < batch.t[:-1])
        if len(late):
            row = int(late[0]) + 1
            show = self.schema.time.show
            raise BadInput(
                f"event {row} is at {show(batch.t[row])}, earlier than event {row - 1} ({show(batch.t[row - 1])}). "
                "Sort the events of a batch by time."
            )
        return batch

    def _row_pieces(self, pieces: Pieces) -> Iterator[Batch]:
        first = 0
        for events in pieces:
            if events:
                yield self._rows(events, first)
            first += len(events)

    def _rows(self, events: list[Any], first: int) -> Batch:
        for row, event in enumerate(events, first):
            if type(event) is not dict:
                raise BadInput(f'event {row} is {shown(event)}; an event is {{"src": …, "dst": …, "t": …}}.')
        names = set().union(*events)
        if not names <= set(FIELDS):
            row = next(row for row, event in enumerate(events) if not event.keys() <= set(FIELDS))
            only(events[row], FIELDS, f"event {first + row}")
        columns: dict[str, Any] = {name: [event.get(name) for event in events] for name in ("src", "dst", "t")}
        for name in ("features", "op", "key"):
            if name in names:
                columns[name] = [event.get(name) for event in events]
        return self._checked(first, **columns)

    def _aligned(self, columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Columns of a JSON body, a piece of each at a time."""
        only(columns, FIELDS, "the columns")
        for name in ("src", "dst", "t"):
            if columns.get(name) is None:
                raise BadInput(f"there is no column {name!r}; src, dst and t are needed.")
        lists = {name: columns[name] for name in FIELDS if columns.get(name) is not None}
        features = lists.pop("features", {})
        if isinstance(features, Pieces):  # a row for each event
            lists["features"], features = features, {}
        elif not isinstance(features, dict):
            raise BadInput(f'"features" is a list of rows or an object of columns, given {shown(features)}.')
        for name, column in lists.items():
            if not isinstance(column, Pieces):
                raise BadInput(f"column {name!r} is a list, given {shown(column)}.")
        count = len(lists["src"])
        for name, column in lists.items():
            if len(column) != count:
                raise BadInput(f"column {name!r} has {len(column)} values, but src has {count}.")
        for name, column in features.items():
            if not isinstance(column, Pieces) or len(column) != count:
                raise BadInput(f"feature {name!r} is a list of {count} values, one for each src.")
        for parts in zip(*lists.values(), *features.values(), strict=True):
            given = dict(zip(lists, parts, strict=False))
            if features:
                given["features"] = dict(zip(features, parts[len(lists) :], strict=True))
            yield given

    def _column_pieces(self, pieces: Iterator[dict[str, Any]]) -> Iterator[Batch]:
        """Batches of columns: lists of one length, features as a list of rows or as a dict of columns."""
        first = 0
        for columns in pieces:
            if not columns["src"]:
                return
            features = columns.get("features")
            if isinstance(features, dict):
                rows = zip(*features.values(), strict=True)
                columns["features"] = [dict(zip(features, row, strict=True)) for row in rows]
            yield self._checked(first, **columns)
            first += len(columns["src"])

    def _checked(
        self,
        first: int,
        src: list,
        dst: list,
        t: list,
        features: list | None = None,
        op: list | None = None,
        key: list | None = None,
    ) -> Batch:
        """Some events of a body, the first of which has the number `first` in it."""
        kinds = self._ops(op, len(src), first)
        if kinds is not None and (kinds == NODE).any():
            dst = [self._other_end(*ends) for ends in zip(src, dst, kinds.tolist(), strict=True)]
        self.check_ids(src, "src", first)
        self.check_ids(dst, "dst", first)
        made = self.features(features, kinds, len(src), first)
        return Batch(src, dst, self.times(t, first), made, kinds, self._keys(key, first))

    def _other_end(self, src: Any, dst: Any, kind: int) -> Any:
        """A node event is a self-loop, or ends at the dummy of a discrete-time log; its dst may be left out."""
        if kind != NODE:
            return dst
        end = src if self.dummy is None else self.dummy
        if dst is not None and dst != end:
            raise BadInput(f"a node event of {src!r} cannot end at {dst!r}. Leave out its dst.")
        return end

    def _ops(self, given: list | None, count: int, first: int) -> np.ndarray | None:
        if self.schema.op is None:
            for row, op in enumerate(given or [], first):
                if op is not None and OPS.get(op if isinstance(op, str) else None) != ADD:
                    raise BadInput(
                        f"event {row} has op={shown(op)}; this run was trained on a log of additions only. "
                        "Train on a log with an op column to send deletions."
                    )
            return None
        found = np.full(count, ADD, np.int8)
        for row, op in enumerate(given or [], first):
            if op is None:
                continue
            code = OPS.get(op.strip().lower() if isinstance(op, str) else op) if _plain(op) else None
            if code is None:
                near = suggest(op, ["add", "delete", "node"]) if isinstance(op, str) else ""
                extra = " Send a deletion for each of its edges." if op == "remove" else near
                raise BadInput(f"event {row} has op={shown(op)}; an op is add, delete or node.{extra}")
            found[row - first] = code
        return found

    def check_ids(self, ids: list[Any], name: str, first: int = 0) -> None:
        """Refuse what cannot be an id of this log."""
        kinds = set(map(type, ids))
        if self.text and kinds <= {str}:
            try:
                "".join(ids).encode()
            except UnicodeEncodeError:
                row = next(row for row, id in enumerate(ids, first) if not _is_unicode(id))
                raise BadInput(f"event {row}: {name} is not valid Unicode.") from None
            if min(map(len, ids), default=1) > 0 and max(map(len, ids), default=0) <= LONGEST_ID:
                return
        elif not self.text and kinds <= {int} and (not ids or (self.least <= min(ids) and max(ids) <= self.most)):
            return
        kind: type = str if self.text else int
        id: Any
        for row, id in enumerate(ids, first):
            place = f"event {row}" if len(ids) > 1 or first else "this"
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

    def times(self, given: list[Any], first: int = 0) -> np.ndarray:
        """Times of events in the log's count."""
        kinds = set(map(type, given))
        if kinds <= ({int} if self.dtype.kind == "i" else {int, float}) and given:
            least, most = min(given), max(given)
            exact = self.dtype.kind == "i" or kinds == {float} or max(abs(least), abs(most)) <= 2**53
            if exact and least >= -LATEST and most <= LATEST:  # no NaN: JSON has none
                return np.array(given, self.dtype)
        found = np.array([self._time(t, row) for row, t in enumerate(given, first)], self.dtype)
        far = beyond(found)
        if far >= 0:
            raise BadInput(f"event {first + far}: times of events are within ±{LATEST:.3g}, given {shown(given[far])}.")
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
        found = read_time(value, self.schema.time, self.dtype)
        if not -LATEST_ASKED <= found <= LATEST_ASKED:
            raise BadInput(f"times are within ±{LATEST_ASKED:.3g}, given {shown(value)}.")
        return found

    def _keys(self, given: list | None, first: int) -> list[str | None] | None:
        if given is None or set(map(type, given)) == {type(None)}:
            return None
        for row, key in enumerate(given, first):
            if key is not None and not (isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and _is_unicode(key)):
                raise BadInput(f"event {row} has key={shown(key)}; a key is a text of 1 to {LONGEST_KEY} characters.")
        return given


def _plain(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
