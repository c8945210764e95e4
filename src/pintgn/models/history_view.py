"""What a model may look at: the past of each query, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pintgn.errors import BadInput
from pintgn.models.kernels_trees import number_distinct
from pintgn.neighbors.index import Last, NeighborIndex, Neighbors, PairHistory, RecentContacts, Walks
from pintgn.neighbors.queries import as_ids, query_keys
from pintgn.neighbors.relations import RelationHistory, RelationIndex
from pintgn.neighbors.running_sums import RunningSums, Sums


@dataclass
class Events:
    """Plain columns of some consecutive events, features marked as `EventLog.marked_features` has them."""

    src: np.ndarray  # (e,)
    dst: np.ndarray  # (e,)
    t: np.ndarray  # (e,)
    features: np.ndarray | None  # (e, f)
    looked_up: dict[str, np.ndarray] = field(default_factory=dict)  # (e, …) each; what `Model.gather_events` found
    late: np.ndarray | None = None  # (e, w) columns of features that become known later, as they will be
    known: np.ndarray | None = None  # (e,) when they do; with the event when None

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct nodes, sorted, and which of them are sources and destinations (2, e)."""
        nodes, where = np.unique(np.stack([self.src, self.dst]), return_inverse=True)
        return nodes, where.reshape(2, -1)

    def __getitem__(self, rows: slice | np.ndarray) -> Events:
        features = None if self.features is None else self.features[rows]
        looked_up = {name: found[rows] for name, found in self.looked_up.items()}
        late, known = (None if column is None else column[rows] for column in (self.late, self.known))
        return Events(self.src[rows], self.dst[rows], self.t[rows], features, looked_up, late, known)

    @classmethod
    def none(cls, width: int, time_dtype: np.dtype | None) -> Events:
        nobody = np.zeros(0, np.int64)
        return cls(
            nobody, nobody, np.zeros(0, time_dtype or np.int64), np.zeros((0, width), np.float32) if width else None
        )

    @classmethod
    def joined(cls, parts: list[Events]) -> Events:
        if len(parts) == 1:
            return parts[0]
        columns = [[getattr(part, name) for part in parts] for name in ("src", "dst", "t", "features")]
        whole = (None if column[0] is None else np.concatenate(column) for column in columns)
        looked_up = {name: np.concatenate([part.looked_up[name] for part in parts]) for name in parts[0].looked_up}
        return cls(*whole, looked_up)  # type: ignore[arg-type,call-arg]


@dataclass
class Reads:
    """Positions that a model has asked for; the stream serves all of a batch in one pass, after `gather` returned."""

    nodes: np.ndarray  # (rows, m), -1 where there is no node
    roots: np.ndarray  # (rows, w)
    t: np.ndarray  # (rows,)
    answer: np.ndarray | None = None  # (rows, m, w, r)


@dataclass
class LateFeatures:
    """Columns of event features that become known at a time of their own."""

    columns: slice  # of the event table, which has them as of the event itself
    known: np.ndarray  # (events,) when they become known
    values: np.ndarray  # (events, w)
    index: RunningSums  # by source, destination and pair
    hidden: np.ndarray | None = None  # numbers of events of which they never become known, for explanations


@dataclass
class Relations:
    """The relations of events."""

    column: int  # of the event table, which has their numbers
    sources: np.ndarray  # (events,) by which an end knows its direction
    index: RelationIndex  # by triple, node and relation
    hidden: np.ndarray | None = None  # numbers of events whose relation is none that is known, for explanations

    def fork(self) -> Relations:
        """An independent copy."""
        return Relations(self.column, self.sources.copy(), self.index.fork())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.sources.nbytes + self.index.nbytes


