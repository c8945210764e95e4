"""A log as Arrow columns with the users' own names, ids, categories and times."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput
from pintgn.events.categories import category_codes, hashes, spread, word_array
from pintgn.events.columns import is_text
from pintgn.events.log import EventLog
from pintgn.events.schema import LATEST, NODE, Feature, TimeUnit

ROWS, BYTES = 1 << 17, 1 << 26
"""Rows of a piece of a log, fewer where they are so wide that a piece would take more bytes than this."""
FIXED_ZONE = re.compile(r"([+-])(\d\d):(\d\d)$")


class Layout:
    """Columns of a stored log, in order: src, dst, t, op, label, known, features, node updates.

    `exact` adds what a plain reading would lose: a categorical feature whose numbers are not an encoding of its
    categories is stored as numbers (`raw`), and nodes that their ids cannot tell apart by their numbers.
    """

    def __init__(self, log: EventLog, exact: bool = False):
        schema = log.schema
        self.log = log
        starts = np.cumsum([0, *(feature.width for feature in schema.features)])
        self.raw = {
            k for k, feature in enumerate(schema.features) if exact and not _encodes(log, int(starts[k]), feature)
        }
        self.numbers = exact and not _named_apart(log)
        self.roles = ["src", "dst", "t"] + [role for role in ("op", "label", "known") if getattr(log, role) is not None]
        self.features = [feature for k, one in enumerate(schema.features) for feature in self._stored(k, one)]
        names = [getattr(schema, role) or role for role in self.roles]
        self.names = _distinct([*names, *(feature.name for feature in self.features), *schema.node_updates])

    def _stored(self, column: int, feature: Feature) -> list[Feature]:
        if column not in self.raw:
            return [feature]
        return [Feature(f"{feature.name}={k}" if feature.width > 1 else feature.name) for k in range(feature.width)]

    @property
    def feature_names(self) -> list[str]:
        return self.names[len(self.roles) : len(self.roles) + len(self.features)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The whole log, piece by piece."""
        rows = max(min(ROWS, BYTES // (4 * len(self.names))), 1024)
        for start in range(0, len(self.log), rows):
            yield self.batch(start, min(start + rows, len(self.log)))

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        log = self.log
        arrays = [*self._ends(start, stop), times(log.t[start:stop], log.schema.time)]
        arrays += [self._role(role, start, stop) for role in self.roles[3:]]
        column = 0
        for feature in self.features:
            arrays.append(_feature(log.features[start:stop, column : column + feature.width], feature))  # type: ignore[index]
            column += feature.width
        arrays += self._updates(start, stop)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)

    def _role(self, role: str, start: int, stop: int) -> pa.Array:
        column = getattr(self.log, role)[start:stop]
        if role != "known":
            return pa.array(column)
        shown = times(column, self.log.schema.time)
        return pc.if_else(pa.array(column >= LATEST), None, shown)  # never

    def _ends(self, start: int, stop: int) -> list[pa.Array]:
        log = self.log
        src, dst = log.src[start:stop], log.dst[start:stop]
        if self.numbers:
            return [pa.array(src), pa.array(dst)]
        if log.ids.side is None or log.op is None:
            return [log.ids.decode(src), log.ids.decode(dst)]
        # with two name spaces a node event names its node on that node's own side only
        alone = log.op[start:stop] == NODE
        ends = []
        for side, nodes in enumerate((src, dst)):
            foreign = alone & (log.ids.side[nodes] != side)
            ends.append(pc.if_else(pa.array(foreign), None, log.ids.decode(nodes)))
        return ends

    def _updates(self, start: int, stop: int) -> list[pa.Array]:
        log = self.log
        if log.node_updates is None or log.op is None:
            return []
        here = log.op[start:stop] == NODE
        skipped = int((log.op[:start] == NODE).sum())
        values = np.zeros((len(here), log.node_updates.shape[1]), np.float32)
        values[here] = log.node_updates[skipped : skipped + int(here.sum())]
        return [pa.array(column, mask=~here) for column in values.T]


def to_table(log: EventLog) -> pa.Table:
    """The log as an Arrow table in the users' own columns, ids, categories and times."""
    layout = Layout(log)
    return pa.Table.from_batches(list(layout.batches()), layout.batch(0, 0).schema)


def times(t: np.ndarray, time: TimeUnit) -> pa.Array:
    """Times as the file had them: numbers, or timestamps."""
    if time.unit is None or t.dtype != np.int64:
        return pa.array(t)
    return pa.array(t).view(pa.timestamp(time.unit, time.zone))


def _feature(block: np.ndarray, feature: Feature) -> pa.Array:
    """A feature in the users' terms; null where it has no category."""
    if feature.kind == "number":
        return pa.array(np.ascontiguousarray(block[:, 0]))
    words = feature_words(feature)
    if feature.kind == "hash":
        codes = category_codes(block, hashes(words))
    else:
        codes = block[:, 0].astype(np.int64) if feature.kind == "code" else _coded(block)
    known = (codes > 0) & (codes <= len(words))
    return word_array(words).take(pa.array(codes - 1, mask=~known))


def feature_words(feature: Feature) -> tuple[str | int | bool, ...]:
    return feature.words if feature.kind == "hash" else feature.categories


def _coded(block: np.ndarray) -> np.ndarray:
    return np.where(block.any(1), block.argmax(1) + 1, 0) if block.shape[1] else np.zeros(len(block), np.int64)


def _distinct(names: list[str]) -> list[str]:
    """The same names; one that comes again gets a number."""
    out: dict[str, None] = {}
    for name in names:
        this, count = name, 2
        while this in out:
            this, count = f"{name}_{count}", count + 1
        out[this] = None
    return list(out)


def _encodes(log: EventLog, start: int, feature: Feature) -> bool:
    """Whether the numbers of a categorical feature, from column `start` on, come back from its categories."""
    if feature.kind == "number":
        return True
    for first in range(0, len(log), ROWS):
        block = log.features[first : first + ROWS, start : start + feature.width]  # type: ignore[index]
        again = np.empty_like(block)
        encode(_feature(block, feature), feature, again)
        if not np.array_equal(again, block):
            return False
    return True


def encode(values: pa.Array, feature: Feature, block: np.ndarray) -> None:
    """Write categories in the users' terms, null where there is none, as the numbers of their feature."""
    words = word_array(feature_words(feature))
    codes = pc.index_in(values.cast(words.type), words).fill_null(-1).to_numpy().astype(np.int64) + 1
    spread(block, 0, codes, feature.kind, feature_words(feature))


def _named_apart(log: EventLog) -> bool:
    """Whether src and dst ids alone say which node is meant."""
    ids = log.ids
    if ids.ids is None and not ids.separate_namespaces:
        return True
    kind = ids.type
    if not (pa.types.is_integer(kind) or is_text(kind)):
        return False
    if ids.decode().null_count or (not pa.types.is_integer(kind) and pc.any(pc.equal(ids.decode(), "")).as_py()):
        return False
    if ids.side is None:
        return len(pc.unique(ids.decode())) == len(ids)
    events = slice(None) if log.op is None else log.op != NODE
    apart = not ids.side[log.src[events]].any() and ids.side[log.dst[events]].all()
    sides = [ids.decode(np.flatnonzero(ids.side == side)) for side in (0, 1)]
    return bool(apart) and all(len(pc.unique(mine)) == len(mine) for mine in sides)


# --- text -----------------------------------------------------------------------------------------------------


def as_text(batch: pa.RecordBatch, time_column: int, date_only: bool) -> pa.RecordBatch:
    """A batch that the CSV writer can write: dates as ISO-8601, no NaN, no dictionaries."""
    arrays = []
    for column, values in enumerate(batch.columns):
        kind = values.type
        if pa.types.is_timestamp(kind):
            values = _iso(values, date_only) if column == time_column else values.cast(pa.string())
        elif pa.types.is_floating(kind):
            values = pc.if_else(pc.is_nan(values), None, values)
        elif not (pa.types.is_integer(kind) or is_text(kind)):
            values = values.cast(pa.string())
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _iso(values: pa.Array, date_only: bool) -> pa.Array:
    """Dates with the offset they were written with; named zones are written in UTC, the same instant."""
    kind = values.type
    counts = values.view(pa.int64())
    zone = FIXED_ZONE.match(kind.tz or "")
    if zone:
        seconds = (int(zone[2]) * 3600 + int(zone[3]) * 60) * (-1 if zone[1] == "-" else 1)
        counts = pc.add_checked(counts, seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit])
    texts = counts.view(pa.timestamp(kind.unit)).cast(pa.string())
    if date_only:
        return pc.utf8_slice_codeunits(texts, 0, 10)
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return texts if kind.tz is None else pc.binary_join_element_wise(texts, kind.tz if zone else "Z", "")


def check_dates(log: EventLog) -> None:
    """Refuse dates that text cannot write."""
    if log.schema.time.unit is not None and len(log):
        shown = times(log.t[[0, -1]], TimeUnit(log.schema.time.unit)).cast(pa.string()).to_pylist()
        if any(not re.match(r"\d{4}-", text) for text in shown):
            raise BadInput("times reach beyond the years 0 to 9999, which text cannot write. Save as .parquet.")


def whole_days(log: EventLog) -> bool:
    """Whether all times are dates without a time of day (and without a zone)."""
    time = log.schema.time
    return time == TimeUnit("s") and len(log) > 0 and not (log.t % 86400).any()


def needs_quotes(log: EventLog, delimiter: str) -> bool:
    """Whether some id or category holds a character that means something in a text file."""
    pattern = f'[{re.escape(delimiter)}"\r\n]'
    words = [str(category) for feature in log.schema.features for category in feature_words(feature)]
    if any(re.search(pattern, word) for word in words):
        return True
    ids = log.ids.decode()
    return is_text(ids.type) and bool(pc.any(pc.match_substring_regex(ids, pattern)).as_py())
