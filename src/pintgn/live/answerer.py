"""Answers of a model for node numbers: scores, ranks and embeddings, computed in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pintgn.errors import StaleQuery
from pintgn.events.log import Query
from pintgn.learn.measure import PAIRS, eval_mode
from pintgn.learn.metrics import check_finite
from pintgn.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from pintgn.live.live import Live
    from pintgn.live.recommend import RecommendRequest

SCORED, NODES = 10_000, 2_000
"""Pairs scored at once, and nodes embedded at once; no answer depends on it."""


@dataclass(frozen=True)
class PairScores:
    """Answers about pairs, row by row."""

    logits: np.ndarray
    probabilities: np.ndarray
    notes: list[str]  # what is doubtful; empty for most


class Answerer:
    """Queries the model of a stream. Times are in the log's count; the stream does not change."""

    def __init__(self, stream: Stream):
        self.stream, self.model = stream, stream.model

    def scores(self, query: Query, against: str) -> np.ndarray:  # (q,)
        """Logits of links."""
        found = self._compute(lambda rows: self.stream.score(query[rows], against), len(query), SCORED)
        check_finite(found)
        return found

    def answers(self, query: Query) -> np.ndarray:  # (q, outputs)
        """Answers of a run that predicts a column."""
        found = self._compute(lambda rows: self.stream.replay(None, [query[rows]])[0], len(query), SCORED)
        check_finite(found)
        return found

    def ranks(self, query: Query, nodes: np.ndarray) -> np.ndarray:  # (s, n)
        """A logit of each query's source with nodes of its own (s, n); any number where a node is -1."""
        if not nodes.size:
            return np.zeros(nodes.shape, np.float32)
        if (nodes < 0).any():
            nodes = np.maximum(np.where(nodes < 0, nodes.max(1, keepdims=True), nodes), 0)

        def rank(columns: slice) -> torch.Tensor:
            return self.stream.rank(None, query, nodes[:, columns])

        found = self._compute(rank, nodes.shape[1], max(1, PAIRS // len(query)), axis=1)
        check_finite(found)
        return found

    def embeddings(self, nodes: np.ndarray, when: Any) -> np.ndarray:  # (n, d)
        """Embeddings as of one time."""
        return self._compute(lambda rows: self.stream.embed(nodes[rows], when), len(nodes), NODES)

    def embeddings_of_each(self, pieces: Iterable[np.ndarray], when: Any) -> Iterator[np.ndarray]:
        """`embeddings` of one chunk after another."""
        return (self.embeddings(nodes, when) for nodes in pieces)

    def recommendations(
        self, live: Live, ids: list[Any], request: RecommendRequest, progress: Callable[[int, int], None]
    ) -> pa.Table:
        """See `Live.recommend_many`."""
        from pintgn.live.recommend import recommend_rows

        return recommend_rows(live, ids, request, progress)

    def _compute(self, compute: Callable[[slice], torch.Tensor], count: int, at_once: int, axis: int = 0) -> np.ndarray:
        try:
            with eval_mode(self.model), torch.no_grad():
                parts = [compute(slice(k, k + at_once)).numpy(force=True) for k in range(0, count, at_once)]
        except StaleQuery:
            raise too_late(self.stream) from None
        return np.concatenate(parts, axis) if parts else np.zeros(0, np.float32)


def too_late(stream: Stream) -> StaleQuery:
    """The error for a query at a time before the newest event."""
    seen = stream.schema.time.show(stream.clock)
    return StaleQuery(f"this run has already observed {seen}; ask about that time or a later one.")
