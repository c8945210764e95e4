"""Tables in databases: PostgreSQL, DuckDB and SQLite, as a stream of Arrow batches.

A query runs on the database, exactly as it is written, and its rows arrive batch by batch. Every pass has a connection
of its own, which can only read.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.events.columns import try_cast
from pintgn.ingest.table_source import BATCH, Hints, Source, prefetched
from pintgn.packages import need

NO_TABLE = re.compile(r'(?:no such table: |Table with name |relation ")([\w.]+)')
DAMAGED = re.compile("disk image is malformed|file is not a database")
CONNECT_SECONDS = 15


class QuerySource(Source):
    """The rows of a query or table; if neither is named, of the only table."""

    kind = ""
    """How a database of this kind is called."""
    whose = ""
    """Which tables of a database are listed, where not all are."""
    listing = ""
    """A query for tables and views: the schema, or NULL where a name is found without, and the name."""
    errors: tuple[type[Exception], ...] = (pa.ArrowException, OSError)

    def __init__(self, home: str, query: str | None):
        self.home, self.title, self.query, self.table = home, home, "", ""
        if query is not None and len(query.split()) > 1:
            self.title, self.query = "the query", query.strip().rstrip(";")
        else:
            with self._explained():
                tables = self._tables()
            if not tables:
                raise BadInput(f"{home} has no tables{self.whose}.")
            name = next(iter(tables)) if query is None and len(tables) == 1 else query
            if name is None:
                listed = ", ".join(map(repr, list(tables)[:12])) + (", …" if len(tables) > 12 else "")
                one = next(iter(tables))
                raise BadInput(
                    f"{home} has {len(tables):,} tables: {listed}. Name one or write a query, as in --query {one} or "
                    f"--query 'select … from {one} order by …'; in Python {home + '#' + one!r}."
                )
            if name not in tables:
                raise BadInput(f"{home} has no table {name!r}{self.whose}.{suggest(name, tables)}")
            self.title, self.table = f"table {name!r}", tables[name]
        with self._explained():
            schema = self._schema(self._sql("*"))
            if not schema.names:
                raise BadInput(f"{self.title} gives no rows: {self.query.strip()!r}. Write a select.")
            self._take_apart(schema)

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(columns))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        stored = self._stored(columns)
        with self._explained():
            for batch in self._run(self._sql(", ".join(map(quoted, stored))), stored):
                for start in range(0, batch.num_rows, BATCH):
                    yield self._unpacked(batch.slice(start, BATCH), columns)

    def _sql(self, columns: str) -> str:
        """The SQL to run; a query stays as it is, because one around it could change the order of its rows."""
        return f"select {columns} from {self.table}" if self.table else f"{self.query}\n"

    def _tables(self) -> dict[str, str]:
        """Tables and views: how they are shown, and how a query names them."""
        parts = [[part for part in row if part is not None] for row in self._rows(self.listing)]
        return {".".join(row): ".".join(map(quoted, row)) for row in parts}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """One line for whatever a database says."""
        try:
            yield
        except (BadInput, BadFile):
            raise
        except self.errors as error:
            said = driver_message(str(error))
            if DAMAGED.search(said):
                raise BadFile(f"{self.home} is damaged: {said}. Copy it again.") from error
            near = ""
            if missing := NO_TABLE.search(said):
                with contextlib.suppress(Exception):
                    near = suggest(missing[1], self._tables())
            raise BadInput(f"{self.kind} refuses {self.title}: {said}.{near}") from error

    # -- of each kind --------------------------------------------------------------------------------------

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def _schema(self, sql: str) -> pa.Schema:
        """The columns of a query that does not run yet."""
        raise NotImplementedError

    def _run(self, sql: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def driver_message(message: str) -> str:
    """A database's message without the prefixes of its driver."""
    message = re.sub(
        r"^[A-Z_]+: |\[libpq\] |Failed to \w+ query: |could not begin COPY: |Execution error \[\w+\]: ", "", message
    )
    message = re.sub(r"^(?:[A-Z]\w+ )+Error: |ERROR: +", "", message.strip())
    return message.splitlines()[0].rstrip(" .!") if message else "no reason given"


def quoted(name: str) -> str:
    """A quoted SQL name.

    >>> print(quoted('2" pipes'))
    "2"" pipes"
    """
    return '"' + name.replace('"', '""') + '"'


def tidied(values: pa.Array) -> pa.Array:
    """A column with types as files have them: decimals instead of PostgreSQL's text, and UTC, not our own zone."""
    kind = values.type
    opaque = kind.type_name if isinstance(kind, pa.OpaqueType) else None
    if opaque == "uuid":  # which the driver knows since version 1.13
        return values.storage.cast(pa.binary(16))
    if opaque == "numeric":
        point = pc.find_substring(values.storage, ".")
        digits = pc.subtract(pc.subtract(pc.binary_length(values.storage), point), 1)
        scale = pc.max(pc.if_else(pc.less(point, 0), 0, digits)).as_py() or 0
        exact = try_cast(values.storage, pa.decimal128(38, scale)) if scale <= 38 else None
        return values.storage.cast(pa.float64()) if exact is None else exact  # nan, or more digits than anyone needs
    return values.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) and kind.tz else values


