"""What is usual: every column from raw events, with ties, self-loops, late targets, deletions and both roles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pintgn import PINT, EventLog, Stream, check_model, fit, read_events
from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.schema import ADD, BITS, DELETE, Asking, Feature, Schema, TimeUnit
from pintgn.models.aggregates import (
    FAR,
    MOST_COLUMNS,
    MOST_TARGETS,
    NEWEST,
    ROOM,
    SHARE_OF_SPAN,
    WINDOWS,
    Aggregates,
    chosen_windows,
    summed_columns,
)
from pintgn.models.known_columns import DROPPED, FURTHEST, LEAST_OF_AGGREGATES, KnownColumns, Standardize

SPANS, UNIT = [5.0, 40.0], 10.0


def events(separate=False, op=None, seed=0, count=150):
    """A log whose last feature columns are a target, known up to 60 later; some are never known."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 6, count), rng.integers(6, 10, count) if separate else rng.integers(0, 6, count)
    t = np.sort(rng.integers(0, 200, count))
    paid, answer = rng.normal(size=(count, 2)), rng.normal(size=(count, 1))
    there = rng.random(count) < 0.8
    features = np.c_[paid, answer * there[:, None], there].astype(np.float32)
    if op is not None:
        features[op != ADD] = 0
    columns = tuple(Feature(name) for name in ("paid", "tip", "rating", "known"))
    schema = Schema(
        "customer", "shop", features=columns, separate_namespaces=separate, op=None if op is None else "op",
        asking=Asking(4, (1,), 2, values=True),
    )  # fmt: skip
    return EventLog(src, dst, t, features=features, op=op, known=t + rng.integers(0, 60, count), schema=schema)


def expected_columns(log, query, q):
    """The columns of one query, by their names, from raw events."""
    u, v, t, tip = query.src[q], query.dst[q], query.t[q], query.given[q, 0]
    plain = log.learnable
    paid = (log.t, log.features[:, :2].astype(np.float64), plain, ("paid", "tip"), "")
    rated = (
        log.known,
        log.features[:, 2:3].astype(np.float64),
        plain & (log.features[:, 3] > 0),
        ("rating",),
        "known ",
    )
    a, b = log.schema.src, log.schema.dst
    chains = {
        a: log.src == u, b: log.dst == v, f"{a} and {b}": (log.src == u) & (log.dst == v),
        "everyone": np.ones(len(log), bool), f"{a} as {b}": log.dst == u, f"{b} as {a}": log.src == v,
        f"{b} to {a}": (log.src == v) & (log.dst == u),
    }  # fmt: skip
    if log.schema.separate_namespaces:
        chains = {who: mine for who, mine in chains.items() if " as " not in who and " to " not in who}
    found = {}
    for when, values, there, names, what in (paid, rated):
        known = there & (when < t)
        usual = values[known].mean(0) if known.any() else np.zeros(len(names))
        usual_square = (values[known] ** 2).mean(0) if known.any() else np.zeros(len(names))
        for who, mine in chains.items():
            ever = known & mine
            age = t - when[ever].max() if ever.any() else np.inf
            for span, label in (*((s, f" of {s:g}") for s in SPANS), (np.inf, "")):
                some = ever & (when >= t - span)
                n, total = some.sum(), values[some].sum(0)
                mean = (total + usual) / (n + 1)
                deviation = np.sqrt(np.maximum(((values[some] ** 2).sum(0) + usual_square) / (n + 1) - mean**2, 0))
                found[f"{what}events of {who}{label}"] = np.log1p(n)
                found[f"recency of {what}events of {who}{label}"] = 2.0 ** -(age / min(span, 1e9 if label else UNIT))
                for k, name in enumerate(names):
                    found[f"{who}'s mean of {what}{name}{label}"] = mean[k]
                    found[f"{who}'s deviation of {what}{name}{label}"] = deviation[k]
                    found[f"{who}'s total of {what}{name}{label}"] = np.sign(total[k]) * np.log1p(abs(total[k]))
                if not what:
                    found[f"tip − {who}'s mean{label}"] = tip - mean[1]
                    far = (tip - mean[1]) / (deviation[1] + ROOM)
                    found[f"tip in deviations from {who}'s mean{label}"] = np.clip(far, -FAR, FAR)
            moments = np.unique(when[ever])
            for k in NEWEST:
                last = values[ever & np.isin(when, moments[-k:])].mean(0) if ever.any() else usual
                for at, name in enumerate(names):
                    text = f"{who}'s {what}{name}, mean of the last {k}" if k > 1 else f"{who}'s last {what}{name}"
                    found[text] = last[at]
    return found


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("batch", [1, 40, 1_000])
def test_every_column_is_what_raw_events_say(separate, deletions, batch):
    op = np.where(np.random.default_rng(3).random(150) < 0.2, DELETE, ADD) if deletions else None
    log = events(separate, op)
    columns = KnownColumns(log.schema, False, SPANS, UNIT)
    stream = Stream(PINT(dim=4, aggregates=True, windows=SPANS), log.schema)
    row = 0
    for some in log.batches(batch):
        given = np.random.default_rng(row).normal(size=(len(some), 1)).astype(np.float32) * 3
        query = Query(some.src, np.roll(some.dst, 1), some.t, given)
        gathered = stream.gather(some, [query], columns.look_up)
        found = np.concatenate([part for part in gathered.inputs if part is not None])
        for q in range(len(some)):
            expected = expected_columns(log[: row + len(some)], query, q)
            assert set(columns.names[columns.aggregated]) == set(expected)
            for name, value in zip(columns.names[columns.aggregated], found[q, columns.aggregated], strict=True):
                assert value == pytest.approx(expected[name], rel=1e-4, abs=2e-3), name
        row += len(some)


