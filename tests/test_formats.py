"""Files of every format that ever was: each opens, is completed, or is refused in one line that says what helps.

`tests/formats` has small runs with a store of five live events, written by the code of their time:
60 events, a PINT, its stream, a snapshot. From the fourth on they are backups.

| | commit | log | run | stream | neighbors | positions | store | snapshot | keys | backup |
|---|---|---|---|---|---|---|---|---|---|---|
| 1 | c1f7ff9^ | 1 | 1 | 1 | 2 | 1 | 1 | 1 | | |
| 2 | ce49750^ | 1 | 1 | 1 | 3 | 1 | 2 | 1 | | |
| 3 | c4d0a28^ | 2 | 2 | 2 | 3 | 1 | 2 | 2 | | |
| 4 | h-ops | 2 | 2 | 3 | 3 | 1 | 2 | 2 | 1 | 1 |
| 5 | h-store | 2 | 2 | 3 | 3 | 1 | 3 | 2 | 1 | 1 |
| 6 | h1 | 2 | 2 | 3 | 3 | 1 | 4 | 2 | 1 | 1 |
| 7 | h2, held | 2 | 2 | 3 | 3 | 1 | 5 | 2 | 1 | 1 |

`stream-3.txz` (8c92f86) and `stream-4.txz` are streams of 120 events of a run that is asked about a column.

With a new format comes a new file: `pintgn backup` of such a run, compressed by xz. In the
seventh an event waits. `postgres-3.sql` and `postgres-4.sql` are a store of five events in PostgreSQL, and one that
waits.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import lzma
import math
import re
import shutil
import sqlite3
import tarfile

import numpy as np
import psycopg
import pyarrow.feather as feather
import pytest
import torch

from pintgn import EventLog, NeighborIndex, RelativePositions, Service, Stream, read_events
from pintgn.errors import BadFile
from pintgn.events.log import Query
from pintgn.facts import check_format
from pintgn.feed.stream_source import Bookmark
from pintgn.learn.run import Run
from pintgn.serve.api_keys import FILE as KEYS
from pintgn.serve.api_keys import stored
from pintgn.serve.limits import Options
from pintgn.serve.model_history import FILE as MODELS
from pintgn.serve.model_history import ModelHistory
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.sqlite import SqliteStore
from pintgn.serve.store_backup import restore
from tests.conftest import ROOT

NEWEST = {
    "events.store": 2,
    "feed.stream_source": 1,
    "learn.folder": 2,
    "stream.stream_file": 4,
    "neighbors.index_file": 3,
    "positions.relative": 1,
    "serve.sqlite": 5,
    "serve.postgres": 4,
    "serve.snapshots": 2,
    "serve.api_keys": 1,
    "serve.model_history": 1,
    "serve.store_backup": 1,
}
"""What the newest file holds, by the module that says so."""


@pytest.fixture(scope="module")
def generations(tmp_path_factory):
    """The folders of all runs; the newer ones are restored from their backups."""
    folder = tmp_path_factory.mktemp("formats")
    for path in sorted((ROOT / "tests" / "formats").glob("*.tar.xz")):
        plain = folder / path.stem
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        number = path.name.partition(".")[0]
        if int(number) >= 7:  # older stores cannot be served any more
            restore(plain, folder / number)
        else:
            with tarfile.open(plain) as archive:
                archive.extractall(folder / number, filter="data")
    return {int(path.name): path for path in folder.iterdir() if path.is_dir()}


def refused(opened, *said):
    with pytest.raises(BadFile) as found:
        opened()
    assert "\n" not in str(found.value)
    for part in said:
        assert part in str(found.value)


def test_every_format_has_a_file_of_its_newest_version():
    found = {}
    for path in sorted((ROOT / "src" / "pintgn").rglob("*.py")):
        names = [
            name.id
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        ]
        if "FORMAT" in names:
            module = ".".join(path.relative_to(ROOT / "src" / "pintgn").with_suffix("").parts)
            found[module] = importlib.import_module(f"pintgn.{module}").FORMAT
    assert found == NEWEST, "add a file of the new format to tests/formats, and say here what it holds"


@pytest.mark.parametrize("number", [3, 4, 5, 6, 7])
def test_runs_that_can_be_used_are_used(generations, number):
    folder = generations[number]
    run = Run.open(folder)
    assert (len(run.log), run.stream.events, run.stream.clock) == (60, 60, 59)
    clean = Stream(run.stream.model, run.stream.schema)  # as if the file had never been written
    clean.observe(run.log)
    ends = np.arange(10)
    query = Query(ends, ends[::-1], np.full(10, 100))
    with torch.no_grad():
        assert np.allclose(run.stream.score(query), clean.score(query), atol=1e-5)
    if number < 7:
        refused(lambda: Service.open(folder), "written by an older pintgn (format", "--store")
        return
    with Service.open(generations[number], options=Options(lateness=math.inf)) as service:
        assert (service.live.total, service.store.waiting, service.reports, service.replayed) == (5, 1, [], 0)
        again = service.observe([{"src": "u1", "dst": "v1", "t": 104, "key": "k4"}])
        assert (again["duplicates"], again["clock"]) == (1, 104)


def test_streams_with_known_targets_are_read_or_refused_with_what_helps(tmp_path):
    for number in (3, 4):
        with tarfile.open(ROOT / "tests" / "formats" / f"stream-{number}.txz") as archive:
            archive.extractall(tmp_path / str(number), filter="data")
    refused(lambda: Stream.open(tmp_path / "3" / "stream"), "older pintgn (format 3, not 4). Make it again")
    stream = Stream.open(tmp_path / "4" / "stream")
    assert (stream.events, stream.clock, stream.model.settings()["windows"][0]) == (120, 119, pytest.approx(83 / 48))
    ends, given = np.arange(5), np.zeros((5, 1), np.float32)
    with torch.no_grad():
        found = stream.replay(None, [Query(ends, ends + 6, np.full(5, 200), given)])[0]
    assert torch.isfinite(found).all()
    assert stream.history.late.index.look_up(ends, ends + 6, np.full(5, 200)).count[:, 0, 0].sum() > 0


def test_a_setting_that_is_gone_is_forgotten_only_if_it_was_off(generations, tmp_path):
    shutil.copytree(generations[3] / "stream", tmp_path / "stream")
    path = tmp_path / "stream" / "stream.json"
    assert '"contact_age": false' in path.read_text()
    path.write_text(path.read_text().replace('"contact_age": false', '"contact_age": true'))
    said = "was written by an older pintgn: PINT has no 'contact_age' any more. Make it again"
    refused(lambda: Stream.open(tmp_path / "stream"), said)


def test_a_log_that_was_saved_as_arrow_is_refused_with_what_helps():
    path = ROOT / "tests" / "formats" / "mapped-1.arrow"
    refused(lambda: EventLog.open(path), "mapped-1.arrow", "pyarrow.feather.read_table", ".parquet")
    refused(lambda: read_events(path), "mapped-1.arrow", "pyarrow.feather.read_table", ".parquet")
    log = read_events(feather.read_table(path), "src", "dst", "t")
    assert (len(log), log.id(0)) == (60, "n16")


def test_the_keys_of_the_newest_store_are_read(generations):
    assert [(key.name, key.scope, key.rate) for key in stored(generations[5] / "live" / KEYS)] == [("feed", "write", 5)]


@pytest.mark.parametrize("number", [1, 2])
def test_older_runs_are_refused_with_what_helps(generations, number):
    folder = generations[number]
    older = "was written by an older pintgn (format 1, not"
    refused(lambda: Run.open(folder), older, "Train again")
    refused(lambda: EventLog.open(folder / "events.parquet"), older, "Read the original data again")
    refused(lambda: Stream.open(folder / "stream"), older, "Make it again")
    refused(lambda: Service.open(folder), older, "Train again")


def owner(folder):
    with sqlite3.connect(folder / "live" / "events.db") as db:
        return db.execute("SELECT value FROM facts WHERE name IN ('run', 'log')").fetchone()[0]


def opened(folder):
    """As a run of the log that it belongs to opens it."""
    return SqliteStore(folder / "live", owner(folder), 0, np.dtype(np.int64))


def test_stores_are_read_or_refused_with_what_helps(generations):
    for number, format in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (6, 4)):
        said = f"(format {format}, not 5)"
        refused(lambda number=number: opened(generations[number]), said, "pintgn serve RUN --export", "--store")
    with opened(generations[7]) as store:
        assert (store.total, store.reports, store.loss) == (5, [], None)
        assert [batch.keys for _, batch in store.read()] == [[f"k{k}" for k in range(5)]]


@pytest.mark.parametrize("number", [3, 4])
def test_stores_in_postgresql_are_read_or_refused_with_what_helps(number):
    from pintgn.serve.postgres import PostgresStore
    from tests.postgres import Cluster

    with contextlib.closing(Cluster("hush")) as cluster:
        with psycopg.connect(cluster.address()) as db:
            db.execute((ROOT / "tests" / "formats" / f"postgres-{number}.sql").read_text())
        if number < 4:
            said = "written by an older pintgn (format 3, not 4)"
            refused(lambda: PostgresStore(cluster.address(), "log", 0, np.dtype(np.int64), True), said, "--export")
            return
        with PostgresStore(cluster.address(), "log", 0, np.dtype(np.int64), True) as store:
            assert (store.total, store.waiting, store.writes, store.loss) == (5, 1, True, None)
            assert [batch.keys for _, batch in store.read()] == [[f"k{k}" for k in range(5)]]
            assert store.known(["k3"])


def test_older_snapshots_are_passed_over(generations):
    run = Run.open(generations[5])
    for number in (1, 2):
        snapshots = SnapshotFolder(generations[number] / "live", run)
        assert list(snapshots.valid()) == []
        assert "older pintgn (format 1, not 2)" in snapshots.reports[0]
        assert "replayed instead" in snapshots.reports[0]


def test_indexes_and_positions_are_read_or_refused(generations, tmp_path):
    newest = NeighborIndex.open(generations[5] / "stream" / "neighbors.npz")
    for folder in generations.values():
        index = NeighborIndex.open(folder / "stream" / "neighbors.npz")
        for node in range(10):  # all of them hold the same events
            one, other = index.recent(node, 100, 60), newest.recent(node, 100, 60)
            assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("ids", "t", "mask"))
    with np.load(generations[5] / "stream" / "neighbors.npz") as file:
        arrays = dict(file)
    for format, said in ((1, "older pintgn (format 1, not 3). Build it again"), (4, "newer pintgn")):
        np.savez(tmp_path / "index.npz", **arrays | {"head": np.array([format, *arrays["head"][1:]])})
        refused(lambda: NeighborIndex.open(tmp_path / "index.npz"), said)
    positions = [RelativePositions.open(folder / "stream" / "positions.npz") for folder in generations.values()]
    nodes = np.arange(10)
    for one in positions[1:]:
        assert np.array_equal(one.read(nodes, nodes[::-1]), positions[0].read(nodes, nodes[::-1]))
    with np.load(generations[5] / "stream" / "positions.npz") as file:
        arrays = dict(file)
    line = re.sub(rb'"format": 1', b'"format": 2', arrays["settings"].tobytes())
    np.savez(tmp_path / "positions.npz", **arrays | {"settings": np.frombuffer(line, np.uint8)})
    refused(lambda: RelativePositions.open(tmp_path / "positions.npz"), "newer pintgn (format 2, not 1). Update pintgn")


def test_a_format_is_read_from_the_oldest_that_is_known_on():
    for found in (2, 3):
        check_format(found, 3, "it", "Help.", oldest=2)
    check_format(3, 3, "it", "Help.")
    refused(lambda: check_format(1, 3, "it", "Help.", oldest=2), "older pintgn (format 1, not 3). Help.")
    refused(lambda: check_format(2, 3, "it", "Help."), "older pintgn (format 2, not 3). Help.")
    refused(lambda: check_format(4, 3, "it", "Help.", oldest=2), "newer pintgn (format 4, not 3). Update pintgn")


def test_a_bookmark_of_a_feed_is_read(tmp_path):
    shutil.copy(ROOT / "tests" / "formats" / "bookmark-1.json", tmp_path / "mark")
    bookmark = Bookmark(tmp_path / "mark", "/data/orders.csv", "http://127.0.0.1:8000")
    assert bookmark.position == {"generation": 1, "offset": 52, "inode": 7, "tail": "612c622c310a"}
    bookmark.close()


def test_the_history_of_models_is_read(tmp_path):
    shutil.copy(ROOT / "tests" / "formats" / "models-1.json", tmp_path / MODELS)
    found = ModelHistory(tmp_path)
    assert (found.active["run"], found.active["covered"], found.before["run"]) == ("/runs/b", 100, "/runs/a")
    assert [entry["state"] for entry in found.entries] == ["promoted"]
