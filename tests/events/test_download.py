"""Downloads that break: taken up where they broke if it is still the same file, else begun anew."""

from __future__ import annotations

import dataclasses
import gzip
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pintgn.errors import BadFile
from pintgn.events import datasets
from pintgn.events import download as module
from pintgn.events.download import download
from tests.conftest import around

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
CHANGED = CONTENT[::-1]


class Flaky(BaseHTTPRequestHandler):
    """A file server whose connections drop after so many bytes each, as often as it is told."""

    site: Site

    def do_GET(self):
        site = self.site
        site.asked.append(self.headers.get("Range"))
        content, tag = site.content, site.tag
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = 0
        if wanted and site.ranges and (site.careless or self.headers.get("If-Range") == tag):
            start = int(wanted[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if tag:
            self.send_header("ETag" if tag.startswith(('"', "W/")) else "Last-Modified", tag)
        if site.sized:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        rest = content[start:]
        drop = site.drops.pop(0) if site.drops else len(rest)
        site.sent += min(drop, len(rest))  # before the client may be done
        self.wfile.write(rest[:drop])
        return None

    def log_message(self, *_):
        pass


class Site:
    """What the server does; `drops` are the bytes after which the next connections break."""

    def __init__(self):
        self.content, self.tag = CONTENT, '"one"'
        self.ranges = self.sized = True
        self.careless = False  # about If-Range
        self.drops: list[int] = []
        self.asked: list[str | None] = []
        self.sent = 0
        self.url = ""


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0)
    made = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Flaky,), {"site": made})) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.url = f"http://127.0.0.1:{running.server_port}/set.csv"
        yield made
        running.shutdown()
        thread.join()


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [1_000, *around(len(CONTENT) // 2), *around(len(CONTENT))])
def test_pieces_of_any_size_make_the_file(size, site, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", size)
    site.drops = [size, 3]
    download(site.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_broken_connection_is_taken_up_where_it_broke(site, tmp_path):
    site.drops = [5_000, 3_000]
    seen = []
    download(site.url, tmp_path / "set.csv", lambda done, total: seen.append((done, total)))
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.asked == [None, "bytes=5000-", "bytes=8000-"]
    assert site.sent == len(CONTENT)  # nothing came twice
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert files(tmp_path) == ["set.csv"]


def test_the_time_of_the_last_change_will_do_for_a_tag(site, tmp_path):
    site.tag, site.drops = "Wed, 21 Oct 2015 07:28:00 GMT", [4_000]
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.sent == len(CONTENT)


def test_a_server_without_ranges_sends_all_of_it_again(site, tmp_path):
    site.ranges, site.drops = False, [5_000]
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.sent == 5_000 + len(CONTENT)


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_tag_that_means_byte_for_byte_it_starts_anew(site, tmp_path, tag):
    site.tag, site.drops = tag, [5_000]
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.asked == [None, None]


@pytest.mark.parametrize("careless", [False, True], ids=["If-Range", "server ignores If-Range"])
@pytest.mark.parametrize("content", [CHANGED, CONTENT[:6_000], CONTENT[:100]], ids=["same size", "smaller", "tiny"])
def test_a_file_that_changed_meanwhile_is_fetched_anew(site, tmp_path, content, careless):
    site.drops, site.careless = [5_000], careless

    def changing(done, total):
        if done >= 5_000 and site.content is CONTENT:
            site.content, site.tag = content, '"two"'

    download(site.url, tmp_path / "set.csv", changing)
    assert (tmp_path / "set.csv").read_bytes() == content
    assert files(tmp_path) == ["set.csv"]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(site, tmp_path):
    site.drops = [6_000] + [0] * 10
    with pytest.raises(BadFile, match=r"broke off after 6,000 of 10,240 bytes.*goes on from there"):
        download(site.url, tmp_path / "set.csv")
    assert not (tmp_path / "set.csv").exists()
    site.drops, site.sent = [], 0
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.sent == len(CONTENT) - 6_000
    assert files(tmp_path) == ["set.csv"]


def test_a_later_call_after_an_interruption_goes_on_too(site, tmp_path):
    def impatient(done, total):
        if done >= 5_000:
            raise KeyboardInterrupt

    site.drops = [5_000]
    with pytest.raises(KeyboardInterrupt):
        download(site.url, tmp_path / "set.csv", impatient)
    site.sent = 0
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert site.sent < len(CONTENT)


def test_the_beginning_of_another_file_is_not_used(site, tmp_path):
    site.drops = [6_000] + [0] * 10
    with pytest.raises(BadFile):
        download(site.url, tmp_path / "set.csv")
    site.drops, site.sent = [], 0
    download(site.url + "?other", tmp_path / "set.csv")
    assert site.sent == len(CONTENT)
    (tmp_path / ".set.csv.part").write_bytes(b"left by someone")
    download(site.url, tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_bytes() == CONTENT


def test_a_file_of_unknown_length_is_taken_as_it_ends(site, tmp_path):
    site.sized = False
    seen = []
    download(site.url, tmp_path / "set.csv", lambda done, total: seen.append(total))
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert set(seen) == {None}


def test_a_server_that_never_gets_through_is_given_up_and_leaves_nothing_useless(site, tmp_path):
    site.tag, site.drops = "", [5_000] * 50
    with pytest.raises(BadFile, match=r"broke off after 5,000 of 10,240 bytes, 4 times in a row\. Try again\."):
        download(site.url, tmp_path / "set.csv")
    assert len(site.asked) <= 6
    assert files(tmp_path) == []


def test_two_downloads_of_one_file_do_not_mix(site, tmp_path):
    def another(done, total):
        if done == 0 and not (tmp_path / "b.csv").exists():
            download(site.url, tmp_path / "b.csv", part=tmp_path / ".shared")

    download(site.url, tmp_path / "a.csv", another, part=tmp_path / ".shared")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes() == CONTENT
    assert files(tmp_path) == ["a.csv", "b.csv"]


def test_a_named_set_goes_on_where_an_earlier_fetch_broke(site, tmp_path, monkeypatch):
    lines = [f"{k % 40 + 1} {k % 7 + 41} {1_082_040_961 + 7 * k}\n" for k in range(2_000)]
    site.content = gzip.compress("".join(lines).encode())
    small = dataclasses.replace(datasets.DATASETS["uci"], events=2_000, nodes=47)
    monkeypatch.setitem(datasets.DATASETS, "uci", small)
    mirror, half = site.url.rpartition("/")[0], len(site.content) // 2
    site.drops = [half] + [0] * 10
    with pytest.raises(BadFile, match="goes on from there"):
        datasets.fetch("uci", mirror=mirror, cache=tmp_path)
    assert not datasets.cached("uci", tmp_path)
    site.drops, site.sent = [], 0
    log = datasets.load("uci", mirror=mirror, cache=tmp_path)
    assert (len(log), log.nodes) == (2_000, 47)
    assert site.sent == len(site.content) - half
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == ["uci.parquet"]
