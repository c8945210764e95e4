"""Test, then observe: score a part while a stream moves through it. All measuring goes through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.learn.metrics import Metrics, Scores, by_novelty, rank_metrics, ranks
from pintgn.learn.negatives import QUESTION, Drawn
from pintgn.learn.protocol import Parts, scored_events
from pintgn.learn.ranking import Candidates
from pintgn.models.base import eval_mode
from pintgn.models.registry import model_class
from pintgn.stream import Stream

HEURISTICS = ("edgebank", "heuristic")
"""Training-free rows that stand beside every result."""
BATCH = 500
"""Events looked up at once; no figure depends on it."""
PAIRS = 200_000
"""Pairs ranked at once, for the same reason."""

OnBatch = Callable[[int], None] | None
"""Called with the number of a part's events that are done."""
Figures = dict[str, dict[str, Metrics]]
"""By negatives, then by all / seen / new."""


def score_part(
    stream: Stream, part: EventLog, queries: Sequence[Query], on_batch: OnBatch = None, only: np.ndarray | None = None
) -> list[np.ndarray]:
    """Logits (q,) or (q, questions) about a part's scored events, row by row, while the stream moves through it; about
    those of them alone that a mask names, where there is one."""
    rows = np.flatnonzero(part.learnable)
    rows = rows if only is None else rows[only]
    found: list[list[np.ndarray]] = [[] for _ in queries]

    def ask(batch: EventLog) -> list[Query]:
        begin = batch.first - part.first
        asked = slice(*np.searchsorted(rows, [begin, begin + len(batch)]).tolist())
        return [query[asked] for query in queries]

    with eval_mode(stream.model):
        for batch, scores in stream.prefetch(part.batches(BATCH), ask):
            for mine, more in zip(found, scores, strict=True):
                mine.append(more.numpy(force=True))
            if on_batch is not None:
                on_batch(batch.first - part.first + len(batch))
    return [np.concatenate(mine) if mine else np.zeros(0, np.float32) for mine in found]


class Compared(NamedTuple):
    """A part's events against several kinds of negatives."""

    figures: Figures  # by the score of the question that each kind asks
    one_score: Figures  # by the score against anyone, for the kinds that ask another question; as published models have
    scores: dict[str, Scores]  # behind `figures`, by kind


def compare(
    stream: Stream,
    part: EventLog,
    drawn: dict[str, Drawn],
    new: np.ndarray,
    on_batch: OnBatch = None,
    only: np.ndarray | None = None,
) -> Compared:
    """AP and AUC of a part's events against each kind of negatives. `only` is a mask of its scored events: `drawn` and
    `new` are of those then."""
    events, model = scored_events(part), stream.model
    events = events if only is None else events.where(only)
    queries = [events.query, *(d.query for d in drawn.values())]
    positive, *negatives = score_part(stream, part, queries, on_batch, only)

    def scores(negative: np.ndarray, against: str) -> Scores:
        return Scores(model.answer(positive, against), model.answer(negative, against))

    asked = {kind: QUESTION.get(kind, "anyone") for kind in drawn}
    chosen = {kind: scores(z, asked[kind]) for kind, z in zip(drawn, negatives, strict=True)}
    same = {
        kind: scores(z, "anyone")
        for kind, z in zip(drawn, negatives, strict=True)
        if asked[kind] != "anyone" and asked[kind] in model.questions
    }
    figures, one_score = (
        {kind: by_novelty(s, new, Scores.metrics) for kind, s in some.items()} for some in (chosen, same)
    )
    return Compared(figures, one_score, chosen)


def rank_part(
    stream: Stream, part: EventLog, candidates: Candidates, new: np.ndarray, on_batch: OnBatch = None
) -> dict[str, Metrics]:
    """MRR and Hits@k of a part's events among candidates."""
    return by_novelty(ranks_in_part(stream, part, candidates, on_batch), new, rank_metrics)


def ranks_in_part(
    stream: Stream, part: EventLog, candidates: Candidates, on_batch: OnBatch = None, only: np.ndarray | None = None
) -> np.ndarray:  # (e,)
    """The rank of each scored event's destination among its candidates, while the stream moves through the part; of
    those alone that a mask of the scored events names, where there is one."""
    ranked = ranked_in_part(stream, part, candidates, on_batch, only)
    found = [ranks(logits[:, 0], logits[:, 1:], valid) for logits, valid in ranked]
    return np.concatenate(found) if found else np.zeros(0)


def ranked_in_part(
    stream: Stream, part: EventLog, candidates: Candidates, on_batch: OnBatch = None, only: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batch by batch the logits (q, 1 + c) of a part's scored events, the true destination first, then its candidates;
    and which of these (q, c) count. Arguments as of `ranks_in_part`."""
    done = 0
    with eval_mode(stream.model):
        for batch in part.batches(min(BATCH, max(1, PAIRS // candidates.count))):
            events = scored_events(batch)
            rows = np.arange(len(events)) if only is None else np.flatnonzero(only[done : done + len(events)])
            if len(rows):
                others, valid = candidates(done, done + len(events))
                asked, among = events.query[rows], np.concatenate([events.dst[:, None], others], 1)[rows]
                logits = stream.rank(batch, asked, among).numpy(force=True)
                yield logits, valid[rows]
            else:
                stream.observe(batch)
            done += len(events)
            if on_batch is not None:
                on_batch(batch.first - part.first + len(batch))


def heuristic_stream(name: str, parts: Parts, schema: Schema, observed: EventLog) -> Stream:
    """A training-free model in a stream that has observed these events."""
    model = model_class(name)()
    model.prepare(parts.trained)
    stream = Stream(model, schema, node_features=parts.log.node_features)
    stream.observe(observed)
    return stream


def heuristic_streams(
    parts: Parts, schema: Schema, observed: EventLog, without: str = ""
) -> Iterator[tuple[str, Stream]]:
    """Each training-free model but one."""
    for name in HEURISTICS:
        if name != without:
            yield name, heuristic_stream(name, parts, schema, observed)
