"""Recommendations for many sources at once: one table, best first, with what is doubtful about each row flagged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput
from pintgn.events.moment import read_time
from pintgn.learn.calibration import next_probabilities
from pintgn.learn.measure import PAIRS
from pintgn.learn.metrics import check_finite
from pintgn.live.candidates import CANDIDATES, EXACT, Candidates
from pintgn.neighbors.contents import contents

if TYPE_CHECKING:
    from pintgn.live.live import Live

NOTES = ("unknown src", "unknown dst")
Progress = Callable[[int, int], None]


def note_words(unknown_src: np.ndarray, unknown_dst: np.ndarray, about_run: str = "") -> list[str]:
    """What is doubtful about each row, in words; nothing for most."""
    words = [
        ", ".join(filter(None, (NOTES[0] * src, NOTES[1] * dst, about_run)))
        for src in (False, True)
        for dst in (False, True)
    ]
    return [words[k] for k in (2 * unknown_src + unknown_dst).tolist()]


class Pool:
    """The destinations that may be recommended, and which of them not to whom.

    Args:
        live: the state that is asked.
        src: ids of sources.
        at: when, in the log's count.
        among: ids to choose from; every destination met so far when not given (a source itself only where there are
            self-loops).
        exclude_met: leave out whoever the source has met before.
        active_since: leave out who has had no event since that time.
        side: of the sources; by an inverse relation they are destinations of events, side 1.
    """

    def __init__(
        self,
        live: Live,
        src: Sequence[Any],
        at: Any,
        among: Iterable[Any] | None,
        exclude_met: bool,
        active_since: Any,
        side: int = 0,
    ):
        self.live, self.at, self.exclude_met = live, at, exclude_met
        self.without_self = among is None and not live.self_loops
        if isinstance(among, str):
            raise BadInput(f"among={among!r}; it is a list of ids, as in among=[{among!r}].")
        ids = [] if among is None else [live.codec.id(one) for one in dict.fromkeys(among)]
        mine = [live.codec.id(one) for one in src]
        ends = live.names.find_pairs(*((ids, mine) if side else (mine, ids)))
        self.src, asked = ends[::-1] if side else ends
        self.nodes = live.pool(side) if among is None else asked
        self._own = None if among is None else ids
        if active_since is not None:
            since = read_time(active_since, live.schema.time, live.codec.dtype, bound=True)
            last, known = live.nodes.last.values, self.nodes < len(live.nodes.last)
            keep = known.copy()
            keep[known] = last[self.nodes[known]] >= since
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
        """Which of some destinations were never seen before."""
        return self.nodes[columns] >= len(self.live.names)

    def allowed(self, rows: slice) -> np.ndarray:  # (s, n)
        """Which destinations may be recommended to some of the sources."""
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
        """Which of the destinations some nodes are."""
        return self._column[nodes]

    def allowed_among(self, rows: slice, nodes: np.ndarray) -> np.ndarray:  # (s, c)
        """Which of the nodes (s, c) may be recommended to some of the sources, each its own; -1 is none."""
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


def recommend_many(
    live: Live,
    src: Iterable[Any] | str,
    k: int,
    at: Any,
    among: Iterable[Any] | None,
    exclude_met: bool,
    active_since: Any,
    exact: bool | None = None,
    progress: Progress | None = None,
    relation: Any = None,
) -> pa.Table:
    """See `Live.recommend_many`."""
    if k < 1:
        raise BadInput(f"k={k}; at least one is recommended.")
    side = live.side_of(relation)
    ids = sources(live, src, side)
    when = live.time_of(at)
    pool = Pool(live, ids, when, among, exclude_met, active_since, side)
    found: list[tuple[np.ndarray, ...]] = [(*[np.zeros(0, np.int64)] * 3, *[np.zeros(0, np.float32)] * 2)]
    some = among is None and ranks_some(len(pool.nodes), exact)
    walks = Candidates(live, pool.nodes, when, max(CANDIDATES, 2 * k)) if some else None
    step = max(1, PAIRS // max(len(pool.nodes) if walks is None else walks.count, 1))
    for begin in range(0, len(ids), step):
        rows = slice(begin, min(begin + step, len(ids)))
        if walks is None:
            logits, allowed = live.rank_nodes(pool.src[rows], pool.nodes, when, relation), pool.allowed(rows)
            columns = np.broadcast_to(np.arange(len(pool.nodes)), logits.shape)
        else:
            nodes = walks(pool.src[rows])
            logits, allowed = live.rank_each(pool.src[rows], nodes, when, relation), pool.allowed_among(rows, nodes)
            columns = pool.columns(nodes)
        best = np.argsort(np.where(allowed, -logits, np.inf), axis=1, kind="stable")[:, :k]
        one, place = np.nonzero(np.take_along_axis(allowed, best, 1))
        chosen = best[one, place]
        likely = next_probabilities(live.next_slope, logits, allowed)
        found.append((one + begin, place, columns[one, chosen], likely[one, chosen], logits[one, chosen]))
        if progress is not None:
            progress(rows.stop, len(ids))
    row, rank, column, chances, logits = map(np.concatenate, zip(*found, strict=True))
    unknown = pool.src >= len(live.names)
    return pa.table({
        live.schema.src: pa.array(ids, live.names.type).take(pa.array(row)),
        live.schema.dst: pool.ids(column),
        "rank": pa.array(rank + 1),
        "next_probability": pa.array(chances),
        "probability": pa.array(live.calibration(logits)),
        "logit": pa.array(logits),
        "notes": pa.array(note_words(unknown[row], pool.unknown(column), live.run.unfinished), pa.string()),
    })  # fmt: skip


def sources(live: Live, src: Iterable[Any] | str, side: int) -> list[Any]:
    """The ids that are recommended to, each once."""
    if isinstance(src, str) and src != "all":
        raise BadInput(f"src={src!r}; it is a list of ids, or 'all'. For one source: recommend({src!r}).")
    return [live.codec.id(one) for one in (everyone(live, side) if isinstance(src, str) else dict.fromkeys(src))]


def ranks_some(destinations: int, exact: bool | None) -> bool:
    """Whether only candidates are ranked of so many destinations."""
    return destinations > EXACT if exact is None else not exact


def everyone(live: Live, side: int = 0) -> list[Any]:
    """The id of every node that has acted, or, of side 1, to which something was done, in the order in which they were
    first met."""
    if side:
        return [live.names.ids[node] for node in np.sort(live.destinations.values).tolist()]
    held = contents(live.stream.index)
    met = np.flatnonzero(held.lengths)
    log = live.run.log
    acted = np.union1d(met[held.sent[held.starts[met]] > 0], log.src[log.learnable])
    return [live.names.ids[node] for node in acted.tolist() if node != live.schema.dummy]


def rank_pieces(rank: Callable[[np.ndarray], np.ndarray], nodes: np.ndarray, sources: int) -> np.ndarray:  # (s, n)
    """Logits of sources with nodes, in pieces of at most `PAIRS`."""
    step = max(1, PAIRS // max(sources, 1))
    pieces = [rank(nodes[begin : begin + step]) for begin in range(0, len(nodes), step)]
    found = np.concatenate(pieces, 1) if pieces else np.zeros((sources, 0), np.float32)
    check_finite(found)
    return found
