"""Links by relation: destinations ranked given source, relation and time, and sources by the inverse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Asking, Feature, Schema
from pintgn.learn.measure import OnBatch
from pintgn.learn.metrics import by_novelty, rank_metrics
from pintgn.learn.negatives import Negatives
from pintgn.learn.protocol import Parts
from pintgn.learn.relation_ranks import Score, both_directions, entities, filtered_ranks
from pintgn.learn.settings import TaskSettings, Training
from pintgn.learn.tasks.link import Link, compare_part, link_loss
from pintgn.learn.tasks.task import Groups, Labels, Measurement, Sampler, Task, as_tensor
from pintgn.learn.tasks.values import column_values, column_words
from pintgn.models.base import Model
from pintgn.models.recurrency import ROWS, Recurrency
from pintgn.stream import Stream
from pintgn.stream.history import History

if TYPE_CHECKING:
    from pintgn.learn.run import Run

MOST_RELATIONS = 10_000
"""Of a column; with more it is an id, of which nothing could be learned."""
DRAWN = 4
"""Negatives of each kind for a question in training, where `negatives_per_event` does not say more."""
RANKED_PAIRS = 4_000_000
"""Pairs scored to rank validation events after an epoch, and test events at the end; `evaluate` ranks all."""
CHOSEN_BY = 1_000
"""Validation events by which the recurrency baseline is set."""
GRID = (
    (1.0, 0.0),
    (0.0, 1.0),
    (1.0, 1.0),
    *((decay, trust) for decay in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0) for trust in (0.5, 0.9, 0.99, 0.999, 0.99999)),
)
"""λ and α that are tried; where only one of ψ and ξ counts, λ decides at most whether age does."""
FEW = 20
"""Questions below which a relation takes what suits all relations together."""


class Related(Link):
    """Links by relation: destinations given a source, a relation and a time; by the inverse relation, sources given a
    destination.

    Args:
        settings: which column.
        log: all of it, for the users' words.
        train: the training part, which decides which relations are known.
    """

    baselines = ROWS
    choices = ("mrr",)
    tells_from_negatives = False
    loss_terms = 3

    def __init__(self, settings: TaskSettings, log: EventLog, train: EventLog):
        super().__init__(settings, log, train)
        assert settings.relation is not None
        self.column: str = settings.relation
        schema = train.schema
        for role, column in (("source", schema.src), ("destination", schema.dst), ("time", schema.t)):
            if self.column == column:
                raise BadInput(f"{self.column!r} is the {role} of every event, not a relation. Name another column.")
        values = column_values(train, self.column, "of relations")
        met = values[~np.isnan(values) & train.learnable]
        self.codes = np.unique(met)
        if not len(met):
            raise BadInput(f"no event of the training part has a {self.column!r}: there are no relations to learn.")
        if len(self.codes) > MOST_RELATIONS:
            raise BadInput(
                f"{self.column!r} has {len(self.codes):,} values in training; at most {MOST_RELATIONS:,} relations "
                "can be told apart. Is it the right column?"
            )
        words, values = column_words(log, self.column), column_values(log, self.column)
        there = values[~np.isnan(values)]
        named = np.unique(there).tolist()
        self.known = {str(words[int(code)] if words is not None else shortest(code)): code for code in named}
        """The relations of the whole log, as users write them."""
        self.newest = next(word for word, code in self.known.items() if code == there[-1])

    @property
    def kinds(self) -> int:
        """How many relations there are, with 0, which is none of them."""
        return 1 + len(self.codes)

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """From 1 on; 0 where a relation is missing or was not met in training."""
        at = np.minimum(np.searchsorted(self.codes, np.nan_to_num(values, nan=-1)), len(self.codes) - 1)
        return np.where(self.codes[at] == values, 1 + at, 0)

    def number(self, word: Any) -> int:
        """The number of a relation as users write it; ^ before it is its inverse, as in SPARQL. One that occurs only
        after the training part is 0."""
        if isinstance(word, str) and word.startswith("^"):
            return self.kinds + self.number(word[1:])
        if str(word) not in self.known:
            raise UnknownName(f"there is no {self.column} {word!r}.{suggest(str(word), self.known)} {self._listed()}")
        return int(self.numbers(np.array([self.known[str(word)]]))[0])

    def worded(self, number: int) -> str:
        """A number as users write the relation; where that is a number, too, with the column's name before it."""
        if number >= self.kinds:
            return f"^{self.worded(number - self.kinds)}"
        if not number:
            return "an unknown relation"
        word = next(word for word, code in self.known.items() if code == self.codes[number - 1])
        return f"{self.column} {word}" if word.lstrip("-").replace(".", "", 1).isdigit() else word

    @property
    def asked_by(self) -> dict[str, Any] | None:
        return {"name": self.column, "words": list(self.known), "newest": self.newest}

    def _listed(self) -> str:
        return f"There are: {', '.join(list(self.known)[:10])}{', …' if len(self.known) > 10 else ''}."

    def by(self, relation: Any, count: int) -> np.ndarray | None:
        if relation is None:
            which = "say which, with relation= (--relation)"
            raise BadInput(f"this run asks by {self.column!r}: {which}. {self._listed()}")
        several = isinstance(relation, Sequence | np.ndarray) and not isinstance(relation, str | bytes)
        words = list(relation) if several else [relation] * count
        if len(words) != count:
            raise BadInput(f"{len(words)} relations for {count} questions.")
        numbers = {word: self.number(word) for word in dict.fromkeys(words)}
        return np.array([numbers[word] for word in words], np.float32).reshape(-1, 1)

    def inverted(self, by: np.ndarray | None, count: int) -> np.ndarray:
        return np.zeros(count, bool) if by is None else by[:, 0] >= self.kinds

    # -- how the log is read ---------------------------------------------------------------------------------------

    def target(self, log: EventLog) -> np.ndarray:
        return self.numbers(column_values(log, self.column))[:, None]

    def schema(self, schema: Schema) -> Schema:
        asking = Asking(0, (schema.feature_width,), relations=self.kinds)
        return dataclasses.replace(schema, features=(*schema.features, Feature(self.column)), asking=asking)

    # -- training --------------------------------------------------------------------------------------------------

    def sampler(self, run: Run, negatives: Negatives | None) -> Sampler:
        if negatives is not None:
            raise BadInput("a run with relations draws its own negatives. Leave them out.")
        earlier = EarlierAnswers(run.parts.trained)
        more = 1 if run.model.learns_at_once else DRAWN  # whose rows are all held in memory
        each = max(more, run.settings.train.negatives_per_event)
        return lambda events, rng: earlier.questions(events, each, rng)

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        """Of the answer among its negatives, by a softmax that corrects for how likely each was drawn; and that of
        links against random ones and earlier answers, which makes logits probabilities."""
        each = (len(answers) - 1) // 2
        first = torch.stack([z if z.ndim == 1 else z[:, 0] for z in answers], 1)  # (q, 1 + negatives)
        z = first - as_tensor(labels, first)
        ranked = (torch.logsumexp(z, 1) - z[:, 0]).mean()
        classified = answers[1 : 2 + each if answers[0].ndim > 1 else 1 + each]  # one earlier answer, if that is asked
        plain = dataclasses.replace(settings, negatives_per_event=each)
        return ranked + link_loss(answers[0], classified, plain)

    def learn_at_once(self, model: Model, columns: list[Tensor], labels: list[Labels], seed: int) -> None:
        each = (len(columns) - 1) // 2
        model.learn(columns[: each + len(model.questions)], seed)

    # -- measuring -------------------------------------------------------------------------------------------------

    def ranks(
        self,
        stream: Stream,
        part: EventLog,
        parts: Parts,
        most: int | None = None,
        on_batch: OnBatch = None,
        score: Score | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Filtered ranks (models, 2e) while the stream moves through a part, which of them touch a new node, and their
        relations; of so many events at most, evenly taken."""
        events = part.scored_events
        only = np.ones(len(events), bool)
        if most is not None and len(events) > most:
            only[:] = False
            only[np.linspace(0, len(events) - 1, most).astype(np.int64)] = True
        pools = entities(parts.until(part))
        found = filtered_ranks(stream, part, pools, score, only, on_batch)
        both = np.tile(only, 2)
        asked = both_directions(events).given
        assert asked is not None
        return found[:, both], np.tile(parts.is_new(events), 2)[both], asked[both, 0].astype(np.int64)

    def measured(
        self, stream: Stream, part: EventLog, parts: Parts, how: dict[str, float], most: int | None = None, *rest: Any
    ) -> Groups:
        found, new, _ = self.ranks(stream, part, parts, most, *rest)
        return by_novelty(found[0], new, rank_metrics)

    @staticmethod
    def affordable(part: EventLog, parts: Parts) -> int:
        """How many events of a part are ranked where that has to be done quickly."""
        forth, back = entities(parts.until(part))
        return max(100, RANKED_PAIRS // max(len(forth) + len(back), 1))

    def validate(self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None) -> Groups:
        return self._quickly_ranked(after_training(), run.parts.val, run.parts)

    def measure(self, run: Run, after_training: Callable[[], Stream], test: bool, negatives: Any = None) -> Stream:
        stream = super().measure(run, after_training, test, negatives)
        if test:
            test_part = run.parts.test
            ranked = self._quickly_ranked(run.stream_after(run.parts.before(test_part)), test_part, run.parts)
            run.test = _together(ranked, run.test)
        return stream

    def measure_baselines(self, run: Run, negatives: Negatives | None) -> None:
        parts = run.parts
        for name in self.baselines:
            stream = self.baseline_stream(name, run, parts, run.schema, parts.before(parts.test))
            classified = compare_part(stream.fork(), run, parts.test).figures["random"]
            run.heuristics[name] = _together(self._quickly_ranked(stream, parts.test, parts), classified)

    def _quickly_ranked(self, stream: Stream, part: EventLog, parts: Parts) -> Groups:
        return self.measured(stream, part, parts, {}, self.affordable(part, parts))

    def baseline(self, name: str) -> Model:
        return Recurrency(name)

    def baseline_stream(
        self, name: str, run: Run, parts: Parts, schema: Schema, observed: EventLog, known: History | None = None
    ) -> Stream:
        """A training-free row in a stream that has observed these events; the combined one is set by validation."""
        parts = parts if len(parts.val) else run.parts  # of later events none are for validation
        model = Recurrency(name)
        model.prepare(parts.trained)
        stream = Stream(model, schema, node_features=parts.log.node_features)
        if name == "recurrency" and len(parts.val):
            model.decay, model.trust = self._set_by_validation(parts, schema)
        stream.observe(observed)
        return stream

    def _set_by_validation(self, parts: Parts, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
        """λ and α of every relation and direction, with the best MRR on validation."""
        model = Recurrency("recurrency")
        model.prepare(parts.trained)
        stream = Stream(model, schema)
        stream.observe(parts.train)

        def score(query: Query, among: np.ndarray) -> Sequence[np.ndarray]:
            many = np.repeat(np.arange(len(query)), among.shape[1])
            inputs = stream.gather(None, [query[many].toward(among.ravel())], model.gather).inputs[0]
            met, age, share = model.parts(inputs)
            made = (trust * np.exp2(-decay * age) * met + (1 - trust) * share for decay, trust in GRID)
            return [one.reshape(among.shape) for one in made]

        found, _, relation = self.ranks(stream, parts.val, parts, CHOSEN_BY, score=score)
        mrr = np.array([(1 / found[:, relation == r]).mean(1) for r in range(2 * self.kinds) if (relation == r).any()])
        overall = (1 / found).mean(1).argmax()
        best = np.full(2 * self.kinds, overall)
        there = [r for r in range(2 * self.kinds) if (relation == r).any()]
        for r, values in zip(there, mrr, strict=True):
            if (relation == r).sum() >= FEW:
                best[r] = values.argmax()
        chosen = np.array(GRID)[best]
        return chosen[:, 0], chosen[:, 1]

    def evaluate(self, run: Run, how: Measurement) -> dict[str, Any]:
        if how.negatives is not None or how.rank not in (None, "all"):
            raise BadInput("a run with relations is ranked among all entities: leave out negatives and rank.")
        total = len(how.events.scored_events)
        found = Task.evaluate(self, run, dataclasses.replace(how, rank=None))
        return found | {"events": min(how.most, total), "of_events": total}

    def title(self) -> str:
        return f"who comes next by {self.column}, both ways, among all, filtered"


def _together(ranked: Groups, classified: Groups) -> Groups:
    """Ranks, with AP and AUC against random destinations, which a live stream is compared with."""
    return {group: ranked[group] | {name: classified[group][name] for name in ("ap", "auc")} for group in ranked}


def shortest(number: float) -> int | float:
    """A number without .0."""
    return int(number) if number.is_integer() else number


class EarlierAnswers:
    """The triples of a training part in both directions, from which negatives are drawn."""

    def __init__(self, log: EventLog):
        events = log.scored_events
        assert events.schema.relation is not None
        self.pools = entities(log)
        self.width, self.kinds = np.int64(max(log.nodes, 1)), np.int64(2 * events.schema.relation[1])
        self.times = np.unique(events.t)
        self.step = np.int64(len(self.times) + 1)
        query = both_directions(events)
        self.keys, triple = np.unique(self.triple(query), return_inverse=True)
        rank = np.searchsorted(self.times, query.t)
        self.at = np.unique(triple * self.step + rank)  # which triple holds at which time
        self.first = np.full(len(self.keys), len(self.times))  # when each first did
        np.minimum.at(self.first, triple, rank)
        order = np.lexsort((self.first, self.keys // self.width))
        self.answers = self.keys[order] % self.width  # to each question, the earliest first
        self.answered = self.keys[order] // self.width * self.step + self.first[order]

    def question(self, query: Query) -> np.ndarray:
        assert query.given is not None
        return query.src * self.kinds + query.given[:, 0].astype(np.int64)

    def triple(self, query: Query) -> np.ndarray:
        return self.question(query) * self.width + query.dst

    def questions(self, events: EventLog, each: int, rng: np.random.Generator) -> tuple[list[Query], np.ndarray]:
        """The questions of events, as many random and as many earlier answers to each, and for every one of them the
        logarithm of how often it is expected to be drawn; infinite where it is a true answer."""
        query = both_directions(events)
        question, rank = self.question(query), np.searchsorted(self.times, query.t)
        begin = np.searchsorted(self.answered, question * self.step)
        held = np.searchsorted(self.answered, question * self.step + rank) - begin  # answers strictly before
        sizes = np.repeat([len(pool) for pool in self.pools], len(events))
        asked = [query]
        for k in range(2 * each):
            dst = np.concatenate([pool[rng.integers(0, len(pool), len(events))] for pool in self.pools])
            if k >= each:
                drawn = np.minimum(begin + (rng.random(len(query)) * held).astype(np.int64), len(self.answers) - 1)
                dst = np.where(held > 0, self.answers[drawn], dst)
            asked.append(query.toward(dst))
        chance = np.empty((len(query), len(asked)), np.float32)
        for k, one in enumerate(asked):
            triple = self.triple(one)
            row = np.minimum(np.searchsorted(self.keys, triple), len(self.keys) - 1)
            known = self.keys[row] == triple
            often = each / sizes + np.where(held > 0, known & (self.first[row] < rank), 0) * each / np.maximum(held, 1)
            chance[:, k] = np.log(np.where(held > 0, often, 2 * each / sizes))
            if k:
                now = np.minimum(np.searchsorted(self.at, row * self.step + rank), len(self.at) - 1)
                chance[known & (self.at[now] == row * self.step + rank), k] = np.inf
        return asked, chance