class Distinct:
    """Numbers the distinct entries of index arrays without sorting; its table is reused from call to call."""

    def __init__(self) -> None:
        self._table = np.zeros(0, np.int32)
        self._scratch = np.zeros(0, np.int32)

    def scratch(self, size: int) -> np.ndarray:
        """A table of at least this size for whoever needs one, holding any numbers from 0 on."""
        if size > len(self._scratch):
            self._scratch = np.zeros(max(size, 2 * len(self._scratch)), np.int32)
        return self._scratch

    def __call__(self, values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct valid values, and for each entry its row among them (0 where it is not valid)."""
        flat, mask = values.ravel(), valid.ravel()
        largest = int(flat.max(initial=0, where=mask))
        if largest >= len(self._table):
            self._table = np.full(max(largest + 1, 2 * len(self._table)), -1, np.int32)
        distinct, where = np.empty(len(flat), np.int64), np.empty(len(flat), np.int32)
        count = number_distinct(flat, mask, self._table, distinct, where)
        return distinct[:count].copy(), where


@dataclass
class HistoryView:
    """The past of q queries, each as of its own time.

    The model never says a time: the past knows each query's own, and answers from events strictly before it. Each
    look-up is gated twice, by time and by the event number at which the query's own group begins. All `nodes` arguments
    have one row per query.
    """

    index: NeighborIndex
    t: np.ndarray  # (q,)
    before: np.ndarray  # (q,) number of the first event that is not in the past
    event_table: np.ndarray | None  # (events, schema.width)
    node_table: np.ndarray | None  # (n, g)
    positional_length: int = 0
    numbering: Distinct = field(default_factory=Distinct)
    reads: list[Reads] = field(default_factory=list)
    late: LateFeatures | None = None  # features of events that become known after them
    relations: Relations | None = None
    sums: RunningSums | None = None  # of the features that a model has aggregates of

    def recent(self, nodes: np.ndarray, k: int) -> Neighbors:
        """The k newest contacts of each node: `ids`, `dt` (from the query's time), `events`, `mask`, newest first."""
        found = self.index.recent_of(k, *self._flat(nodes))
        return found if nodes.ndim == 1 else Neighbors(*(column.reshape(*nodes.shape, k) for column in found))

    def uniform(self, nodes: np.ndarray, k: int, keys: np.ndarray) -> Neighbors:
        """k contacts of each node, every choice equally likely; `keys`, one for each node, decide the draw."""
        found = self.index.uniform_of(k, keys.reshape(-1), *self._flat(nodes))
        return found if nodes.ndim == 1 else Neighbors(*(column.reshape(*nodes.shape, k) for column in found))

    def walks(self, nodes: np.ndarray, walks: int, length: int, keys: np.ndarray, bias: float) -> Walks:
        """Walks back in time from each node; `keys`, one for each node, decide the draw. See `causal_walks`."""
        found = self.index.walks_of(walks, length, keys.reshape(-1), bias, *self._flat(nodes))
        return Walks(*(column.reshape(*nodes.shape, *column.shape[1:]) for column in found))

    def keys(self, seed: int, count: int) -> np.ndarray:
        """Keys (q, count) to draw with: functions of the seed, each query's own time, and the column.

        They do not depend on the other queries, nor on the numbers of nodes: when nodes are numbered differently, the
        same is drawn. Queries of one time draw alike.
        """
        return query_keys(seed, self.t.view(np.int64)[:, None], count, np.arange(count))

    def until(self, t: float | None) -> HistoryView:
        """The past cut off at a time: nothing from t on is seen, and queries after it are as if asked at t."""
        if t is None:
            return self
        cut = np.asarray(np.ceil(t) if self.t.dtype.kind == "i" else t, self.t.dtype)
        return replace(self, t=np.minimum(self.t, cut), positional_length=0)

    def count(self, nodes: np.ndarray) -> np.ndarray:
        """How many contacts each node has had."""
        return self.index.count_of(*self._flat(nodes)).reshape(nodes.shape)

    def last(self, u: np.ndarray, v: np.ndarray) -> Last:
        """When each pair met last."""
        return Last(*(column.reshape(u.shape) for column in self.index.last_of(*self._flat(u, v))))

    def count_pair(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """How often each pair has met."""
        return self.index.count_pair_of(*self._flat(u, v)).reshape(u.shape)

    def pair_history(self, u: np.ndarray, v: np.ndarray, windows: np.ndarray) -> PairHistory:
        """How often each pair (pairs,) had events with each other and with anyone, how long ago the last was, and how
        often within each window. u and v broadcast together."""
        return self.index.pair_history_of(windows, *self._flat(u, v))

    def recent_contacts(self, u: np.ndarray, v: np.ndarray, k: int, unit: float) -> RecentContacts:
        """What the k newest contacts of each pair (pairs,) say of the two. u and v broadcast together."""
        return self.index.recent_contacts_of(k, unit, *self._flat(u, v))

    def co_visits(self, u: np.ndarray, v: np.ndarray, last: int, k: int, near: int, unit: float) -> np.ndarray:
        """How many others who went where u went lately also went to v (pairs, `CO_VISITS`); they broadcast together."""
        return self.index.co_visits_of(last, k, near, unit, *self._flat(u, v))

    def positions(self, nodes: np.ndarray, roots: np.ndarray, query_of: np.ndarray | None = None) -> Reads:
        """Ask for the positions (…, m, w, r) of nodes (…, m) relative to roots (…, w), as of each query's time.

        There may be several rows per query: `query_of` says which query each row belongs to; by default all have as
        many, one query's after the other's. The answer is there when `forward` begins: all reads of a batch are served
        in one native pass while the batch's events become visible group by group.
        """
        if not self.positional_length:
            raise BadInput("this model asks for positions; give it a `positions` length of at least 1.")
        if query_of is None:
            query_of = np.repeat(np.arange(len(self.t)), len(nodes) // max(len(self.t), 1))
        self.reads.append(Reads(nodes, roots, self.t[query_of]))
        return self.reads[-1]

    def event_features(self, events: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
        """Features (…, f) of events by number; zeros where the mask is False. None when the log has none."""
        if self.event_table is None:
            return None
        found = np.zeros((*events.shape, self.event_table.shape[1]), np.float32)
        found[mask] = self.event_table[events[mask]]
        if self.late is not None:
            at = mask & (self.late.known[np.where(mask, events, 0)] < self._like(self.t, events))
            found[at, self.late.columns] = self.late.values[events[at]]
            if self.late.hidden is not None:
                found[mask & np.isin(events, self.late.hidden), self.late.columns] = 0
        return found

    def distinct_features(
        self, events: np.ndarray, mask: np.ndarray, query_of: np.ndarray, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Features (e', f) of the distinct events under a mask, and for each entry its row among them; the entries of
        row i are contacts of `nodes[i]`, asked for by query `query_of[i]`. An event is another one once what comes late
        is known about it; seen from its destination, its relation is the inverse one."""
        assert self.event_table is not None
        if self.relations is not None:
            assert nodes is not None
            back = self.relations.sources[np.where(mask, events, 0)] != self._like(nodes, events)
            keys, row_of = self.distinct(2 * events + back, mask)
            found = self.event_table[keys >> 1]
            if self.relations.hidden is not None:
                found[np.isin(keys >> 1, self.relations.hidden), self.relations.column] = 0
            found[(keys & 1) == 1, self.relations.column] += self.relations.index.kinds
            return found, row_of
        if self.late is None:
            numbers, row_of = self.distinct(events, mask)
            return self.event_table[numbers], row_of
        t = self._like(self.t[query_of], events)
        keys, row_of = self.distinct(2 * events + (self.late.known[np.where(mask, events, 0)] < t), mask)
        numbers, known = keys >> 1, (keys & 1) == 1
        found = self.event_table[numbers]
        found[known, self.late.columns] = self.late.values[numbers[known]]
        if self.late.hidden is not None:
            found[np.isin(numbers, self.late.hidden), self.late.columns] = 0
        return found, row_of

    def target_history(self, src: np.ndarray, dst: np.ndarray) -> Sums:
        """What was known about each query's source, destination and pair of what is asked about events."""
        assert self.late is not None
        return self.late.index.look_up(src, dst, self.t)

    def relation_history(
        self, src: np.ndarray, relation: np.ndarray, dst: np.ndarray, query_of: np.ndarray | None = None
    ) -> RelationHistory:
        """What happened by relation before each question (q,), or before rows that belong to queries `query_of`."""
        assert self.relations is not None
        return self.relations.index.look_up(src, relation, dst, self.t if query_of is None else self.t[query_of])

    def node_features(self, nodes: np.ndarray) -> np.ndarray | None:
        """Initial features (…, g) of nodes; zeros for nodes that the node table does not know."""
        if self.node_table is None:
            return None
        found = np.zeros((*nodes.shape, self.node_table.shape[1]), np.float32)
        known = nodes < len(self.node_table)
        found[known] = self.node_table[nodes[known]]
        return found

    def distinct(self, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct values under a mask, and for each entry its row among them (0 where the mask is False)."""
        return self.numbering(values, mask)

    def of(self, rows: np.ndarray | slice) -> HistoryView:
        """The past of some of the queries, by row; positions can only be asked for all of them together."""
        return replace(self, t=self.t[rows], before=self.before[rows], positional_length=0)

    def _flat(self, *nodes: np.ndarray) -> tuple[np.ndarray, ...]:
        """Columns of nodes, a row or more for each query, with each one's own time and gate: as look-ups take them."""
        if len(nodes) > 1 and nodes[0].shape != nodes[1].shape:
            nodes = tuple(np.broadcast_arrays(*nodes))
        columns = [one if one.dtype == np.int64 else as_ids(one, "nodes") for one in nodes]
        columns = [np.require(one, requirements=["C", "W"]).reshape(-1) for one in columns]
        each = len(columns[0]) // max(len(self.t), 1)
        if each == 1:
            return *columns, self.t, self.before
        return *columns, self.t.repeat(each), self.before.repeat(each)

    @staticmethod
    def _like(per_query: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        return per_query.reshape(per_query.shape + (1,) * (nodes.ndim - 1))
