"""Files from the network: to a temporary name, then renamed, so that a broken download is never taken for a file."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pintgn.errors import BadFile

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and how many there will be, where the server says so."""

CHUNK = 1 << 18


def download(url: str, target: Path, progress: Progress | None = None, timeout: float = 60) -> None:
    """Fetch a URL into a file, which appears only when it is complete."""
    from pintgn import __version__

    request = urllib.request.Request(url, headers={"User-Agent": f"pintgn/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer, appearing(target) as part:
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            done = 0
            with open(part, "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if progress is not None:
                        progress(done, total)
            if total is not None and done != total:
                raise BadFile(f"{url} broke off after {done:,} of {total:,} bytes. Try again.")
    except urllib.error.HTTPError as error:
        error.close()
        gone = error.code in (404, 410)
        what = f"{url} is not there ({error.code})" if gone else f"{url} was refused ({error.code} {error.reason})"
        raise BadFile(
            f"{what}. {'Try' if gone else 'Try later, or try'} another place with mirror (--mirror)."
        ) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise BadFile(
            f"cannot reach {urlsplit(url).netloc} ({reason}). Where there is a network, download {url}, then pass the "
            "folder it is in as mirror (--mirror FOLDER)."
        ) from error


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A path to write to that becomes `target` at once when the block ends well, and vanishes when it does not."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The checksum of a file, as `sha256sum` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
