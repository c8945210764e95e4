"""HTTP client of a service: one connection, kept open, and answers in JSON."""

from __future__ import annotations

import http.client
import json
import math
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pintgn.errors import BadInput

TIMEOUT = 60.0
"""Seconds that an answer may take."""


class Unreachable(OSError):
    """There was no answer: whether the request arrived is unknown."""


class Client:
    """Requests over one connection, opened anew when it breaks."""

    def __init__(self, host: str, port: int | None, tls: bool, key: str | None = None):
        self.headers = {"Content-Type": "application/json"}
        if key is not None:
            self.headers["Authorization"] = f"Bearer {key}"
        more: dict[str, Any] = {"context": ssl.create_default_context()} if tls else {}
        kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self.connection = kind(host, port, timeout=TIMEOUT, **more)

    @classmethod
    def of(cls, address: str, key: str | None = None) -> tuple[Client, str]:
        """For an address, and the path in it."""
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise BadInput(f"{address!r} is no address of a service, such as http://127.0.0.1:8000.")
        if "@" in parts.netloc:
            raise BadInput("an address holds no user or password here. Leave it out; --api-key FILE has the key.")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, port, parts.scheme == "https", key), path

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Mapping[str, str], Any]:
        """Status, headers and body of an answer; raises `Unreachable` when there is none."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        try:
            self.connection.request(method, path, data, self.headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        try:
            found = json.loads(text or "null")
        except ValueError:
            found = None
        return answer.status, dict(answer.headers.items()), found

    def close(self) -> None:
        self.connection.close()


def seconds_to_wait(headers: Mapping[str, str], attempt: int) -> float:
    """Seconds to wait: Retry-After, else exponential backoff, at most half a minute.

    >>> seconds_to_wait({"Retry-After": "3"}, 0), seconds_to_wait({}, 2), seconds_to_wait({}, 99)
    (3.0, 1.0, 30.0)
    """
    try:
        said = float({name.lower(): value for name, value in headers.items()}.get("retry-after", "nan"))
    except ValueError:
        said = math.nan
    return min(said if math.isfinite(said) and said >= 0 else 0.25 * 2 ** min(attempt, 20), 30.0)
