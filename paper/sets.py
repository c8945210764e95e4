"""Where the data of a job comes from: a folder of the user's, or what `pintgn data fetch` keeps."""

from __future__ import annotations

from pathlib import Path

from pintgn.datasets import public as datasets
from pintgn.errors import BadFile
from pintgn.events.log import EventLog
from pintgn.events.store import open_parquet
from pintgn.ingest.read import read_events
from pintgn.ingest.read_options import Cleaning


def find(name: str, folder: Path | None = None) -> Path | None:
    """The file that a data set would be read from; None when it is not here."""
    if folder is not None:
        if not folder.is_dir():
            raise BadFile(f"--data-folder {folder} is not a folder.")
        if (path := folder / f"{name}.parquet").is_file():
            return path
    return datasets.fetch(name) if name in datasets.DATASETS and datasets.cached(name) else None


def missing(name: str) -> str:
    """What to do about a set that is not here."""
    if name not in datasets.DATASETS:
        return f"needs the data: {name} is not public; --data-folder FOLDER with your own {name}.parquet"
    return f"needs the data: pintgn data fetch {name}, or --data-folder FOLDER with {name}.parquet"


def read(name: str, folder: Path | None = None) -> EventLog:
    """A data set's log, with its labels and whatever features the file has."""
    path = find(name, folder)
    if path is None:
        raise BadFile(f"{name} {missing(name)}.")
    if folder is None or path.parent != folder:
        return EventLog.open(path)
    with open_parquet(path) as file:
        names = file.schema_arrow.names
    features = [column for column in names if column not in ("src", "dst", "t", "label")]
    return read_events(
        path, features=features or None, label="label" if "label" in names else None, cleaning=Cleaning(sort=True)
    )
