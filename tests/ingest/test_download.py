"""Downloads: whole files, or none and one line that says why."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pintgn.errors import BadFile
from pintgn.ingest import download as module
from pintgn.ingest.download import download
from tests.conftest import around

CONTENT = bytes(range(256)) * 40  # 10,240 bytes


class Flaky(BaseHTTPRequestHandler):
    """A server of one file, which stops after so many bytes where it is told to."""

    site: Site

    def do_GET(self):
        site = self.site
        site.asked.append(dict(self.headers))
        self.send_response(200)
        if site.sized:
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: site.stops])

    def log_message(self, *_):
        pass


class Site:
    def __init__(self):
        self.sized, self.stops, self.url = True, None, ""
        self.asked: list[dict[str, str]] = []


@pytest.fixture
def site():
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
    seen = []
    assert download(site.url, tmp_path / "file", lambda *done: seen.append(done)) == tmp_path / "file"
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert files(tmp_path) == ["file"]


def test_a_broken_connection_leaves_no_file(site, tmp_path):
    site.stops = 5_000
    with pytest.raises(BadFile, match=r"/set\.csv cannot be fetched: .* broke off .* Try again"):
        download(site.url, tmp_path / "set.csv")
    assert files(tmp_path) == []
    site.stops = None
    assert download(site.url, tmp_path / "set.csv").read_bytes() == CONTENT


def test_a_file_of_unknown_length_is_taken_as_it_ends(site, tmp_path):
    site.sized = False
    seen = []
    download(site.url, tmp_path / "set.csv", lambda done, total: seen.append((done, total)))
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
    assert {total for _, total in seen} == {None}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_compressed_file_is_asked_for_as_it_is(site, tmp_path):
    """A server that knows its .gz file to be gzip would have it unpacked on the way."""
    download(site.url, tmp_path / "set.csv")
    assert site.asked[0]["Accept-Encoding"] == "identity"
    assert site.asked[0]["User-Agent"].startswith("pintgn/")


def test_what_is_secret_in_an_address_is_not_told(site, tmp_path, capfd):
    site.stops = 5_000
    with pytest.raises(BadFile) as caught:
        download(f"{site.url}?token=s3cret", tmp_path / "set.csv", shown=site.url)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in "".join(capfd.readouterr())


def test_a_full_disk_is_not_taken_for_the_network(site, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        download(site.url, tmp_path / "set.csv", full)
    assert files(tmp_path) == []
