"""Training-free rows: what they score, that nothing leaks, and that they are measured as a model is."""

from __future__ import annotations

import numpy as np
import pytest

from paper.best import KINDS, best_jobs, every_way, run_best
from paper.results import Results
from paper.training_free import TRAINING_FREE, PairRecency, SourceDestinationRecency, untrained
from pintgn import EventLog, Stream, check_model, fit, simulate
from pintgn.events.log import Query
from pintgn.learn.settings import Settings

LOG = EventLog(src=np.array([0, 1, 2]), dst=np.array([3, 3, 4]), t=np.array([1, 4, 10]))


def scores(model, *pairs):
    stream = Stream(model, LOG.schema)
    stream.observe(LOG)
    src, dst = map(np.array, zip(*pairs, strict=True))
    return stream.score(Query(src, dst, np.full(len(pairs), 12))).tolist()


def test_the_sum_of_ends_knows_only_when_each_was_active():
    # at t = 12: 0 was active 11 ago, 3 was 8 ago, 2 and 4 were 2 ago
    met, never, fresh, unknown = scores(SourceDestinationRecency(time_unit=1.0), (0, 3), (0, 4), (2, 4), (0, 9))
    assert met == pytest.approx(-np.log(12) - np.log(9))
    assert never == pytest.approx(-np.log(12) - np.log(3))
    assert fresh > never > met > unknown


def test_pair_recency_knows_only_when_the_two_met_either_way_round():
    met, turned, newer, never = scores(PairRecency(time_unit=1.0), (0, 3), (3, 0), (1, 3), (0, 4))
    assert met == turned == pytest.approx(-np.log(12))
    assert newer == pytest.approx(-np.log(9))
    assert newer > met > never


@pytest.mark.parametrize("name", TRAINING_FREE)
def test_no_score_depends_on_the_future_or_on_batches(name):
    check_model(TRAINING_FREE[name]())


def test_rows_are_measured_on_the_parts_and_negatives_of_a_trained_one(tmp_path):
    """A heuristic that `fit` ran and one that nothing ran have the same figures in every view."""
    log, given = simulate("shop", events=900, seed=1), {"model": {"name": "heuristic"}, "train": {"hidden": "dyglib"}}
    assert every_way(untrained(given, log, 3)) == every_way(fit(Settings.of(given), log, seed=3))


def test_each_row_of_the_settings_is_run(tmp_path):
    rows = "\n".join(f'[rows."{name}/uci"]\nmodel = {{ name = "{name}" }}' for name in TRAINING_FREE)
    (tmp_path / "best.toml").write_text(rows)
    simulate("shop", events=900, seed=1).save(tmp_path / "uci.parquet")
    jobs = best_jobs(tmp_path / "best.toml", None, None, None)
    assert len(jobs) == 10 * len(TRAINING_FREE)  # as many seeds as the default has
    results = Results(tmp_path / "results.jsonl")
    done = list(run_best(jobs[:4], tmp_path / "runs", results, tmp_path / "best.toml", tmp_path, lambda entry: None))
    assert [row["model"] for row in done] == [*TRAINING_FREE]
    assert all(set(row["test"]["papers"]) == set(KINDS) for row in done)
    assert {row["epochs"] for row in done} == {0}
