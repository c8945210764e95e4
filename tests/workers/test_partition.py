"""Workers that keep a part of the past each answer as one that keeps all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import pintgn
from pintgn.cli.app import main
from pintgn.errors import BadInput
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.worker import check_partition
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.partitioned import PartitionedIndex
from pintgn.neighbors.walks import causal_walks
from pintgn.positions import RelativePositions
from pintgn.positions.partitioned import PartitionedPositions
from tests.workers.helpers import no_worker, run_together
from tests.workers.programs import small_log
from tests.workers.swapping import in_threads

PROGRAMS = "tests.workers.programs"
NODES, EVENTS = 11, 120
MEGABYTES = 80
"""More than each of four workers takes for a training (60 suffice), less than one alone does (90 do not)."""


def some_events(seed: int, kind: type = np.int64) -> tuple[np.ndarray, ...]:
    """Ties, self-loops, repeats."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, NODES, (2, EVENTS))
    return src, dst, np.sort(rng.integers(0, 60, EVENTS)).astype(kind), rng.integers(0, 2**63, EVENTS).astype(np.uint64)


def ask(index: NeighborIndex, times: np.ndarray, seed: int) -> list[np.ndarray]:
    """Every kind of look-up; how many and which differs between workers."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 20))
    u, v = rng.integers(0, NODES + 3, (2, count))
    t = np.sort(rng.integers(0, 70, count)).astype(times.dtype)
    before = np.searchsorted(times, t, "left")
    keys = np.arange(count, dtype=np.uint64)[:, None]
    found = [*index.recent(u, t, 4, before=before), index.count(v, t)]
    found += [*index.uniform(u[:, None], t[:, None], 3, keys), *index.recent(u, t, 2, valid=u % 2 == 0, window=9)]
    if seed % 3:
        found += [*index.last(u, v, t, before=before), index.count_pair(u, v, t)]
    found += [*index.pair_history(u, v, t, before=before, windows=[3, 9])]
    found += [*index.recent_contacts(u, v, t, 5, 2.0, before=before)]
    index.settle()
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("seed", "kind"), [(0, np.int64), (1, np.float64)])
def test_look_ups_are_those_of_a_whole_index(count, seed, kind):
    src, dst, t, ties = some_events(seed, kind)
    whole = NeighborIndex()
    whole.append(src, dst, t, ties=ties)

    def work(exchange):
        index = PartitionedIndex(exchange)
        for begin, end in ((0, 50), (50, EVENTS)):
            index.append(src[begin:end], dst[begin:end], t[begin:end], ties=ties[begin:end])
        fork = index.fork()
        return ask(index, t, exchange.rank + seed), ask(fork, t, exchange.rank + seed + 7), index.size

    found = in_threads(count, work)
    assert sum(held for *_, held in found) == whole.size
    for rank, (first, second, _) in enumerate(found):
        for some, offset in ((first, 0), (second, 7)):
            for mine, one in zip(some, ask(whole, t, rank + seed + offset), strict=True):
                assert mine.dtype == one.dtype
                np.testing.assert_array_equal(mine, one)


def test_an_index_of_parts_refuses_what_needs_all_of_it(tmp_path):
    def work(exchange):
        index = PartitionedIndex(exchange)
        index.append([0, 1], [1, 2], [1, 2])
        refused = [
            lambda: index.trim(keep_last=1),
            lambda: index.save(tmp_path / "index"),
            lambda: causal_walks(index, [0], [9], walks=1, length=1, keys=[0]),
        ]
        for call in refused:
            with pytest.raises(BadInput, match="go without --partition"):
                call()

    in_threads(2, work)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("backend", ["exact", "sketch"])
def test_positions_are_those_of_a_whole_table(count, backend):
    src, dst, t, _ = some_events(2)

    def read(positions, seed):
        rng, found = np.random.default_rng(seed), []
        for a in range(0, EVENTS, 30):
            batch = slice(a, a + 30)
            rows = int(rng.integers(0, 8))
            nodes, roots = rng.integers(-1, NODES + 2, (rows, 3)), rng.integers(-1, NODES + 2, (rows, 2))
            at = rng.integers(t[a], t[a] + 20, rows)
            found.append(positions.replay(src[batch], dst[batch], t[batch], nodes, roots, at, transform="log1p"))
            nodes, roots = rng.integers(-1, NODES + 2, (2, 3)), rng.integers(-1, NODES + 2, (2, 1))
            after = np.full(2, t[min(a + 29, EVENTS - 1)] + 1)
            for transform in ("raw", "l1", "rate"):
                found.append(positions.replay(src[:0], dst[:0], t[:0], nodes, roots, after, transform=transform))
            positions = positions.fork()
        return found

    made = in_threads(
        count, lambda exchange: read(PartitionedPositions(exchange, 4, backend, time_unit=2.0), exchange.rank)
    )
    for rank, found in enumerate(made):
        for mine, one in zip(found, read(RelativePositions(4, backend, time_unit=2.0), rank), strict=True):
            if backend == "exact":
                assert mine.dtype == one.dtype
                np.testing.assert_array_equal(mine, one)
            else:  # terms are summed in another order
                np.testing.assert_allclose(mine, one, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [63, 64, 65, 3])
def test_the_columns_of_a_sketch_are_shared_out_whole(width):
    """Around the size of a word of signs, and with fewer columns than workers."""
    src, dst, t, _ = some_events(3)
    whole = RelativePositions(3, "sketch", width=width)
    whole.append(src, dst, t)
    parts = [RelativePositions(3, "sketch", width=width, part=(k, 4)) for k in range(4)]
    for part in parts:
        part.append(src, dst, t)
    rows = [part._store.rows[:NODES] for part in parts]
    np.testing.assert_array_equal(np.concatenate(rows, -1), whole._store.rows[:NODES])


def test_what_happens_later_changes_no_answer_of_a_partitioned_stream():
    """A scrambled future: scores of the first queries are the same, whatever follows."""
    log = small_log()
    scrambled = pintgn.EventLog(
        np.concatenate([log.src[:200], log.dst[:60]]), np.concatenate([log.dst[:200], log.src[60:120]]), log.t,
        features=log.features,
    )  # fmt: skip
    cut = int(np.searchsorted(log.t, log.t[200], "left"))

    model = pintgn.PINT(dim=8, pair_history=True).build(log.schema, 0)

    def scores(events, exchange):
        stream = pintgn.Stream(model, log.schema, exchange=exchange)
        query = log[100:cut].query[slice(exchange.rank, None, exchange.size)]
        return stream.replay(events, [query])[0].detach().numpy()

    first = in_threads(2, lambda exchange: scores(log, exchange))
    second = in_threads(2, lambda exchange: scores(scrambled, exchange))
    for one, other in zip(first, second, strict=True):
        assert np.abs(one).max() > 0
        np.testing.assert_array_equal(one, other)


LEARNING = ["pint", "tgn"]
"""Both kinds of models; the others were compared once, and take the same path."""


@pytest.fixture(scope="module")
def gradients(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("gradients"), {}
    for count in (1, 3):
        target = str(folder / f"{count}.npz")
        ended = run_together(f"{PROGRAMS}:gradients", count, target, LEARNING, count > 1)
        assert not any(one.returncode for one in ended), ended[0].stderr + ended[-1].stderr
        found[count] = dict(np.load(target))
    return found


@pytest.mark.parametrize("model", LEARNING)
def test_gradients_and_figures_are_those_of_one_worker(gradients, model):
    one, many = gradients[1][model], gradients[3][model]
    assert one.shape == many.shape
    assert np.abs(one).max() > 1e-4, "there was nothing to compare"
    np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-6 * np.abs(one).max())
    few = 1e-2 if model == "pint" else 1e-6  # its scores, of weights that never learned, tie but for the last bit
    np.testing.assert_allclose(gradients[3][f"{model} test"], gradients[1][f"{model} test"], atol=few)


def test_four_workers_train_where_the_memory_of_one_does_not_suffice():
    """Each process is allowed so much memory beyond what it has when the log is read."""
    (alone,) = run_together(f"{PROGRAMS}:limited", 1, MEGABYTES)
    assert alone.returncode == 1
    assert re.match(r"(pintgn\.errors\.TooLarge|MemoryError|numpy.*MemoryError)", alone.stderr.splitlines()[-1])
    together = run_together(f"{PROGRAMS}:limited", 4, MEGABYTES)
    assert not any(one.returncode for one in together), together[0].stderr[-2000:]
    held = [json.loads(one.stdout.splitlines()[-1]) for one in together]
    assert all(one["positions"] > 0 and one["index"] > 0 for one in held)


def command(*arguments: str) -> subprocess.CompletedProcess:
    whole = [sys.executable, "-m", "pintgn", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, env=no_worker(), timeout=120)


def test_a_partitioned_run_is_opened_and_used_by_one_process(tmp_path):
    pintgn.simulate("repeat", events=400, seed=0).save(tmp_path / "log.parquet")
    run = str(tmp_path / "run")
    options = ["--epochs", "1", "--set", "model.dim=8", "--json"]
    log = ["train", str(tmp_path / "log.parquet"), "-o", run, "--refit"]
    done = command(*log, "--workers", "2", "--partition", *options)
    assert done.returncode == 0, done.stderr
    assert "No report yet" in done.stderr
    opened = pintgn.Run.open(run)
    assert opened.settings.stream.partition
    assert opened.finished
    assert opened.stream.events == 400
    assert opened.deployed is opened.refit
    assert opened.deployed.stream.events == 400
    alone = Settings.of({"model": {"name": "pint", "dim": 8}, "train": {"epochs": 1}})
    one = pintgn.fit(alone, opened.log, refit=True, progress=False).deployed.model.state_dict()
    for name, value in opened.deployed.model.state_dict().items():
        np.testing.assert_allclose(value.numpy(), one[name].numpy(), atol=1e-4)
    assert 0 < json.loads(done.stdout)["test"]["all"]["ap"] <= 1


@pytest.mark.parametrize(
    ("options", "line"),
    [([], "say how many: --workers 4"), (["--runs", "2", "--on", "local"], "with --on every run is one worker's")],
)
def test_partition_without_workers_is_refused_in_one_line(tmp_path, monkeypatch, capsys, options, line):
    pintgn.simulate("repeat", events=300, seed=0).save(tmp_path / "log.parquet")
    monkeypatch.setattr(sys, "argv", ["pintgn", "train", str(tmp_path / "log.parquet"), "--partition", *options])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert line in capsys.readouterr().err


def test_what_needs_the_whole_past_is_refused_before_the_first_event():
    given = {"model": {"name": "pint"}, "stream": {"partition": True}, "train": {"protocol": "paper"}}
    settings = Settings.of(given)
    run = Run(settings, 0, small_log(), settings.make_model())
    with pytest.raises(BadInput, match="protocol='paper'"):
        check_partition(run)


def test_blocks_are_refused():
    settings = Settings.of({"model": {"name": "pint"}, "stream": {"partition": True, "positions_refresh": "block"}})
    assert settings.stream.partition
    with pytest.raises(BadInput, match="leave out positions_refresh"):
        in_threads(1, lambda exchange: pintgn.Stream(
            pintgn.PINT(dim=8), small_log().schema, positions_refresh="block", exchange=exchange
        ))  # fmt: skip


@pytest.mark.parametrize(
    ("message", "of_torch", "told"),
    [
        ("Unable to allocate 30.8 GiB for an array", False, "Unable to allocate 30.8 GiB for an array"),
        (
            "alloc_cpu.cpp:127 can't allocate memory: you tried to allocate 16 bytes.",
            True,
            "tried to allocate 16 bytes",
        ),
    ],
)
def test_memory_that_runs_out_is_one_line(message, of_torch, told):
    first, second = run_together(f"{PROGRAMS}:command_out_of_memory", 2, message, of_torch)
    assert second.returncode == 2
    assert first.returncode == 3
    (line,) = (first.stderr + second.stderr).splitlines()
    assert line.startswith(f"TooLarge: worker 1: memory ran out ({told}). Try")
