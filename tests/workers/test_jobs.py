"""Independent jobs give the same results wherever they run, each once, whoever is lost."""

from __future__ import annotations

import copy
import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pintgn
from pintgn.errors import BadInput, LostWorker
from pintgn.learn.seeds import fit_seeds
from pintgn.learn.settings import Settings
from pintgn.live.live import Live
from pintgn.live.ray_answerer import SHARES, RayAnswerer
from pintgn.workers.jobs import InThisProcess, open_jobs
from tests.postgres import postgres_server
from tests.workers.helpers import no_worker

SMALL = {"model": {"name": "pint", "dim": 8}, "train": {"epochs": 1, "threads": 1}}


def square(number: int) -> int:
    return number * number


def die_once(number: int, folder: str) -> int:
    """A job that is killed the first time that it is done."""
    path = Path(folder) / f"{number}"
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number: int) -> None:
    raise BadInput(f"{number} cannot be used.")


def last(numbers: list[int]) -> int:
    time.sleep(0.05)
    return len(numbers)


@pytest.fixture(scope="module")
def pool():
    with open_jobs("local", 2) as jobs:
        yield jobs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs") / "run"
    log = pintgn.simulate("shop", events=700, seed=0)
    pintgn.fit(Settings.of(SMALL), log, folder=folder, progress=False)
    return folder


def test_every_job_is_done_once_and_has_its_number(pool):
    jobs = [(k,) for k in range(9)]
    assert sorted(pool.run(square, jobs)) == list(InThisProcess().run(square, jobs)) == [(k, k * k) for k in range(9)]
    assert list(pool.run(square, [])) == []


def test_a_job_may_depend_on_results_that_are_known_when_it_begins(pool):
    known: list[int] = []
    for _, count in pool.run(last, (([*known],) for _ in range(6))):
        known.append(count)
    assert known[:2] == [0, 0]
    assert sorted(known[2:]) == [1, 2, 3, 4]


def test_a_job_whose_worker_was_killed_is_done_again(tmp_path, pool):
    assert sorted(pool.run(die_once, [(k, str(tmp_path)) for k in range(2)])) == [(0, 0), (1, 1)]


@pytest.mark.slow
def test_work_that_kills_every_worker_is_given_up_in_one_line():
    with open_jobs("local", 2) as jobs, pytest.raises(LostWorker, match="lost 4 times in a row .* Use fewer workers"):
        list(jobs.run(die, [(0,), (1,)]))


def test_errors_come_back_as_they_are(pool):
    with pytest.raises(BadInput, match="^1 cannot be used.$"):
        list(pool.run(refuse, [(1,)]))
    with pytest.raises(BadInput, match="on='rai' does not exist. Did you mean 'ray'"), open_jobs("rai"):
        pass


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_ray_that_is_missing_is_asked_for_in_one_line():
    with pytest.raises(BadInput, match=r"pip install 'pintgn\[ray\]'"), open_jobs("ray"):
        pass


def on_workers(live: Live, *where: Any) -> Live:
    """The same state, whose answers workers compute."""
    asked = copy.copy(live)
    asked.answerer = RayAnswerer(live, *where)
    return asked


def close(found: pa.Table, expected: pa.Table) -> None:
    """Workers compute in other batches, so numbers may differ in their last bits."""
    assert found.schema == expected.schema
    for name in found.column_names:
        if pa.types.is_floating(found[name].type):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
        else:
            assert found[name] == expected[name], name


def test_answers_of_workers_are_those_of_one_process(folder, pool):
    live = pintgn.open(folder)
    many = on_workers(live, str(folder), [], pool)
    told: list[tuple[int, int]] = []
    everyone = live.recommend_many("all", 1)
    close(many.recommend_many("all", 1, progress=lambda *done: told.append(done)), everyone)
    assert told[-1] == (everyone.num_rows, everyone.num_rows)
    assert len(told) == 2 * SHARES
    for count in (0, 1, 2 * SHARES - 1, 2 * SHARES, 2 * SHARES + 1, everyone.num_rows):
        pairs = everyone.select(["src", "dst"])[:count]
        close(many.predict(pairs), live.predict(pairs))
        ids = pairs["src"].to_pylist()
        close(many.recommend_many(ids, 2, exclude_met=True), live.recommend_many(ids, 2, exclude_met=True))
    with pytest.raises(BadInput, match="src='user1'; it is a list"):
        many.recommend_many("user1")


