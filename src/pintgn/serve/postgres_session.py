"""Sessions with PostgreSQL, and how rows are written and read there."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Any

from pintgn.errors import BadInput
from pintgn.formatting import shown_address
from pintgn.packages import need
from pintgn.serve.event_store import StoreLost

psycopg = need("psycopg", extra="postgres")
ALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""How libpq notices that a server is gone, unless the address says otherwise."""
SESSION = """
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'statement_timeout')
"""
"""The server notices a client that is gone, makes commits durable, and does not end sessions that wait."""


def connected(address: str) -> Any:
    """A session with the database at an address; a failure is one line without the password."""
    shown = shown_address(address)
    try:
        given = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise BadInput(f"{shown} is no address of a database: postgresql://USER@HOST:PORT/DATABASE.") from None
    named = {"application_name": f"pintgn on {socket.gethostname()}, process {os.getpid()}"}
    try:
        db = psycopg.connect(**(ALIVE | named | given), autocommit=True)
        db.execute(SESSION)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        if given.get("password"):
            said = said.replace(given["password"], "…")
        raise StoreLost(f"cannot connect to {shown}: {said}") from None
    return db


def copied(db: Any, table: str, types: list[str], rows: Iterable[tuple]) -> None:
    with db.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def escaped(texts: list) -> list:
    """Texts as PostgreSQL can hold them: it has no character 0.

    >>> escaped(["a", None]), escaped(["a\\0b", "c\\\\d", None])
    (['a', None], ['a\\\\0b', 'c\\\\\\\\d', None])
    """
    if not any(text is not None and ("\0" in text or "\\" in text) for text in texts):
        return texts
    return [text if text is None else text.replace("\\", "\\\\").replace("\0", "\\0") for text in texts]


def unescaped(row: tuple) -> tuple:
    def plain(text: Any) -> Any:
        if not isinstance(text, str) or "\\" not in text:
            return text
        return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))

    return (row[0], plain(row[1]), plain(row[2]), *row[3:6], plain(row[6]), row[7])


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