def test_candidates_of_a_query_have_the_columns_of_their_pairs():
    log = events()
    columns = KnownColumns(log.schema, False, SPANS, UNIT)
    stream = Stream(PINT(dim=4, aggregates=True, windows=SPANS), log.schema)
    stream.observe(log)
    t, given = np.full(3, 300), np.array([[0.5], [1.0], [-2.0]], np.float32)
    wide = np.array([[0, 1], [5, 2], [99, 3]])
    many = Query(np.array([0, 1, 50]), wide, t, given)
    one = Query(many.src.repeat(2), wide.ravel(), t.repeat(2), given.repeat(2, 0))
    history = stream._view(t, np.full(3, len(log)))
    each = stream._view(one.t, np.full(6, len(log)))
    assert columns.aggregates is not None
    assert np.array_equal(columns.aggregates.look_up(many, history), columns.aggregates.look_up(one, each))


@pytest.mark.parametrize(
    "model",
    [
        PINT(dim=8, aggregates=True),
        pytest.param(PINT(dim=8, pair_history=True, aggregates=True, memory=6), marks=pytest.mark.slow),
    ],
)
def test_every_promise_of_the_contract_holds_with_them(model):
    check_model(model)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_sums_are_kept_of_so_many_columns(more):
    schema = Schema(features=tuple(Feature(f"f{k}") for k in range(MOST_COLUMNS + more)))
    assert len(summed_columns(schema)) == (MOST_COLUMNS + more if more <= 0 else 0)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_of_many_classes_only_what_was_ever_known_is_looked_up(more):
    classes = MOST_TARGETS + 1 + more  # of the first there are no shares: they add up to one
    features = (Feature("kind", "onehot", tuple(map(str, range(classes)))), Feature("known"))
    columns = KnownColumns(Schema(features=features, asking=Asking(classes, (), classes + 1)), False, SPANS, UNIT)
    windowed = [name for name in columns.names if name.startswith("known events of")]
    assert (len(windowed) > 0) == (more <= 0)
    assert ("src: count" in columns.names) == (more > 0)


def test_hashes_and_relations_are_no_quantities():
    assert summed_columns(Schema(features=(Feature("text", "hash"), Feature("paid")))) == [BITS]
    relational = Schema(features=(Feature("kind"),), asking=Asking(0, (0,), 0, relations=3))
    assert summed_columns(relational) == []


def test_a_log_without_features_has_no_aggregates_and_keeps_nothing():
    log = EventLog(np.array([0, 1]), np.array([1, 0]), np.array([1, 2]))
    assert Aggregates(log.schema, SPANS, UNIT).names == []
    model = PINT(dim=4, aggregates=True)
    model.prepare(log)
    stream = Stream(model, log.schema)
    stream.observe(log)
    assert stream.history.sums is None
    assert torch.isfinite(stream.score(Query(log.src, log.dst, log.t + 5))).all()


def spanning(span, unit=None, t=np.int64, features=1):
    """Two events at both ends of a span."""
    rows = np.zeros((2, features), np.float32) if features else None
    log = EventLog(np.zeros(2, np.int64), np.ones(2, np.int64), np.array([7, 7 + span], t), features=rows)
    schema = dataclasses.replace(log.schema, time=TimeUnit(unit))
    return EventLog(log.src, log.dst, log.t, features=rows, schema=schema)


