"""How likely each of several destinations is to be the next: fitted on validation, and how far it is off."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import fit, simulate
from pintgn.errors import BadInput
from pintgn.learn.calibration import first_choices, next_probabilities, next_slope
from pintgn.learn.metrics import choice_error
from pintgn.learn.run import Run
from pintgn.learn.tasks import link
from tests.learn.helpers import QUICK, random_log


def choices(events=4_000, count=8, slope=0.7, seed=0):
    """Events whose destination is drawn by softmax(slope · logit), the drawn one first."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(events, count))
    drawn = (rng.random(events)[:, None] < np.cumsum(next_probabilities(slope, z), 1)).argmax(1)
    first = np.take_along_axis(z, drawn[:, None], 1)
    others = np.stack([np.delete(row, k) for row, k in zip(z, drawn, strict=True)])
    return np.concatenate([first, others], 1), np.ones((events, count - 1), bool)


@pytest.mark.parametrize("slope", [0.2, 0.7, 3.0])
def test_the_slope_that_choices_were_drawn_by_is_found(slope):
    z, valid = choices(slope=slope)
    assert next_slope(z, valid) == pytest.approx(slope, rel=0.1)
    assert next_slope(10 * z - 40, valid) == pytest.approx(slope / 10, rel=0.1)


def test_a_sample_of_the_others_finds_the_same_slope():
    z, valid = choices(events=8_000, count=40)
    kept = valid & (np.random.default_rng(1).random(valid.shape) < 0.2)
    assert next_slope(z, kept) == pytest.approx(next_slope(z, valid), rel=0.1)
    other = z.copy()
    other[:, 1:][~kept] = np.nan
    assert next_slope(other, kept) == next_slope(z, kept), "what does not count is not looked at"


def test_probabilities_add_up_and_keep_the_order():
    z = np.array([[1.0, 3.0, 2.0], [1e4, -1e4, 0.0]])
    p = next_probabilities(2.0, z)
    assert p.sum(1) == pytest.approx([1, 1])
    assert p[0].argsort().tolist() == z[0].argsort().tolist()
    only = next_probabilities(2.0, z, np.array([[True, False, True], [False, False, False]]))
    assert only[0].tolist() == pytest.approx([1 / (1 + np.e**2), 0, np.e**2 / (1 + np.e**2)])
    assert only[1].tolist() == [0, 0, 0]
    assert next_probabilities(1.0, np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_model_that_is_always_right_or_always_wrong_has_a_finite_slope_and_is_never_turned_around(sign):
    z = sign * np.tile([3.0, 1.0, 0.0], (50, 1))
    found = next_slope(z, np.ones((50, 2), bool))
    assert 0 < found < 100
    assert next_slope(np.zeros((5, 3)), np.ones((5, 2), bool)) > 0
    assert next_slope(np.zeros((0, 3)), np.ones((0, 2), bool)) == 1.0
    with pytest.raises(BadInput, match="not finite"):
        next_slope(np.full((5, 3), np.nan), np.ones((5, 2), bool))


def test_the_error_is_small_where_probabilities_are_right_and_the_gap_where_they_are_not():
    z, valid = choices(slope=0.7)
    assert choice_error(*first_choices(0.7, z, valid)) < 0.03
    assert choice_error(*first_choices(7.0, z, valid)) > 0.2
    said, true = np.full(100, 0.9), np.repeat([1.0, 0.0], 50)
    assert choice_error(said, true, bins=1) == pytest.approx(0.4)


def test_of_equally_likely_choices_each_is_the_true_one_by_its_share():
    said, true = first_choices(1.0, np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), np.ones((2, 2), bool))
    assert true.tolist() == [0.5, 0]
    assert said[0] == pytest.approx(1 / (2 + np.exp(-2)))


@pytest.mark.learning
def test_a_run_keeps_its_slope_and_says_what_comes_next_about_as_often_as_it_does(tmp_path):
    log = simulate("repeat", events=4_000, seed=0)
    run = fit("pint", log, folder=tmp_path / "run", epochs=4)
    assert run.next_slope > 0
    assert Run.open(tmp_path / "run").next_slope == run.next_slope
    from pintgn.report.study import study

    row = study([run], rank=50).rows[0].members[0]
    assert choice_error(row.next_probability, row.next_correct) < 0.15
    assert abs(row.next_probability.mean() - row.next_correct.mean()) < 0.12


@pytest.mark.learning
@pytest.mark.parametrize("name", ["NEXT_EVENTS", "NEXT_AMONG"])
def test_few_events_or_few_others_are_as_good_as_there_are(name, monkeypatch):
    """The validation part has 60 events between 19 destinations."""
    log, whole = random_log(400, 20), fit("heuristic", random_log(400, 20), **QUICK).next_slope
    most = {"NEXT_EVENTS": 60, "NEXT_AMONG": 19}[name]
    for size in (1, most // 2, most - 1, most, most + 1):
        monkeypatch.setattr(link, name, size)
        found = fit("heuristic", log, **QUICK).next_slope
        assert found > 0
        if size >= most:
            assert found == whole
