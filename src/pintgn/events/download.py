"""Files from the network. A broken connection is taken up where it broke; a file appears only when it is complete.

What has arrived stays in a hidden `.part` file, with a note of which file it is the beginning of (URL and validator).
The rest is asked for with `Range` and `If-Range` (RFC 9110, Sec. 13.1.5), so a server sends the rest of the *same* file
or all of the new one. Without a validator nothing can be known to fit, and the download starts anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from pintgn.errors import BadFile
from pintgn.files import rename, try_lock

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and how many there will be, where the server says so."""

CHUNK = 1 << 18
TRIES = 4
"""How often in a row a connection may break without bringing anything new."""
PAUSE = 0.5
"""Seconds before the second try; twice as long before each one after it."""
BROKEN = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)


def download(
    url: str,
    target: Path,
    progress: Progress | None = None,
    timeout: float = 60,
    part: Path | None = None,
    shown: str | None = None,
) -> None:
    """Fetch a URL into a file, which appears only when it is complete.

    Args:
        part: where to keep what has arrived, for this call and, should it fail, for the next; a hidden file beside the
            target by default.
        shown: the URL of a user's own, as messages may show it; otherwise they suggest a mirror.
    """
    part = target.with_name(f".{target.name}.part") if part is None else part
    with _claimed(part, url) as arrival:
        fruitless = 0
        while not arrival.complete:
            before = arrival.most
            try:
                arrival.receive(timeout, progress)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 416 or not arrival.done:
                    raise _refused(url, error, shown) from error
                arrival.restart()  # there is no such rest: it must be another file
            except BROKEN as error:
                fruitless = 0 if arrival.most > before else fruitless + 1
                if not arrival.most or fruitless >= TRIES:
                    raise _broken(arrival, error, shown) from error
                time.sleep(PAUSE * 2**fruitless)
        arrival.file.close()
        rename(arrival.path, target)


class Arrival:
    """The beginning of a file: how much there is, and of which file."""

    def __init__(self, url: str, path: Path, file: BinaryIO):
        self.url, self.path, self.file = url, path, file
        self.note = path.with_name(f"{path.name}.json")
        self.total: int | None = None
        self.validator: str | None = None
        self.complete = False
        self.done = self.most = 0
        state: Any = None
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(self.note.read_text())
        if isinstance(state, dict) and state.get("url") == url and state.get("validator"):
            self.validator, self.total = state["validator"], state.get("total")
            self.done = self.most = file.seek(0, os.SEEK_END)
            self.complete = self.done == self.total
        if not self.done:
            self.restart()

    @property
    def kept(self) -> bool:
        """Whether a later call can go on from here."""
        return self.done > 0 and self.validator is not None

    def receive(self, timeout: float, progress: Progress | None) -> None:
        """Ask for what is missing, and take in what comes."""
        with urllib.request.urlopen(self._request(), timeout=timeout) as answer:
            if answer.status == 206 and not self._continued_by(answer.headers):
                self.restart()
                raise http.client.HTTPException("the rest of another file was sent")
            if answer.status != 206:
                self.restart()  # no ranges here, or another file by now: all of it is coming
                self.validator = _validator(answer.headers)
            length = answer.headers.get("Content-Length")
            self.total = self.done + int(length) if length and length.isdigit() else None
            self.note.write_text(json.dumps({"url": self.url, "validator": self.validator, "total": self.total}))
            if progress is not None:
                progress(self.done, self.total)
            while chunk := answer.read(CHUNK):
                self.file.write(chunk)
                self.done += len(chunk)
                self.most = max(self.most, self.done)
                if progress is not None:
                    progress(self.done, self.total)
        if self.total is not None and self.done != self.total:
            raise http.client.HTTPException("the connection broke")
        self.complete = True

    def _continued_by(self, headers: Any) -> bool:
        """Whether a part of a file goes on where ours ends; not every server heeds `If-Range`."""
        begins, total = _range(headers.get("Content-Range"))
        same_size = total == self.total or None in (total, self.total)
        return begins == self.done and same_size and _validator(headers) in (None, self.validator)

    def _request(self) -> urllib.request.Request:
        from pintgn import __version__

        headers = {"User-Agent": f"pintgn/{__version__}", "Accept-Encoding": "identity"}
        if self.kept:
            headers |= {"Range": f"bytes={self.done}-", "If-Range": str(self.validator)}
        return urllib.request.Request(self.url, headers=headers)

    def restart(self) -> None:
        """Forget what has arrived."""
        self.file.seek(0)
        self.file.truncate()
        self.done = 0


@contextlib.contextmanager
def _claimed(part: Path, url: str) -> Iterator[Arrival]:
    """The part file, for us alone; one of our own where another process is at it. It stays only if it is of use."""
    file = open(part, "a+b")  # noqa: SIM115 - closed below
    if not try_lock(file):
        file.close()
        handle, name = tempfile.mkstemp(dir=part.parent, prefix=f"{part.name}.")
        part, file = Path(name), os.fdopen(handle, "w+b")
    arrival = Arrival(url, part, file)
    keep = False
    try:
        yield arrival
    except BaseException as error:
        network = isinstance(error, BadFile | KeyboardInterrupt)  # on a full disk, give back what we took
        keep = network and arrival.kept
        raise
    finally:
        with contextlib.suppress(OSError):  # a full disk shows once more when the rest is flushed
            file.close()
        if not keep:
            part.unlink(missing_ok=True)
            arrival.note.unlink(missing_ok=True)


def _range(header: str | None) -> tuple[int | None, int | None]:
    """First byte and total of a `Content-Range`.

    >>> _range("bytes 500-999/1000"), _range("bytes 500-999/*"), _range("nonsense")
    ((500, 1000), (500, None), (None, None))
    """
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", header or "")
    return (int(found[1]), None if found[2] == "*" else int(found[2])) if found else (None, None)


def _validator(headers: Any) -> str | None:
    """What `If-Range` may hold: an entity tag that means byte for byte, else the time of the last change."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified")


def _refused(url: str, error: urllib.error.HTTPError, shown: str | None) -> BadFile:
    gone, name = error.code in (404, 410), shown or url
    what = f"{name} is not there ({error.code})" if gone else f"{name} was refused ({error.code} {error.reason})"
    if shown is not None:
        return BadFile(f"{what}.")
    return BadFile(f"{what}. {'Try' if gone else 'Try later, or try'} another place with mirror (--mirror).")


def _broken(arrival: Arrival, error: Exception, shown: str | None) -> BadFile:
    if arrival.most:
        size = "" if arrival.total is None else f" of {arrival.total:,}"
        again = "Fetch it again: it goes on from there" if arrival.kept and shown is None else "Try again"
        name = shown or arrival.url
        return BadFile(f"{name} broke off after {arrival.most:,}{size} bytes, {TRIES} times in a row. {again}.")
    reason = getattr(error, "reason", None) or error or type(error).__name__
    if shown is not None:
        return BadFile(f"cannot reach {urlsplit(shown).netloc} ({reason}).")
    return BadFile(
        f"cannot reach {urlsplit(arrival.url).netloc} ({reason}). Where there is a network, download {arrival.url}, "
        "then pass the folder it is in as mirror (--mirror FOLDER)."
    )


def sha256(path: Path) -> str:
    """The checksum of a file, as `sha256sum` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
