"""Rows of a PostgreSQL table or query, by a column that only grows."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.feed.stream_source import Batch, Bookmark, BookmarkedSource, Row, poll, short_name
from pintgn.formatting import shown_address
from pintgn.packages import need

POLL = 1.0
"""Seconds between two questions, when there was nothing new."""
SETTLED = """
with seen as (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as low,
                     pg_snapshot_xmax(pg_current_snapshot())::text::bigint as high),
fresh as (select t.*, mod(mod(t.xmin::text::bigint - low, 4294967296) + 4294967296, 4294967296) < high - low
                 as pintgn_unsettled
          from {table} t, seen where {after} order by t.{column} limit {most}),
stop as (select min({column}) as pintgn_stop from fresh where pintgn_unsettled)
select fresh.* from fresh, stop where pintgn_stop is null or {column} < pintgn_stop order by {column}
"""
"""A number that was drawn first may be committed last. So no row is read while a transaction that may still write a
smaller one is open: rows of transactions that are not older than every open one wait. (Numbers of transactions go
round.)"""


class PostgresSource(BookmarkedSource):
    """Rows in the order of an increasing column; each of its values names one row for good.

    Args:
        address: postgresql://… with the table or query behind '#'.
        increasing: the column; every later row must have a larger value.
        bookmark: where the position is kept.
        from_start: read from the first row again.
    """

    def __init__(
        self, address: str, table: str, increasing: str, bookmark: Bookmark, from_start: bool = False,
        name: str | None = None,
    ):  # fmt: skip
        self.psycopg, self.sql = need("psycopg", extra="postgres"), need("psycopg.sql", extra="postgres")
        self.address, self.table = address, table.strip().rstrip(";")
        self.increasing, self.bookmark = increasing, bookmark
        self.home = shown_address(address)
        self.name = short_name(name or self.table)
        self.position = None if from_start else bookmark.position
        self.connection: Any = None
        self.is_table = len(self.table.split()) == 1
        self._connect()

    def _connect(self) -> None:
        try:
            self.connection = self.psycopg.connect(self.address, autocommit=True, connect_timeout=15)
            self.connection.execute("set default_transaction_read_only = on")
            if self.is_table:
                kind = self.connection.execute(
                    "select relkind from pg_class where oid = to_regclass(%s)", (self.table,)
                ).fetchone()
                if kind is None:
                    self._drop()
                    raise BadInput(f"{self.home} has no table {self.table!r}.")
                self.settled = kind[0] in ("r", "p")
        except self.psycopg.Error as error:
            said = str(error).splitlines()[0].rstrip(".")
            raise BadFile(f"cannot connect to {self.home}: {said}.") from None  # which may show the password

    def _statement(self, most: int) -> Any:
        sql = self.sql
        column = sql.Identifier(self.increasing)
        after = sql.SQL("true")
        if self.position is not None:
            after = sql.SQL("t.{} > {}").format(column, sql.Literal(self.position))
        if self.is_table and self.settled:
            table = sql.Identifier(*self.table.split("."))
            return sql.SQL(SETTLED).format(table=table, column=column, after=after, most=sql.Literal(most))
        inner = sql.Identifier(*self.table.split(".")) if self.is_table else sql.SQL(f"(\n{self.table}\n)")
        return sql.SQL("select * from {} t where {} order by t.{} limit {}").format(
            inner, after, column, sql.Literal(most)
        )

    def read(self, most: int, wait: float) -> Batch:
        found, rows = poll(lambda: self._query(most), wait, POLL), []
        for values in found:
            values.pop("pintgn_unsettled", None)
            if self.increasing not in values:
                raise BadInput(f"{self.table} has no column {self.increasing!r}; it has {', '.join(values)}.")
            at = plain(values[self.increasing])
            rows.append(Row(f"{self.name}:{at}", {column: plain(value) for column, value in values.items()}))
        if rows:
            self.position = plain(found[-1][self.increasing])
        return Batch(rows, self.position, end=not rows and self.connection is not None)

    def _query(self, most: int) -> list[dict[str, Any]]:
        try:
            if self.connection is None:
                self._connect()
            with self.connection.cursor(row_factory=self.psycopg.rows.dict_row) as cursor:
                return cursor.execute(self._statement(most)).fetchall()
        except self.psycopg.OperationalError:  # the server was restarted; the position is ours
            self._drop()
            return []
        except BadFile:
            if self.connection is None:
                return []
            raise
        except self.psycopg.Error as error:
            raise BadInput(f"PostgreSQL refuses {self.table!r}: {str(error).splitlines()[0].rstrip('.')}.") from error

    def _drop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close(self) -> None:
        self._drop()
        super().close()


def plain(value: Any) -> Any:
    """A value as JSON has it.

    >>> plain(decimal.Decimal("3.50")), plain(decimal.Decimal(7)), plain(datetime.date(2024, 1, 31))
    (3.5, 7, '2024-01-31')
    """
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value
