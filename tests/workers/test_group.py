"""Workers that share the questions of a batch compute what one would have computed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pintgn
from pintgn.models.registry import MODELS
from pintgn.workers.group import TURN, Group, current, together
from tests.workers.helpers import run_together

PROGRAMS = "tests.workers.programs"


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_gradient_of_several_workers_is_that_of_one(tmp_path, count):
    """The gradients of every step of every model; one test, because processes of pytest share no fixture."""
    found = []
    for workers in (1, count):
        ended = run_together(f"{PROGRAMS}:gradients", workers, str(tmp_path / f"{workers}.npz"))
        assert not any(one.returncode for one in ended), ended[0].stderr + ended[-1].stderr
        found.append(dict(np.load(tmp_path / f"{workers}.npz")))
    assert found[0].keys() == found[1].keys() == MODELS.keys()
    for model in MODELS:
        one, many = (gradients[model] for gradients in found)
        learns = model not in ("boosted", "edgebank", "heuristic", "ctdne")
        assert one.shape == many.shape
        assert (len(one) > 8) == learns, model
        if not learns:
            continue
        assert np.abs(one).max() > 1e-4, f"there was nothing to compare of {model}"
        # of a walk model a sum over many walks has another order, and rounds by 1e-5 of the largest
        np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-4 * np.abs(one).max(), err_msg=model)


@pytest.mark.parametrize(
    ("model", "count", "runs"),
    [("pint", 2, ["first"]), pytest.param("tgn", 3, ["first", "again"], marks=pytest.mark.slow)],
)
def test_workers_end_with_the_same_bits_and_only_the_first_writes(tmp_path, model, count, runs):
    for run in runs:
        (tmp_path / run).mkdir()
        arguments = (str(tmp_path / run), 400, model, str(tmp_path / run / "run"))
        ended = run_together(f"{PROGRAMS}:train", count, *arguments)
        assert not any(one.returncode for one in ended), ended[0].stderr
        assert (tmp_path / run / "run" / "result.json").exists()
    first = dict(np.load(tmp_path / "first" / "0.npz"))
    for run in runs:
        for rank in range(count):
            other = np.load(tmp_path / run / f"{rank}.npz")
            assert all(np.array_equal(first[name], other[name]) for name in first)
    assert len((tmp_path / "first" / "run" / "metrics.jsonl").read_text().splitlines()) == 3
    assert pintgn.Run.open(tmp_path / "first" / "run").finished


@pytest.mark.slow
def test_figures_of_several_workers_are_those_of_one(tmp_path):
    pintgn.fit("pint", pintgn.simulate("shop", events=900, seed=0), folder=tmp_path / "run", epochs=1, progress=False)
    found = []
    for count in (1, 2, 3):
        ended = run_together(f"{PROGRAMS}:evaluate", count, str(tmp_path / "run"), str(tmp_path / f"{count}.json"))
        assert not any(one.returncode for one in ended), ended[0].stderr
        found.append(json.loads((tmp_path / f"{count}.json").read_text()))
    for other in found[1:]:
        for column in ("ap", "auc", "mrr", "hits@10"):
            for row, value in found[0][column].items():
                assert other[column][row] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    "what", ["data", *(pytest.param(one, marks=pytest.mark.slow) for one in ("settings", "seed", "versions"))]
)
def test_workers_that_were_given_different_things_do_not_begin(what):
    for one in run_together(f"{PROGRAMS}:disagree", 2, what):
        assert one.returncode == 1
        assert f"worker 1 has other {what} than worker 0" in one.stderr.splitlines()[-1]


@pytest.mark.parametrize("count", [0, 1, TURN - 1, TURN, TURN + 1, 10 * TURN + 3])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_row_is_exactly_one_workers(count, size):
    groups = [Group(rank, size) for rank in range(size)]
    assert (sum(group.turns(count).astype(int) for group in groups) == 1).all()
    rows = [row for group in groups for row in range(count)[group.share(count)]]
    assert rows == list(range(count))
    assert max(int(group.turns(count).sum()) for group in groups) <= -(-count // (TURN * size)) * TURN


def test_one_process_is_a_group_of_one():
    with together() as group:
        assert (group.rank, group.size) == (0, 1)
    assert current().size == 1
    rows = np.arange(3.0)
    assert group.merged(rows, np.ones(3, bool)) is rows
    assert group.from_first(lambda: 5) == 5