def test_workers_have_observed_what_the_process_that_asks_has(folder, pool, tmp_path):
    newer = tmp_path / "newer.csv"
    newer.write_text("src,dst,t\nann,item1,2024-06-01T08:00Z\nann,item2,2024-06-02T08:00Z\n")
    before, live = pintgn.open(folder), pintgn.open(folder)
    live.observe(newer)
    many, pairs = (
        on_workers(live, str(folder), [str(newer)], pool),
        {"src": ["ann", "user1"], "dst": ["item1", "item2"]},
    )
    close(many.predict(pairs), live.predict(pairs))
    assert np.abs(np.subtract(many.predict(pairs)["logit"], before.predict(pairs)["logit"])).max() > 1e-3


def test_a_column_is_predicted_by_workers_too(tmp_path, pool):
    log = pintgn.simulate("shop", events=500, seed=0)
    pintgn.fit("boosted", log, folder=tmp_path / "run", predict="taste", of="src", progress=False)
    live = pintgn.open(tmp_path / "run")
    nodes = {"src": [f"user{k}" for k in range(40)]}
    close(on_workers(live, str(tmp_path / "run"), [], pool).predict(nodes), live.predict(nodes))


@pytest.mark.parametrize("pieces", [[], [3], [0], [1, 40, 39, 100], [20] * 9])
def test_embeddings_of_workers_come_in_order(folder, pool, pieces):
    live = pintgn.open(folder)
    when, nodes = live.time_of(None), [np.arange(count) * 7 % len(live.names) for count in pieces]
    found = list(RayAnswerer(live, str(folder), [], pool).embeddings_of_each(nodes, when))
    assert [len(one) for one in found] == pieces
    for one, expected in zip(found, live.answerer.embeddings_of_each(nodes, when), strict=True):
        np.testing.assert_allclose(one, expected, atol=1e-5)


def test_runs_on_workers_are_those_of_one_process_after_another(tmp_path, pool):
    log = pintgn.simulate("repeat", events=300, seed=0)
    one = fit_seeds(Settings.of(SMALL), log, [0, 1], tmp_path / "one", progress=lambda entry: None)
    many = fit_seeds(Settings.of(SMALL), log, [0, 1], tmp_path / "many", jobs=pool)
    assert [run.test for run in many] == [run.test for run in one]
    assert not (tmp_path / "many" / "events.parquet").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # optuna leaves a connection open
def test_two_machines_share_a_search_in_postgresql(tmp_path):
    log = pintgn.simulate("repeat", events=300, seed=0)
    space = {"model.dim": [4, 8], "train.learning_rate": [1e-3, 1e-2]}
    with postgres_server("secret") as port:
        for machine, trials in (("a", 2), ("b", 4)):
            found = pintgn.tune(
                log, tmp_path / machine / "search", settings=SMALL | {"model": {"name": "pint"}}, space=space,
                trials=trials, storage=f"postgresql://ann:secret@127.0.0.1:{port}/postgres",
            )  # fmt: skip
            assert len(found.trials) == trials
    assert (tmp_path / "b" / "search" / "best.toml").exists()
    with pytest.raises(BadInput, match=r"trials cannot be kept at postgresql://.*127.0.0.1:1/") as refused:
        pintgn.tune(log, tmp_path / "c", space=space, storage="postgresql://ann:secret@127.0.0.1:1/postgres")
    assert "secret" not in str(refused.value)
    gc.collect()


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_node_finishes_every_job(tmp_path, folder):
    if importlib.util.find_spec("ray") is None:
        missing = "Ray is not here (pip install 'pintgn[ray]')"
        pytest.fail(f"{missing}, and CI=true") if os.environ.get("CI") == "true" else pytest.skip(missing)
    command = [sys.executable, "-m", "tests.workers.ray_cluster", str(tmp_path), str(folder)]
    with open(tmp_path / "output", "w") as output:  # no pipe: what a killed node leaves behind would hold it open
        subprocess.run(command, stdout=output, stderr=output, env=no_worker(), timeout=300, check=True)
    lines = (tmp_path / "output").read_text().splitlines()
    found = json.loads(next(line for line in lines if line.startswith('{"found"')))
    assert found["found"] == [[k, k * k] for k in range(12)]
    assert found["workers"] == 3
    nodes = {line for k in range(12) for line in (tmp_path / f"{k}").read_text().split()}
    assert len(nodes) >= 2, "only one node did any work"
    live = pintgn.open(folder)
    pairs = live.recommend_many("all", 1).select(["src", "dst"])
    close(pq.read_table(tmp_path / "best.parquet"), live.recommend_many("all", 2))
    close(pq.read_table(tmp_path / "scores.parquet").drop(["t"]), live.predict(pairs).drop(["t"]))
    vectors, expected = pq.read_table(tmp_path / "vectors.parquet"), live.embed_many("all").read_all()
    assert vectors["id"] == expected["id"]
    np.testing.assert_allclose(
        *(table["embedding"].combine_chunks().flatten() for table in (vectors, expected)), atol=1e-5
    )
