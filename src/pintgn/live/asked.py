"""A run's question: what is given with it, and how explanations take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.encode import encode_features
from pintgn.events.schema import Schema
from pintgn.explain.asked import Asked, By, Given, asked_link

if TYPE_CHECKING:
    from pintgn.live.answers import Answers


def asked_about(
    live: Answers, src: int, dst: int, at: Any, given: Mapping[str, Any] | None, relation: Any = None
) -> Asked:
    """The question about two nodes (or one, twice), with what is given, and how its task tells answers."""
    task, run = live.task, live.run
    when, by = np.array([at], live.codec.dtype), live.task.by(relation, 1)
    if run.settings.task.scores_links:
        if given:
            raise BadInput("this run scores links, about which nothing is given. Leave out given.")
        told = None if by is None else By(int(by[0, 0]), task.worded)
        return asked_link(src, dst, when, live.model, live.calibration, told)
    row = given_columns(live, None if given is None else [given], 1)
    query = task.asked(np.array([src]), np.array([dst]), when, row)

    def calibrated(answers: np.ndarray) -> np.ndarray:
        return task.calibrated(answers.reshape(len(answers), -1), run.answer_calibration)

    def facts(answers: np.ndarray) -> dict[str, Any]:
        return {name: np.asarray(column).tolist()[0] for name, column in task.shown(calibrated(answers)).items()}

    return Asked(
        query,
        lambda answers: task.told(calibrated(answers)),
        task.told_known,
        task.measure,
        run.settings.task.sides,
        _told_given(live, given or {}),
        facts,
    )


def given_columns(live: Answers, given: Sequence[Any] | None, count: int) -> np.ndarray | None:  # (q, g)
    """What is known when events are asked about, as the model reads it."""
    names, used = live.run.settings.task.given, live.run.deployed
    asking, bare = live.stream.schema.asking, used.task.bare(live.run.log[:0]).schema
    assert asking is not None
    if given is None and asking.given and count:
        listed = ", ".join(names)
        raise BadInput(
            f"this run is told {listed} with every question: say what it is, by given= (--given NAME=VALUE)."
        )
    told = [None] * count if given is None else list(given)
    if len(told) != count:
        raise BadInput(f"given has {len(told)} rows for {count} events.")
    schema = Schema(features=tuple(feature for feature in bare.features if feature.name in names))
    encoded = encode_features(told, None, count, schema, wide=[one for one in names if one in live.codec.wide])
    if encoded is None or not asking.given:
        return None
    starts = np.cumsum([0, *(feature.width for feature in bare.features)])
    whole, begin = np.zeros((count, bare.feature_width), encoded.dtype), 0
    for feature, start in zip(bare.features, starts[:-1], strict=True):
        if feature.name in names:
            whole[:, start : start + feature.width] = encoded[:, begin : begin + feature.width]
            begin += feature.width
    return used.scaling.event_features(whole)[:, list(asking.given)]


def _told_given(live: Answers, given: Mapping[str, Any]) -> tuple[Given, ...]:
    """What is given in words, and which of the question's given columns it fills."""
    schema = live.stream.schema
    assert schema.asking is not None
    owner = [feature.name for feature in schema.features for _ in range(feature.width)]
    found = []
    for name in live.run.settings.task.given:
        columns = tuple(k for k, column in enumerate(schema.asking.given) if owner[column] == name)
        if columns:
            found.append(Given(f"{name} is {given.get(name)}", columns))
    return tuple(found)
