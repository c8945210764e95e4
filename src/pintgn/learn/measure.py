"""Test, then observe: score a part while a stream moves through it. All evaluation goes through here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.learn.metrics import CHUNK, Metrics, Scores, by_novelty, rank_metrics, ranks
from pintgn.learn.negatives import QUESTION, Candidates, Drawn
from pintgn.learn.settings import Settings
from pintgn.models.base import eval_mode
from pintgn.stream import Stream
from pintgn.workers.group import current

if TYPE_CHECKING:
    from pintgn.learn.run import Run

BATCH = 500
"""Events looked up at once by each worker; no figure depends on it."""
PAIRS = 200_000
"""Pairs ranked at once, for the same reason."""
PIECE = 100_000
"""Events observed at once, where nothing is asked; for the same reason."""

SAME = ("val", "test", "train_until", "val_until", "hidden", "protocol", "batch", "scale_features", "threads")
"""What another model is trained with as the run was; for the rest it has its own defaults."""

OnBatch = Callable[[int], None] | None
"""Called with the number of a part's events that are done."""
Figures = dict[str, dict[str, Metrics]]
"""By negatives, then by all / seen / new."""


def evenly(events: int, most: int) -> np.ndarray:  # (events,) bool
    """All events, or whole chunks of them at even distances, about `most` events in all.

    >>> evenly(1_000, 500).reshape(5, 200).all(1).tolist()
    [True, False, False, False, True]
    """
    chosen = np.ones(events, bool)
    if events > most:
        chunks = events // CHUNK
        kept = np.linspace(0, chunks - 1, max(most // CHUNK, 1)).astype(np.int64)
        chosen = np.isin(np.arange(events) // CHUNK, kept)
    return chosen


def observe_log(stream: Stream, events: EventLog, on_batch: OnBatch = None) -> None:
    """Observe a long log piece by piece, which takes little memory and can report progress."""
    for piece in events.batches(PIECE):
        stream.observe(piece)
        if on_batch is not None:
            on_batch(piece.first - events.first + len(piece))


def score_part(
    stream: Stream, part: EventLog, queries: Sequence[Query], on_batch: OnBatch = None, only: np.ndarray | None = None
) -> list[np.ndarray]:
    """Logits (q,) or (q, questions) about a part's scored events, row by row, while the stream moves through it; `only`
    is a mask of the events to score. Workers share the rows, and each gets all answers."""
    rows = np.flatnonzero(part.learnable)
    rows = rows if only is None else rows[only]
    group = current()
    length, mine = BATCH * group.size, np.ones(len(rows), bool)
    if group.size > 1:
        mine = my_share(part, rows, length)
        rows, queries = rows[mine], [query[mine] for query in queries]
    found = [np.zeros(0, np.float32) for _ in queries]  # each made as long as it will be, by the first scores

    def ask(batch: EventLog) -> list[Query]:
        begin = batch.first - part.first
        asked = slice(*np.searchsorted(rows, [begin, begin + len(batch)]).tolist())
        return [query[asked] for query in queries]

    done = 0
    with eval_mode(stream.model):
        for batch, scores in stream.prefetch(part.batches(length), ask):
            arrays = [some.numpy(force=True) for some in scores]
            if not done:
                found = [np.empty((len(rows), *some.shape[1:]), some.dtype) for some in arrays]
            begin, done = done, done + (len(arrays[0]) if arrays else 0)
            for some, more in zip(found, arrays, strict=True):
                some[begin:done] = more
            if on_batch is not None:
                on_batch(batch.first - part.first + len(batch))
    return [group.merged(some, mine) for some in found]


def my_share(part: EventLog, rows: np.ndarray, length: int) -> np.ndarray:
    """Rows of a part that this worker computes: an equal share of each batch, so that all workers are busy and each
    computes as much at once as a single process would."""
    return current().shares(np.searchsorted(rows, np.arange(0, len(part) + length, length)))


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
    events, model = part.scored_events, stream.model
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
    stream: Stream,
    part: EventLog,
    candidates: Candidates,
    new: np.ndarray,
    on_batch: OnBatch = None,
    only: np.ndarray | None = None,
) -> dict[str, Metrics]:
    """MRR and Hits@k of a part's events among candidates; `only` and `new` as of `compare`."""
    return by_novelty(ranks_in_part(stream, part, candidates, on_batch, only), new, rank_metrics)


def ranks_in_part(
    stream: Stream, part: EventLog, candidates: Candidates, on_batch: OnBatch = None, only: np.ndarray | None = None
) -> np.ndarray:  # (e,)
    """The rank of each scored event's destination among its candidates, while the stream moves through the part; `only`
    is a mask of the scored events to rank."""
    group, rows = current(), np.flatnonzero(part.learnable)
    asked = np.ones(len(rows), bool) if only is None else only
    mine = my_share(part, rows[asked], ranked_at_once(candidates) * group.size)
    my_own = asked.copy()
    my_own[asked] = mine
    ranked = ranked_in_part(stream, part, candidates, on_batch, my_own, group.size)
    found = [ranks(logits[:, 0], logits[:, 1:], valid) for logits, valid in ranked]
    return group.merged(np.concatenate(found) if found else np.zeros(0), mine)


def ranked_at_once(candidates: Candidates) -> int:
    """Events that a worker ranks at once."""
    return min(BATCH, max(1, PAIRS // candidates.count))


def ranked_in_part(
    stream: Stream,
    part: EventLog,
    candidates: Candidates,
    on_batch: OnBatch = None,
    only: np.ndarray | None = None,
    workers: int = 1,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batch by batch the logits (q, 1 + c) of a part's scored events, the true destination first, then its candidates;
    and which of these (q, c) count. Arguments as of `ranks_in_part`; a batch is shared out over so many workers."""
    done = 0
    with eval_mode(stream.model):
        for batch in part.batches(workers * ranked_at_once(candidates)):
            events = batch.scored_events
            rows = np.arange(len(events)) if only is None else np.flatnonzero(only[done : done + len(events)])
            if len(rows):
                others, valid = candidates(done + rows[0], done + rows[-1] + 1)
                others, valid = others[rows - rows[0]], valid[rows - rows[0]]
                among = np.concatenate([events.dst[rows, None], others], 1)
                yield stream.rank(batch, events.query[rows], among).numpy(force=True), valid
            else:
                stream.observe(batch)
            done += len(events)
            if on_batch is not None:
                on_batch(batch.first - part.first + len(batch))


def train_baseline(
    run: Run, name: str, progress: Callable[[int, int, str], None] | None = None, later: bool = False
) -> Run:
    """Train another model on a run's log, for the same task; on the whole log where `later` events are measured and the
    run was refitted."""
    from pintgn.learn.fit import fit

    if run.start is not None:
        raise BadInput(f"{name} has no initial weights as the run has, so it cannot be trained as its baseline.")
    if progress is not None:
        progress(0, len(run.parts.trained), f"training {name}")
    same = {key: getattr(run.settings.train, key) for key in SAME}
    stream, task = dataclasses.asdict(run.settings.stream), dataclasses.asdict(run.settings.task)
    settings = Settings.of({"model": {"name": name}, "train": same, "stream": stream, "task": task})
    return fit(settings, run.log, seed=run.seed, refit=later and run.refit is not None).deployed
