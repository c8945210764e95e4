"""Tables that are not files here: `postgresql://…`, `https://…`, `s3://…`; and `shop.db#orders`, one of many.

What is on the web is fetched into a temporary file and read as any other. Parquet in S3 is read where it is, and only
the columns that are needed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from pintgn.errors import BadFile, BadInput
from pintgn.events.store import KEY
from pintgn.formatting import ADDRESS, shown_address
from pintgn.ingest.download import CHUNK, Progress, download
from pintgn.ingest.sources import BATCH, Hints, Source, open_source, order_in_time, prefetched

PARQUET = (".parquet", ".pq")


def open_address(
    source: str,
    wanted: Sequence[str | int],
    t: str | int | None,
    query: str | None,
    progress: Progress | None,
    text: dict[str, Any],
) -> Source | None:
    """What an address or `FILE#TABLE` names, as a stream; None for what is neither."""
    base, named, table = source.partition("#")
    found = ADDRESS.match(base)
    if found is None and not (named and os.path.exists(Path(base).expanduser())):
        return None
    if found and "@" in table and "@" not in base:
        raise _misplaced(found[1])
    if named and query is not None:
        raise BadInput(
            f"{shown_address(source)} names a table or query behind '#', and query= (--query) gives another."
        )
    query = table if named else query
    if found is None:
        return open_source(base, wanted, t, query=query, **text)
    scheme, rest = found[1].lower().partition("+")[0], base[found.end() :]
    if scheme in ("postgresql", "postgres"):
        from pintgn.ingest.databases import PostgresSource

        login, _, path = rest.partition("/")
        if login.count("@") > 1 or "@" in path:
            raise _misplaced(scheme)
        return PostgresSource(f"postgresql://{rest}", shown_address(f"postgresql://{rest}"), query)
    if scheme in ("sqlite", "duckdb", "file"):  # three slashes and a relative path, or four and an absolute one
        return open_source(
            unquote(rest if scheme == "file" else rest.removeprefix("/")), wanted, t, query=query, **text
        )
    if scheme in ("http", "https"):
        return _fetched(f"{scheme}://{rest}", wanted, t, query, progress, text)
    if scheme == "s3":
        return _in_s3(f"s3://{rest}", wanted, t, query, text)
    raise BadFile(
        f"{scheme}:// cannot be read. Events come from files, postgresql://, http(s):// and s3://; in Python also from "
        "any Arrow reader."
    )


def _misplaced(scheme: str) -> BadInput:
    return BadInput(
        f"the {scheme} address has an '@' where none can be. In user and password write @ as %40, / as %2F, : as %3A, "
        "# as %23; or leave the password to PGPASSWORD or ~/.pgpass."
    )


# -- the web -----------------------------------------------------------------------------------------------


def _fetched(
    url: str,
    wanted: Sequence[str | int],
    t: str | int | None,
    query: str | None,
    progress: Progress | None,
    text: dict[str, Any],
) -> Source:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise BadInput(f"the {parts.scheme} address holds a user or a password, which is not sent. Leave it out.")
    folder = Path(tempfile.mkdtemp(prefix="pintgn-"))
    try:
        path = folder / (unquote(parts.path).rstrip("/").rpartition("/")[2] or "events")
        download(url, path, progress, shown_address(url))
        return _kept(open_source(path, wanted, t, query=query, **text), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _kept(source: Source, folder: Path) -> Source:
    """The folder stays as long as someone may read from it."""
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


# -- S3 ----------------------------------------------------------------------------------------------------


class StoredParquet(Source):
    """Parquet files in a store of objects, read where they are."""

    def __init__(self, files: pafs.FileSystem, paths: list[str]):
        from pyarrow import dataset

        self.title = paths[0].rpartition("/")[2]
        self.data = dataset.dataset(paths, filesystem=files, format="parquet", partitioning="hive")
        self._take_apart(self.data.schema)
        self.rows = self.data.count_rows()

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(columns))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.data.to_batches(columns=self._stored(columns), batch_size=BATCH):
                batch.validate(full=True)
                yield self._unpacked(batch, columns)
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{self.title} cannot be read to its end: {str(error).splitlines()[0]}") from error


def _in_s3(
    address: str, wanted: Sequence[str | int], t: str | int | None, query: str | None, text: dict[str, Any]
) -> Source:
    from pyarrow import parquet

    shown = shown_address(address)
    try:
        files, path = pafs.FileSystem.from_uri(address)
        about = files.get_file_info(path)
        if about.type == pafs.FileType.Directory:
            paths = sorted(
                one.path
                for one in files.get_file_info(pafs.FileSelector(path, recursive=True))
                if one.path.endswith(PARQUET) and one.type == pafs.FileType.File
                and not any(name.startswith(("_", ".")) for name in one.path[len(path) :].split("/"))
            )  # fmt: skip
            if not paths:
                raise BadFile(f"{shown} has no Parquet files. Name a file, or a folder that holds *.parquet.")
            footers = (parquet.read_metadata(one, filesystem=files) for one in paths)
            paths = [paths[k] for k in order_in_time(footers, len(paths), t)]
        elif about.type == pafs.FileType.NotFound:
            raise BadFile(f"there is nothing at {shown}.")
        else:
            paths = [path]
        if paths[0].endswith(PARQUET) and query is None:
            found = StoredParquet(files, paths)
            if len(paths) > 1 or KEY not in (found.data.schema.metadata or {}):
                return found
        folder = Path(tempfile.mkdtemp(prefix="pintgn-"))  # text, or a log that pintgn saved
        try:
            copy = folder / path.rpartition("/")[2]
            with files.open_input_stream(path, compression=None) as stream, open(copy, "wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            return _kept(open_source(copy, wanted, t, query=query, **text), folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{shown} cannot be read: {_short(str(error))}") from None  # which may show the keys


def _short(message: str) -> str:
    """AWS's message without its tail.

    >>> _short("When reading 'x': AWS Error ACCESS_DENIED during HeadObject operation: No body. (Request ID: 7)")
    'AWS Error ACCESS_DENIED during HeadObject operation: No body.'
    """
    return re.sub(r"^.*?(?=AWS Error)|(?<=\.) \(Request ID.*$", "", message.splitlines()[0])
