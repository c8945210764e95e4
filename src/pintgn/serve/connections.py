"""Connections: how many, how long one may do nothing, and how they end when the service does.

uvicorn waits for ever for a request that does not come, for a body that never ends and for an answer that nobody reads;
a few thousand such connections use up what the process may open, and nobody gets in any more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pintgn.errors import BadInput
from pintgn.serve.limits import Limits

log = logging.getLogger("pintgn.serve")
GRACE = 30
"""Seconds that a stopping service waits for answers which are being made or read."""
AT_ONCE = 1 << 14
"""Bytes that are taken from one connection before the others have their turn."""
CHUNKS, CHUNK = 200, 32
"""A body in so many chunks, and any number more as long as they have so many bytes on average. Each costs as much as a
kilobyte does: one client that sent single bytes stopped everybody else."""
FULL = json.dumps(
    {
        "error": "busy",
        "message": "Every connection that the service may have is in use.",
        "next": "Wait as long as Retry-After says, then send the same request again.",
    }
).encode()


def check_certificate(cert: Path | None, key: Path | None) -> None:
    """Refuse a certificate that cannot be served, in one line."""
    if (cert is None) != (key is None):
        raise BadInput("--tls-cert and --tls-key go together; give both or none.")
    if cert is None or key is None:
        return
    for path in (cert, key):
        try:
            path.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}.") from None

    def no_password() -> str:
        raise BadInput(f"{key} is encrypted. Give a key without a password, readable by the service only.")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, no_password)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise BadInput(f"{cert} and {key} are no certificate and its private key in PEM ({why}).") from None


class Server(uvicorn.Server):
    """An HTTP server for the app of a service, with bounds on its connections."""

    def __init__(self, app: Any, limits: Limits, **config: Any):
        self.idle: dict[Connection, None] = {}  # connections without a request, the one that waits longest first
        self.limits, self.bodies = limits, app.state.bodies

        def protocol(*given: Any, **more: Any) -> Connection:
            return Connection(self, *given, **more)

        made = uvicorn.Config(
            app,
            http=protocol,  # type: ignore[arg-type]
            timeout_keep_alive=max(1, int(limits.idle)),
            timeout_graceful_shutdown=GRACE,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            **config,
        )
        super().__init__(made)

    def reload_certificate(self) -> None:
        """Read the certificate again; connections from now on get it. One that is no good changes nothing."""
        try:
            check_certificate(Path(str(self.config.ssl_certfile)), Path(str(self.config.ssl_keyfile)))
        except BadInput as error:
            log.error("the certificate stays as it was: %s", error)
        else:
            self.config.ssl.load_cert_chain(self.config.ssl_certfile, self.config.ssl_keyfile)  # type: ignore

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.bodies.stop()  # else half a body holds up the end for ever
        await super().shutdown(sockets)


class Counted(h11.Connection):
    """HTTP as h11 reads it, without bodies in crumbs."""

    chunks = size = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Data):
            self.chunks, self.size = self.chunks + 1, self.size + len(event.data)
            if self.chunks > CHUNKS + self.size // CHUNK:
                raise h11.RemoteProtocolError("the body comes in too many chunks")
        elif isinstance(event, h11.Request):
            self.chunks = self.size = 0
        return event


class Connection(H11Protocol):
    """One connection. It is either at a request, or idle and counting down."""

    def __init__(self, owner: Server, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self.conn = Counted(h11.SERVER)
        self._owner = owner
        self._countdown: asyncio.TimerHandle | None = None
        self._begun = True  # whether something of the next request is expected at once
        self._unread: asyncio.TimerHandle | None = None

    @property
    def at_work(self) -> bool:
        """Whether there is a request that has not been answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        transport.max_size = AT_ONCE
        super().connection_made(transport)
        if len(self.connections) > self._owner.limits.connections:
            oldest = next(iter(self._owner.idle), None)
            if oldest is None:
                head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
                transport.write(f"{head}Retry-After: 1\r\nContent-Length: {len(FULL)}\r\n\r\n".encode() + FULL)
                transport.close()
                return
            oldest.end()
        self._wait(begun=True)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.at_work:
            self._busy()
        elif not self._begun and not self.transport.is_closing():
            self._wait(begun=True)

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin with a request that was sent ahead
        if not self.at_work and not self.transport.is_closing():
            self._wait(begun=self.conn.their_state is not self.conn.our_state)  # part of its body is still to come

    def connection_lost(self, exc: Exception | None) -> None:
        self._busy()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._owner.limits.unread, self.end)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _busy(self) -> None:
        self._owner.idle.pop(self, None)
        if self._countdown is not None:
            self._countdown.cancel()
            self._countdown = None

    def _wait(self, begun: bool) -> None:
        """Nothing is asked; end when that stays so. Soon, if a request has begun, however often a byte of it comes."""
        self._busy()
        self._begun = begun
        self._owner.idle[self] = None
        limits = self._owner.limits
        self._countdown = self.loop.call_later(limits.request if begun else limits.idle, self.end)

    def end(self) -> None:
        """Close at once, read or unread."""
        self._busy()
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
        self.connections.discard(self)