@pytest.mark.parametrize(
    ("span", "unit", "expected"),
    [
        (120 * 86_400, "s", [86_400, 7 * 86_400, 30 * 86_400]),
        (120 * 86_400 * 10**9, "ns", [86_400e9, 7 * 86_400e9, 30 * 86_400e9]),
        (60 * SHARE_OF_SPAN, "s", [60]),
        (60 * SHARE_OF_SPAN - 1, "s", []),
        (480, None, [10, 40, 160]),
        (3, None, [1]),
        (2, None, []),
        (0, None, []),
    ],
)
def test_windows_are_the_longest_that_fit_several_times_into_training(span, unit, expected):
    assert chosen_windows(spanning(span, unit)) == expected
    assert len(expected) <= WINDOWS


def test_windows_of_numbers_do_not_depend_on_their_unit():
    assert chosen_windows(spanning(480_000.0, t=np.float64)) == pytest.approx([10_000, 40_000, 160_000])
    assert chosen_windows(spanning(0.0048, t=np.float64)) == pytest.approx([1e-4, 4e-4, 1.6e-3], rel=1e-3)


def test_no_windows_are_chosen_where_there_is_nothing_to_sum():
    assert chosen_windows(spanning(480, features=0)) == []


@pytest.mark.parametrize("windows", [(0,), (-1.0, 2.0), (2.0**63,), 3, "7d", ["7d"], [True]])
def test_windows_that_are_no_lengths_of_time_are_refused(windows):
    with pytest.raises(BadInput, match="windows"):
        PINT(windows=windows)


def test_columns_are_named_in_the_words_of_the_log():
    days = np.datetime64("2024-01-01") + np.arange(80)
    table = {"customer": [1, 2] * 40, "shop": [5, 6, 7, 8] * 20, "when": days, "amount": np.ones(80)}
    log = read_events(table, "customer", "shop", "when", features=["amount"], bipartite=True)
    names = Aggregates(log.schema, chosen_windows(log), 1.0).names
    assert "customer's mean of amount of 7 days" in names
    assert "customer and shop's last amount" in names
    assert "events of everyone of 1 day" in names
    assert len(set(names)) == len(names)


def test_extremes_are_cut_off_and_small_deviations_are_kept():
    log = events()
    columns = KnownColumns(log.schema, True, SPANS, UNIT)
    mean, deviation = columns.usual(log)
    assert (deviation[columns.aggregated] >= LEAST_OF_AGGREGATES).all()
    found = Standardize(columns, (mean, deviation)).eval()(torch.full((1, len(columns.names)), 1e6))
    assert (found[0, columns.aggregated] == FURTHEST).all()
    assert (found[0, : columns.aggregated.start] > FURTHEST).all()


@pytest.mark.learning
def test_a_saved_run_goes_on_with_the_same_sums_and_windows(tmp_path):
    rng = np.random.default_rng(0)
    table = {"a": rng.integers(0, 9, 600), "b": rng.integers(0, 9, 600), "t": np.arange(600), "x": rng.normal(size=600)}
    log = read_events(table, "a", "b", "t", features=["x"])
    run = fit("pint", log, folder=tmp_path / "run", epochs=1)
    assert run.model.windows == chosen_windows(run.parts.train)
    stream = run.stream_after(run.parts.log)
    stream.save(tmp_path / "stream")
    again = Stream.open(tmp_path / "stream")
    later = Query(log.src[:9], log.dst[:9], np.full(9, 700))
    assert torch.equal(again.score(later), stream.score(later))
    assert again.history.sums.arrays().keys() == stream.history.sums.arrays().keys()
    half = run.stream_after(run.parts.train)
    half.observe(run.parts.log[len(run.parts.train) :])
    assert torch.equal(half.score(later), stream.score(later))


def test_aggregates_are_left_out_at_random_in_training_only():
    log = events()
    columns = KnownColumns(log.schema, True, SPANS, UNIT)
    layer, rows = Standardize(columns, None), torch.ones(2, len(columns.names))
    assert torch.equal(layer.eval()(rows), rows)
    layer.train()
    found = torch.stack([layer(rows) for _ in range(100)])
    assert torch.equal(found[:, 0], found[:, 1]), "the same for all rows of a step"
    left_out = (found[:, 0, columns.aggregated] == 0).float().mean()
    assert abs(float(left_out) - DROPPED) < 0.03
    assert (found[:, :, : columns.aggregated.start] == 1).all()
    assert (found[:, :, columns.asked] == 1).all()
