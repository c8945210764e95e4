"""Remote tables (`postgresql://…`, `https://…`, `s3://…`), and one table of many in a file (`shop.db#orders`).

What is on the web is fetched into a temporary file and read as any other. Parquet in S3 is read where it is, and only
the columns that are needed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from pintgn.errors import BadFile, BadInput
from pintgn.formatting import ADDRESS, shown_address
from pintgn.ingest.download import CHUNK, Progress, download
from pintgn.ingest.sources import open_source
from pintgn.ingest.table_source import PARQUET, ParquetSource, Source


def open_address(source: str, query: str | None, progress: Progress | None, **how: Any) -> Source | None:
    """The source named by an address or `FILE#TABLE`, as a stream; None for anything else. See `open_source` for
    `how`."""
    base, named, table = source.partition("#")
    found = ADDRESS.match(base)
    if found is None and not (named and os.path.exists(Path(base).expanduser())):
        return None
    scheme = "" if found is None else found[1].lower().partition("+")[0]
    rest = base if found is None else base[found.end() :]
    login, _, path = rest.partition("/")
    database = scheme in ("postgresql", "postgres")
    if found and (("@" in table and "@" not in base) or (database and (login.count("@") > 1 or "@" in path))):
        raise BadInput(
            f"the {scheme} address has an '@' where none can be. In user and password write @ as %40, / as %2F, "
            ": as %3A, # as %23; or leave the password to PGPASSWORD or ~/.pgpass."
        )
    if named and query is not None:
        raise BadInput(f"{shown_address(source)} names a table or query behind '#', and --query gives another.")
    query = table if named else query
    if found is None:
        return open_source(base, query=query, **how)
    if database:
        from pintgn.ingest.databases import PostgresSource

        return PostgresSource(f"postgresql://{rest}", shown_address(f"postgresql://{rest}"), query)
    if scheme in ("sqlite", "duckdb", "file"):  # three slashes and a relative path, or four and an absolute one
        return open_source(unquote(rest if scheme == "file" else rest.removeprefix("/")), query=query, **how)
    if scheme in ("http", "https"):
        if "@" in login:
            raise BadInput(f"the {scheme} address holds a user or a password, which is not sent. Leave it out.")
        url = f"{scheme}://{rest}"

        def fetch(path: Path) -> None:
            download(url, path, progress, shown_address(url))

        return _copied(unquote(urlsplit(url).path), fetch, query, how)
    if scheme == "s3":
        return _in_s3(f"s3://{rest}", query, how)
    raise BadFile(
        f"{scheme}:// cannot be read. Events come from files, postgresql://, http(s):// and s3://; in Python also from "
        "any Arrow reader."
    )


def _copied(name: str, fetch: Callable[[Path], None], query: str | None, how: dict[str, Any]) -> Source:
    """A source that is fetched into a folder, which stays as long as someone may read from it."""
    folder = Path(tempfile.mkdtemp(prefix="pintgn-"))
    try:
        path = folder / (name.rstrip("/").rpartition("/")[2] or "events")
        fetch(path)
        source = open_source(path, query=query, **how)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


def _in_s3(address: str, query: str | None, how: dict[str, Any]) -> Source:
    shown = shown_address(address)
    try:
        files, path = pafs.FileSystem.from_uri(address)
        about = files.get_file_info(path)
        if about.type == pafs.FileType.NotFound:
            raise BadFile(f"there is nothing at {shown}.")
        paths = [path]
        if about.type == pafs.FileType.Directory:
            inside = files.get_file_info(pafs.FileSelector(path, recursive=True))
            names = sorted(one.path for one in inside if one.type == pafs.FileType.File)
            paths = [one for one in names if one.endswith(PARQUET) and not re.search("/[_.]", one[len(path) :])]
            if not paths:
                raise BadFile(f"{shown} has no Parquet files. Name a file, or a folder that holds *.parquet.")
        if paths[0].endswith(PARQUET) and query is None:
            found = ParquetSource(paths, path if paths != [path] else "", how["t"], files)
            if not found.saved:
                return found

        def fetch(copy: Path) -> None:  # text, or a log that pintgn saved
            with files.open_input_stream(path, compression=None) as stream, open(copy, "wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)

        return _copied(path, fetch, query, how)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, BadFile):
            raise
        said = re.search(r"AWS Error \w+", str(error))
        # the whole message may show the keys
        raise BadFile(f"{shown} cannot be read: {said[0] if said else 'it is damaged'}.") from None
