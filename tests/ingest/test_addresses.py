"""Files on the web and in S3 are read as the same file here is. Both are small servers on this machine."""

from __future__ import annotations

import functools
import gc
import re
import socket
import sqlite3
import tempfile
import threading
from contextlib import closing
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import read_events
from pintgn.errors import BadFile, BadInput
from pintgn.formatting import shown_address
from pintgn.ingest import addresses
from pintgn.ingest.sources import open_source

TABLE = pa.table({"src": ["ann", "bob", "ann"], "dst": ["bob", "cay", "cay"], "t": [1, 2, 2], "x": [0.5, 1, 1.5]})


class Store(SimpleHTTPRequestHandler):
    """Files, also in parts, and lists of them as S3 gives them; `asked` holds every request."""

    asked: list[tuple[str, str, str | None]]

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        self.asked.append((self.command, self.path, self.headers.get("Range")))
        path = Path(self.translate_path(self.path))
        if "forbidden" in self.path:
            return self.send(403, b"", body)
        if "list-type=2" in self.path:
            prefix = re.search(r"prefix=([^&]*)", self.path)
            return self.send(200, self.listing(path, prefix[1].replace("%2F", "/") if prefix else ""), body)
        if not path.is_file():
            return self.send(404, b"", body)
        content = path.read_bytes()
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            return self.send(200, content, body)
        start, end = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        self.send(206, content[start : end + 1], body, f"bytes {start}-{end}/{len(content)}")
        return None

    def listing(self, bucket, prefix):
        found = sorted(p.relative_to(bucket).as_posix() for p in bucket.rglob("*") if p.is_file())
        found = [name for name in found if name.startswith(prefix)]
        one = "<Contents><Key>{}</Key><Size>1</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
        return (
            f"<ListBucketResult><KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
            f"{''.join(map(one.format, found))}</ListBucketResult>"
        ).encode()

    def send(self, code, content, body, part=None):
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if part:
            self.send_header("Content-Range", part)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder with a table in every form, and what is asked of the server before it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    folder = tmp_path / "site" / "shop"
    (folder / "parts").mkdir(parents=True)
    pq.write_table(TABLE, folder / "events.parquet")
    pq.write_table(TABLE[:1], folder / "parts" / "1.parquet")
    pq.write_table(TABLE[1:], folder / "parts" / "2.parquet")
    for day, rows in ((10, TABLE[1:]), (9, TABLE[:1])):  # by their names, the tenth comes first
        (folder / "days" / f"day={day}").mkdir(parents=True)
        pq.write_table(rows, folder / "days" / f"day={day}" / "0.parquet")
    (folder / "days" / "_temporary").mkdir()
    pq.write_table(TABLE, folder / "days" / "_temporary" / "0.parquet")
    (folder / "events.csv").write_text("src,dst,t,x\nann,bob,1,0.5\nbob,cay,2,1\nann,cay,2,1.5\n")
    read_events(folder / "events.csv", features=["x"]).save(folder / "saved.parquet")
    with closing(sqlite3.connect(folder / "shop.db")) as base:
        base.execute("create table events (src, dst, t, x)")
        base.execute("create table other (y)")
        base.executemany("insert into events values (?, ?, ?, ?)", zip(*TABLE.to_pydict().values(), strict=True))
        base.commit()
    return folder


