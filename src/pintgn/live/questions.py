"""Questions in users' own ids: the query in numbers, given columns, and how answers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.explain.answer import Explanation
from pintgn.explain.counterfactuals import Frozen
from pintgn.explain.question import (
    Answer,
    Given,
    Question,
    Relation,
    average_value,
    class_answers,
    count_classes,
    link_question,
    value_answers,
)
from pintgn.explain.reasons import explain
from pintgn.ingest.encode import encode_features
from pintgn.live.answerer import PairScores, too_late
from pintgn.live.nodes import note_words

if TYPE_CHECKING:
    from pintgn.live.live import Live


def score_pairs(live: Live, src: Sequence[Any], dst: Sequence[Any], at: Any, against: str, relation: Any) -> PairScores:
    """See `Live.score_pairs`."""
    check_links(live, against)
    one, other, by = numbers(live, src, dst, relation)
    logits = live.answerer.scores(Query(one, other, _times(live, at, len(one)), by), against)
    known = len(live.names.ids)
    noted = note_words(one >= known, other >= known, live.run.unfinished)
    return PairScores(logits, live.calibrations[against](logits), noted)


def ask(live: Live, src: Sequence[Any], dst: Sequence[Any], given: Sequence[Any] | None, at: Any) -> dict[str, Any]:
    """See `Live.ask`."""
    if live.run.settings.task.scores_links:
        raise BadInput("this run predicts links; ask live.score, live.probability or live.predict.")
    one, other, _ = numbers(live, src, dst)
    query = live.task.asked(one, other, _times(live, at, len(one)), given_columns(live, given, len(one)))
    found = live.answerer.answers(query)
    shaped = found.reshape(len(query), -1) if len(query) else np.zeros((0, live.model.answer_shape(0)[-1]))
    return live.task.shown(live.task.calibrated(shaped, live.run.answer_calibration))


def check_links(live: Live, against: str = "anyone") -> None:
    """Refuse a question about links that this run does not answer."""
    if not live.task.scores_links:
        column = live.run.settings.task.predict
        raise BadInput(f"this run predicts {column!r}, not links. Ask `pintgn predict`, live.predict or live.ask.")
    if against not in live.model.questions:
        can = " or ".join(map(repr, live.model.questions))
        hint = " Train with --set model.historical=true to ask that." if against == "known" else ""
        raise BadInput(f"against={against!r}; this run answers against {can}.{hint}")


def numbers(
    live: Live, src: Sequence[Any], dst: Sequence[Any], relation: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Node numbers of both ends of questions, and the relation of each as the model is given it."""
    by = None if relation is None and live.run.settings.task.relation is None else live.task.by(relation, len(src))
    inverted = None if by is None else live.task.inverted(by, len(src))
    return *live.names.find_pairs(live.codec.ids(src), live.codec.ids(dst), inverted), by


def notes(live: Live, src: Sequence[Any], dst: Sequence[Any]) -> list[str]:
    """Notes on questions about a column: ids that were never seen, of the ends that are asked about."""
    sides = (0,) if live.schema.alone else live.run.settings.task.sides
    unknown = [
        np.array([side in sides and id not in live.names.numbers[side] for id in ids], bool)
        for side, ids in enumerate((src, dst))
    ]
    return note_words(unknown[0], unknown[1], live.run.unfinished)


def _times(live: Live, at: Any, count: int) -> np.ndarray:
    """The time of each question: an array in the log's count, or one time for all."""
    return at if isinstance(at, np.ndarray) else np.full(count, live.time_of(at), live.codec.dtype)


def explaining(
    live: Live,
    src: Any,
    dst: Any,
    at: Any,
    given: Mapping[str, Any] | None,
    relation: Any,
    **options: Any,
) -> Callable[[], Explanation]:
    """See `Live.explaining`; options are those of `pintgn.explain.explain`."""
    one, other, names = _ends(live, src, dst, relation)
    when = live.time_of(at)
    question = question_about(live, one, other, when, given, relation)
    try:
        frozen = Frozen.of(live.stream, when)
    except StaleQuery:
        raise too_late(live.stream) from None
    name = live.names.ids.__getitem__
    return partial(explain, frozen, one, other, when, name=name, names=names, question=question, **options)


