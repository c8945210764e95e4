"""The HTTP server: uvicorn with limits, TLS, and an orderly stop on a signal.

Slow clients are the business of a reverse proxy: uvicorn bounds how many connections there are and how long one stays
open between two requests, and waits for ever for a request that does not come.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from pintgn.errors import BadInput
from pintgn.serve.limits import Limits, Tls

log = logging.getLogger("pintgn.serve")
GRACE = 10
"""Seconds that a stopping service waits for requests that are under way."""


class Server(uvicorn.Server):
    """An HTTP server for the app of a service."""

    def __init__(self, app: Any, limits: Limits, tls: Tls | None = None):
        self.tls = tls or Tls()
        made = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            limit_concurrency=limits.connections + 1,
            timeout_keep_alive=max(1, int(limits.idle)),
            timeout_graceful_shutdown=GRACE,
            log_level="warning",
            access_log=False,
            server_header=False,
            ssl_certfile=self.tls.cert,
            ssl_keyfile=self.tls.key,
        )
        super().__init__(made)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Come back after Ctrl-C or SIGTERM (uvicorn would end the process, with no snapshot), and read the certificate
        again on SIGHUP.

        A signal that is ignored stays so: `nohup`, or a script that puts us in the background, wants it that way.
        """
        before: dict[signal.Signals, Any] = {}
        with contextlib.suppress(ValueError):  # not in the main thread, where no signal comes
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self.handle_exit)
            if self.config.is_ssl and hasattr(signal, "SIGHUP"):
                before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self.reload_certificate())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def reload_certificate(self) -> None:
        """Read the certificate again, for new connections. An unusable one changes nothing."""
        try:
            check_certificate(self.tls)
        except BadInput as error:
            log.error("the certificate stays as it was: %s", error)
        else:
            self.config.ssl.load_cert_chain(self.tls.cert, self.tls.key)  # type: ignore


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket: clients can connect as soon as the address is printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits 40 ms for an acknowledgement
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise BadInput(f"cannot listen at {host}:{port}: {error.strerror}. Choose another --port.") from None
    return bound


def check_certificate(tls: Tls) -> None:
    """Refuse an unusable certificate, in one line."""
    if (tls.cert is None) != (tls.key is None):
        raise BadInput("--tls-cert and --tls-key go together; give both or none.")
    if tls.cert is None or tls.key is None:
        return
    for path in (tls.cert, tls.key):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}.") from None

    def no_password() -> str:
        raise BadInput(f"{tls.key} is encrypted. Give a key without a password, readable by the service only.")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key, no_password)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise BadInput(f"{tls.cert} and {tls.key} are no certificate and its private key in PEM ({why}).") from None
