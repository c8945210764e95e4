"""Builds an EventLog from batches: roles of columns, ids, times, features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput
from pintgn.events.columns import SKIP, Growing, Where, empty_cells, first_true, null_rows, plain, try_cast
from pintgn.events.ids import IdMap
from pintgn.events.kernels_order import ADD, DELETE, NODE, REMOVE, reorder_rows
from pintgn.events.log import EventLog
from pintgn.events.numbering import TEXT, Numbering, UnfitIds, as_ids, whole_floats
from pintgn.events.schema import LATEST, Feature, Schema, TimeUnit
from pintgn.events.timeformat import UNITS
from pintgn.events.times import TimeColumn
from pintgn.ingest.feature_columns import FeatureColumns, Labels, Numbers, category_columns
from pintgn.ingest.guess import note_sides
from pintgn.ingest.ops import named_nodes, parse_ops, settle
from pintgn.ingest.read_options import Cleaning, FileFormat
from pintgn.ingest.table_source import Source
from pintgn.ingest.textfile import TextSource, Unexpected


@dataclass
class Plan:
    """The role of each column, and how it is read."""

    src: str = "src"
    dst: str = "dst"
    t: str = "t"
    features: list[str] = field(default_factory=list)
    label: str | None = None
    op: str | None = None
    known: str | None = None
    node_updates: list[str] = field(default_factory=list)
    bipartite: bool | None = None
    categorical: Sequence[str] = ()
    encoding: Mapping[str, str] = field(default_factory=dict)
    like: EventLog | None = None
    cleaning: Cleaning = field(default_factory=Cleaning)
    format: FileFormat = field(default_factory=FileFormat)

    @property
    def written(self) -> str | None:
        """The format of times, as far as it is known: as given, or as in the earlier log."""
        return self.format.time_format or (None if self.like is None else self.like.schema.time.written)

    @property
    def assume_zone(self) -> str | None:
        return self.format.assume_zone or (None if self.like is None else self.like.schema.time.assumed)

    @property
    def columns(self) -> list[str]:
        """All needed columns, without repeats."""
        roles = [self.src, self.dst, self.t, self.label, self.op, self.known, *self.features, *self.node_updates]
        return list(dict.fromkeys(name for name in roles if name is not None))


def build(source: Source, plan: Plan, progress: Callable[[int, int | None], None] | None = None) -> Builder:
    """Read a source to its end; `progress` is called with the rows read and how many there are, as far as is known.

    In a text file the first rows suggest which columns are numbers, so that they need not pass through text;
    when a later value contradicts, everything is read once more as text, which finds and names that value.
    """
    columns, sample, hints = plan.columns, None, {}
    like = () if plan.like is None else plan.like.schema.features
    known = dict.fromkeys(plan.categorical, True) | {feature.name: feature.kind != "number" for feature in like}
    if isinstance(source, TextSource):
        sample = source.sample(columns, plan.cleaning.skip_bad)
        if sample is None or not sample.num_rows:
            raise BadInput(f"{source.title} has a header but no events.")
        words = {name for name, coded in known.items() if coded}
        # a decimal comma is nothing that Arrow reads by itself
        numeric = {*plan.features, *plan.node_updates} - words if plan.format.decimal != "," else set()
        for name, values in zip(columns, sample.columns, strict=True):
            kind = next((kind for kind in (pa.int64(), pa.float64()) if try_cast(values, kind) is not None), None)
            if kind is None or name in (plan.src, plan.dst, plan.op):
                continue
            if name == plan.t:
                if kind == pa.int64() and (plan.written is None or plan.written in UNITS):
                    hints[name] = kind
            elif name == plan.label:
                hints[name] = kind
            elif name in numeric:
                hints[name] = pa.float64()
    categories = partial(category_columns, plan.features, sample=sample, known=known, most=plan.cleaning.skip_bad)
    reading: Source = source
    if plan.cleaning.skip_bad:
        from pintgn.ingest.clean import Cleaned

        reading, hints = Cleaned(source, plan, categories), {}
    while True:
        builder: Builder | None = None
        try:
            for batch in reading.batches(columns, hints):
                builder = builder or Builder(reading, plan, categories(batch))
                builder.take(batch)
                if progress is not None:
                    progress(builder.rows, None if source.rows is None else max(source.rows, builder.rows))
        except Unexpected:
            if not hints:
                raise
            hints = {}
            continue
        if builder is None or not builder.rows:
            raise BadInput(f"{source.title} has no events.")
        return builder


class KnownTimes:
    """Times at which targets become known; where missing, never."""

    def __init__(self, plan: Plan, source: Source, capacity: int):
        how = plan.written, plan.format.time_format is not None, plan.assume_zone
        self.times = TimeColumn(str(plan.known), source.where, capacity, True, *how)
        self.never = Growing(bool, capacity)

    def extend(self, values: pa.Array, t: pa.Array, row: int) -> None:
        values, t = plain(values), plain(t)
        empty = empty_cells(values, True)
        self.never.extend(empty)
        # what stands in place of an empty one is not looked at
        self.times.extend(t if empty.all() else pc.if_else(pa.array(empty), t.cast(values.type), values), row)

    def finish(self, t: np.ndarray, time: TimeUnit) -> np.ndarray:
        """In the unit and type of the events' own times; never before the event itself."""
        found, never = self.times.finish(time)[0].astype(t.dtype), self.never.finish()
        return np.where(never, np.asarray(LATEST, t.dtype), np.maximum(found, t))


