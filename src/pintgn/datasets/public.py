"""Public data sets by name: fetched once, checked against their published counts, cached as a log.

docs/datasets.md says where each file comes from, what it holds, and how to cite it.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from pintgn.errors import BadFile, UnknownName, suggest
from pintgn.events.log import EventLog
from pintgn.files import replacing, write_errors
from pintgn.ingest.download import Progress, download
from pintgn.ingest.read import read_events
from pintgn.ingest.read_options import Cleaning, FileFormat
from pintgn.ingest.table_source import ParquetSource


@dataclass(frozen=True)
class DataSet:
    """A published set: where its file is, how it is written, and the counts to check it by."""

    name: str
    about: str
    format: str
    """jodie: CSV whose rows are longer than their header. snap: src dst t. ml: CSV with columns u, i, ts in a zip."""
    events: int
    nodes: int
    features: int
    url: str
    citation: str
    bipartite: bool = False

    @property
    def file(self) -> str:
        """The name of the published file, also in a mirror."""
        return self.url.rsplit("/", 1)[-1]


def _jodie(name: str, about: str, events: int, nodes: int, features: int) -> DataSet:
    url = f"https://snap.stanford.edu/jodie/{name}.csv"
    paper = "Predicting Dynamic Embedding Trajectory in Temporal Interaction Networks. KDD 2019."
    citation = f"S. Kumar, X. Zhang, J. Leskovec: {paper}"
    return DataSet(name, about, "jodie", events, nodes, features, url, citation, bipartite=True)


_SETS = (
    _jodie("wikipedia", "edits of 1,000 pages by 8,227 editors in a month", 157_474, 9_227, 172),
    _jodie("reddit", "posts of 10,000 users to 984 subreddits in a month", 672_447, 10_984, 172),
    _jodie("mooc", "actions of 7,047 students on 97 items of a course", 411_749, 7_144, 4),
    _jodie("lastfm", "songs that 980 users listened to, 1,000 songs", 1_293_103, 1_980, 0),
    DataSet(
        "uci", "messages between students of UC Irvine (CollegeMsg)", "snap", 59_835, 1_899, 0,
        "https://snap.stanford.edu/data/CollegeMsg.txt.gz",
        "P. Panzarasa, T. Opsahl, K. M. Carley: Patterns and dynamics of users' behavior and interaction. "
        "JASIST 60(5), 2009.",
    ),
    DataSet(
        "enron", "e-mail among 184 people at Enron", "ml", 125_235, 184, 0,
        "https://zenodo.org/records/7213796/files/enron.zip",
        "F. Poursafaei, S. Huang, K. Pelrine, R. Rabbany: Towards Better Evaluation for Dynamic Link Prediction. "
        "NeurIPS 2022 (the file); the e-mail: https://www.cs.cmu.edu/~enron/.",
    ),
)  # fmt: skip
DATASETS: dict[str, DataSet] = {one.name: one for one in _SETS}
"""Every set by name."""


def cached(name: str, cache: str | Path | None = None) -> bool:
    """Whether a data set has been fetched."""
    return _path_of(_known(name), cache).is_file()


def load(
    name: str, mirror: str | Path | None = None, cache: str | Path | None = None, progress: Progress | None = None
) -> EventLog:
    """A public set as a log, fetched first if it is not here."""
    return EventLog.open(fetch(name, mirror, cache, progress))


def fetch(
    name: str,
    mirror: str | Path | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    again: bool = False,
) -> Path:
    """Download a public data set, check it, and save it as a Parquet log; returns its path.

    Args:
        name: one of `DATASETS`.
        mirror: take the file from here instead: a URL or a folder that holds it under its published name (or a folder
            with NAME.parquet of the columns src, dst, t), or the file itself.
        cache: where to keep it; $PINTGN_CACHE when not given, else the user's cache folder.
        progress: called with the bytes received so far and how many there will be, or None where that is unknown.
        again: fetch it even if it is here.
    """
    one = _known(name)
    path = _path_of(one, cache)
    if path.is_file() and not again:
        return path
    with write_errors(path.parent, "Set PINTGN_CACHE to a folder that can be written."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
            log = _read(one, _found(one, mirror, Path(folder), progress), Path(folder))
            with replacing(path) as part:
                log.save(part)
    return path


# -- files -------------------------------------------------------------------------------------------------


def _known(name: str) -> DataSet:
    if name not in DATASETS:
        raise UnknownName(f"there is no data set {name!r}.{suggest(name, DATASETS)}")
    return DATASETS[name]


def _path_of(one: DataSet, cache: str | Path | None) -> Path:
    folder = Path(cache or os.environ.get("PINTGN_CACHE") or platformdirs.user_cache_dir("pintgn")).expanduser()
    return folder / "datasets" / f"{one.name}.parquet"


def _found(one: DataSet, mirror: str | Path | None, folder: Path, progress: Progress | None) -> Path:
    """The published file: in a mirror here, or downloaded into a folder."""
    if mirror is None or str(mirror).startswith(("http://", "https://")):
        url = one.url if mirror is None else str(mirror)
        url = url if url.endswith(one.file) else f"{url.rstrip('/')}/{one.file}"
        return download(url, folder / one.file, progress)
    here = Path(mirror).expanduser()
    names = (one.file, f"{one.name}.parquet")
    path = here if here.is_file() else next((here / name for name in names if (here / name).is_file()), None)
    if path is None:
        raise BadFile(f"mirror {mirror} is neither a URL nor a folder with {' or '.join(names)}.")
    return path


def _read(one: DataSet, path: Path, folder: Path) -> EventLog:
    """A log from a copy of the published file, or of its events as Parquet, checked against the published counts."""
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                inside = next((name for name in archive.namelist() if name.endswith(f"ml_{one.name}.csv")), None)
                if inside is None:
                    raise BadFile(f"{path.name} does not hold ml_{one.name}.csv.")
                path = Path(archive.extract(inside, folder))
        except zipfile.BadZipFile as error:
            raise BadFile(f"{path.name} is not a complete zip file. Fetch it again.") from error
    log = _without_filling(read_events(path, **_how(one, path)))
    found = {"events": len(log), "nodes": log.nodes, "features": log.schema.feature_width}
    if wrong := [what for what in found if found[what] != getattr(one, what)]:
        said = ", ".join(f"{found[what]:,} {what} where {getattr(one, what):,}" for what in wrong)
        raise BadFile(f"{path.name} is not the published {one.name}: {said} were published. Get it elsewhere.")
    return log


def _how(one: DataSet, path: Path) -> dict[str, Any]:
    """Arguments of `read_events` for a file of a format."""
    found: dict[str, Any] = {"cleaning": Cleaning(sort=True)}
    if path.suffix == ".parquet":
        names = ParquetSource([str(path)]).names
        others = [name for name in names if name not in ("src", "dst", "t", "label")]
        return found | {"label": "label" if "label" in names else None, "features": others or None}
    if one.format == "snap":
        return found | {"format": FileFormat(delimiter=" ", header=False, names=["src", "dst", "t"])}
    if one.format == "ml":
        return found | {"src": "u", "dst": "i", "t": "ts", "format": FileFormat(delimiter=",", header=True)}
    with open(path, "rb") as file:  # jodie: the header names five columns, rows have more
        head = file.read(1 << 20).splitlines()
    if len(head) < 2 or head[1].count(b",") < 3:
        raise BadFile(
            f"{path.name} is not in JODIE's format: user_id,item_id,timestamp,state_label,features… is expected."
        )
    features = [f"f{number}" for number in range(head[1].count(b",") - 3)]
    roles = {"src": "user_id", "dst": "item_id", "t": "timestamp", "label": "state_label"}
    layout = FileFormat(delimiter=",", header=False, skip_lines=1, names=[*roles.values(), *features])
    return found | roles | {"features": features or None, "bipartite": one.bipartite, "format": layout}


def _without_filling(log: EventLog) -> EventLog:
    """Without what only fills a format: features and labels that are all 0; whole times as int64."""
    schema = dataclasses.replace(log.schema, time_scale=None)
    features, label, t = log.features, log.label, log.t
    if features is not None and not features.any():
        features, schema = None, dataclasses.replace(schema, features=())
    if label is not None and not np.any(label):
        label, schema = None, dataclasses.replace(schema, label=None)
    elif label is not None and label.dtype.kind == "f" and np.array_equal(label, np.rint(label)):
        label = label.astype(np.int64)
    if t.dtype.kind == "f" and np.array_equal(t, np.rint(t)) and np.abs(t).max(initial=0) < 2**53:
        t = t.astype(np.int64)
    return EventLog(log.src, log.dst, t, features=features, label=label, ids=log.ids, schema=schema)
