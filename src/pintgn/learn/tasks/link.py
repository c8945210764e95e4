"""Link prediction: events are classified against negatives, and destinations are ranked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog, Query
from pintgn.learn import paper
from pintgn.learn.calibration import Calibration, expected_error, next_slope
from pintgn.learn.measure import (
    Compared,
    compare,
    evenly,
    observe_log,
    rank_part,
    ranked_in_part,
    score_part,
    train_baseline,
)
from pintgn.learn.metrics import Metrics, Scores
from pintgn.learn.negatives import (
    KINDS,
    QUESTION,
    Candidates,
    Drawn,
    Negatives,
    current_destination,
    draw,
    draw_each,
    earlier_pairs,
    is_event,
    random_destination,
)
from pintgn.learn.settings import CHOOSE_BY, Training
from pintgn.learn.tasks.task import Groups, Labels, Measurement, Sampler, Task
from pintgn.models.base import Model, eval_mode
from pintgn.models.registry import model_class
from pintgn.positions.capacity import give_back
from pintgn.stream import Stream
from pintgn.stream.core import PAIRS_AT_ONCE

if TYPE_CHECKING:
    from pintgn.learn.run import Run

NEXT_EVENTS, NEXT_AMONG = 500, 100
"""Newest events of validation by which `next_slope` is fitted, and the destinations that each is ranked among."""
HEURISTICS = ("edgebank", "heuristic")
"""Training-free rows of links, in every result."""
AGAINST = 3
"""Negatives of each kind, random and popular now, that an event is ranked against in training."""
RANKED, AMONG = 1_000, 1_000
"""Events of validation, evenly taken, and destinations that each is ranked among, where an epoch is chosen by MRR."""
ONE_SCORE = ", one score"
"""Name of the row that scores every kind of negatives against anyone; the main row scores each by its own question."""


class Link(Task):
    """Will these two meet? Events are classified against random destinations and, by a second logit, earlier pairs."""

    scores_links = True
    tells_from_negatives = True
    loss_terms = 2  # of events and of negatives
    baselines: tuple[str, ...] = HEURISTICS
    choices: tuple[str, ...] = CHOOSE_BY

    def sampler(self, run: Run, negatives: Negatives | None) -> Sampler:
        parts, settings = run.parts, run.settings.train
        each = settings.negatives_per_event
        random: Negatives = negatives or random_destination(parts.train)
        historical = [earlier_pairs(parts.trained)] if len(run.model.questions) > 1 else []
        if settings.purpose != "ranking":
            draws = [random] * each + historical
            return lambda events, rng: ([events.query, *(draw(events, rng) for draw in draws)], None)
        each = each if run.model.learns_at_once else max(each, AGAINST)  # whose rows are all held in memory

        def sample(events: EventLog, rng: np.random.Generator) -> tuple[list[Query], Labels]:
            ranked = [draw(events, rng) for draw in [random] * each + [current_destination] * each]
            happened = np.stack([is_event(query, events) for query in ranked], 1)
            return [events.query, *ranked, *(draw(events, rng) for draw in historical)], happened

        return sample

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        if settings.purpose != "ranking":
            return link_loss(answers[0], answers[1:], settings)
        return ranking_loss(answers, labels, settings)

    def chosen_by(self, settings: Training) -> str:
        return "mrr" if settings.purpose == "ranking" else super().chosen_by(settings)

    def learn_at_once(self, model: Model, columns: list[Tensor], labels: list[Labels], seed: int) -> None:
        model.learn(columns, seed)

    def validate(self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None) -> Groups:
        val = run.parts.val
        stream = run.new_stream() if run.settings.train.protocol == "paper" else after_training()
        figures = self._figures(run, stream, val, negatives)
        if run.settings.train.purpose != "ranking":
            return figures
        events = val.scored_events
        only = evenly(len(events), RANKED)
        among, new = Candidates(run.parts.until(val), val, AMONG, run.seed), run.parts.is_new(events)[only]
        ranked = rank_part(after_training(), val, among, new, None, only)
        return {group: {"mrr": ranked[group].get("mrr")} | found for group, found in figures.items()}

    def measure(self, run: Run, after_training: Callable[[], Stream], test: bool, negatives: Any = None) -> Stream:
        parts = run.parts
        drawn = drawn_for(run, parts.val, negatives, run.model.questions)  # takes memory itself, so it comes first
        stream = after_training()
        calibrate(run, stream, drawn)
        del drawn
        give_back()
        if not test:
            stream.observe(parts.test)
            return stream
        found = compare_part(stream, run, parts.test, negatives)
        assert run.calibration is not None
        run.calibration_error = expected_error(run.calibration, found.scores["random"])
        run.test = found.figures["random"]
        if run.settings.train.protocol == "paper":
            run.test = self._figures(run, run.new_stream(), parts.test, negatives)
        return stream

    def measure_baselines(self, run: Run, negatives: Negatives | None) -> None:
        parts, test = run.parts, run.parts.test
        as_paper = run.settings.train.protocol == "paper"
        known = None if as_paper else run.stream.history  # of the whole log: the same contacts and features
        observed = parts.trained if as_paper else parts.before(test)
        for name in self.baselines:
            if name != run.settings.name:
                stream = self.baseline_stream(name, run, parts, run.schema, observed, known)
                run.heuristics[name] = self._figures(run, stream, test, negatives)

    @staticmethod
    def _figures(run: Run, stream: Stream, part: EventLog, negatives: Negatives | None) -> Groups:
        """Figures against random negatives, by the run's protocol; the papers' may begin with an empty stream."""
        if run.settings.train.protocol != "paper":
            return compare_part(stream, run, part, negatives).figures["random"]
        if not stream.events:
            stream.observe(run.parts.trained)
        figures = paper.measure(stream, run.parts, part, [negatives or "random"], run.seed).figures
        return next(iter(figures.values()))

    def evaluate(self, run: Run, how: Measurement) -> dict[str, Any]:
        """AP and AUC against each kind of negatives, and ranks."""
        kinds, rank = _kinds(how.negatives, how.rank), how.rank
        name, as_paper = run.settings.name, how.protocol == "paper"
        events, parts, on_batch, observing = how.events, how.parts, how.on_batch, "observing what came before"
        before, new = parts.before(events), parts.is_new(events.scored_events)
        only = np.ones(len(new), bool) if as_paper else evenly(len(new), how.most)
        new, of_events = new[only], len(new)
        population = parts.log if as_paper else parts.until(events)  # the papers draw from the whole log
        drawn = draw_each(kinds, population, events, how.seed, before, only)
        rows: dict[str, dict[str, dict[str, Metrics]]] = {}
        found = None
        if how.progress is not None:
            how.progress(0, len(before), observing)
        if as_paper:
            trained = run.new_stream()
            observe_log(trained, parts.trained, on_batch(observing, parts.trained))
            found = paper.measure(trained, parts, events, kinds, how.seed) if kinds else None
        ready = how.ready(on_batch(observing, before))
        moved = ready  # through the events, as soon as the run has been measured
        if not as_paper and kinds:
            moved = ready if rank is None else ready.fork()
            found = compare(moved, events, drawn, new, on_batch(name), only)
        if found is not None:
            rows |= {name: found.figures, name + ONE_SCORE: found.one_score}
        others = self._others(run, how, lambda: None if as_paper else moved.history)
        for other, stream_after in others.items() if kinds else ():
            if as_paper:
                rows[other] = paper.measure(stream_after(parts.trained), parts, events, kinds, how.seed).figures
            else:
                rows[other] = compare(stream_after(before), events, drawn, new, on_batch(other), only).figures
        by_kind = {kind: {model: of[kind] for model, of in rows.items() if kind in of} for kind in drawn}
        measured: dict[str, Any] = {"negatives": by_kind, "events": int(only.sum()), "of_events": of_events}
        measured["fallback"] = {kind: d.fallback_fraction for kind, d in drawn.items()}
        if rank is not None:
            among = Candidates(population, events, rank, how.seed)
            every = {name: lambda before: ready, **others}
            ranking = {
                other: rank_part(stream_after(before), events, among, new, on_batch(f"{other}, ranking"), only)
                for other, stream_after in every.items()
            }
            measured |= {"ranking": ranking, "candidates": among.count}
        return measured

    def _others(self, run: Run, how: Measurement, known: Callable[[], Any]) -> dict[str, Callable[[EventLog], Stream]]:
        """For each baseline a function that gives its stream after some events; one that learns is trained now. `known`
        gives a history that holds all measured events, so that they are observed once."""
        found: dict[str, Callable[[EventLog], Stream]] = {}
        for name in (other for other in how.baselines if other != run.settings.name):
            if model_class(name).forward is Model.forward:
                raise BadInput(f"{name} does not score links, so it cannot be a baseline of {run.settings.name}.")
            if name in HEURISTICS:
                found[name] = lambda before, name=name: self.baseline_stream(  # type: ignore[misc]
                    name, run, how.parts, how.schema, before, known()
                )
            else:
                found[name] = train_baseline(run, name, how.progress, how.part == "later").stream_after
        return found

    def baseline(self, name: str) -> Model:
        return model_class(name)()

    def title(self) -> str:
        return "random negatives"

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        return {"logit": answers}


# -- the loss --------------------------------------------------------------------------------------------------------


def link_loss(yes: Tensor, no: list[Tensor], settings: Training) -> Tensor:
    """The loss of events with logits `yes` against random negatives and, where the model answers two questions, a
    historical one, which comes last. Logits are (q,), or (q, 2): against anyone, against known ones.

    Cross-entropy of three classes: event, random negative, historical negative, each with the same weight, however many
    negatives there are. A logit is how much likelier a row is an event than a negative of that kind, so the classes
    have log-likelihoods 0, -z_anyone, -z_known (up to a constant). With one question it is binary cross-entropy.
    """
    yes, *no = (z[:, None] if z.ndim == 1 else z for z in (yes, *no))
    random, historical = no[: settings.negatives_per_event], no[settings.negatives_per_event :]
    loss = _total(yes).mean() + _missed(torch.cat(random), 0)
    for z in historical:
        loss = loss + _missed(z, 1)
    return loss


def ranking_loss(answers: list[Tensor], happened: np.ndarray, settings: Training) -> Tensor:
    """Cross-entropy of an event among its negatives, half random and half popular now, without those that `happened`
    (q, negatives); plus `link_loss` against the random ones, which makes logits probabilities."""
    each = happened.shape[1] // 2
    first = torch.stack([z if z.ndim == 1 else z[:, 0] for z in answers[: 1 + 2 * each]], 1)  # (q, 1 + negatives)
    others = first[:, 1:].masked_fill(torch.from_numpy(happened).to(first.device), -torch.inf)
    ranked = torch.logsumexp(torch.cat([first[:, :1], others], 1), 1) - first[:, 0]
    random, historical = answers[1 : 1 + each], answers[1 + 2 * each :]
    plain = dataclasses.replace(settings, negatives_per_event=each)
    return ranked.mean() + link_loss(answers[0], [*random, *historical], plain)


def _total(z: Tensor) -> Tensor:  # (q,)
    """-log P(event): the log of 1 + exp(-z) summed over the kinds of negatives."""
    return softplus(torch.logsumexp(-z, 1))


def _missed(z: Tensor, kind: int) -> Tensor:
    """-log P(a negative of this kind), on average."""
    return (_total(z) + z[:, kind]).mean()


# -- figures and calibration -----------------------------------------------------------------------------------------


def compare_part(
    stream: Stream, run: Run, part: EventLog, negatives: Negatives | None = None, questions: Sequence[str] = ("anyone",)
) -> Compared:
    """Compare a part's events with negatives that are the same for every model and epoch: random ones and, for a model
    with two questions, historical ones; the stream moves through it."""
    drawn = drawn_for(run, part, negatives, questions)
    return compare(stream, part, drawn, run.parts.is_new(part.scored_events))


def drawn_for(
    run: Run, part: EventLog, negatives: Negatives | None = None, questions: Sequence[str] = ("anyone",)
) -> dict[str, Drawn]:
    """Negatives of a part for `compare_part`."""
    parts, kinds = run.parts, {"random": negatives or "random"}
    if "known" in questions:
        kinds["historical"] = "historical"
    return {name: draw(kind, parts.until(part), part, run.seed, parts.before(part)) for name, kind in kinds.items()}


def calibrate(run: Run, stream: Stream, drawn: dict[str, Drawn]) -> None:
    """Fit the calibration of logits on the validation part, through which the stream moves once: its newest events are
    scored and ranked in the same pass, so that no second stream is needed."""
    val, model = run.parts.val, run.model
    earlier, newest = _newest(val)
    queries = [val.scored_events.query, *(one.query for one in drawn.values())]
    done = len(earlier.scored_events)
    found = [score_part(stream, earlier, [query[:done] for query in queries])] if len(earlier) else []
    among, first, ranked = Candidates(run.parts.until(val), newest, NEXT_AMONG, run.seed), done, []
    with eval_mode(model):
        for batch in newest.batches(max(1, PAIRS_AT_ONCE // (among.count + 1))):
            events = batch.scored_events
            end = done + len(events)
            others, valid = among(done - first, end - first)
            wide = np.concatenate([events.dst[:, None], others], 1)
            asked = events.query[np.repeat(np.arange(len(events)), wide.shape[1])].toward(wide.ravel())
            *scores, z = stream.replay(batch, [*(query[done:end] for query in queries), asked])
            found.append([one.numpy(force=True) for one in scores])
            ranked.append((model.answer(z, "anyone").numpy(force=True).reshape(wide.shape), valid))
            done = end
    positive, *negative = (np.concatenate(column) for column in zip(*found, strict=True))
    calibrations = [
        Calibration.of(Scores(model.answer(positive, against), model.answer(z, against)))
        for z, against in zip(negative, (QUESTION.get(kind, "anyone") for kind in drawn), strict=True)
    ]
    run.calibration, run.calibration_known = calibrations[0], (*calibrations, None)[1]
    run.next_slope = next_slope(*(np.concatenate(column) for column in zip(*ranked, strict=True)))


def _newest(val: EventLog) -> tuple[EventLog, EventLog]:
    """The validation part before and from the newest events on, which `next_slope` is fitted on."""
    begin = int(val.group_starts[np.searchsorted(val.group_starts, max(len(val) - NEXT_EVENTS, 0), "right") - 1])
    return val[:begin], val[begin:]


def fit_next_slope(stream: Stream, run: Run) -> float:
    """Fit the slope of `next_probabilities` on the newest events of validation; the stream, which has observed the
    training part, is used up."""
    val = run.parts.val
    earlier, newest = _newest(val)
    stream.observe(earlier)
    among = Candidates(run.parts.until(val), newest, NEXT_AMONG, run.seed)
    ranked = list(ranked_in_part(stream, newest, among))
    return next_slope(*(np.concatenate(column) for column in zip(*ranked, strict=True)))


def _kinds(negatives: Any, rank: Any) -> list[str | Negatives]:
    if negatives is None:
        return [] if rank is not None else ["random"]
    kinds = list(negatives) if isinstance(negatives, list | tuple) else [negatives]
    for kind in kinds:
        if not callable(kind) and kind not in KINDS:
            raise UnknownName(f"there are no negatives called {kind!r}.{suggest(kind, KINDS)}")
    return kinds
