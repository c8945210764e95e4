"""Served run of a store in PostgreSQL: a row that its writer changes and every service reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pintgn.facts import parse
from pintgn.learn.run import Run
from pintgn.serve.model_history import NAMED, SHAPE, ModelHistory
from pintgn.serve.postgres_session import connected


class SharedModelHistory(ModelHistory):
    """Served run and candidates of the store at an address."""

    def __init__(self, address: str):
        self.active, self.before, self.entries = None, None, []
        self._version = 0
        self._store: Any = None
        with connected(address) as db:
            if db.execute("SELECT to_regclass('pintgn_models')").fetchone()[0] is not None:
                self._read(db)

    def _read(self, db: Any) -> bool:
        """Read a newer row; whether there was one."""
        newer = "SELECT version, facts FROM pintgn_models WHERE version <> %s"
        if (row := db.execute(newer, (self._version,)).fetchone()) is None:
            return False
        help = f"Set the version in it to 0 {NAMED}."
        self._take(parse(row[1], SHAPE, "pintgn_models", help), "pintgn_models", help)
        self._version = row[0]
        return True

    def attach(self, store: Any) -> None:
        self._store = store

    def save(self) -> None:
        with self._store.changing("which run is served could not be written down") as db:
            saved = "UPDATE pintgn_models SET version = version + 1, facts = %s RETURNING version"
            (self._version,) = db.execute(saved, (json.dumps(self._facts()),)).fetchone()

    def reload(self) -> bool:
        with self._store.session() as db:
            return self._read(db)

    def _gone(self, path: Path, given: Run, progress: Callable[[str], None]) -> tuple[Run, int, str | None]:
        progress(f"{path} was promoted, but is not on this machine: the run that you name is served")
        return given, 0, None