def tidy(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    index = {name: k for k, name in enumerate(batch.schema.names)}
    return pa.RecordBatch.from_arrays([tidied(batch.column(index[name])) for name in columns], names=columns)


class SQLiteSource(QuerySource):
    """A SQLite file, read by Python's own driver: values have types there, columns have none."""

    kind, errors = "SQLite", (sqlite3.Error, sqlite3.Warning)
    listing = (
        "select null, name from sqlite_master where type in ('table', 'view') and name not like 'sqlite!_%' escape '!' "
        "order by name"
    )

    def __init__(self, path: Path, query: str | None):
        self.path = path
        self.kinds: dict[str, pa.DataType] = {}
        super().__init__(path.name, query)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[sqlite3.Cursor]:
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            yield connection.cursor()

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            return cursor.execute(sql).fetchall()

    def _schema(self, sql: str) -> pa.Schema:
        with self._cursor() as cursor:
            cursor.execute(f"select * from (\n{sql}) limit 0")
            names = [name for name, *_ in cursor.description]
        # of two columns with one name in a query, the second is called name:1 here
        first = [re.sub(r":\d+$", "", name) if self.query else name for name in names]
        return pa.schema([(one if one in names else name, pa.null()) for one, name in zip(first, names, strict=True)])

    def _run(self, sql: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._cursor() as cursor:
            cursor.execute(sql)
            index = {name: k for k, (name, *_) in enumerate(cursor.description)}
            row = 0
            while rows := cursor.fetchmany(BATCH):
                lists = {name: [values[index[name]] for values in rows] for name in columns}
                arrays = [self._typed(name, values, row, sql) for name, values in lists.items()]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)
                row += len(rows)

    def _typed(self, name: str, values: list[Any], row: int, sql: str) -> pa.Array:
        array = self._array(name, values, row)
        if not pa.types.is_null(array.type):
            return array
        if name not in self.kinds:  # nothing but NULL so far
            found = self._rows(f"select {quoted(name)} from (\n{sql}) where {quoted(name)} is not null limit 1")
            self.kinds[name] = pa.array([value for (value,) in found]).type
        return array.cast(self.kinds[name])


class DuckDBSource(QuerySource):
    """A DuckDB file."""

    kind = "DuckDB"
    listing = (
        "select nullif(schema_name, 'main'), table_name from duckdb_tables() where not internal union all "
        "select nullif(schema_name, 'main'), view_name from duckdb_views() where not internal order by 1 nulls first, 2"
    )

    def __init__(self, path: Path, query: str | None):
        self.path = path
        self.errors = (need("duckdb", extra="duckdb").Error, *self.errors)
        super().__init__(path.name, query)

    @contextlib.contextmanager
    def _relation(self, sql: str) -> Iterator[Any]:
        duckdb = need("duckdb", extra="duckdb")
        try:
            connection = duckdb.connect(str(self.path), read_only=True)
        except duckdb.Error as error:
            raise BadFile(f"{self.home} cannot be opened: {driver_message(str(error))}.") from error
        with contextlib.closing(connection):
            if (relation := connection.sql(sql)) is None:
                raise BadInput(f"{self.title} gives no rows: {sql.strip()!r}. Write a select.")
            yield relation

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._relation(sql) as relation:
            return relation.fetchall()

    def _schema(self, sql: str) -> pa.Schema:
        with self._relation(sql) as relation:
            found = relation.limit(0).to_arrow_table().schema  # which has names of its own for columns of one name
            return pa.schema([(name, found.field(k).type) for k, name in enumerate(relation.columns)])

    def _run(self, sql: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._relation(sql) as relation:
            for batch in relation.to_arrow_reader(BATCH):
                yield tidy(batch, columns)


class PostgresSource(QuerySource):
    """A PostgreSQL server, read by ADBC: rows arrive in PostgreSQL's binary form and become Arrow in C."""

    kind, whose = "PostgreSQL", " that this user may read"
    listing = (
        "select case when not pg_table_is_visible(c.oid) then n.nspname::text end, c.relname::text from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm', 'f') "
        "and not c.relispartition and n.nspname !~ '^(pg_|information_schema$)' "
        "and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') "
        "order by 1 nulls first, 2"
    )

    def __init__(self, address: str, home: str, query: str | None):
        timeout = f"{'&' if '?' in address else '?'}connect_timeout={CONNECT_SECONDS}"
        self.address = address if "connect_timeout=" in address else address + timeout
        self.errors = (_dbapi().Error, *self.errors)
        super().__init__(home, query)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        dbapi = _dbapi()
        try:
            connection = dbapi.connect(self.address)
        except dbapi.Error as error:
            raise BadFile(self._unreachable(str(error))) from None  # which may show the password
        with connection, connection.cursor() as cursor:
            cursor.execute("set transaction read only")
            yield cursor

    def _unreachable(self, message: str) -> str:
        secrets = re.findall(r"^\w+://[^:/@]*:([^@/]*)@|password=([^&]*)", self.address)
        for secret in {form for found in secrets for one in found for form in (one, unquote(one)) if form}:
            message = message.replace(secret, "…")
        said = driver_message(message.replace("Failed to connect: ", ""))
        said = re.sub(r'connection to server (?:at|on socket) ".*?"(?: \(.*?\))?(?:, port \d+)? failed: ', "", said)
        advice = ""
        if "password" in said or "authentication" in said:
            advice = " Check user and password; PGPASSWORD or ~/.pgpass keep it out of the command."
        elif "refused" in said or "No such file" in said:
            advice = " Does it run there, and listen on that port?"
        return f"cannot connect to {self.home}: {said.replace('FATAL:  ', '')}.{advice}"

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def _schema(self, sql: str) -> pa.Schema:
        with self._cursor() as cursor:
            return cursor.adbc_execute_schema(sql)

    def _run(self, sql: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._cursor() as cursor:
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                yield tidy(batch, columns)


def _dbapi() -> Any:
    need("adbc_driver_postgresql", "adbc-driver-postgresql", extra="postgres")
    from adbc_driver_postgresql import dbapi

    return dbapi
