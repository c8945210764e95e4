"""Downloads by pooch: a file appears only when it is complete."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and how many there will be, where the server says so."""

CHUNK = 1 << 18


def download(url: str, target: Path, progress: Progress | None = None, shown: str | None = None) -> Path:
    """Download a URL to a file; returns its path.

    Args:
        shown: the URL of a user's own, as messages may show it; otherwise they suggest a mirror.
    """
    import pooch

    from pintgn import __version__

    pooch.get_logger().setLevel(logging.WARNING)  # what it tells otherwise holds the whole URL
    headers = {"User-Agent": f"pintgn/{__version__}", "Accept-Encoding": "identity"}  # a .gz file is to stay one
    bar = Counter(progress) if progress else False
    by = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, headers=headers, timeout=60)
    try:
        return Path(pooch.retrieve(url, None, target.name, target.parent, downloader=by))
    except OSError as error:
        if error.errno is not None:  # the disk, not the network
            raise
        answer, cause = getattr(error, "response", None), getattr(error.args[0] if error.args else None, "reason", None)
        why = f"the connection broke off ({type(error).__name__})"
        if answer is not None:
            why = f"{answer.status_code} {answer.reason}"
        elif cause is not None:
            why = str(cause).rpartition(": ")[2]
        advice = "" if shown else ", or download it elsewhere and pass its folder as mirror (--mirror FOLDER)"
        # the error's own message may show what is secret
        raise BadFile(f"{shown or url} cannot be fetched: {why}. Try again later{advice}.") from None


class Counter:
    """A progress bar such as pooch wants, which calls a function."""

    total = 0

    def __init__(self, progress: Progress):
        self.progress, self.done = progress, 0

    def update(self, more: int) -> None:
        self.done = min(self.done + more, self.total or self.done + more)
        self.progress(self.done, self.total or None)

    def reset(self) -> None:
        """Asked for at the end, before all of a known total is counted once more."""
        self.done -= min(self.done, self.total)

    def close(self) -> Any:
        """Nothing to do: the bar belongs to the caller."""
