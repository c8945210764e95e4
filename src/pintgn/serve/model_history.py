"""Served run of a store and results of candidates: `models.json` in the store's folder, or the database."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile
from pintgn.facts import AtLeast, check_format, read_json
from pintgn.files import PRIVATE, write_errors, write_file
from pintgn.learn.folder import holds_run
from pintgn.learn.run import Run
from pintgn.serve.event_store import Store
from pintgn.serve.stores import is_address

FILE = "models.json"
FORMAT = 1
MOST_ENTRIES = 100
"""Candidates whose history is kept."""
SHAPE = {"format": AtLeast(1)}
NAMED = "to serve the run that you name"


class ModelHistory:
    """The promoted run, the one before it, and the results of all candidates."""

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / FILE
        self.active: dict[str, Any] | None = None  # run, log and covered, where a run was promoted
        self.before: dict[str, Any] | None = None  # what was active before it
        self.entries: list[dict[str, Any]] = []
        if self.path.exists():
            help = f"Delete it {NAMED}."
            self._take(read_json(self.path, SHAPE, help), str(self.path), help)
            for one in (self.active, self.before):
                if one is not None:  # relative, in a backup
                    one["run"] = os.path.normpath(self.path.parent.absolute() / one["run"])

    def _take(self, facts: dict[str, Any], name: str, help: str) -> None:
        check_format(facts["format"], FORMAT, name, help)
        if facts.get("checksum", checksum := _checksum(facts)) != checksum:  # an older pintgn wrote none
            raise BadFile(f"{name} is damaged: it is not what was written. {help}")
        self.active, self.before, self.entries = facts["active"], facts["before"], facts["history"]

    def _facts(self) -> dict[str, Any]:
        return _sealed({"active": self.active, "before": self.before, "history": self.entries[-MOST_ENTRIES:]})

    def save(self) -> None:
        with write_errors(self.path):
            write_file(self.path, json.dumps(self._facts(), indent=1), mode=PRIVATE)

    def attach(self, store: Store) -> None:
        """The store that this belongs to, now that it is open."""

    def reload(self) -> bool:
        """Read the history again if another service has changed it; whether it has."""
        return False

    def served(self, given: Run, progress: Callable[[str], None]) -> tuple[Run, int, str | None]:
        """The run to serve: the one that is given, unless another was promoted. With it, how many stored events its log
        covers, and the fingerprint of the log that the store continues, where that is another."""
        if self.active is None:
            return given, 0, None
        path = Path(self.active["run"])
        if not holds_run(path):
            return self._gone(path, given, progress)
        same = given.folder is not None and given.folder.path.absolute() == path
        if not same:
            progress(f"{path} was promoted, and is served")
        opened = given if same else Run.open(path, device=given.device)
        return opened, self.active["covered"], self.active["log"]

    def _gone(self, path: Path, given: Run, progress: Callable[[str], None]) -> tuple[Run, int, str | None]:
        raise BadFile(f"{path}, which was promoted, is gone. Put it back, or delete {self.path} {NAMED}.")

    def write_for(self, folder: Path, run: str) -> None:
        """Write down for another store that it is served with the same run, which is at a path relative to it."""
        if self.active is not None:
            facts = self._facts() | {"active": self.active | {"run": run}, "before": None}
            write_file(folder / FILE, json.dumps(_sealed(facts), indent=1))

    def facts(self) -> dict[str, Any]:
        return {"active": self.active, "history": self.entries[-MOST_ENTRIES:]}


def _sealed(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | {"format": FORMAT, "checksum": _checksum(facts)}


def _checksum(facts: dict[str, Any]) -> int:
    kept = [facts.get(name) for name in ("active", "before", "history")]
    return zlib.crc32(json.dumps(kept, sort_keys=True).encode())


def open_models(where: str | Path) -> ModelHistory:
    """The history of promotions of the store at an address."""
    if is_address(where):
        from pintgn.serve.postgres_models import SharedModelHistory

        return SharedModelHistory(str(where))
    return ModelHistory(where)
