"""Ranks in a temporal knowledge graph: both directions, all entities, filtered as of the same time, a step ahead.

For every event (s, r, o, t) two questions: which o, given s, r and t; and which s, given o, the inverse of r and t.
Every other answer that is true at the same time is left out. What is known are the events strictly before t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pintgn.events.log import EventLog, Query
from pintgn.events.splits import met_nodes
from pintgn.learn.metrics import check_finite
from pintgn.learn.protocol import destinations
from pintgn.models.base import eval_mode
from pintgn.stream import Stream
from pintgn.workers.group import current

PAIRS = 200_000
"""Pairs scored at once; no figure depends on it."""
ANSWERS = 256
"""Answers ranked at once, for the same reason."""

Score = Callable[[Query, np.ndarray], Sequence[np.ndarray]]
"""Scores (q, n) of candidates (q, n), of one model or of several."""


def entities(log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Possible answers as destination and as source: all nodes seen so far, or those of one side if the sides have
    separate namespaces."""
    if not log.schema.separate_namespaces:
        everyone = np.flatnonzero(met_nodes(log))
        return everyone, everyone
    met = np.zeros(log.nodes, bool)
    met[log.src[log.learnable]] = True
    return destinations(log), np.flatnonzero(met)


def both_directions(events: EventLog) -> Query:
    """The questions of events, (2e,): first about the destination, then, by the inverse relation, about the source."""
    query = events.query
    assert query.given is not None
    assert events.schema.relation is not None
    given = np.concatenate([query.given, query.given + events.schema.relation[1]])
    ends = np.concatenate([query.src, query.dst]), np.concatenate([query.dst, query.src])
    return Query(*ends, np.concatenate([query.t, query.t]), given)


def filtered_ranks(
    stream: Stream,
    part: EventLog,
    pools: tuple[np.ndarray, np.ndarray],
    score: Score | None = None,
    only: np.ndarray | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:  # (models, 2e)
    """The filtered rank of the answer to each question about a part's scored events, in the order of `both_directions`,
    while the stream moves through it. A tie counts half. NaN for events that a mask `only` leaves out.

    Args:
        pools: candidates in each direction; see `entities`. Every answer is among them.
        score: what scores candidates; the stream's model when not given. It must not change the stream.
    """
    group, total = current(), len(part.scored_events)
    asked = np.ones(total, bool) if only is None else only
    mine = asked.copy()
    mine[asked] = group.turns(int(asked.sum()))
    score = score or (lambda query, among: [stream.rank(None, query, among).numpy(force=True)])
    found: np.ndarray | None = None
    bounds, done = np.append(part.group_starts, len(part)), 0
    with eval_mode(stream.model):
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            now = part[begin:end]
            events = now.scored_events
            rows = done + np.flatnonzero(mine[done : done + len(events)])
            if len(rows):
                ranked = _ranks_at(events, rows - done, pools, score)
                if found is None:
                    found = np.full((len(ranked), 2 * total), np.nan)
                found[:, rows], found[:, total + rows] = ranked[:, : len(rows)], ranked[:, len(rows) :]
            stream.observe(now)
            done += len(events)
            if on_batch is not None:
                on_batch(end)
    found = np.full((1, 2 * total), np.nan) if found is None else found
    if group.size > 1:
        both = np.tile(asked, 2)
        for row in found:
            row[both] = group.merged(row[np.tile(mine, 2)], np.tile(mine[asked], 2))
    return found


def _ranks_at(events: EventLog, rows: np.ndarray, pools: tuple[np.ndarray, np.ndarray], score: Score) -> np.ndarray:
    """Ranks (models, 2 rows) for some of the events of one time."""
    query = both_directions(events)
    assert query.given is not None
    kinds = int(query.given.max(initial=0)) + 1
    key = query.src * np.int64(kinds) + query.given[:, 0].astype(np.int64)
    wanted = np.concatenate([rows, len(events) + rows])
    ranked: list[np.ndarray] = []
    for way, pool in enumerate(pools):
        mine = wanted[(wanted >= len(events)) == way]
        true = np.arange(way * len(events), (way + 1) * len(events))
        asked, first, question = np.unique(key[mine], return_index=True, return_inverse=True)
        at = np.searchsorted(pool, query.dst)
        of = np.searchsorted(asked, key[true])
        same = np.append(asked, -1)[of] == key[true]
        true, of = true[same], of[same]  # the true answers to what is asked, and to which question
        size = max(1, PAIRS // max(len(pool), 1))
        found: list[np.ndarray] = []
        order = np.argsort(question, kind="stable")
        for begin in range(0, len(asked), size):
            some = query[mine[first[begin : begin + size]]]
            among = np.broadcast_to(pool, (len(some), len(pool)))
            here = (of >= begin) & (of < begin + size)
            answers = order[np.searchsorted(question[order], begin) : np.searchsorted(question[order], begin + size)]
            found.append(
                np.stack(
                    [
                        _ranks(one, question[answers] - begin, at[mine[answers]], of[here] - begin, at[true[here]])
                        for one in score(some, among)
                    ]
                )
            )
        ordered = np.concatenate(found, 1) if found else np.zeros((1, 0))
        back = np.empty_like(ordered)
        back[:, order] = ordered
        ranked.append(back)
    return np.concatenate(ranked, 1)


def _ranks(scores: np.ndarray, row: np.ndarray, at: np.ndarray, of: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Ranks of the candidates `at` in rows of scores (q, n), of which all that are true, (of, true), are left out."""
    check_finite(scores)
    others = scores.copy()
    others[of, true] = -np.inf
    found = np.empty(len(row))
    for begin in range(0, len(row), ANSWERS):
        some = slice(begin, begin + ANSWERS)
        mine = scores[row[some], at[some]][:, None]
        against = others[row[some]]
        found[some] = 1 + (against > mine).sum(1) + (against == mine).sum(1) / 2
    return found
