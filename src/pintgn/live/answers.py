"""What a run in use answers, in users' own ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.codec import Codec
from pintgn.events.columns import Growing
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.learn.calibration import Calibration
from pintgn.learn.measure import PAIRS, eval_mode
from pintgn.learn.metrics import check_finite
from pintgn.live.names import Names
from pintgn.models.base import Model
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.explain import Explanation

SCORED, NODES = 10_000, 2_000
"""Pairs scored at once, and nodes embedded at once; no answer depends on it."""


class Recommendation(NamedTuple):
    """A destination, how likely it is, and the logit that it is ranked by."""

    dst: Any
    probability: float
    logit: float


class Answers:
    """Questions to the live state. None of them changes it."""

    stream: Stream
    model: Model
    schema: Schema
    codec: Codec
    names: Names
    calibration: Calibration
    calibration_known: Calibration
    destinations: Growing
    self_loops: bool

    @property
    def clock(self) -> Any:
        """The time of the newest event."""
        return self.stream.clock

    def score(self, src: Any, dst: Any, at: Any = None, against: str = "anyone") -> dict[Any, float]:
        """A logit for each destination: how likely src is to meet it at a time. Changes nothing.

        Args:
            src: an id.
            dst: an id, or several.
            at: a time, no earlier than the newest event; right after it by default. Events strictly before it count.
            against: what the link is told from: `anyone`, a link to a random destination; or `known`, one between two
                that met before but do not meet now.
        """
        ids = [dst] if isinstance(dst, str | bytes) or not isinstance(dst, Iterable) else list(dst)
        logits = self.logits([src] * len(ids), ids, at, against)
        return dict(zip(ids, logits.tolist(), strict=True))

    def probability(self, src: Any, dst: Any, at: Any = None, against: str = "anyone") -> dict[Any, float]:
        """The same as probabilities, calibrated on validation: this link against one that it is told from."""
        scores = self.score(src, dst, at, against)
        return dict(zip(scores, self.calibrated(np.array(list(scores.values())), against).tolist(), strict=True))

    def calibrated(self, logits: np.ndarray, against: str = "anyone") -> np.ndarray:
        """Logits of a question as probabilities."""
        return (self.calibration_known if against == "known" else self.calibration)(logits)

    def logits(self, src: Sequence[Any], dst: Sequence[Any], at: Any = None, against: str = "anyone") -> np.ndarray:
        """Logits of many pairs of ids, all at one time, or each at its own in the log's count (an array)."""
        if against not in self.model.questions:
            can = " or ".join(map(repr, self.model.questions))
            hint = " Train with --set model.historical=true to ask that." if against == "known" else ""
            raise BadInput(f"against={against!r}; this run answers against {can}.{hint}")
        when = at if isinstance(at, np.ndarray) else np.full(len(src), self.time_of(at), self.codec.dtype)
        query = Query(*self.names.find_pairs(*([*map(self.codec.id, ids)] for ids in (src, dst))), when)
        return self._computed(lambda rows: self.stream.score(query[rows], against), len(query), SCORED)

    def recommend(
        self, src: Any, k: int = 10, at: Any = None, among: Iterable[Any] | None = None
    ) -> list[Recommendation]:
        """The k most likely destinations of src at a time, best first.

        Args:
            among: ids to choose from; every destination met so far when not given (src itself only where there are
                self-loops).
        """
        if k < 1:
            raise BadInput(f"k={k}; at least one is recommended.")
        ids = None if among is None else list(dict.fromkeys(among))
        pool = self.candidates(src) if ids is None else self.names.find(map(self.codec.id, ids), 1)
        return self.best(pool, self.rank(src, pool, at), k, ids)

    def candidates(self, src: Any) -> np.ndarray:
        """Node numbers that can be recommended to src."""
        pool = np.sort(self.destinations.values)
        return pool if self.self_loops else pool[pool != self.names.find([self.codec.id(src)], 0)]

    def rank(self, src: Any, pool: np.ndarray, at: Any = None) -> np.ndarray:
        """A logit of src with each of some nodes, given by number."""
        source, when = self.names.find([self.codec.id(src)], 0), np.array([self.time_of(at)], self.codec.dtype)
        query = Query(source, source, when)
        return self._computed(lambda rows: self.stream.rank(None, query, pool[None, rows])[0], len(pool), PAIRS)

    def best(
        self, pool: np.ndarray, logits: np.ndarray, k: int, ids: Sequence[Any] | None = None
    ) -> list[Recommendation]:
        """The k best of ranked nodes."""
        order = np.argsort(-logits, kind="stable")[:k]
        names = [self.names.ids[node] for node in pool[order]] if ids is None else [ids[row] for row in order]
        probabilities = self.calibration(logits[order])
        return list(map(Recommendation, names, probabilities.tolist(), logits[order].tolist()))

    def explain(self, src: Any, dst: Any, at: Any = None, **options: Any) -> Explanation:
        """Why src and dst are scored as they are: the walks that join them, and the score without each.

        Args:
            steps: longest walks that are listed, 1 to 3.
            limit: how many reasons of each kind.
            replay: for models with memory, take that back as well, by replaying the log for each reason; slow.
            progress: called with how many reasons have been replayed, and of how many.
        """
        return self.explaining(src, dst, at, **options)()

    def explaining(
        self,
        src: Any,
        dst: Any,
        at: Any = None,
        *,
        steps: int = 3,
        limit: int = 5,
        replay: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Callable[[], Explanation]:
        """`explain` in two parts: this one copies what it needs, the call of what it returns does the work.

        So others may observe while the work is done, in whatever thread.
        """
        from pintgn.explain.reasons import explain
        from pintgn.explain.worlds import Frozen

        names = self.codec.id(src), self.codec.id(dst)
        one, other = self.names.find_pairs([names[0]], [names[1]])
        t = self.time_of(at)
        with self._in_users_words():
            frozen = Frozen.of(self.stream, t)
        return partial(
            explain, frozen, int(one[0]), int(other[0]), t, steps=steps, limit=limit, replay=replay, progress=progress,
            name=self.names.ids.__getitem__, names=names, calibration=self.calibration,
        )  # fmt: skip

    def embed(
        self, ids: Iterable[Any] | None = None, at: Any = None, side: str = "src"
    ) -> tuple[list[Any], np.ndarray]:
        """Embeddings (n, d) of nodes as of a time, and their ids; of all nodes by default.

        `side` says which of two nodes is meant where sources and destinations are named apart.
        """
        if type(self.model).gather_nodes is Model.gather_nodes:
            raise BadInput(f"{type(self.model).__name__} scores links; it has no embeddings of nodes.")
        if side not in ("src", "dst"):
            raise BadInput(f"side={side!r}; it is 'src' or 'dst'.")
        if ids is None:
            nodes = np.arange(len(self.names))
            nodes = nodes if self.schema.dummy is None else nodes[nodes != self.schema.dummy]
            listed = [self.names.ids[node] for node in nodes]
        else:
            listed = list(ids)
            nodes = self.names.find(map(self.codec.id, listed), 0 if side == "src" else 1)
        t = self.time_of(at)
        found = self._computed(lambda rows: self.stream.embed(nodes[rows], t), len(nodes), NODES, check=False)
        return listed, found if len(nodes) else np.zeros((0, 0), np.float32)

    def time_of(self, at: Any = None) -> Any:
        """A time that a user says, in the log's count; right after the newest event when none is given."""
        if at is not None:
            return self.codec.time(at)
        clock = np.asarray(self.clock, self.codec.dtype)
        return clock + 1 if clock.dtype.kind == "i" else np.nextafter(clock, np.inf)

    def _computed(
        self, compute: Callable[[slice], torch.Tensor], count: int, at_once: int, check: bool = True
    ) -> np.ndarray:
        with eval_mode(self.model), self._in_users_words(), torch.no_grad():
            starts = range(0, count, at_once)
            parts = [compute(slice(start, start + at_once)).numpy(force=True) for start in starts]
        found = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        if check:
            check_finite(found)
        return found

    @contextmanager
    def _in_users_words(self) -> Iterator[None]:
        """Says in users' words that a question comes too late."""
        try:
            yield
        except StaleQuery:
            seen = self.schema.time.show(self.clock)
            raise StaleQuery(f"this run has already observed {seen}; ask about that time or a later one.") from None
