"""Logs of requests: lines for people or machines, and an audit log of who changed something or was refused.

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
from typing import Any
from urllib.parse import quote

from pintgn import files
from pintgn.files import make_private, write_errors
from pintgn.serve.api_keys import needed
from pintgn.serve.limits import Logs

access, audit = logging.getLogger("pintgn.access"), logging.getLogger("pintgn.audit")
ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
"""What a client or a proxy may call a request: nothing that could look like more than one line or field of a log."""


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


def write_logs(logs: Logs) -> None:
    """Set up logging: to stderr, and audit lines also to a file.

    The file is only ever appended to. When something has moved it away (logrotate), the next line begins a new one.
    """
    shown = logging.StreamHandler()
    shown.setFormatter(JsonLines() if logs.format == "json" else logging.Formatter("%(asctime)s  %(message)s"))
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    if logs.requests:
        access.setLevel(logging.INFO)
    if logs.audit is not None:
        with write_errors(logs.audit, "Name a file in a folder that exists with --audit."):
            kept = _Private(logs.audit, encoding="utf-8")
        kept.setFormatter(JsonLines())
        audit.addHandler(kept)
        audit.setLevel(logging.INFO)
        audit.propagate = False


def note(scope: Any, status: int, seconds: float) -> None:
    """Log a request that has been answered."""
    known, client = scope["state"], scope.get("client")
    facts = {
        "request_id": known["id"],
        "key": known.get("key"),
        "client": client[0] if client else None,
        "method": scope["method"],
        "path": scope["path"][:1_000],
        "status": status,
        "ms": round(1_000 * seconds, 2),
    } | {name: known[name] for name in ("refused", "done") if name in known}
    path, ms, key = quote(scope["path"][:200]), facts["ms"], facts["key"] or "-"
    line = f"{scope['method']} {path} {status} {ms:g} ms  {key}  {known['id']}"
    access.info("%s", line, extra={"facts": facts})
    if audit.isEnabledFor(logging.INFO) and (
        needed(f"{scope['method']} {scope['path']}") != "read" or "refused" in known
    ):
        audit.info("%s", line, extra={"facts": facts})


def note_action(action: str, facts: dict[str, Any]) -> None:
    """Record an operator's action at the command line in the audit log."""
    import getpass

    if audit.isEnabledFor(logging.INFO):
        audit.info("%s", action, extra={"facts": {"user": getpass.getuser(), "action": action, "done": facts}})
