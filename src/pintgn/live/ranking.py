"""Who is ranked when a run in use recommends: pools of nodes, their logits, the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.columns import Growing
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.ingest.codec import Codec
from pintgn.learn.calibration import Calibration, next_probabilities
from pintgn.learn.metrics import check_finite
from pintgn.learn.run import Run
from pintgn.live.candidates import Candidates
from pintgn.live.many import note_words, rank_pieces, ranks_some
from pintgn.live.names import Names
from pintgn.live.nodes import NodeTable
from pintgn.models.base import Model, eval_mode
from pintgn.stream import Stream


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


class Ranking:
    """Questions about many nodes at once, by their numbers. None of them changes the state."""

    stream: Stream
    model: Model
    schema: Schema
    codec: Codec
    names: Names
    calibration: Calibration
    destinations: Growing
    nodes: NodeTable
    self_loops: bool
    task: Any  # of the run; see `learn.tasks`
    run: Run

    @property
    def clock(self) -> Any:
        """The time of the newest event."""
        return self.stream.clock

    def turned(self, relation: Any, count: int) -> np.ndarray:  # (q,) bool
        """Which of so many questions are by an inverse relation, and go from a destination to a source."""
        return self.task.inverted(self.task.by(relation, count), count)

    def side_of(self, relation: Any) -> int:
        """The side of those who are asked about by a relation: 0 for sources, 1 by an inverse one."""
        return int(self.turned(relation, 1)[0])

    def pool(self, side: int = 0) -> np.ndarray:
        """Node numbers that can be recommended to someone of a side, sorted: to a source all destinations so far; to a
        destination, by an inverse relation, all sources, or everyone where sides are not named apart."""
        if not side:
            return np.sort(self.destinations.values)
        met = self.nodes.degree.values > 0
        if self.names.separate_namespaces:
            met &= np.array(self.names.sides[: len(met)]) == 0
        return np.flatnonzero(met)

    def candidates(self, src: Any, at: Any = None, relation: Any = None) -> np.ndarray:
        """Node numbers that can be recommended to src: its whole pool, or candidates of more than are ranked."""
        side = self.side_of(relation)
        pool, node = self.pool(side), self.names.find([self.codec.id(src)], side)
        if ranks_some(len(pool), None):
            found = Candidates(self, pool, self.time_of(at))(node)[0]
            pool = found[found >= 0]
        return pool if self.self_loops else pool[pool != node]

    def rank(self, src: Any, pool: np.ndarray, at: Any = None, relation: Any = None) -> np.ndarray:
        """A logit of src with each of some nodes, given by number."""
        node = self.names.find([self.codec.id(src)], self.side_of(relation))
        return self.rank_nodes(node, pool, self.time_of(at), relation)[0]

    def rank_nodes(self, src: np.ndarray, pool: np.ndarray, when: Any, relation: Any = None) -> np.ndarray:  # (s, n)
        """A logit of each source with each of some nodes, all given by number, at a time in the log's count."""
        self._links_only()
        query = Query(src, src, np.full(len(src), when, self.codec.dtype), self.task.by(relation, len(src)))

        def rank(some: np.ndarray) -> np.ndarray:
            wide = np.broadcast_to(some, (len(src), len(some)))
            return self.stream.rank(None, query, wide).numpy(force=True)

        with eval_mode(self.model), self._in_users_words(), torch.no_grad():
            return rank_pieces(rank, pool, len(src))

    def rank_each(self, src: np.ndarray, nodes: np.ndarray, when: Any, relation: Any = None) -> np.ndarray:  # (s, c)
        """A logit of each source with nodes of its own (s, c), given by number; any number where a node is -1."""
        if not nodes.size:
            return np.zeros(nodes.shape, np.float32)
        query = Query(src, src, np.full(len(src), when, self.codec.dtype), self.task.by(relation, len(src)))
        asked = np.where(nodes < 0, nodes.max(1, keepdims=True), nodes)
        with eval_mode(self.model), self._in_users_words(), torch.no_grad():
            found = self.stream.rank(None, query, np.maximum(asked, 0)).numpy(force=True)
        check_finite(found)
        return found

    def best(
        self, src: Any, pool: np.ndarray, logits: np.ndarray, k: int, relation: Any = None
    ) -> list[Recommendation]:
        """The k best of ranked nodes."""
        order = np.argsort(-logits, kind="stable")[:k]
        names = [self.names.ids[node] for node in pool[order]]
        chances = next_probabilities(self.next_slope, logits)[order]
        notes = self.notes([src] * len(order), names, self.side_of(relation))
        columns = (chances.tolist(), self.calibration(logits[order]).tolist(), logits[order].tolist(), notes)
        return list(map(Recommendation, names, *columns))

    @property
    def next_slope(self) -> float:
        """What logits are multiplied by before they become probabilities of being the next."""
        return 1.0 if self.run.next_slope is None else self.run.next_slope

    def notes(self, src: Sequence[Any], dst: Sequence[Any], turned: Any = 0) -> list[str]:
        """What is doubtful about pairs of ids: never seen before, or asked of a run that has not ended. Pairs that are
        `turned` go from a destination to a source."""
        known, sides = self.names.numbers, self.run.settings.task.sides
        back = np.broadcast_to(np.asarray(turned, bool), len(src)).tolist()
        unknown_src, unknown_dst = (
            np.array([side in sides and id not in known[side ^ b] for id, b in zip(ids, back, strict=True)], bool)
            for side, ids in enumerate((src, dst))
        )
        return note_words(unknown_src, unknown_dst, self.run.unfinished)

    def time_of(self, at: Any = None) -> Any:
        """A time that a user says, in the log's count; right after the newest event when none is given."""
        if at is not None:
            return self.codec.time(at)
        clock = np.asarray(self.clock, self.codec.dtype)
        return clock + 1 if clock.dtype.kind == "i" else np.nextafter(clock, np.inf)

    def _links_only(self) -> None:
        if not self.run.settings.task.scores_links:
            column = self.run.settings.task.predict
            raise BadInput(f"this run predicts {column!r}, not links. Ask `pintgn predict`, live.predict or live.ask.")

    @contextmanager
    def _in_users_words(self) -> Iterator[None]:
        """Says in users' words that a question comes too late."""
        try:
            yield
        except StaleQuery:
            seen = self.schema.time.show(self.clock)
            raise StaleQuery(f"this run has already observed {seen}; ask about that time or a later one.") from None
