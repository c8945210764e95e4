"""Recommendations: ranked destinations for one source or for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.moment import read_time
from pintgn.learn.calibration import next_probabilities
from pintgn.learn.measure import PAIRS
from pintgn.live.candidates import CANDIDATES, EXACT, Candidates, standing
from pintgn.live.nodes import note_words
from pintgn.live.questions import check_links
from pintgn.neighbors.contents import contents
from pintgn.neighbors.index import WAYS

if TYPE_CHECKING:
    from pintgn.live.live import Live


class Recommendation(NamedTuple):
    """A destination, how likely it is, and the logit that it is ranked by.

    `next_probability` is the probability that it is the next one, of all that were ranked; `probability` that of this
    link against one random destination. `notes` says what is doubtful: an id that was never seen, a run that has not
    ended.
    """

    dst: Any
    next_probability: float
    probability: float
    logit: float
    notes: str = ""


@dataclass(frozen=True)
class RecommendRequest:
    """A request for recommendations; the fields are the arguments of `Live.recommend`."""

    k: int = 10
    at: Any = None
    among: Iterable[Any] | None = None
    exclude_met: bool = False
    active_since: Any = None
    exact: bool | None = None
    relation: Any = None


class Pool:
    """The destinations that may be recommended, and those to leave out for each source.

    Args:
        live: the state that is asked.
        src: ids of sources.
        at: when, in the log's count.
        request: `among` whom; whether those are left out whom the source has met, or who have not been active.
    """

    def __init__(self, live: Live, src: Sequence[Any], at: Any, request: RecommendRequest):
        among, active_since, side = request.among, request.active_since, side_of(live, request.relation)
        self.live, self.at, self.exclude_met = live, at, request.exclude_met
        self.without_self = among is None and not live.destinations.loops_before(at)
        if isinstance(among, str):
            raise BadInput(f"among={among!r}; it is a list of ids, as in among=[{among!r}].")
        ids = [] if among is None else [live.codec.id(one) for one in dict.fromkeys(among)]
        mine = [live.codec.id(one) for one in src]
        ends = live.names.find_pairs(*((ids, mine) if side else (mine, ids)))
        self.src, asked = ends[::-1] if side else ends
        self.nodes = pool_of(live, at, side) if among is None else asked
        self._own = None if among is None else ids
        if active_since is not None:
            since = read_time(active_since, live.schema.time, live.codec.dtype, bound=True)
            keep = self.nodes < len(live.nodes.last)
            keep[keep] = standing(live, self.nodes[keep], at)[1] >= since
            self.nodes = self.nodes[keep]
            self._own = None if self._own is None else [one for one, kept in zip(self._own, keep, strict=True) if kept]
        self._column = np.full(int(max(self.nodes.max(initial=-1), len(live.names))) + 1, -1)
        self._column[self.nodes] = np.arange(len(self.nodes))

    def ids(self, columns: np.ndarray) -> pa.Array:
        """Users' ids of some of the destinations."""
        each, rows = np.unique(columns, return_inverse=True)
        if self._own is not None:
            ids = [self._own[k] for k in each.tolist()]
        else:
            ids = [self.live.names.ids[k] for k in self.nodes[each].tolist()]
        return pa.array(ids, self.live.names.type).take(pa.array(rows))

    def unknown(self, columns: np.ndarray) -> np.ndarray:
        """True for destinations that were never seen before."""
        return self.nodes[columns] >= len(self.live.names)

    def allowed(self, rows: slice) -> np.ndarray:  # (s, n)
        """True for destinations that may be recommended to each of some sources."""
        src = self.src[rows]
        found = np.ones((len(src), len(self.nodes)), bool)
        if self.without_self:
            self._leave_out(found, np.arange(len(src)), src)
        if self.exclude_met:
            held = contents(self.live.stream.index)
            known = np.flatnonzero(src < len(held.starts))
            starts, lengths = held.starts[src[known]], held.lengths[src[known]]
            row = np.repeat(known, lengths)
            entries = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(len(row))
            seen = held.times[entries] < self.at  # simultaneous events do not see each other
            self._leave_out(found, row[seen], held.ids[entries][seen])
        return found

    def columns(self, nodes: np.ndarray) -> np.ndarray:
        """Indices of nodes among the destinations."""
        return self._column[nodes]

    def allowed_among(self, rows: slice, nodes: np.ndarray) -> np.ndarray:  # (s, c)
        """True for nodes (s, c) that may be recommended, each row to its own source; -1 is no node."""
        src = self.src[rows][:, None]
        found = nodes >= 0
        if self.without_self:
            found &= nodes != src
        if self.exclude_met:
            met = self.live.stream.index.count_pair(np.broadcast_to(src, nodes.shape), np.maximum(nodes, 0), self.at)
            found &= met == 0
        return found

    def _leave_out(self, allowed: np.ndarray, rows: np.ndarray, nodes: np.ndarray) -> None:
        inside = nodes < len(self._column)
        columns = self._column[nodes[inside]]
        allowed[rows[inside][columns >= 0], columns[columns >= 0]] = False


