"""Run folder: atomic files, one process at a time, no pickle."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.facts import AtLeast, DictOf, Maybe, check_format, digest_of, parse, read_json, reading
from pintgn.files import try_lock, write_errors, write_file

FORMAT = 2
KEY = "pintgn"
METRICS = DictOf(DictOf((float, None)))
SHAPES: dict[str, Any] = {
    "run.json": {
        "seed": AtLeast(0),
        "format": Maybe(AtLeast(1)),
        "fingerprint": str,
        "asked": Maybe({"model": dict, "train": dict, "stream": dict, "task": Maybe(dict)}),
        "own_negatives": Maybe(bool),
        "refit": Maybe(bool),
        "start": Maybe({"rows": AtLeast(1), "events": AtLeast(1), "digest": str}),
    },
    "result.json": {
        "test": METRICS,
        "heuristics": DictOf(METRICS),
        "calibration": ({"slope": float, "offset": float}, None),
        "calibration_known": Maybe(({"slope": float, "offset": float}, None)),
        "calibration_error": (float, None),
        "next_slope": Maybe((float, None)),
        "answer_calibration": Maybe(DictOf(float)),
        "spent": Maybe(DictOf((float, None))),
    },
    "refit.json": {"epochs": AtLeast(0), "events": AtLeast(1), "seconds": float},
    "runs.json": {
        "seeds": [AtLeast(0)],
        "asked": {"model": dict, "train": dict, "stream": dict, "task": Maybe(dict)},
        "refit": Maybe(bool),
    },
    "spent.json": {name: Maybe([float]) for name in ("processor", "wall", "loads", "begun")},
}
"""What the files of a run say."""
CHECKPOINT = {"format": AtLeast(1), "run": str, "digest": Maybe(str)}
CURSOR = {
    "averaged": AtLeast(0),
    "epoch": AtLeast(1),
    "step": AtLeast(0),
    "events": AtLeast(0),
    "loss": float,
    "best_epoch": AtLeast(0),
    "best_value": float,
    "reference": float,
    "stale": AtLeast(0),
    "history": [dict],
}
"""What last.safetensors says about how far training has come."""


def holds_run(folder: str | Path) -> bool:
    """Whether a folder holds a run, by its run.json, which is a file. No path is too long or too strange to ask about.

    >>> holds_run("x" * 5_000), holds_run("a\\0b")
    (False, False)
    """
    return os.path.isfile(Path(folder) / "run.json")


class Folder:
    """A run's folder on disk.

    settings.toml · run.json (seed, fingerprint of the data) · events.parquet (the log) · metrics.jsonl · run.log ·
    last.safetensors and best.safetensors (checkpoints) · result.json and stream/ (when the run has ended) ·
    start.safetensors (weights of an earlier run) · refit/ and refit.json (the same model trained on the whole log)
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def holds_run(self) -> bool:
        return (self / "run.json").exists()

    @property
    def events(self) -> Path:
        """The file of the log."""
        return self / "events.parquet"

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, name: str, data: str | bytes) -> None:
        """Write a file under another name, then rename it: readers never see half of it."""
        with self.errors(self / name):
            write_file(self / name, data)

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value, indent=2) + "\n")

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor | np.ndarray], facts: Mapping[str, Any]) -> None:
        """Arrays and metadata, in one safetensors file."""
        from safetensors.numpy import save

        plain = {key: v.numpy(force=True) if isinstance(v, Tensor) else v for key, v in tensors.items()}
        arrays = {key: np.ascontiguousarray(value) for key, value in plain.items()}
        metadata = {"format": FORMAT, "digest": digest_of(arrays)} | dict(facts)
        self.write(name, save(arrays, {KEY: json.dumps(metadata)}))

    def write_weights(self, name: str, weights: Mapping[str, Tensor], fingerprint: str) -> None:
        """Weights of a run with this fingerprint."""
        self.write_tensors(name, {f"model.{key}": value for key, value in weights.items()}, {"run": fingerprint})

    def note(self, line: str) -> None:
        """Append a line to the run's log, with the time of day."""
        with self.errors(self / "run.log"), open(self / "run.log", "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")

    def errors(self, target: Path) -> contextlib.AbstractContextManager[None]:
        """Context that reports disk failures in one line; files already written stay whole."""
        return write_errors(target, when_full="Make room, then continue with --resume.")

    # -- reading -----------------------------------------------------------------------------------------------------

    def read_json(self, name: str) -> Any:
        """One of the run's files, of the shape that `SHAPES` says."""
        try:
            return read_json(self / name, SHAPES[name], "Train again, or put back the file of this run.")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BadFile(f"{self.path} holds no run: {self._instead(name)}") from error

    def _instead(self, name: str) -> str:
        """Why there is no run here, and where one may be."""
        if self.path.is_file():
            return "it is a file. Name the folder that `pintgn train` made."
        if self.path.is_dir():
            near = sorted(str(path.parent) for path in self.path.glob("*/run.json"))
            return f"there is no {name} in it." + (f" Did you mean {' or '.join(near[:3])}?" if near else "")
        near = sorted(
            str(path.parent) for parent in (self.path.parent, Path("runs")) for path in parent.glob("*/run.json")
        )
        found = suggest(self.path, near) if near else ""
        return f"there is no such folder.{found or ' Make one: pintgn train DATA -o ' + str(self.path)}"

    def read_tensors(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Read a file of `write_tensors`."""
        from safetensors import SafetensorError, safe_open

        path = self / name
        if not path.exists():
            raise BadFile(f"there is no checkpoint {path}.")
        try:
            with reading(path), safe_open(path, "numpy") as file:
                facts = (file.metadata() or {}).get(KEY)
                arrays = {key: file.get_tensor(key) for key in file.keys()} if facts else {}  # noqa: SIM118
        except SafetensorError as error:
            raise BadFile(f"the checkpoint {path} is damaged: {error}.") from error
        if facts is None:
            raise BadFile(f"{path} was not written by pintgn: it is no checkpoint of a run.")
        metadata = parse(facts, CHECKPOINT, f"the checkpoint {path}")
        check_format(metadata["format"], FORMAT, str(path), "Train again.")
        if metadata.get("digest") not in (None, digest_of(arrays)):
            raise BadFile(f"the checkpoint {path} is damaged: its checksum does not fit.")
        return arrays, metadata

    def read_checkpoint(self, name: str, fingerprint: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A checkpoint of the run with this fingerprint; one of another run is refused."""
        arrays, metadata = self.read_tensors(name)
        if metadata.get("run") != fingerprint:
            raise BadFile(
                f"{self / name} belongs to another run: its settings, seed or data differ. "
                "Put back the file of this run, or train again."
            )
        return arrays, metadata

    # -- one process at a time -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; the lock ends with the process, however that ends."""
        with self.errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = open(self / "lock", "a+")  # noqa: SIM115 - held open while the lock is
        try:
            if not try_lock(file):
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise BadInput(f"{self.path} is in use by {owner}. Wait for it to end, or choose another folder.")
            with contextlib.suppress(OSError):  # who holds it is good to know, but the lock is what counts
                file.truncate(0)
                file.write(f"process {os.getpid()}")
                file.flush()
            yield
        finally:
            with contextlib.suppress(OSError):  # what could not be written above
                file.close()
