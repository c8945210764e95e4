"""File of rows that the service refused: one JSON object on a line, each row once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile
from pintgn.files import write_errors


class RefusedRows:
    """A file of refused rows with the reason, on the disk before the source moves on.

    A row that is refused again, after a kill, is not written again.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise BadFile(f"{path} cannot be written; name a file in a folder that exists.")
        self.keys: set[str] = set()
        with write_errors(self.path):
            self.file = open(self.path, "ab+")  # noqa: SIM115 - stays open
            self.file.seek(0)
            whole = 0
            for line in self.file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                self.keys.add(_key_of(line))
            self.file.truncate(whole)  # what a kill left half-written

    def add(self, rows: list[dict[str, Any]]) -> None:
        new = [row for row in rows if row["key"] not in self.keys]
        if not new:
            return
        with write_errors(self.path, when_full="Free space on the disk, then start again: nothing is lost."):
            self.file.write("".join(json.dumps(row, default=str) + "\n" for row in new).encode())
            self.file.flush()
            os.fsync(self.file.fileno())
        self.keys.update(row["key"] for row in new)

    def close(self) -> None:
        self.file.close()


def _key_of(line: bytes) -> str:
    try:
        return str(json.loads(line)["key"])
    except (ValueError, KeyError, TypeError):
        return ""
