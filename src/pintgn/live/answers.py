"""What a run in use answers, in users' own ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pintgn.display.progress import counting, takes_progress
from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.learn.calibration import Calibration, next_probabilities
from pintgn.learn.metrics import check_finite
from pintgn.live.ranking import Ranking, Recommendation
from pintgn.models.base import eval_mode

if TYPE_CHECKING:
    import pyarrow as pa

    from pintgn.explain import Explanation

SCORED, NODES = 10_000, 2_000
"""Pairs scored at once, and nodes embedded at once; no answer depends on it."""


class Answers(Ranking):
    """Questions to the live state. None of them changes it."""

    calibration_known: Calibration

    def score(
        self, src: Any, dst: Any, at: Any = None, against: str = "anyone", relation: Any = None
    ) -> dict[Any, float]:
        """A logit for each destination: how likely src is to meet it at a time. Changes nothing.

        Args:
            src: an id.
            dst: an id, or several.
            at: a time, no earlier than the newest event; right after it by default. Events strictly before it count.
            against: what the link is told from: `anyone`, a link to a random destination; or `known`, one between two
                that met before but do not meet now.
            relation: by which they meet, of a run that was trained with relations; ^ before it is its inverse.
        """
        ids = [dst] if isinstance(dst, str | bytes) or not isinstance(dst, Iterable) else list(dst)
        logits = self.logits([src] * len(ids), ids, at, against, relation)
        return dict(zip(ids, logits.tolist(), strict=True))

    def probability(
        self, src: Any, dst: Any, at: Any = None, against: str = "anyone", relation: Any = None
    ) -> dict[Any, float]:
        """The same as probabilities, calibrated on validation: that of this link against one random destination (with
        `against="known"`, against one pair that met before). It is no forecast; `next_probability` is."""
        scores = self.score(src, dst, at, against, relation)
        return dict(zip(scores, self.calibrated(np.array(list(scores.values())), against).tolist(), strict=True))

    def next_probability(self, src: Any, dst: Iterable[Any], at: Any = None, relation: Any = None) -> dict[Any, float]:
        """For each destination the probability that it is the next one src goes to, if it is one of these. They add up
        to 1; calibrated on validation, see `learn.calibration`."""
        scores = self.score(src, dst, at, relation=relation)
        chances = next_probabilities(self.next_slope, np.array(list(scores.values())))
        return dict(zip(scores, chances.tolist(), strict=True))

    def predict_proba(self, pairs: Any, at: Any = None, against: str = "anyone") -> np.ndarray:  # (q, 2)
        """Probabilities of many pairs, in the shape of scikit-learn's classifiers: not happening, happening.

        Args:
            pairs: (src, dst) each; or an array or a frame with these two columns.
            at, against: as of `score`.

        >>> import pintgn
        >>> live = pintgn.open(pintgn.fit("edgebank", pintgn.simulate("shop", events=200, seed=0)))
        >>> live.predict_proba([("user1", "item2"), ("user1", "item3")]).shape
        (2, 2)
        """
        given = np.asarray(pairs, object)
        if not given.size:
            return np.zeros((0, 2))
        if given.ndim != 2 or given.shape[1] != 2:
            raise BadInput(f"pairs have shape {given.shape}; each is (src, dst), two columns.")
        yes = self.calibrated(self.logits(given[:, 0].tolist(), given[:, 1].tolist(), at, against), against)
        return np.stack([1 - yes, yes], 1)

    def calibrated(self, logits: np.ndarray, against: str = "anyone") -> np.ndarray:
        """Logits of a question as probabilities."""
        return (self.calibration_known if against == "known" else self.calibration)(logits)

    def logits(
        self, src: Sequence[Any], dst: Sequence[Any], at: Any = None, against: str = "anyone", relation: Any = None
    ) -> np.ndarray:
        """Logits of many pairs of ids, all at one time, or each at its own in the log's count (an array); by a
        relation, or each by its own."""
        self.check_links(against)
        when = at if isinstance(at, np.ndarray) else np.full(len(src), self.time_of(at), self.codec.dtype)
        by = self.task.by(relation, len(src))
        ends = self.names.find_pairs(self.codec.ids(src), self.codec.ids(dst), self.task.inverted(by, len(src)))
        return self.score_nodes(Query(*ends, when, by), against)

    def score_nodes(self, query: Query, against: str) -> np.ndarray:
        """Logits of pairs that are given by number, at times in the log's count."""
        return self._computed(lambda rows: self.stream.score(query[rows], against), len(query), SCORED)

    def answer_nodes(self, query: Query) -> np.ndarray:
        """What the model of a run that predicts a column answers about events that are given by number."""
        return self._computed(lambda rows: self.stream.replay(None, [query[rows]])[0], len(query), SCORED)

    def check_links(self, against: str) -> None:
        """Refuse a question about links that this run does not answer."""
        self._links_only()
        if against not in self.model.questions:
            can = " or ".join(map(repr, self.model.questions))
            hint = " Train with --set model.historical=true to ask that." if against == "known" else ""
            raise BadInput(f"against={against!r}; this run answers against {can}.{hint}")

    def ask(
        self, src: Sequence[Any], dst: Sequence[Any], given: Sequence[Any] | None = None, at: Any = None
    ) -> dict[str, Any]:
        """What a run that predicts a column says about events that may happen, in columns by name: of classes the
        likeliest and the probability of each, of values mean, median and an interval that holds nine in ten.

        Args:
            src, dst: ids, one of each for every event.
            given: of each event the columns that are known when it is asked about, by name.
            at: a time for all, right after the newest event by default; or an array in the log's count.

        >>> import pintgn
        >>> log = pintgn.simulate("shop", events=400, seed=0)
        >>> live = pintgn.open(pintgn.fit("boosted", log, predict="taste", of="src"))
        >>> list(live.ask(["user1"], ["item1"]))[:2]
        ['taste', 'median']
        """
        if self.run.settings.task.scores_links:
            raise BadInput("this run predicts links; ask live.score, live.probability or live.predict.")
        from pintgn.live.task_question import given_columns

        when = at if isinstance(at, np.ndarray) else np.full(len(src), self.time_of(at), self.codec.dtype)
        one, other = self.names.find_pairs(self.codec.ids(src), self.codec.ids(dst))
        query = self.task.asked(one, other, when, given_columns(self, given, len(one)))
        found = self.answer_nodes(query)
        shaped = found.reshape(len(query), -1) if len(query) else np.zeros((0, self.model.answer_shape(0)[-1]))
        return self.task.shown(self.task.calibrated(shaped, self.run.answer_calibration))

    def predict(self, pairs: Any, **options: Any) -> Any:
        """A logit, a probability and notes for every row of a table of pairs; of a run that predicts a column, what
        `ask` says. A frame gives a frame of its kind.

        Arguments as of `pintgn.live.predict.predict`.
        """
        from pintgn.live.predict import like_given, predict

        return like_given(predict(self, pairs, **options), pairs)  # type: ignore[arg-type]

    def recommend(
        self,
        src: Any,
        k: int = 10,
        at: Any = None,
        among: Iterable[Any] | None = None,
        *,
        exclude_met: bool = False,
        active_since: Any = None,
        exact: bool | None = None,
        relation: Any = None,
    ) -> list[Recommendation]:
        """The k most likely destinations of src at a time, best first.

        Args:
            among: ids to choose from; every destination met so far when not given (src itself only where there are
                self-loops).
            exclude_met: leave out whom src has met before.
            active_since: leave out who has had no event since that time.
            exact: True ranks every destination; False only candidates from walks, and popular ones; see
                `live.candidates`. All up to 50,000 destinations, candidates of more, when not given.
            relation: as of `score`.
        """
        table = self.recommend_many(
            [src], k, at, among, exclude_met=exclude_met, active_since=active_since, exact=exact, relation=relation
        )
        columns = (table[name].to_pylist() for name in (self.schema.dst, *Recommendation._fields[1:]))
        return list(map(Recommendation, *columns))

    @takes_progress(counting("ranking", "sources"))
    def recommend_many(
        self,
        src: Iterable[Any] | str = "all",
        k: int = 10,
        at: Any = None,
        among: Iterable[Any] | None = None,
        *,
        exclude_met: bool = False,
        active_since: Any = None,
        exact: bool | None = None,
        relation: Any = None,
        progress: Callable[[int, int], None] | bool | None = None,
    ) -> pa.Table:
        """The k most likely destinations of many sources, as one table with a row for each, best first.

        Args:
            src: ids; or `"all"`, everyone who has acted so far.
            progress: True for a bar, or a function that is called with how many sources are done, and of how many.

        The others as of `recommend`.
        """
        from pintgn.live.many import recommend_many

        filters = (among, exclude_met, active_since, exact)
        return recommend_many(self, src, k, at, *filters, progress, relation)  # type: ignore[arg-type]

    def explain(self, src: Any, dst: Any = None, at: Any = None, **options: Any) -> Explanation:
        """Why an answer is what it is: what joins the two and what is known about them, and the answer without each.

        Args:
            src, dst: ids; of a run that asks about a node, that node alone.
            given: of a run that predicts a column, the columns that are known when it is asked, by name.
            relation: of a run with relations, by which the two meet; ^ before it is its inverse.
            steps: longest walks that are listed, 1 to 3.
            limit: how many reasons of each kind.
            replay: for models with memory, take that back as well, by replaying the log for each reason; slow.
            progress: True for a bar, or a function that is called with how many reasons have been replayed, and of how
                many.
        """
        return self.explaining(src, dst, at, **options)()

    def explaining(
        self,
        src: Any,
        dst: Any = None,
        at: Any = None,
        *,
        given: Mapping[str, Any] | None = None,
        relation: Any = None,
        steps: int = 3,
        limit: int = 5,
        replay: bool = False,
        progress: Callable[[int, int], None] | bool | None = None,
    ) -> Callable[[], Explanation]:
        """`explain` in two parts: this one copies what it needs, the call of what it returns does the work.

        So others may observe while the work is done, in whatever thread.
        """
        from pintgn.explain.counterfactuals import Frozen
        from pintgn.explain.reasons import explain
        from pintgn.live.task_question import question_about

        one, other, names = self._ends(src, dst, relation)
        t = self.time_of(at)
        question = question_about(self, one, other, t, given, relation)
        with self._in_users_words():
            frozen = Frozen.of(self.stream, t)
        return partial(
            explain, frozen, one, other, t, steps=steps, limit=limit, replay=replay, progress=progress,
            name=self.names.ids.__getitem__, names=names, question=question,
        )  # fmt: skip

    def _ends(self, src: Any, dst: Any, relation: Any = None) -> tuple[int, int, tuple[Any, Any]]:
        """The numbers of two ends, or twice that of the one node that is asked about, and their ids."""
        task = self.run.settings.task
        if len(task.sides) == 1:
            side = task.sides[0]
            id = self.codec.id(dst if side == 1 and dst is not None else src)
            node = int(self.names.find([id], side)[0])
            return node, node, (id, id)
        if dst is None:
            raise BadInput(f"this run asks about two nodes, a {self.schema.src} and a {self.schema.dst}. Name both.")
        names = self.codec.id(src), self.codec.id(dst)
        one, other = self.names.find_pairs([names[0]], [names[1]], self.turned(relation, 1))
        return int(one[0]), int(other[0]), names

    def embed(
        self, ids: Iterable[Any] | None = None, at: Any = None, side: str = "src"
    ) -> tuple[list[Any], np.ndarray]:
        """Embeddings (n, d) of nodes as of a time, and their ids; of all nodes by default.

        `side` says which of two nodes is meant where sources and destinations are named apart.
        """
        from pintgn.live.embeddings import nodes_asked

        listed = None if ids is None else self.codec.ids(list(ids))
        nodes = nodes_asked(self, listed, side)
        found = self.embed_nodes(nodes, self.time_of(at))
        listed = [self.names.ids[node] for node in nodes.tolist()] if listed is None else listed
        return listed, found if len(nodes) else np.zeros((0, 0), np.float32)

    def embed_many(
        self,
        ids: Iterable[Any] | str = "all",
        at: Any = None,
        side: str = "src",
        *,
        progress: Callable[[int, int], None] | bool | None = None,
    ) -> pa.RecordBatchReader:
        """Embeddings of many nodes as a stream of Arrow batches, computed while they are read: a row for each node.

        Columns: `id`, `side` (where sources and destinations are named apart), `embedding`, and `notes`: `unknown` for
        an id that was never seen, `no events` for a node that has met nobody yet; empty for most.

        Args:
            ids: ids; or `"all"`, every node there is.
            at, side: as of `embed`.
            progress: True for a bar, or a function that is called with how many nodes are done, and of how many.

        >>> import pintgn
        >>> log = pintgn.simulate("shop", events=400, seed=0)
        >>> live = pintgn.open(pintgn.fit("tgat", log, epochs=1))
        >>> table = live.embed_many([log.id(log.src[0]), "nobody"]).read_all()
        >>> table.column_names, table["notes"].to_pylist()
        (['id', 'embedding', 'notes'], ['', 'unknown'])
        """
        from pintgn.live.embeddings import embed_many

        return embed_many(self, ids, at, side, progress)

    def embed_nodes(self, nodes: np.ndarray, when: Any) -> np.ndarray:  # (n, d)
        """Embeddings of nodes that are given by number, at a time in the log's count."""
        return self._computed(lambda rows: self.stream.embed(nodes[rows], when), len(nodes), NODES, check=False)

    def embed_each(self, pieces: Iterable[np.ndarray], when: Any) -> Iterator[np.ndarray]:
        """`embed_nodes` of one piece after the other."""
        return (self.embed_nodes(nodes, when) for nodes in pieces)

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
