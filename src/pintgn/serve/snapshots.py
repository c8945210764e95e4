"""Snapshots of a service's state: complete and checked, or not used.

A snapshot is a folder of plain files, written under another name, flushed, and renamed; its manifest names every file
with its size and digest. A snapshot that is torn, damaged or of another run is passed over, with a report; the next
older one serves as well, only with more events to replay.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile
from pintgn.facts import AtLeast, DictOf, check, check_format, read_json
from pintgn.files import PRIVATE_FOLDER, make_private, regular, rename, sync_file, sync_folder
from pintgn.learn.run import Run
from pintgn.live.snapshot import Snapshot
from pintgn.models.base import Model

FORMAT = 2
MANIFEST = {"format": AtLeast(1), "run": str, "weights": str, "total": AtLeast(0), "files": DictOf([(AtLeast(0), str)])}
MANIFEST_FILE = "manifest.json"
OTHER = "it belongs to another run"
KEEP = 2
"""Snapshots that are kept: the newest, and one to fall back on."""


class SnapshotFolder:
    """The snapshots in a store's folder, by the number of the last event that each has seen."""

    def __init__(self, store: str | Path, run: Run):
        self.folder, self.fingerprint = Path(store) / "snapshots", run.fingerprint
        self.weights = digest(run.deployed.model)
        self.reports: list[str] = []

    def of(self, run: Run) -> SnapshotFolder:
        """Snapshots of another run, in the same folder."""
        return SnapshotFolder(self.folder.parent, run)

    def numbers(self) -> list[int]:
        """Newest first."""
        return sorted((int(path.name) for path in self.folder.glob("[0-9]*") if path.name.isdigit()), reverse=True)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:012d}"

    def write(self, captured: Snapshot) -> int:
        """Write a snapshot and drop those that are no longer needed; returns its size in bytes."""
        target, part = self.path(captured.total), self.folder / f".{captured.total:012d}.{os.getpid()}.part"
        try:
            shutil.rmtree(part, ignore_errors=True)
            size = self._fill(part, captured)
            if target.exists():
                shutil.rmtree(target)
            rename(part, target)
        except OSError as error:
            raise BadFile(f"cannot write the snapshot {target}: {error.strerror or error}.") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        self.prune()
        return size

    def _fill(self, part: Path, captured: Snapshot) -> int:
        """Write a snapshot to a new folder, flushed to the disk; returns its size in bytes."""
        self.folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        part.mkdir(PRIVATE_FOLDER)
        captured.write(part)
        inside = sorted(part.rglob("*"))
        files = {str(path.relative_to(part)): _sealed(path) for path in inside if path.is_file()}
        manifest = {"format": FORMAT, "run": self.fingerprint, "weights": self.weights, "total": captured.total}
        manifest |= {"clock": captured.clock, "files": files}
        (part / MANIFEST_FILE).write_text(json.dumps(manifest, indent=1))
        size, _ = _sealed(part / MANIFEST_FILE)
        make_private(part)
        for folder in [path for path in inside if path.is_dir()] + [part]:
            sync_folder(folder)
        return size + sum(size for size, _ in files.values())

    def clock(self, number: int) -> Any:
        """The time of the newest event that a snapshot has seen; None where it does not say."""
        try:
            return json.loads(regular(self.path(number) / MANIFEST_FILE).read_text()).get("clock")
        except (OSError, ValueError, AttributeError):
            return None

    def prune(self) -> None:
        """Keep the newest few; sweep away what an interrupted process left."""
        for number in self.numbers()[KEEP:]:
            shutil.rmtree(self.path(number), ignore_errors=True)
        for leftover in self.folder.glob(".*.part"):
            shutil.rmtree(leftover, ignore_errors=True)

    def valid(self, wanted: Callable[[int], bool] = lambda number: True) -> Iterator[tuple[int, Path]]:
        """Intact snapshots of this run, newest first; those with the given numbers."""
        for number in filter(wanted, self.numbers()):
            trouble = self._trouble(number, self.path(number))
            if trouble is None:
                yield number, self.path(number)
            elif trouble != OTHER:  # what was served before a promotion left its own, and nothing is wrong with them
                self.discard(number, trouble)

    def oldest(self) -> int:
        """Number of the last event that every valid snapshot has seen; 0 without any."""
        return min((number for number, _ in self.valid()), default=0)

    def forget_after(self, number: int) -> list[int]:
        """Drop the snapshots that have seen events after a number."""
        gone = [one for one in self.numbers() if one > number]
        for one in gone:
            away = self.folder / f".{one:012d}.{os.getpid()}.part"  # not there at all from now on, whatever happens
            shutil.rmtree(away, ignore_errors=True)
            self.path(one).rename(away)
            shutil.rmtree(away, ignore_errors=True)
        return gone

    def discard(self, number: int, why: str) -> None:
        """Skip a snapshot that looked intact but could not be used."""
        said = f"snapshot {self.path(number).name} is not used: {why}."
        if said not in self.reports:
            self.reports.append(said)

    def _trouble(self, number: int, folder: Path) -> str | None:
        try:
            manifest: dict[str, Any] = read_json(folder / MANIFEST_FILE, {"format": AtLeast(1)})
            check_format(manifest["format"], FORMAT, "it", "The events are replayed instead.")
            check(manifest, MANIFEST, "its manifest")
            if manifest["run"] != self.fingerprint:
                return OTHER
            if manifest["weights"] != self.weights:
                return "its run has other weights now"
            if manifest["total"] != number:
                return "it was renamed"
            for name, (size, digest) in manifest["files"].items():
                if (folder / name).stat().st_size != size:
                    return f"{name} is torn"
                if _digest(folder / name) != digest:
                    return f"{name} is damaged"
        except BadFile as error:
            return str(error).rstrip(".")
        except FileNotFoundError as error:
            return f"{Path(error.filename or '').name or 'a file'} is missing"
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"its manifest is damaged ({type(error).__name__})"
        return None


def _sealed(path: Path) -> tuple[int, str]:
    """Flush a file to the disk; its size and digest."""
    sync_file(path)
    return path.stat().st_size, _digest(path)


def _digest(path: Path) -> str:
    with open(regular(path), "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest(model: Model) -> str:
    """Digest of a model's parameters: a snapshot belongs to one run with one set of weights."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.numpy(force=True).tobytes())
    return found.hexdigest()
