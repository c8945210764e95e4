"""`Live`: the state of a run that is in use. It observes events and answers in users' own ids."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.display.progress import counting, progress_callback, takes_progress
from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.ingest.codec import Codec, EventBatch
from pintgn.learn.calibration import Calibration, next_probabilities
from pintgn.learn.run import Run
from pintgn.live.answerer import Answerer, PairScores
from pintgn.live.arriving_targets import new_targets, read_targets
from pintgn.live.nodes import Destinations, Names, NodeTable
from pintgn.live.observing import NO_LOCK, Retention, batch_of, check_order, observe_batch, observe_table
from pintgn.live.prequential import prequential_of
from pintgn.live.recommend import Recommendation, RecommendRequest, next_slope, sources
from pintgn.models.base import Model
from pintgn.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from pintgn.explain import Explanation
    from pintgn.live.snapshot import Snapshot


def open(run: Run | str | Path, model: type[Model] | None = None, *, device: str | None = None) -> Live:
    """Open a run, to observe events and to answer. `model` is needed for a class of your own; `device` is where the run
    of a folder computes, the CPU by default.

    >>> import pintgn
    >>> live = pintgn.open(pintgn.fit("heuristic", pintgn.simulate("shop", events=400, seed=0)))
    >>> [type(one).__name__ for one in live.recommend("user1", k=2)]
    ['Recommendation', 'Recommendation']
    """
    if isinstance(run, Run):
        if device is not None:
            raise BadInput("a run that is open computes where it does; device= is for a folder.")
        return Live(run, run.deployed.stream.fork())  # what it observes is no concern of the run's
    return Live(Run.open(run, model, device=device))


class Live:
    """The state of a run after its log, and after every event observed since; it answers in users' own ids.

    A function of the run and of the events, in order: whatever the batches were, the state is the same, bit for bit.
    Ids never seen before are new nodes. Nothing is written to the run's folder.

    Args:
        run: its log is where the state begins.
        stream: of the run; moves on. The run's own by default.
        retention: which contacts are kept; all by default.
        evaluate_every: one event in so many is scored just before it happens (`prequential`); 0 for none.
        covered: events that were numbered after the log of another run, and that the log of this one ends with.

    >>> import pintgn
    >>> live = pintgn.open(pintgn.fit("edgebank", pintgn.simulate("shop", events=400, seed=0)))
    >>> live.observe([("ann", "item1", "2024-02-01T08:00Z"), ("ann", "item2", "2024-02-02T08:00Z")])
    2
    >>> live
    Live: edgebank, 402 events, 1,201 nodes, up to 2024-02-02 08:00:00+00:00
    """

    def __init__(
        self,
        run: Run,
        stream: Stream | None = None,
        retention: Retention | None = None,
        evaluate_every: int = 0,
        covered: int = 0,
    ):
        log = run.log
        self.run, self.stream = run, run.deployed.stream if stream is None else stream
        self.answerer, self.model = Answerer(self.stream), self.stream.model
        self.calibration = run.calibration or Calibration()
        self.calibrations = {"anyone": self.calibration, "known": run.calibration_known or Calibration()}
        self.schema = log.schema
        self.task: Any = run.task
        self.codec, self.names, self.nodes = Codec.of(log, *run.event_schema), Names(log.ids), NodeTable.of(log)
        self.retention = retention or Retention()
        self.prequential = prequential_of(run, evaluate_every)
        self.logged = len(log)  # events of the run's own log
        self.covered = covered  # of the events that are numbered here, so many are in the run's own log
        self.targets = 0  # of the numbers so far, so many are targets that came by themselves
        self.total = covered  # the number of the newest event; the first after the log of the first run is 1
        self.destinations = Destinations()
        self.destinations.observe(log.src, log.dst, log.t, log.learnable, len(self.names))
        self.observed_logs = [log]  # what has been observed, where deletions need to know
        self._of_thread = threading.local()

    def __repr__(self) -> str:
        when = self.schema.time.show(self.clock)
        return f"Live: {self.run.settings.name}, {self.events:,} events, {len(self.names):,} nodes, up to {when}"

    @property
    def clock(self) -> Any:
        """The time of the newest event."""
        return self.stream.clock

    @property
    def events(self) -> int:
        """All events ever observed, the run's log included."""
        return self.logged + self.total - self.covered - self.targets

    # -- observing ---------------------------------------------------------------------------------------------------

    def observe(self, events: Any, *, progress: Callable[[int, int], None] | bool | None = None) -> int:
        """Observe events; returns how many.

        Args:
            events: (src, dst, t) or (src, dst, t, {feature: value}) each, in order of time; or a file, frame or table
                with the columns of the log that the run was trained on.
            progress: True for a bar, or a function that is called with how many events of a file, frame or table have
                happened, and of how many.
        """
        if isinstance(events, EventLog):
            raise BadInput("an EventLog has node numbers of its own; pass its file, or log.to_table().")
        if not isinstance(events, Sequence) or isinstance(events, str | bytes):
            with progress_callback(progress, counting("observing", "events")) as report:
                return observe_table(self, events, report)
        if not len(events):
            return 0
        batch = batch_of(self.codec, events)
        check_order(self, batch.t)
        self.observe_batch(batch)
        return len(batch)

    def observe_targets(self, targets: Sequence[Any], at: Any = None) -> int:
        """Observe targets of earlier events: what is predicted often becomes known later.

        Args:
            targets: (src, dst, t, value) each: the event, and what its column turned out to be. Of several events of
                one pair at one time, the first that has no target yet.
            at: when they became known; right now by default. They are part of the past strictly after that time, and
                never before the newest event that was observed when they arrived.

        Returns how many were news; a target that is known already is left out, another one for the same event refused.
        """
        batch = read_targets(self, targets, at)
        new = batch.take(new_targets(self, batch))
        if len(new):
            self.observe_batch(new.as_events(self.clock))
        return len(new)

    def observe_batch(
        self, batch: EventBatch, turn: AbstractContextManager[Any] = NO_LOCK, scored: np.ndarray | None = None
    ) -> np.ndarray:  # (e,)
        """Observe checked events or targets, block by block; `turn` is entered for each block. Returns logits of the
        events in the mask `scored`, from just before they happen; NaN for all others."""
        return observe_batch(self, batch, turn, scored)

    # -- questions, none of which changes the state ------------------------------------------------------------------

    def score(
        self, src: Any, dst: Any, at: Any = None, against: str = "anyone", relation: Any = None
    ) -> dict[Any, float]:
        """A logit for each destination: how likely src is to meet it at a time. Changes no state.

        Args:
            src: an id.
            dst: an id, or several.
            at: a time, no earlier than the newest event; right after it by default. Events strictly before it count.
            against: what the link is compared with: `anyone`, a link to a random destination; or `known`, one between
                two that met before but do not meet now.
            relation: by which they meet, of a run that was trained with relations; ^ before it is its inverse.
        """
        ids = [dst] if isinstance(dst, str | bytes) or not isinstance(dst, Iterable) else list(dst)
        logits = self.score_pairs([src] * len(ids), ids, at, against, relation).logits
        return dict(zip(ids, logits.tolist(), strict=True))

    def probability(
        self, src: Any, dst: Any, at: Any = None, against: str = "anyone", relation: Any = None
    ) -> dict[Any, float]:
        """`score` as probabilities, calibrated on validation: that of this link against one random destination (with
        `against="known"`, against one pair that met before). It is no forecast; `next_probability` is."""
        scores, calibration = self.score(src, dst, at, against, relation), self.calibrations[against]
        return dict(zip(scores, calibration(np.array(list(scores.values()))).tolist(), strict=True))

    def next_probability(self, src: Any, dst: Iterable[Any], at: Any = None, relation: Any = None) -> dict[Any, float]:
        """For each destination the probability that it is the next one of these that src goes to; they add up to 1."""
        scores = self.score(src, dst, at, relation=relation)
        likely = next_probabilities(next_slope(self), np.array(list(scores.values())))
        return dict(zip(scores, likely.tolist(), strict=True))

    def predict_proba(self, pairs: Any, at: Any = None, against: str = "anyone") -> np.ndarray:  # (q, 2)
        """Probabilities of many pairs, (src, dst) each or a frame with these two columns, as scikit-learn's classifiers
        give them: not happening, happening. `at` and `against` are those of `score`.

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
        yes = self.score_pairs(given[:, 0].tolist(), given[:, 1].tolist(), at, against).probabilities
        return np.stack([1 - yes, yes], 1)

    def score_pairs(
        self, src: Sequence[Any], dst: Sequence[Any], at: Any = None, against: str = "anyone", relation: Any = None
    ) -> PairScores:
        """Logits, probabilities and notes of many pairs of ids, all at one time, or each at its own in the log's count
        (an array); by a relation, or each by its own."""
        from pintgn.live.questions import score_pairs

        return score_pairs(self, src, dst, at, against, relation)

    def ask(
        self, src: Sequence[Any], dst: Sequence[Any], given: Sequence[Any] | None = None, at: Any = None
    ) -> dict[str, Any]:
        """Predictions of a column for events that may happen, in columns by name: of classes the
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
        from pintgn.live.questions import ask

        return ask(self, src, dst, given, at)

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
        """`recommend` for many sources, or `"all"` who have acted so far, as one table with a row for each destination;
        `progress` is True for a bar, or called with how many sources are done, and of how many."""
        assert callable(progress)  # by `takes_progress`
        request = RecommendRequest(k, at, among, exclude_met, active_since, exact, relation)
        return self.answerer.recommendations(self, sources(self, src, relation, at), request, progress)

    def explain(
        self,
        src: Any,
        dst: Any = None,
        at: Any = None,
        *,
        given: Mapping[str, Any] | None = None,
        relation: Any = None,
        steps: int = 3,
        limit: int = 5,
    ) -> Explanation:
        """Explain an answer: the contacts, walks and known facts behind it, and the answer without each.

        Args:
            src, dst: ids; of a run that asks about a node, that node alone.
            given: of a run that predicts a column, the columns that are known when it is asked, by name.
            relation: of a run with relations, by which the two meet; ^ before it is its inverse.
            steps: longest walks that are listed, 1 to 3.
            limit: how many reasons of each kind.
        """
        return self.explaining(src, dst, at, given, relation, steps, limit)()

    def explaining(
        self,
        src: Any,
        dst: Any = None,
        at: Any = None,
        given: Mapping[str, Any] | None = None,
        relation: Any = None,
        steps: int = 3,
        limit: int = 5,
    ) -> Callable[[], Explanation]:
        """`explain` in two parts: a copy of what it needs, and a function that computes the rest in any thread, while
        others observe."""
        from pintgn.live.questions import explaining

        return explaining(self, src, dst, at, given, relation, steps=steps, limit=limit)

    def embed(
        self, ids: Iterable[Any] | None = None, at: Any = None, side: str = "src"
    ) -> tuple[list[Any], np.ndarray]:
        """Embeddings (n, d) of nodes as of a time, and their ids; of all nodes by default.

        `side` says which of two nodes is meant where sources and destinations are named apart.
        """
        from pintgn.live.embeddings import embed

        return embed(self, ids, at, side)

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
        an id that was never seen, `no events` for a node that has met nobody yet; empty for most. `ids` may be `"all"`;
        `progress` is True for a bar, or called with how many nodes are done, and of how many.

        >>> import pintgn
        >>> log = pintgn.simulate("shop", events=400, seed=0)
        >>> live = pintgn.open(pintgn.fit("tgat", log, epochs=1))
        >>> table = live.embed_many([log.id(log.src[0]), "nobody"]).read_all()
        >>> table.column_names, table["notes"].to_pylist()
        (['id', 'embedding', 'notes'], ['', 'unknown'])
        """
        from pintgn.live.embeddings import embed_many

        return embed_many(self, ids, at, side, progress)

    # -- in numbers --------------------------------------------------------------------------------------------------

    def time_of(self, at: Any = None) -> Any:
        """A user's time in the log's count; right after the newest event if None."""
        if at is not None:
            return self.codec.time(at)
        clock = np.asarray(self.stream.clock, self.codec.dtype)
        return clock + 1 if clock.dtype.kind == "i" else np.nextafter(clock, np.inf)

    # -- for a service -----------------------------------------------------------------------------------------------

    def skip_to(self, number: int) -> None:
        """Continue after an event that is lost; the numbers of the others do not change."""
        self.total = max(self.total, number)

    def reader(self) -> Live:
        """A view of this state for queries from another thread, while nothing is observed."""
        view = copy.copy(self)
        view.stream = self.stream.reader()
        view.answerer = copy.copy(self.answerer)
        view.answerer.stream = view.stream
        if not hasattr(self._of_thread, "numbering"):
            self._of_thread.numbering = view.stream._numbering
        view.stream._numbering = self._of_thread.numbering
        return view

    def snapshot(self) -> Snapshot:
        """A copy of everything that the run does not determine; it can be written later."""
        from pintgn.live.snapshot import Snapshot

        return Snapshot.of(self)
