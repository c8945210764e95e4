"""Rows of results: one line of JSON each, appended as soon as it is known; the newest row of a job counts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from paper.jobs import Job
from pintgn import __version__
from pintgn.errors import BadFile

FORMAT = 1
Row = dict[str, Any]


class Results:
    """A file of rows. Killed at any time, it holds every row that was finished before."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def append(self, job: Job, facts: Row) -> Row:
        """Add a job's row, on disk when this returns."""
        row = {"format": FORMAT, "job": job.key, "task": job.task, "row": job.row, "model": job.model, "data": job.data}
        row |= {"seed": job.seed} | facts | circumstances()
        line = json.dumps(row, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab+") as file:
                if file.tell():  # a line that was cut short by a kill must not swallow this one
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else "\n" + line
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadFile(f"cannot write {self.path}: {error.strerror or error}.") from error
        return row

    def rows(self) -> list[Row]:
        """Every row, oldest first; a line that was cut short is left out."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"cannot read {self.path}: {error}.") from error
        found = []
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if not isinstance(row, dict) or "job" not in row:
                raise BadFile(f"{self.path}, line {number}, is no row of results: it has no job.")
            if row.get("format", FORMAT + 1) > FORMAT:
                raise BadFile(f"{self.path} was written by a newer pintgn. Update pintgn to read it.")
            found.append(row)
        return found

    def newest(self) -> dict[str, Row]:
        """The newest row of every job. A failure does not replace a row that has figures."""
        found: dict[str, Row] = {}
        for row in self.rows():
            if row["ended"] != "failed" or found.get(row["job"], row)["ended"] == "failed":
                found[row["job"]] = row
        return found


def circumstances() -> Row:
    """When, by what and on what a row was made."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "machine": {"cores": os.cpu_count(), "processor": processor(), "system": platform.system()},
    }


@cache
def versions() -> dict[str, str | None]:
    found = {"pintgn": __version__, "commit": commit(), "python": platform.python_version()}
    return found | {name: _version(name) for name in ("torch", "numpy", "numba")}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """The checkout that this code is in, if it is in one; with a plus when the code has changed since."""
    head = _git("rev-parse", "--short", "HEAD")
    return head and head + ("+" if _git("status", "--porcelain", "--", "../src", "../paper") else "")


def _git(*words: str) -> str | None:
    try:
        asked = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return None
    return asked.stdout.strip() or None if asked.returncode == 0 else None


def made_by(rows: Iterable[Row]) -> str:
    """Which code made these rows, and on which processors, in one line.

    >>> one, other, unknown = ({"versions": {"commit": commit}} for commit in ("1a2b3c4", "5d6e7f8+", None))
    >>> made_by([one, one | {"machine": {"processor": "Z80"}}])
    'All rows were made by commit `1a2b3c4`. Processors: unknown (1), Z80 (1).'
    >>> made_by([one, other, other, unknown])
    'Rows were made by 3 commits: `5d6e7f8+` (2), `1a2b3c4` (1), unknown (1). A plus marks uncommitted changes.'
    """
    rows = list(rows)
    return _commits(rows) + _processors(rows)


def _processors(rows: Sequence[Row]) -> str:
    """Where rows were made on several processors, each of which rounds in its own way."""
    counts = Counter((row.get("machine") or {}).get("processor") or "unknown" for row in rows)
    listed = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return f" Processors: {listed}." if len(counts) > 1 else ""


def _commits(rows: Sequence[Row]) -> str:
    counts = Counter((row.get("versions") or {}).get("commit") for row in rows)
    names = {commit: "unknown" if commit is None else f"`{commit}`" for commit in counts}
    if not counts:
        return ""
    plus = " A plus marks uncommitted changes." if any("+" in name for name in names.values()) else ""
    if len(counts) == 1:
        return f"All rows were made by commit {next(iter(names.values()))}.{plus}"
    listed = ", ".join(f"{names[commit]} ({count})" for commit, count in counts.most_common())
    return f"Rows were made by {len(counts)} commits: {listed}.{plus}"


@cache
def processor() -> str:
    """What the machine calls its processor."""
    try:
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