class Builder:
    """The columns of a log under construction."""

    def __init__(self, source: Source, plan: Plan, categories: Mapping[str, bool]):
        self.source, self.plan = source, plan
        capacity = source.rows or 0
        self.rows = 0
        like = plan.like
        self.numbering = Numbering(bool(plan.bipartite), None if like is None else like.ids)
        number = None if like is None else like.schema.dummy
        self.dummy = None if like is None or number is None else str(like.id(number))
        self.src, self.dst = Growing(np.int64, capacity), Growing(np.int64, capacity)
        how = plan.written, plan.format.time_format is not None, plan.assume_zone
        self.times = TimeColumn(plan.t, source.where, capacity, plan.cleaning.sort, *how)
        self.op = Growing(np.int8, capacity) if plan.op else None
        self.labels = Labels(plan.label, capacity) if plan.label else None
        self.known = KnownTimes(plan, source, capacity) if plan.known else None
        self.features = FeatureColumns(
            plan.features, categories, source, () if like is None else like.schema.features, plan.categorical,
            plan.cleaning.fill, plan.format.decimal,
        )  # fmt: skip
        fill, decimal = plan.cleaning.fill, plan.format.decimal
        self.updates = Numbers(plan.node_updates, 0, fill, decimal) if plan.node_updates else None

    # -- one batch -----------------------------------------------------------------------------------------

    def take(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        plan, row = self.plan, self.rows

        def where(k: int) -> str:
            return self.source.where(row + k)

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        op = np.full(batch.num_rows, ADD, np.int8)
        if self.op is not None:
            op = parse_ops(columns[plan.op], plan.op, where)  # type: ignore[index, arg-type]
            self.op.extend(op)
        self._take_ids(columns[plan.src], columns[plan.dst], op, where)
        self.times.extend(columns[plan.t], row)
        if self.labels is not None:
            self.labels.extend(columns[plan.label], where)  # type: ignore[index]
        if self.known is not None:
            self.known.extend(columns[plan.known], columns[plan.t], row)  # type: ignore[index]
        if plan.features:
            self.features.extend(columns, where, optional=op != ADD)
        if self.updates is not None:
            rows = np.flatnonzero(op == NODE)
            taken = pa.array(rows)
            carried = [plain(columns[name]).take(taken) for name in plan.node_updates]
            self.updates.extend(carried, lambda k: where(int(rows[k])))
        self.rows += batch.num_rows

    def _take_ids(self, src: pa.Array, dst: pa.Array, op: np.ndarray, where: Where) -> None:
        plan, known = self.plan, self.numbering.kind
        like = plan.like is not None and known is not None and len(plan.like.ids) > 0
        ends, names = [], (plan.src, plan.dst)
        for values, name in zip((src, dst), names, strict=True):
            try:
                ends.append(as_ids(values, self.source.untyped, plan.like is not None and known == TEXT))
            except UnfitIds as error:
                advice = "an id is a whole number, a text or a UUID. Cast them to one of these."
                if whole_floats(values) is not None:
                    gap = first_true(null_rows(values))
                    which = f" ({where(gap)})" if gap >= 0 else ""
                    advice = (
                        f"pandas makes floats of whole numbers where one is missing{which}. Leave such rows out with "
                        "Cleaning(skip_bad=True) (--skip-bad), or drop or fill them and convert the column: "
                        ".astype('Int64')."
                    )
                raise BadInput(f"ids in {name!r} are {error}; {advice}") from error
        one, other = ends
        # a column without any id in this batch has the kind of the other one
        if other.missing.all():
            other = one._replace(missing=other.missing)
        elif one.missing.all():
            one = other._replace(missing=one.missing)
        by_src = by_dst = np.ones(len(src), bool)
        if self.op is not None:
            by_src, by_dst = named_nodes(op, one, other, names, where, self.dummy)
        for ids, name, named in ((one, plan.src, by_src), (other, plan.dst, by_dst)):
            if (bad := first_true(ids.missing & named)) >= 0:
                raise BadInput(f"{where(bad)} has no {name}. {SKIP}")
            if like and ids.kind != known:
                raise BadInput(
                    f"ids in {name!r} are {ids.kind} from {where(0)} on, but {known} in the earlier log. "
                    "Write them alike."
                )
        if not like and not self.source.untyped and not plan.bipartite:
            if one.kind != other.kind:
                raise BadInput(
                    f"ids in {plan.src!r} are {one.kind}, ids in {plan.dst!r} are {other.kind}. Pass bipartite=True "
                    "(--bipartite) if they name different things, or cast both to text."
                )
            if known is not None and known != one.kind:
                raise BadInput(f"ids are {one.kind} from {where(0)} on, but {known} before. Cast them to one type.")
        out_src, out_dst = self.src.allocate(len(src)), self.dst.allocate(len(src))
        for side, (out, ids, named) in enumerate(((out_src, one, by_src), (out_dst, other, by_dst))):
            out[named] = self.numbering.number(ids if named.all() else ids.where(named), side)
        out_src[~by_src], out_dst[~by_dst] = out_dst[~by_src], out_src[~by_dst]

    # -- all batches ---------------------------------------------------------------------------------------

    def finish(self, nodes: Source | None = None) -> EventLog:
        """Sort if need be, settle removals, encode features, add the node table."""
        plan, like = self.plan, self.plan.like
        self.numbering.slots = []  # look-ups are over
        pa.default_memory_pool().release_unused()
        t, time = self.times.finish(None if like is None else like.schema.time)
        columns = {"t": t, "src": self.src.finish(), "dst": self.dst.finish()}
        columns |= {} if self.op is None else {"op": self.op.finish()}
        columns |= {} if self.labels is None else {"label": self.labels.column.finish()}
        columns |= {} if self.known is None else {"known": self.known.finish(t, time)}
        features: np.ndarray | None = None
        described: tuple[Feature, ...] = ()
        if plan.features:  # as wide as in an earlier log
            earlier = None if like is None or like.features is None else like.features.dtype == np.float64
            features, described = self.features.finish(plan.encoding, earlier)
        updates = None if self.updates is None else self.updates.finish()
        order = None if self.times.ordered else np.argsort(t, kind="stable")
        if order is not None:
            if updates is not None:
                index = np.cumsum(columns["op"] == NODE) - 1
                updates = updates[index[order][columns["op"][order] == NODE]]
            for name in columns:  # one by one, so that only one column is held twice
                columns[name] = columns[name][order]
            if features is not None:
                reorder_rows(features, order)
        ids = self.numbering.finish(columns["src"], columns["dst"])
        if plan.bipartite is None and like is None and plan.src != plan.dst:
            note_sides(columns["src"], columns["dst"], (plan.src, plan.dst))
        if self.op is not None and (plan.cleaning.strict or (columns["op"] == REMOVE).any()):
            kept = self._settle(columns, order, ids)
            if kept is not None:
                src, dst, rows = kept
                columns = {name: column[rows] for name, column in columns.items()} | {"src": src, "dst": dst}
                columns["op"][columns["op"] == REMOVE] = DELETE
                features = None if features is None else features[rows]
        table: tuple[tuple[Feature, ...], np.ndarray | None] = ((), None)
        if nodes is not None or (like is not None and like.node_features is not None):
            from pintgn.ingest.node_table import node_table

            ids, table = node_table(nodes, ids, plan)
        schema = Schema(
            src=plan.src, dst=plan.dst, t=plan.t, label=plan.label, op=plan.op, known=plan.known, features=described,
            node_features=tuple(name for one in table[0] for name in one.columns),
            node_columns=table[0] if any(one.kind != "number" for one in table[0]) else (),
            node_updates=tuple(plan.node_updates), time=time, separate_namespaces=bool(plan.bipartite),
        )  # fmt: skip
        if like is not None:
            label, known = like.schema.label if plan.label else None, like.schema.known if plan.known else None
            schema = dataclasses.replace(like.schema, label=label, known=known)
        others = {"features": features, "node_updates": updates, "node_features": table[1]}
        return EventLog.trusted(columns | others, ids, schema)

    def _settle(
        self, columns: dict[str, np.ndarray], order: np.ndarray | None, ids: IdMap
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        like = self.plan.like
        src, dst, op = columns["src"], columns["dst"], columns["op"]
        before = None
        if like is not None and len(like) and columns["t"][0] >= like.t[-1]:
            before = (like.src, like.dst, like.op)
        result = settle(src, dst, op, self.numbering.count, self.plan.cleaning.strict, before)
        if isinstance(result, int):
            row = result if order is None else int(order[result])
            one, other = (ids.decode([node])[0].as_py() for node in (src[result], dst[result]))
            what = f"removes {one!r}" if op[result] == REMOVE else f"deletes {one!r} → {other!r}"
            raise BadInput(
                f"{self.source.where(row)} {what}, which was never added or is already gone. Correct it, or leave out "
                "Cleaning(strict=True) (--strict)."
            )
        return result if (op == REMOVE).any() else None
