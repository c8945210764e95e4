"""The model of several machines finds the constants that made its rows, and its arithmetic is what the page says."""

from __future__ import annotations

import math

import pytest

from benchmarks import cluster_model as model
from tests.conftest import ROOT

TRUE = {"fixed": 1000.0, "question": 30.0, "observe": 2.0, "reduce": 500.0, "gradient_bytes": 1e5}


def rows() -> model.Rows:
    made = {}
    for workers in model.WORKERS:
        for batch in model.BATCHES:
            step = TRUE["fixed"] + TRUE["question"] * batch / workers + (TRUE["reduce"] if workers > 1 else 0.0)
            made[workers, batch] = {
                "observe_us": TRUE["observe"],
                "step_us": step + TRUE["observe"] * batch,
                "gradient_bytes": TRUE["gradient_bytes"],
            }
    return made


def test_the_model_finds_the_constants_that_made_its_rows():
    assert model.constants(rows()) == pytest.approx(TRUE)


def test_four_workers_are_predicted_and_have_no_say_in_it():
    made = rows()
    known = model.constants(made)
    found = model.checks(made, known)
    assert len(found) == 2
    for name, measured, predicted in found:
        assert measured == pytest.approx(predicted), name
    for key in made:
        if key[0] == 4:
            made[key]["step_us"] = 1.0
    assert model.constants(made) == known


def test_a_step_is_its_slowest_processor_and_then_the_wire():
    """By hand, for four workers and batch 400: 100 questions each."""
    known = model.constants(rows())
    processor = 1000 + 2 * 400 + 30 * 100 + 500
    assert model.processor_us(known, 4, 400) == pytest.approx(processor)
    slowest = 1 + 0.1 * math.sqrt(2 * math.log(4))
    wire = 1e6 * (2 * 3 / 4 * 1e5 / 3.125e9 + 2 * 2 * 50e-6)
    assert model.step_us(known, 4, 400) == pytest.approx(slowest * processor + wire)


def test_doubling_stops_paying_where_observing_is_all_that_is_left():
    free = model.constants(rows()) | {"fixed": 0.0, "reduce": 0.0, "gradient_bytes": 0.0}
    heavy = free | {"observe": 30.0}
    assert model.stops_paying(heavy, 200) < model.stops_paying(free, 200)
    assert model.stops_paying(free | {"observe": 0.0}, 200) == 256


def test_the_picture_in_the_documentation_is_what_it_draws():
    if not model.RESULTS.exists():
        pytest.fail("results/cluster.jsonl is missing")
    drawn = model.picture(model.constants(model.newest()))
    assert (ROOT / "docs" / "img" / "cluster.svg").read_text(encoding="utf-8") == drawn
