"""Positions on disk: one uncompressed .npz of plain arrays and a line of settings, replaced as a whole."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadFile
from pintgn.events.facts import parse, read_arrays
from pintgn.neighbors.files import write_arrays

FORMAT = 1


def write_file(path: str | PathLike[str], settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    line = np.frombuffer(json.dumps({"format": FORMAT, **settings}).encode(), np.uint8)
    write_arrays(Path(path), {"settings": line, **arrays})


def read_file(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Settings and arrays of a file that `write_file` wrote."""
    path = Path(path)
    if not path.exists():
        raise BadFile(f"{path} does not exist.")
    try:
        arrays = read_arrays(path)
        settings = parse(arrays.pop("settings").tobytes(), {"format": int}, "its line of settings")
        if settings.pop("format") != FORMAT:
            raise KeyError("format")
    except (BadFile, KeyError) as error:
        raise BadFile(
            f"{path} does not hold positions, or is damaged ({error}). RelativePositions.save writes such files."
        ) from None
    return settings, arrays
