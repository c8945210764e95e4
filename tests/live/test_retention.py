"""Retention: bounded memory; scores stay the same as long as a model's own reads are kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn import NeighborIndex, Stream
from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.observing import Retention, contacts_read
from pintgn.models.registry import model_class
from pintgn.serve.limits import Options
from pintgn.serve.service import Service
from tests.learn.helpers import random_log
from tests.serve.helpers import TRAINED, as_batch, assert_same_state, replayed

TREES = {
    "pint": {"dim": 8, "neighbors": 3, "layers": 2, "positions": 3},
    "tgn": {"dim": 8, "memory": 8, "neighbors": 3, "heads": 2, "time_dim": 8},
    "tgat": {"dim": 8, "neighbors": 3, "heads": 2, "time_dim": 8},
    "jodie": {"dim": 8, "memory": 8, "time_dim": 8},
    "dyrep": {"dim": 8, "memory": 8, "neighbors": 3, "time_dim": 8},
}


def scores(stream: Stream, at: object) -> np.ndarray:
    everyone = np.arange(20)
    src, dst = (grid.ravel() for grid in np.meshgrid(everyone, everyone))
    with torch.no_grad():
        return stream.score(Query(src, dst, np.full(len(src), at))).numpy()


@pytest.mark.parametrize("model", TREES)
@pytest.mark.parametrize("features", [0, 2])
def test_scores_stay_the_same_when_what_the_model_reads_is_kept(model, features):
    log = random_log(500, ties=6, features=features)
    made = model_class(model).from_settings(TREES[model])
    whole = Stream(made, log.schema)
    made.eval()
    kept, forgotten = whole.fork(), 0
    for batch in log.batches(37):  # cuts fall inside groups of simultaneous events
        for stream in (whole, kept):
            with torch.no_grad():
                stream.observe(batch)
        forgotten += kept.forget(keep_last=contacts_read(made))
        for at in (log.t[batch.first + len(batch) - 1], log.t[batch.first + len(batch) - 1] + 5):
            assert np.array_equal(scores(kept, at), scores(whole, at)), "a query at the clock and one after it"
    assert forgotten > 300


def test_fewer_contacts_than_the_model_reads_change_scores_and_that_is_said():
    log = random_log(300)
    made = model_class("pint").from_settings(TREES["pint"])
    stream = Stream(made, log.schema)
    stream.observe(log)
    before = scores(stream, log.t[-1] + 1)
    stream.forget(keep_last=1)
    assert not np.array_equal(scores(stream, log.t[-1] + 1), before)
    assert "reads 3 contacts of a node; keeping 1 changes its scores" in Retention(keep_last=1).warning(made)
    assert Retention(keep_last=3).warning(made) is None
    assert "older than the window" in Retention(keep_last=3, window=10).warning(made)
    assert "all contacts" in Retention(keep_last=3).warning(model_class("caw")())


def test_a_window_acts_as_if_older_contacts_had_never_been_made():
    log = random_log(400, features=2)
    made = model_class("pint").from_settings(TREES["pint"])
    stream = Stream(made, log.schema)
    stream.observe(log)
    other = stream.fork()
    since = log.t[-1] - 40
    late = np.flatnonzero(log.t >= since)
    other.history.index = NeighborIndex()
    other.index.append(log.src[late], log.dst[late], log.t[late], numbers=late, ties=log.ties[late])
    stream.forget(before_t=since)
    assert np.array_equal(scores(stream, log.t[-1] + 1), scores(other, log.t[-1] + 1))
    assert stream.index.size == other.index.size


def test_memory_stays_bounded_however_long_the_stream():
    log = random_log(3_000, nodes=20, features=2)
    stream = Stream(model_class("pint").from_settings(TREES["pint"]), log.schema)
    sizes = []
    for batch in log.batches(100):
        stream.observe(batch)
        stream.forget(keep_last=3)
        sizes.append((stream.index.size, len(stream.history.event_table), stream.events))
    group = int(np.unique(log.t, return_counts=True)[1].max())
    for contacts, rows, events in sizes:
        assert contacts <= 20 * 3 + 2 * group
        assert rows == events <= contacts


def test_forgetting_survives_saving(tmp_path):
    log = random_log(400, features=2)
    stream = Stream(model_class("tgn").from_settings(TREES["tgn"]), log.schema)
    stream.observe(log[:300])
    stream.forget(keep_last=3)
    stream.save(tmp_path / "stream")
    other = Stream.open(tmp_path / "stream")
    for one in (stream, other):
        one.observe(log[300:])
    assert np.array_equal(scores(stream, log.t[-1] + 1), scores(other, log.t[-1] + 1))


@pytest.mark.parametrize("sizes", [(13,), (260,)])
def test_a_service_that_forgets_is_the_same_after_a_restart(rich_folder, rich_columns, tmp_path, sizes):
    options = Options(keep_last=4, window=300, retain_every=50, snapshot_every=170)
    begin = TRAINED
    while begin < 800:
        with Service.open(rich_folder, tmp_path / "store", options) as service:
            for _ in range(20):
                end = min(begin + sizes[0], 800)
                if begin < end:
                    service.submit(as_batch(service.live, rich_columns, begin, end)).result(30)
                begin = end
    with Service.open(rich_folder, tmp_path / "store", options) as service:
        clean = replayed(rich_folder, rich_columns, 800, retention=Retention(4, 300, 50))
        assert_same_state(service.live, clean)
        assert service.live.retention.forgotten == clean.retention.forgotten > 100


def test_what_is_known_about_a_node_outlives_its_contacts(run_folder, columns):
    live = Live(Run.open(run_folder), retention=Retention(keep_last=1, every=10))
    live.observe_batch(as_batch(live, columns, TRAINED, 900))
    node = live.names.numbers[0]["person 1"]
    mine = [t for s, d, t in zip(columns["src"], columns["dst"], columns["t"], strict=True) if "person 1" in (s, d)]
    assert (live.nodes.degree[node], live.nodes.first[node], live.nodes.last[node]) == (
        len(mine), mine[0], mine[-1],
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [{"keep_last": 0}, {"window": -1.0}, {"every": 0}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(BadInput, match="more than 0"):
        Retention(**wrong)