def recommend_rows(
    live: Live, ids: list[Any], request: RecommendRequest, progress: Callable[[int, int], None]
) -> pa.Table:
    """The table of `Live.recommend_many`, for sources whose ids have been read."""
    if request.k < 1:
        raise BadInput(f"k={request.k}; at least one is recommended.")
    check_links(live)
    when = live.time_of(request.at)
    pool = Pool(live, ids, when, request)
    found: list[tuple[np.ndarray, ...]] = [(*[np.zeros(0, np.int64)] * 3, *[np.zeros(0, np.float32)] * 2)]
    some = request.among is None and ranks_some(len(pool.nodes), request.exact)
    walks = Candidates(live, pool.nodes, when, max(CANDIDATES, 2 * request.k)) if some else None
    step = max(1, PAIRS // max(len(pool.nodes) if walks is None else walks.count, 1))
    for begin in range(0, len(ids), step):
        rows = slice(begin, min(begin + step, len(ids)))
        src = pool.src[rows]
        if walks is None:
            nodes, allowed = np.broadcast_to(pool.nodes, (len(src), len(pool.nodes))), pool.allowed(rows)
        else:
            nodes = walks(src)
            allowed = pool.allowed_among(rows, nodes)
        logits = rank(live, src, nodes, when, request.relation)
        best = np.argsort(np.where(allowed, -logits, np.inf), axis=1, kind="stable")[:, : request.k]
        one, position = np.nonzero(np.take_along_axis(allowed, best, 1))
        chosen = best[one, position]
        likely = next_probabilities(next_slope(live), logits, allowed)
        columns = pool.columns(nodes[one, chosen])
        found.append((one + begin, position, columns, likely[one, chosen], logits[one, chosen]))
        progress(rows.stop, len(ids))
    row, position, column, likely, logits = map(np.concatenate, zip(*found, strict=True))
    unknown = pool.src >= len(live.names)
    return pa.table({
        live.schema.src: pa.array(ids, live.names.type).take(pa.array(row)),
        live.schema.dst: pool.ids(column),
        "rank": pa.array(position + 1),
        "next_probability": pa.array(likely),
        "probability": pa.array(live.calibration(logits)),
        "logit": pa.array(logits),
        "notes": pa.array(note_words(unknown[row], pool.unknown(column), live.run.unfinished), pa.string()),
    })  # fmt: skip


def sources(live: Live, src: Iterable[Any] | str, relation: Any, at: Any = None) -> list[Any]:
    """The ids of sources, each once; all are those that had acted before a time."""
    if isinstance(src, str):
        if src != "all":
            raise BadInput(f"src={src!r}; it is a list of ids, or 'all'. For one source: recommend({src!r}).")
        return all_sources(live, side_of(live, relation), live.time_of(at))
    return [live.codec.id(one) for one in dict.fromkeys(src)]


def all_sources(live: Live, side: int, at: Any) -> list[Any]:
    """The id of every node that had acted before a time, or, of side 1, to which something was done, in the order in
    which they were first met."""
    if side:
        return [live.names.ids[node] for node in np.sort(live.destinations.as_of(at)).tolist()]
    index, log = live.stream.index, live.run.log
    met = np.flatnonzero(contents(index).lengths)
    sent = index.pair_history(met, met, at).counts[:, WAYS.index("u to anyone")]
    acted = np.union1d(met[sent > 0], log.src[log.learnable & (log.t < at)])
    return [live.names.ids[node] for node in acted.tolist() if node != live.schema.dummy]


def ranks_some(destinations: int, exact: bool | None) -> bool:
    """True if only candidates are ranked of so many destinations."""
    return destinations > EXACT if exact is None else not exact


def side_of(live: Live, relation: Any) -> int:
    """The side of those who are recommended to by a relation: 0 for sources, 1 for destinations (an inverse one)."""
    return int(live.task.inverted(live.task.by(relation, 1), 1)[0])


def next_slope(live: Live) -> float:
    """The factor of logits in the softmax of `next_probability`."""
    return 1.0 if live.run.next_slope is None else live.run.next_slope


def pool_of(live: Live, at: Any, side: int = 0) -> np.ndarray:
    """Node numbers that can be recommended to someone of a side at a time, sorted: to a source all destinations before
    it; to a destination, by an inverse relation, all sources, or everyone where sides are separate namespaces."""
    if not side:
        return np.sort(live.destinations.as_of(at))
    met = (live.nodes.degree.values > 0) & (live.nodes.first.values < at)
    if live.names.separate_namespaces:
        met &= np.array(live.names.sides[: len(met)]) == 0
    return np.flatnonzero(met)


def rank(live: Live, src: np.ndarray, nodes: np.ndarray, when: Any, relation: Any = None) -> np.ndarray:  # (s, n)
    """A logit of each source with nodes of its own (s, n), all given by number, at a time in the log's count."""
    times, by = np.full(len(src), when, live.codec.dtype), live.task.by(relation, len(src))
    return live.answerer.ranks(Query(src, src, times, by), nodes)


# -- of one source, in several turns, as a service asks ----------------------------------------------------------------


def candidates(live: Live, src: Any, at: Any = None, relation: Any = None) -> np.ndarray:
    """Node numbers that can be recommended to src: its whole pool, or candidates of more than are ranked."""
    check_links(live)
    side, when = side_of(live, relation), live.time_of(at)
    pool, node = pool_of(live, when, side), live.names.find([live.codec.id(src)], side)
    if ranks_some(len(pool), None):
        found = Candidates(live, pool, when)(node)[0]
        pool = found[found >= 0]
    return pool if live.destinations.loops_before(when) else pool[pool != node]


def rank_candidates(live: Live, src: Any, pool: np.ndarray, at: Any = None, relation: Any = None) -> np.ndarray:
    """A logit of src with each of some nodes, given by number."""
    node = live.names.find([live.codec.id(src)], side_of(live, relation))
    return rank(live, node, pool[None], live.time_of(at), relation)[0]


def best(
    live: Live, src: Any, pool: np.ndarray, logits: np.ndarray, k: int, relation: Any = None
) -> list[Recommendation]:
    """The k best of ranked nodes."""
    order = np.argsort(-logits, kind="stable")[:k]
    unknown = np.full(len(order), src not in live.names.numbers[side_of(live, relation)])
    columns = (
        [live.names.ids[node] for node in pool[order]],
        next_probabilities(next_slope(live), logits)[order].tolist(),
        live.calibration(logits[order]).tolist(),
        logits[order].tolist(),
        note_words(unknown, ~unknown & False, live.run.unfinished),
    )
    return list(map(Recommendation, *columns))
