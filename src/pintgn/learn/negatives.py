"""Negative sampling: random, historical, inductive and per-event negatives, and candidates for ranking.

All are fixed by split and seed. Where a rule finds too few negatives it falls back on random ones; the fraction that
fell back is always reported, because published code does so silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog, Query
from pintgn.learn.metrics import CHUNK
from pintgn.learn.protocol import destinations

KINDS = ("random", "historical", "inductive", "per-event")
BLOCK = 200
"""Rows of candidates drawn together; fixed, so that a sample does not depend on how a part is cut into batches."""

QUESTION = {"historical": "known", "inductive": "known", "per-event": "known"}
"""The question (`models.base.QUESTIONS`) that fits negatives of a kind; against anyone otherwise."""

Negatives = Callable[[EventLog, np.random.Generator], Query]
"""A sampler: one negative query for each event of a part. Pass your own where `negatives` is an argument."""


@dataclass(frozen=True)
class Drawn:
    """One negative for each scored event of a part, and which of them are random fallbacks."""

    query: Query
    fallback: np.ndarray  # (e,) bool

    @property
    def fallback_fraction(self) -> float:
        return float(self.fallback.mean()) if len(self.fallback) else 0.0


def random_destination(log: EventLog) -> Negatives:
    """Each event's source and time with a destination drawn from all destinations of the log.

    As in TGN and PINT the true destination may be drawn, too.
    """
    pool = destinations(log)
    return lambda part, rng: part.query.toward(pool[rng.integers(0, len(pool), len(part))])


def current_destination(part: EventLog, rng: np.random.Generator) -> Query:
    """Each event's source and time with the destination of another event of the batch: a sample of what is popular
    now."""
    return part.query.toward(part.dst[rng.integers(0, len(part), len(part))])


def is_event(query: Query, part: EventLog) -> np.ndarray:  # (q,) bool
    """Mask of the queries, one for each event of a part, that ask about an event of the part."""
    _, moment = np.unique(np.stack([part.src, part.t.view(np.int64)]), axis=1, return_inverse=True)
    width = np.int64(max(part.dst.max(initial=0), query.dst.max(initial=0)) + 1)
    return np.isin(moment * width + query.dst, moment * width + part.dst)


def earlier_pairs(log: EventLog) -> Negatives:
    """A pair that met before the batch's first time and is not in the batch, in place of each event's; for training.

    Every distinct pair is equally likely; a random destination where the one that was drawn is in the batch.
    """
    events, otherwise, width = log.scored_events, random_destination(log), np.int64(log.nodes)
    first = np.sort(np.unique(events.src * width + events.dst, return_index=True)[1])  # the first event of each pair

    def draw_pairs(part: EventLog, rng: np.random.Generator) -> Query:
        random = otherwise(part, rng)
        earlier = int(np.searchsorted(first, np.searchsorted(events.t, part.t[0])))
        if not earlier:
            return random
        rows = first[rng.integers(0, earlier, len(part))]
        src, dst = events.src[rows], events.dst[rows]
        free = ~np.isin(src * width + dst, part.src * width + part.dst)
        return replace(random, src=np.where(free, src, random.src), dst=np.where(free, dst, random.dst))

    return draw_pairs


def draw(
    kind: str | Negatives,
    population: EventLog,
    part: EventLog,
    seed: int,
    observed: EventLog,
    past: Pairs | None = None,
) -> Drawn:
    """Negatives of a part's scored events.

    Args:
        kind: one of `KINDS`, or a function of your own.
        population: the events that destinations and earlier pairs are taken from; usually all up to the part's end.
        part: what is scored.
        seed: of the draw; the same for every model and epoch.
        observed: what came before the part; pairs in it are not `inductive`.
        past: the pairs of the population, where they are known already.
    """
    events = part.scored_events
    if callable(kind):
        query = kind(events, np.random.default_rng([seed, part.first]))
        return Drawn(query, np.zeros(len(events), bool))
    if kind not in KINDS:
        raise UnknownName(f"there are no negatives called {kind!r}.{suggest(kind, KINDS)}")
    rng = np.random.default_rng([seed, part.first, KINDS.index(kind)])
    if kind == "random":
        return Drawn(random_destination(population)(events, rng), np.zeros(len(events), bool))
    past = past or Pairs(population.scored_events)
    if kind == "per-event":
        return past.earlier_destinations(events, rng)
    since = observed.t[-1] if kind == "inductive" and len(observed) else None
    return past.by_chunks(events, rng, since)


def draw_each(
    kinds: Sequence[str | Negatives] | Mapping[str, str | Negatives],
    population: EventLog,
    part: EventLog,
    seed: int,
    observed: EventLog,
    only: np.ndarray | None = None,
) -> dict[str, Drawn]:
    """`draw` for several kinds, by name; a function of your own is called `own` where it has no name. `only` is a mask
    of the scored events to return, which does not change what is drawn for them."""
    named = kinds if isinstance(kinds, Mapping) else {k if isinstance(k, str) else "own": k for k in kinds}
    paired = any(isinstance(kind, str) and kind != "random" for kind in named.values())
    past = Pairs(population.scored_events) if paired else None
    drawn = {name: draw(kind, population, part, seed, observed, past) for name, kind in named.items()}
    if only is None or only.all():
        return drawn
    rows = np.flatnonzero(only)
    return {name: Drawn(one.query[rows], one.fallback[rows]) for name, one in drawn.items()}


class Pairs:
    """The distinct (src, dst) pairs of a log, in the order of their first event."""

    def __init__(self, log: EventLog):
        self.log = log
        self.width = log.nodes
        keys, first, which = np.unique(self.key(log.src, log.dst), return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        self.keys = keys[order]  # (p,)
        self.first_t = log.t[first[order]]  # (p,) sorted
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.pair_of = rank[which]  # (e,) which pair each event is

    def key(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        return src * np.int64(self.width) + dst

    @cached_property
    def pools(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(self.log.src), np.unique(self.log.dst)

    # -- as DGB and DyGLib define them -----------------------------------------------------------------------------

    def by_chunks(self, events: EventLog, rng: np.random.Generator, since: float | None) -> Drawn:
        """Historical negatives as in DGB and DyGLib, or inductive ones when `since` is given.

        For each chunk of 200 rows: pairs first seen before the chunk's first time (for inductive ones: and after
        `since`, the last time before the part) that have no event from the chunk's first to its last time, drawn
        without repetition. They replace source and destination; times are those of the positives, row by row. When
        there are too few, all are taken, and random pairs that are not in the chunk come first.
        """
        src, dst = events.src.copy(), events.dst.copy()
        fallback = np.zeros(len(events), bool)
        begin = 0 if since is None else int(np.searchsorted(self.first_t, since, "right"))
        for start in range(0, len(events), CHUNK):
            rows = slice(start, min(start + CHUNK, len(events)))
            t0, t1 = events.t[rows.start], events.t[rows.stop - 1]
            end = int(np.searchsorted(self.first_t, t0, "left"))
            now = self.pair_of[np.searchsorted(self.log.t, t0, "left") : np.searchsorted(self.log.t, t1, "right")]
            chosen = self._choose(begin, end, np.unique(now), rows.stop - rows.start, rng)
            missing = rows.stop - rows.start - len(chosen)
            other_src, other_dst = self._random_pairs(events[rows], missing, rng)
            src[rows] = np.concatenate([other_src, self.keys[chosen] // self.width])
            dst[rows] = np.concatenate([other_dst, self.keys[chosen] % self.width])
            fallback[rows.start : rows.start + missing] = True
        return Drawn(replace(events.query, src=src, dst=dst), fallback)

    @staticmethod
    def _choose(begin: int, end: int, without: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Up to `count` distinct pairs of begin … end-1 that are not in `without` (sorted)."""
        barred = int(np.searchsorted(without, end) - np.searchsorted(without, begin))
        total = max(end - begin, 0)
        # enough remain after those barred are dropped, and what remains is a fair draw
        drawn = begin + (rng.choice(total, min(total, count + barred), replace=False) if total else without[:0])
        return drawn[~np.isin(drawn, without, kind="sort")][:count]

    def _random_pairs(self, chunk: EventLog, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random pairs of any source and any destination that are not in the chunk; distinct while there are enough."""
        sources, pool = self.pools
        if not count:
            return sources[:0], pool[:0]
        taken, total = np.unique(self.key(chunk.src, chunk.dst)), len(sources) * len(pool)
        repeat = total - len(taken) < count
        found = np.zeros(0, np.int64)
        for _ in range(100):
            more = rng.integers(0, total, 2 * count)
            keys = self.key(sources[more // len(pool)], pool[more % len(pool)])
            found = np.concatenate([found, keys[~np.isin(keys, taken)]])
            if not repeat:
                found = found[np.sort(np.unique(found, return_index=True)[1])]
            if len(found) >= count:
                break
        else:  # hardly a pair is left: take the positives' own sources, as random negatives do
            short = count - len(found)
            keys = self.key(rng.choice(chunk.src, short), rng.choice(pool, short))
            found = np.concatenate([found, keys])
        return found[:count] // self.width, found[:count] % self.width

    # -- for each event ----------------------------------------------------------------------------------------------

    def earlier_destinations(self, events: EventLog, rng: np.random.Generator) -> Drawn:
        """For each event a destination that the same source met before t but not at t; no chunk has a say in it.

        Drawn evenly from the distinct ones; a random destination where there is none.
        """
        if not len(events):
            return Drawn(events.query, np.zeros(0, bool))
        src = self.keys // self.width
        order = np.lexsort((np.arange(len(src)), src))  # pairs by source, each source's in order of first time
        starts = np.searchsorted(src[order], events.src, "left")
        counts = _counts_before(src[order], self.first_t[order], events.src, events.t)
        asked = events.t[events.group_starts]
        group, span = np.searchsorted(asked, events.t), np.int64(len(self.keys))
        first, last = np.searchsorted(self.log.t, asked[0], "left"), np.searchsorted(self.log.t, asked[-1], "right")
        near = slice(int(first), int(last))
        at = np.searchsorted(asked, self.log.t[near])
        same = asked[at] == self.log.t[near]  # nothing is asked of the other times
        # which pair met in which group of simultaneous events
        meetings = np.unique(at[same] * span + self.pair_of[near][same])

        def meets(rows: np.ndarray, pair: np.ndarray) -> np.ndarray:
            wanted = group[rows] * span + pair
            at = np.searchsorted(meetings, wanted)
            return np.append(meetings, -1)[at] == wanted

        dst = np.full(len(events), -1, np.int64)
        open_rows = np.flatnonzero(counts > 0)
        for _ in range(20):  # most draws are fine at once
            pair = order[starts[open_rows] + rng.integers(0, counts[open_rows])]
            fine = ~meets(open_rows, pair)
            dst[open_rows[fine]] = self.keys[pair[fine]] % self.width
            open_rows = open_rows[~fine]
        for row in open_rows.tolist():  # the few whose past is nearly all present: look at every pair
            pairs = order[starts[row] : starts[row] + counts[row]]
            pairs = pairs[~meets(np.full(len(pairs), row), pairs)]
            if len(pairs):
                dst[row] = self.keys[rng.choice(pairs)] % self.width
        fallback = dst < 0
        pool = self.pools[1]
        dst[fallback] = pool[rng.integers(0, len(pool), int(fallback.sum()))]
        return Drawn(events.query.toward(dst), fallback)


def _counts_before(src: np.ndarray, t: np.ndarray, of: np.ndarray, before: np.ndarray) -> np.ndarray:
    """How many entries of a table sorted by (src, t) have each asked source and a time before the asked one."""
    times = np.unique(np.concatenate([t, before]))
    span = np.int64(len(times) + 1)
    table = src * span + np.searchsorted(times, t)
    return np.searchsorted(table, of * span + np.searchsorted(times, before)) - np.searchsorted(src, of, "left")


class Candidates:
    """Negative destinations of a part's scored events.

    The pool is every destination of the log. Left out for an event are its own destination and the other true
    destinations *of the same source at the same time*, as in the Temporal Graph Benchmark; not those of other times.

    Args:
        log: where destinations come from; usually all events up to the part's end.
        part: what is ranked.
        how_many: `"all"`, or a number of distinct ones for each event (all, where there are fewer).
        seed: of the sample; the same for every model.
    """

    def __init__(self, log: EventLog, part: EventLog, how_many: int | str, seed: int = 0):
        if how_many != "all" and (not isinstance(how_many, int) or how_many < 1):
            raise BadInput(f"rank={how_many!r}; it is 'all' or a number of destinations, at least 1.")
        self.pool = destinations(log)
        self.events = part.scored_events
        self.count = len(self.pool) if how_many == "all" else min(int(how_many), len(self.pool))
        self.seed = [seed, part.first, self.count]
        # true destinations of each (source, time), by index in the pool; a part never cuts through simultaneous events
        order = np.lexsort((self.events.t, self.events.src))
        src, t = self.events.src[order], self.events.t[order]
        starts = np.flatnonzero(np.concatenate([[True], (src[1:] != src[:-1]) | (t[1:] != t[:-1])])[: len(order)])
        sizes = np.diff(np.append(starts, len(order)))
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(starts)), sizes)
        self._start, self._size = starts[group], sizes[group]
        self._true = np.searchsorted(self.pool, self.events.dst[order])

    def __call__(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes (q, c) for the scored rows begin … end-1, and which of them count."""
        if self.count == len(self.pool):
            nodes = np.broadcast_to(self.pool, (end - begin, self.count))
            return nodes, ~self._is_true(begin, end)
        first = begin - begin % BLOCK
        blocks = [self._sample(start, min(start + BLOCK, len(self.events))) for start in range(first, end, BLOCK)]
        indices, valid = (np.concatenate(parts)[begin - first : end - first] for parts in zip(*blocks, strict=True))
        return self.pool[indices], valid

    def _is_true(self, begin: int, end: int) -> np.ndarray:  # (q, pool)
        mask = np.zeros((end - begin, len(self.pool)), bool)
        mask[self._true_indices(begin, end)] = True
        return mask

    def _true_indices(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        size = self._size[begin:end]
        row = np.repeat(np.arange(end - begin), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        return row, self._true[np.repeat(self._start[begin:end], size) + within]

    def _sample(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Distinct indices into the pool that are no true destination; masked where there are not enough."""
        rng = np.random.default_rng([*self.seed, begin])
        rows, pool = end - begin, len(self.pool)
        if 4 * self.count >= pool:
            keys = rng.random((rows, pool))
            keys[self._true_indices(begin, end)] = 2  # behind all others
            indices = np.argpartition(keys, self.count - 1, axis=1)[:, : self.count]
            return indices, np.take_along_axis(keys, indices, 1) < 2
        row, true = self._true_indices(begin, end)
        barred = np.unique(row * pool + true)
        indices = rng.integers(0, pool, (rows, self.count))
        for _ in range(200):
            again = np.isin(np.arange(rows)[:, None] * pool + indices, barred) | _repeats(indices)
            if not again.any():
                break
            indices[again] = rng.integers(0, pool, int(again.sum()))
        return indices, ~again


def _repeats(indices: np.ndarray) -> np.ndarray:
    """Mask of the entries (q, c) that occur earlier in their row."""
    order = np.argsort(indices, axis=1, kind="stable")
    ordered = np.take_along_axis(indices, order, 1)
    repeated = np.zeros(indices.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return repeated