@pytest.fixture
def site(shelf):
    handler = type("Here", (Store,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(shelf.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.asked = handler.asked
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def web(site):
    return f"http://127.0.0.1:{site.server_port}/shop"


@pytest.fixture
def s3(site, monkeypatch):
    """An address of S3 that is this machine, and nothing else."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    login = f"scheme=http&endpoint_override=127.0.0.1:{site.server_port}&region=us-east-1"
    return lambda name: f"s3://ann:s3cret@shop/{name}?{login}"


@pytest.mark.parametrize(
    "name", ["events.parquet", "events.csv", "saved.parquet", "shop.db#events", "shop.db#select * from events"]
)
def test_a_file_on_the_web_reads_as_here(name, web, shelf):
    log = read_events(f"{web}/{name}", features=None if name.startswith("saved") else ["x"])
    assert log == read_events(f"{shelf}/{name}", features=None if name.startswith("saved") else ["x"])
    assert len(log) == 3
    gc.collect()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []  # nothing stays behind


def test_partitions_in_s3_read_as_here(s3, shelf):
    log = read_events(s3("days"), features=["x", "day"])
    assert log == read_events(shelf / "days", features=["x", "day"])
    assert log.features[:, 1].tolist() == [9, 10, 10]
    assert log == read_events(s3("days/"), features=["x", "day"])


@pytest.mark.parametrize("name", ["events.parquet", "events.csv", "saved.parquet", "parts", "shop.db#events"])
def test_a_file_in_s3_reads_as_here(name, s3, shelf):
    name, hash, table = name.partition("#")
    log = read_events(s3(name) + hash + table, features=None if name.startswith("saved") else ["x"])
    assert log == read_events(f"{shelf}/{name}{hash}{table}", features=None if name.startswith("saved") else ["x"])
    gc.collect()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_only_the_columns_that_are_needed_leave_s3(s3, shelf, site):
    wide = {f"column {k}": [float(k + row) for row in range(20_000)] for k in range(30)}
    ids = {"src": list(range(20_000)), "dst": list(range(20_000)), "t": list(range(20_000))}
    pq.write_table(pa.table(ids | wide), shelf / "wide.parquet", compression="none")
    assert len(read_events(s3("wide.parquet"))) == 20_000
    parts = [re.fullmatch(r"bytes=(\d+)-(\d+)", part) for command, _, part in site.asked if command == "GET" and part]
    taken = sum(int(part[2]) - int(part[1]) + 1 for part in parts)
    assert 0 < taken < (shelf / "wide.parquet").stat().st_size / 3


def test_a_path_object_is_an_address_as_well(web):
    assert len(read_events(Path(f"{web}/events.parquet"))) == 3


def test_what_is_not_there_is_one_line(web, s3):
    with pytest.raises(BadFile, match=r"^http://127.0.0.1:\d+/shop/nope.parquet cannot be fetched: 404 [^\n]*$"):
        read_events(f"{web}/nope.parquet?token=s3cret")
    with pytest.raises(BadFile, match="forbidden.parquet cannot be fetched: 403 Forbidden"):
        read_events(f"{web}/forbidden.parquet?token=s3cret")
    with pytest.raises(BadFile, match=r"^there is nothing at s3://shop/nope.parquet.$"):
        read_events(s3("nope.parquet"))
    with pytest.raises(
        BadFile, match=r"^s3://shop/forbidden.parquet cannot be read: AWS Error ACCESS_DENIED"
    ) as caught:
        read_events(s3("forbidden.parquet"))
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="address holds a user or a password, which is not sent"):
        read_events("https://ann:s3cret@127.0.0.1/events.parquet")
    with pytest.raises(BadInput, match=r"shop.db has 2 tables: 'events', 'other'"):
        read_events(f"{web}/shop.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(BadFile, match=rf"127.0.0.1:{free.getsockname()[1]}/.*refused"):
            read_events(f"http://127.0.0.1:{free.getsockname()[1]}/events.parquet")
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_a_damaged_file_in_s3_is_one_line(s3, shelf):
    whole = (shelf / "events.parquet").read_bytes()
    (shelf / "cut.parquet").write_bytes(whole[:-30])
    with pytest.raises(BadFile, match=r"^s3://shop/cut.parquet cannot be read: ") as caught:
        read_events(s3("cut.parquet"))
    assert "\n" not in str(caught.value)


def test_progress_of_a_download_is_told(web):
    seen = []
    open_source(f"{web}/events.csv", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_a_copy_from_s3_is_the_same_in_pieces_of_any_size(chunk, s3, shelf, monkeypatch):
    monkeypatch.setattr(addresses, "CHUNK", chunk)
    assert read_events(s3("events.csv")) == read_events(shelf / "events.csv")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:s3cret@db:5432/shop?sslmode=require&password=s3cret", "postgresql://ann@db:5432/shop"),
        ("postgresql://ann:s3cret#cret@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://ann:s3?cret@db/shop#select 1", "postgresql://ann@db/shop"),
        ("postgresql://ann:s3/cret@db/shop", "postgresql://ann@db/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
        ("s3://key:s3cret@bucket/file.parquet?region=x", "s3://bucket/file.parquet"),
        ("https://host/file.parquet?signature=s3cret", "https://host/file.parquet"),
        ("shop.db#orders", "shop.db"),
        ("events.csv", "events.csv"),
        ("C:/events.csv", "C:/events.csv"),
    ],
)
def test_what_is_shown_of_an_address_holds_no_secret(address, shown):
    assert shown_address(address) == shown
