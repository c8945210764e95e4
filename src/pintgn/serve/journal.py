"""What is written down about requests: lines for people or machines, and who changed something or was refused.

Three loggers of Python's own: `pintgn.serve` for what goes wrong, `pintgn.access` for every request, `pintgn.audit` for
writes, administration and refusals. The last two say nothing unless somebody asks for them.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pintgn import files
from pintgn.files import make_private, write_errors
from pintgn.serve.keys import needed

access, audit = logging.getLogger("pintgn.access"), logging.getLogger("pintgn.audit")
ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
"""What a client or a proxy may call a request: nothing that could look like more than one line or field of a log."""
PRIVATE = "_pintgn"
"""Where a scope holds what only we know about a request: whose key it brought, why it was refused, what was done."""


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _Private(logging.handlers.WatchedFileHandler):
    """A file that only its owner reads, also after it was moved away."""

    def _open(self) -> Any:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, files.PRIVATE))
        make_private(self.baseFilename)
        return super()._open()


def write_logs(as_json: bool = False, every_request: bool = False, audited: Path | None = None) -> None:
    """Where lines go: stderr, and those about who did what also to a file.

    The file is only ever appended to. When something has moved it away (logrotate), the next line begins a new one.
    """
    shown = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s  %(message)s")
    shown.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    if every_request:
        access.setLevel(logging.INFO)
    if audited is not None:
        with write_errors(audited, "Name a file in a folder that exists with --audit."):
            kept = _Private(audited, encoding="utf-8")
        kept.setFormatter(JsonLines())
        audit.addHandler(kept)
        audit.setLevel(logging.INFO)
        audit.propagate = False


def note(scope: Any, id: str, status: int, seconds: float) -> None:
    """Write down a request that has been answered."""
    known = scope.get(PRIVATE, {})
    client = scope.get("client")
    facts = {
        "request_id": id,
        "key": known.get("key"),
        "client": client[0] if client else None,
        "method": scope["method"],
        "path": scope["path"][:1_000],
        "status": status,
        "ms": round(1_000 * seconds, 2),
    } | {name: known[name] for name in ("refused", "done") if name in known}
    line = f"{scope['method']} {quote(scope['path'][:200])} {status} {facts['ms']:g} ms  {facts['key'] or '-'}  {id}"
    access.info("%s", line, extra={"facts": facts})
    if audit.isEnabledFor(logging.INFO) and (
        needed(f"{scope['method']} {scope['path']}") != "read" or "refused" in known
    ):
        audit.info("%s", line, extra={"facts": facts})


def note_action(action: str, facts: dict[str, Any]) -> None:
    """Write down what an operator did at the command line."""
    import getpass

    if audit.isEnabledFor(logging.INFO):
        audit.info("%s", action, extra={"facts": {"user": getpass.getuser(), "action": action, "done": facts}})
