"""Named data sets, fetched from a server on this machine in the formats they are published in."""

from __future__ import annotations

import dataclasses
import gzip
import os
import socket
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from pintgn.datasets import public as datasets
from pintgn.datasets.public import DATASETS, cached, fetch, load
from pintgn.errors import BadFile, UnknownName
from pintgn.events.log import EventLog

JODIE_HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder; /busy/… refuses, /broken/… stops half-way."""

    seen: list[str]

    def do_GET(self):
        self.seen.append(self.path)
        if self.path.startswith("/busy/"):
            self.send_error(503)
        elif self.path.startswith("/broken/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"user_id,item_id\n")
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@dataclasses.dataclass
class Site:
    url: str
    folder: os.PathLike
    seen: list[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    seen: list[str] = []
    handler = partial(type("Handler", (Handler,), {"seen": seen}), directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Site(f"http://127.0.0.1:{running.server_port}", folder, seen)
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def site(server):
    """Small files with every peculiarity of the published ones."""
    wikipedia = "0,0,0.0,0,0.5,-1.25,3\n1,1,36.0,0,1,2,3\n1,0,36.0,1,1e-3,2,3\n0,1,77.0,0,1,2,3\n"
    (server.folder / "wikipedia.csv").write_text(JODIE_HEADER + wikipedia)
    (server.folder / "mooc.csv").write_text(JODIE_HEADER + "0,0,0.0,0,1,2,3,4\n0,1,6.25,1,5,6,7,8\n")
    (server.folder / "lastfm.csv").write_text(JODIE_HEADER + "0,0,0.0,0,0\n0,1,5.0,0,0\n1,0,8.0,0,0\n")
    with gzip.open(server.folder / "CollegeMsg.txt.gz", "wt") as file:
        file.write("1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n")
    with zipfile.ZipFile(server.folder / "enron.zip", "w") as archive:
        rows = "0,114,170,0.0,0.0,1\n1,114,170,0.0,0.0,2\n2,17,17,113740399.0,0.0,3\n"
        archive.writestr("enron/ml_enron.csv", ",u,i,ts,label,idx\n" + rows)
        archive.writestr("enron/ml_enron.npy", b"")
    server.seen.clear()
    return server


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(site, cache, monkeypatch):
    """The table of sets with the counts of the small files and addresses on this machine."""
    counts = {"wikipedia": (4, 4, 3), "mooc": (2, 3, 4), "lastfm": (3, 4, 0), "uci": (3, 5, 0), "enron": (3, 3, 0)}
    for name, (events, nodes, features) in counts.items():
        one = dataclasses.replace(DATASETS[name], events=events, nodes=nodes, features=features)
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(one, url=f"{site.url}/{one.file}"))
    return site


def change(monkeypatch, name, **fields):
    monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], **fields))


def left_in(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file()) if cache.exists() else []


# -- the table ---------------------------------------------------------------------------------------------


def test_published_counts_are_those_of_the_papers_table():
    assert {name: (one.nodes, one.events, one.features) for name, one in DATASETS.items()} == {
        "wikipedia": (9_227, 157_474, 172),
        "reddit": (10_984, 672_447, 172),
        "mooc": (7_144, 411_749, 4),
        "lastfm": (1_980, 1_293_103, 0),
        "uci": (1_899, 59_835, 0),
        "enron": (184, 125_235, 0),
    }
    for name, one in DATASETS.items():
        assert one.name == name
        assert one.about
        assert one.citation
        assert one.url.startswith("https://")
    assert [one.file for one in DATASETS.values()] == [
        "wikipedia.csv",
        "reddit.csv",
        "mooc.csv",
        "lastfm.csv",
        "CollegeMsg.txt.gz",
        "enron.zip",
    ]


# -- formats -----------------------------------------------------------------------------------------------


def test_jodie_users_and_items_are_two_name_spaces(small):
    log = load("wikipedia")
    assert (len(log), log.nodes) == (4, 4)
    assert log.node(0, "src") != log.node(0, "dst")
    assert log.ids.decode(log.src).to_pylist() == [0, 1, 1, 0]
    assert log.ids.decode(log.dst).to_pylist() == [0, 1, 0, 1]
    assert log.t.dtype == np.int64
    assert log.t.tolist() == [0, 36, 36, 77]
    assert log.label.tolist() == [0, 0, 1, 0]
    assert log.features.tolist()[0] == [0.5, -1.25, 3]
    assert log.schema.src == "user_id"


def test_fractional_times_stay_float64(small):
    log = load("mooc")
    assert log.t.dtype == np.float64
    assert log.t.tolist() == [0.0, 6.25]
    assert log.features.shape == (2, 4)


def test_columns_of_zeros_that_only_fill_the_format_are_dropped(small):
    log = load("lastfm")
    assert log.features is None
    assert log.label is None
    assert log == EventLog.open(fetch("lastfm"))


def test_uci_is_a_compressed_edge_list(small):
    log = load("uci")
    assert log.ids.decode(log.src).to_pylist() == [1, 3, 5]
    assert log.t.tolist() == [1082040961, 1082155839, 1082414391]


def test_enron_is_one_table_in_a_zip(small):
    log = load("enron")
    assert log.ids.decode(log.dst).to_pylist() == [170, 170, 17]
    assert log.t.tolist() == [0, 0, 113740399]
    assert log.statistics().self_loops == 1


# -- fetching ----------------------------------------------------------------------------------------------


def test_progress_counts_up_to_the_size_of_the_file(small):
    calls = []
    fetch("wikipedia", progress=lambda done, total: calls.append((done, total)))
    size = (small.folder / "wikipedia.csv").stat().st_size
    assert calls[-1] == (size, size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_a_set_is_fetched_once(small, cache):
    assert not cached("uci")
    path = fetch("uci")
    assert path == cache / "datasets" / "uci.parquet"
    assert cached("uci")
    small.seen.clear()
    assert fetch("uci") == path
    assert load("uci") == EventLog.open(path)
    assert small.seen == []
    fetch("uci", again=True)
    assert small.seen == ["/CollegeMsg.txt.gz"]
    assert left_in(cache) == ["uci.parquet"]


def test_the_cache_folder_can_be_named(small, cache, tmp_path):
    path = fetch("uci", cache=tmp_path / "elsewhere")
    assert path.parent.parent == tmp_path / "elsewhere"
    assert cached("uci", cache=tmp_path / "elsewhere")
    assert left_in(cache) == []


def test_without_the_variable_the_users_cache_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("PINTGN_CACHE", raising=False)
    monkeypatch.setattr(datasets.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    (tmp_path / "pintgn" / "datasets").mkdir(parents=True)
    (tmp_path / "pintgn" / "datasets" / "uci.parquet").touch()
    assert cached("uci")


@pytest.mark.parametrize("where", ["", "/", "/CollegeMsg.txt.gz"])
def test_a_mirror_can_be_a_url(small, monkeypatch, where):
    change(monkeypatch, "uci", url="https://nowhere.invalid/data/CollegeMsg.txt.gz")
    assert len(load("uci", mirror=small.url + where)) == 3


def test_a_mirror_can_be_a_folder_or_a_file(small, cache, tmp_path):
    small.seen.clear()
    direct = load("uci", mirror=small.folder)
    assert direct == load("uci", mirror=small.folder / "CollegeMsg.txt.gz", cache=tmp_path / "2")
    assert small.seen == []
    assert (small.folder / "CollegeMsg.txt.gz").exists()


def test_real_copies_have_the_published_counts(shared_data, cache):
    folder = shared_data("enron").parent
    log = load("enron", mirror=folder)
    assert (len(log), log.nodes) == (125_235, 184)
    assert len(load("uci", mirror=folder)) == 59_835
    with pytest.raises(BadFile, match="0 features where 172 were published"):
        fetch("wikipedia", mirror=folder)


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_an_unknown_name_suggests_a_near_one(cache):
    for use in (fetch, load, cached):
        with pytest.raises(UnknownName, match="there is no data set 'wikipeda'. Did you mean 'wikipedia'"):
            use("wikipeda")


def test_no_network_says_how_to_do_without(small, cache, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    change(monkeypatch, "uci", url=f"http://127.0.0.1:{port}/CollegeMsg.txt.gz")
    with pytest.raises(
        BadFile, match=rf"127.0.0.1:{port}/.* cannot be fetched: .* pass its folder as mirror"
    ) as caught:
        fetch("uci")
    assert "\n" not in str(caught.value)
    assert left_in(cache) == []


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("/nothing-here", "CollegeMsg.txt.gz cannot be fetched: 404"),
        ("/busy", "cannot be fetched: 503 Service Unavailable. Try again later"),
        ("/broken", "CollegeMsg.txt.gz cannot be fetched: .* broke off .* Try again"),
    ],
)
def test_a_failing_server_leaves_nothing_behind(small, cache, where, message):
    with pytest.raises(BadFile, match=message):
        fetch("uci", mirror=small.url + where)
    assert left_in(cache) == []
    assert not cached("uci")


def test_counts_that_do_not_match_are_refused(small, cache, monkeypatch):
    change(monkeypatch, "uci", events=59_835, nodes=1_899)
    message = "not the published uci: 3 events where 59,835, 5 nodes where 1,899 were published"
    with pytest.raises(BadFile, match=message):
        fetch("uci")
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_written_is_named(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match=r"cannot write .*file.*\. Set PINTGN_CACHE"):
        fetch("uci", cache=tmp_path / "file")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that this user may not write")
def test_a_read_only_cache_is_named(small, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(BadFile, match="Permission denied.*Set PINTGN_CACHE"):
        fetch("uci", cache=locked)


def test_a_full_disk_leaves_the_old_log_in_place(small, cache, monkeypatch):
    before = fetch("uci").read_bytes()

    def full(self, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventLog, "save", full)
    with pytest.raises(BadFile, match="No space left on device"):
        fetch("uci", again=True)
    assert fetch("uci").read_bytes() == before
    assert left_in(cache) == ["uci.parquet"]


def test_mirrors_that_are_none(small, tmp_path):
    for mirror in ("ftp://example.org/data", tmp_path / "nothing", tmp_path):
        with pytest.raises(BadFile, match="neither a URL nor a folder with CollegeMsg.txt.gz or uci.parquet"):
            fetch("uci", mirror=mirror)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("enron", "enron.zip", b"PK\x03\x04 half", "not a complete zip file"),
        ("wikipedia", "wikipedia.csv", b"", "not in JODIE's format"),
        ("wikipedia", "wikipedia.csv", b"<html>\n<body>sorry</body>\n", "not in JODIE's format"),
    ],
)
def test_damaged_files_are_refused(small, tmp_path, name, file, content, message):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(BadFile, match=message):
        fetch(name, mirror=tmp_path)


def test_a_zip_without_the_table_is_refused(small, tmp_path):
    with zipfile.ZipFile(tmp_path / "enron.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(BadFile, match="does not hold ml_enron.csv"):
        fetch("enron", mirror=tmp_path)
