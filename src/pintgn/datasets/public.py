"""Public data sets by name: fetched once, checked against their published counts, kept as a log in the cache folder.

docs/datasets.md says where each file comes from, what it holds, and how to cite it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pyarrow as pa

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
    url: str | None
    """None where everyone has to make a copy, whose counts then differ from the published ones."""
    citation: str
    bipartite: bool = False

    @property
    def file(self) -> str:
        """What the published file is called, also in a mirror."""
        return f"{self.name}.csv" if self.url is None else self.url.rsplit("/", 1)[-1]


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
    DataSet(
        "twitter", "retweets; not public, bring your own copy (docs/datasets.md)", "jodie", 406_564, 8_925, 768, None,
        "A. Souza, D. Mesquita, S. Kaski, V. Garg: Provably expressive temporal graph networks. "
        "NeurIPS 2022 (the recipe).",
    ),
)  # fmt: skip
DATASETS: dict[str, DataSet] = {one.name: one for one in _SETS}
"""Every set by name."""


def cached(name: str, cache: str | Path | None = None) -> bool:
    """Whether a set has been fetched."""
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
    """Get a public set, check it, and keep it as a Parquet log; the path of that log.

    Args:
        name: one of `DATASETS`.
        mirror: take the file from here instead: a URL or a folder that holds it under its published name (or as
            NAME.parquet with the columns src, dst, t), or the file itself.
        cache: where to keep it; $PINTGN_CACHE when not given, else the user's cache folder.
        progress: called with the bytes received so far and how many there will be, or None where that is unknown.
        again: fetch it even if it is here.
    """
    one = _known(name)
    path = _path_of(one, cache)
    if path.is_file() and not again:
        return path
    here = None if mirror is None or "://" in str(mirror) else _in_folder(one, Path(mirror).expanduser())
    with write_errors(path.parent, "Set PINTGN_CACHE to a folder that can be written."):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
            log = read_published(name, here or download(_address(one, mirror), Path(folder, one.file), progress))
            with replacing(path) as part:
                log.save(part)
    return path


def read_published(name: str, path: str | Path) -> EventLog:
    """A log from a copy of the published file (or of its events as Parquet), checked against the published counts."""
    one, path = _known(name), Path(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadFile(f"cannot read {path} ({error.strerror or error}).") from error
    with _unzipped(one, path) as (file, form):
        log = _without_filling(read_events(file, **_how(one, file, form)))
    found = {"events": len(log), "nodes": log.nodes, "features": log.schema.feature_width}
    wrong = [
        f"{found[what]:,} {what} where {getattr(one, what):,}" for what in found if found[what] != getattr(one, what)
    ]
    if one.url is not None and wrong:
        raise BadFile(f"{path.name} is not the published {name}: {', '.join(wrong)} were published. Get it elsewhere.")
    return log


# -- where files are ---------------------------------------------------------------------------------------


def _known(name: str) -> DataSet:
    if name not in DATASETS:
        raise UnknownName(f"there is no data set {name!r}.{suggest(name, DATASETS)}")
    return DATASETS[name]


def _path_of(one: DataSet, cache: str | Path | None) -> Path:
    folder = Path(cache or os.environ.get("PINTGN_CACHE") or platformdirs.user_cache_dir("pintgn")).expanduser()
    return folder / "datasets" / f"{one.name}.parquet"


def _address(one: DataSet, mirror: str | Path | None) -> str:
    if mirror is not None:
        given = str(mirror)
        if not given.startswith(("http://", "https://")):
            raise BadFile(f"mirror {given} is neither a folder nor an http(s) URL.")
        return given if given.endswith(one.file) else f"{given.rstrip('/')}/{one.file}"
    if one.url is None:
        raise BadFile(
            f"{one.name} is not public. Make your own copy as docs/datasets.md says, then pass it as mirror "
            f"(--mirror FOLDER, with {one.file} in it)."
        )
    return one.url


def _in_folder(one: DataSet, mirror: Path) -> Path:
    if mirror.is_file():
        return mirror
    if not mirror.is_dir():
        raise BadFile(f"mirror {mirror} is neither a folder, a file nor a URL.")
    names = [one.file, f"{one.file}.gz", one.file.removesuffix(".gz"), f"{one.name}.zip", f"{one.name}.parquet"]
    found = (folder / name for name in names for folder in (mirror, mirror / one.name) if (folder / name).is_file())
    if (path := next(found, None)) is None:
        raise BadFile(f"folder {mirror} has no {one.file} (nor {', '.join(dict.fromkeys(names[1:]))}).")
    return path


# -- how files are written ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _unzipped(one: DataSet, path: Path) -> Iterator[tuple[Path, str]]:
    """The file and its format; DGB's archives hold NAME/NAME.csv as published first, or else NAME/ml_NAME.csv."""
    if path.suffix != ".zip":
        yield path, one.format
        return
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            inside = {member.rsplit("/", 1)[-1]: member for member in archive.namelist()}
            for wanted, form in ((f"{one.name}.csv", one.format), (f"ml_{one.name}.csv", "ml")):
                if wanted in inside:
                    yield Path(archive.extract(inside[wanted], folder)), form
                    return
            raise BadFile(f"{path.name} holds neither {one.name}.csv nor ml_{one.name}.csv.")
    except zipfile.BadZipFile as error:
        raise BadFile(f"{path.name} is not a complete zip file. Fetch it again.") from error


def _how(one: DataSet, path: Path, form: str) -> dict[str, Any]:
    """Arguments of `read_events` for a file of a format."""
    found: dict[str, Any] = {"cleaning": Cleaning(sort=True)}
    if path.suffix == ".parquet":
        names = ParquetSource([str(path)]).names
        others = [name for name in names if name not in ("src", "dst", "t", "label")]
        return found | {"label": "label" if "label" in names else None, "features": others or None}
    if form == "snap":
        return found | {"format": FileFormat(delimiter=" ", header=False, names=["src", "dst", "t"])}
    if form == "ml":
        return found | {"src": "u", "dst": "i", "t": "ts", "format": FileFormat(delimiter=",", header=True)}
    with pa.input_stream(
        str(path), compression="detect"
    ) as file:  # jodie: the header names five columns, rows have more
        head = file.read(1 << 20).splitlines()
    if len(head) < 2 or head[0].count(b",") < 3 or head[1].count(b",") < 3:
        raise BadFile(
            f"{path.name} is not in JODIE's format: user_id,item_id,timestamp,state_label,features… is expected."
        )
    features = [f"f{number}" for number in range(head[1].count(b",") - 3)]
    roles = {"src": "user_id", "dst": "item_id", "t": "timestamp", "label": "state_label"}
    form_of = FileFormat(delimiter=",", header=False, skip_lines=1, names=[*roles.values(), *features])
    return found | roles | {"features": features or None, "bipartite": one.bipartite, "format": form_of}


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