def _ends(live: Live, src: Any, dst: Any, relation: Any) -> tuple[int, int, tuple[Any, Any]]:
    """The numbers of two ends, or twice that of the one node that is asked about, and their ids."""
    sides = live.run.settings.task.sides
    if len(sides) == 1:
        id = live.codec.id(dst if sides[0] == 1 and dst is not None else src)
        node = int(live.names.find([id], sides[0])[0])
        return node, node, (id, id)
    if dst is None:
        raise BadInput(f"this run asks about two nodes, a {live.schema.src} and a {live.schema.dst}. Name both.")
    names = live.codec.id(src), live.codec.id(dst)
    one, other, _ = numbers(live, [names[0]], [names[1]], relation)
    return int(one[0]), int(other[0]), names


def question_about(
    live: Live, src: int, dst: int, at: Any, given: Mapping[str, Any] | None, relation: Any = None
) -> Question:
    """The question about two nodes (the same twice if the task is about one), for `explain`."""
    task, run = live.task, live.run
    ends, when, by = (np.array([src]), np.array([dst])), np.array([at], live.codec.dtype), task.by(relation, 1)
    if run.settings.task.scores_links:
        if given:
            raise BadInput("this run scores links, about which nothing is given. Leave out given.")
        named = None if by is None else Relation(int(by[0, 0]), task.worded)
        return link_question(Query(*ends, when, by), live.model, live.calibration, named)
    row = given_columns(live, None if given is None else [given], 1)
    name, labels = task.settings.predict, task.labels

    def calibrated(outputs: np.ndarray) -> np.ndarray:
        return task.calibrated(outputs.reshape(len(outputs), -1), run.answer_calibration)

    def read(outputs: np.ndarray) -> list[Answer]:
        found = calibrated(outputs)
        return value_answers(found, name) if labels is None else class_answers(found, labels)

    def describe_targets(late: np.ndarray) -> str:
        truth = task.truth_of(late)
        return average_value(truth, name) if labels is None else count_classes(truth, labels)

    def columns(outputs: np.ndarray) -> dict[str, Any]:
        return {column: np.asarray(found).tolist()[0] for column, found in task.shown(calibrated(outputs)).items()}

    return Question(
        task.asked(*ends, when, row),
        read,
        name if labels is None else "logit",
        describe_targets,
        columns,
        run.settings.task.sides,
        _given(live, given or {}),
    )


def given_columns(live: Live, given: Sequence[Any] | None, count: int) -> np.ndarray | None:  # (q, g)
    """Given columns of questions as the model reads them."""
    names, used = live.run.settings.task.given, live.run.deployed
    asking, bare = live.stream.schema.asking, used.task.without_target(live.run.log[:0]).schema
    assert asking is not None
    if given is None and asking.given and count:
        listed = ", ".join(names)
        raise BadInput(
            f"this run is told {listed} with every question: say what it is, by given= (--given NAME=VALUE)."
        )
    rows = [None] * count if given is None else list(given)
    if len(rows) != count:
        raise BadInput(f"given has {len(rows)} rows for {count} events.")
    schema = Schema(features=tuple(feature for feature in bare.features if feature.name in names))
    encoded = encode_features(rows, None, count, schema, wide=[one for one in names if one in live.codec.wide])
    if encoded is None or not asking.given:
        return None
    starts = np.cumsum([0, *(feature.width for feature in bare.features)])
    whole, begin = np.zeros((count, bare.feature_width), encoded.dtype), 0
    for feature, start in zip(bare.features, starts[:-1], strict=True):
        if feature.name in names:
            whole[:, start : start + feature.width] = encoded[:, begin : begin + feature.width]
            begin += feature.width
    return used.scaling.event_features(whole)[:, list(asking.given)]


def _given(live: Live, given: Mapping[str, Any]) -> tuple[Given, ...]:
    """Given columns as text, with their indices in the query."""
    schema = live.stream.schema
    assert schema.asking is not None
    owner = [feature.name for feature in schema.features for _ in range(feature.width)]
    found = []
    for name in live.run.settings.task.given:
        columns = tuple(k for k, column in enumerate(schema.asking.given) if owner[column] == name)
        if columns:
            found.append(Given(f"{name} is {given.get(name)}", columns))
    return tuple(found)
