"""Services that can be killed: in a fork, or `pintgn serve` over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.serve.hardship import OPTIONS


class Gone(Exception):
    """The victim is dead."""


class Forked:
    """A service in a fork of this process: no time is lost with starting Python."""

    def __init__(self, run: Path, store: Path | str, file_limit: int | None = None):
        mine, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            mine.close()
            try:
                self._serve(run, store, theirs, file_limit)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        theirs.close()
        self.pipe = mine

    @staticmethod
    def _serve(run: Path, store: Path | str, pipe: socket.socket, file_limit: int | None) -> None:
        from pintgn.errors import PintgnError
        from pintgn.serve.limits import Options
        from pintgn.serve.service import Service

        service = Service.open(run, store, Options(**OPTIONS))
        while service.role == "standby":  # until the one that was killed is known to be gone
            time.sleep(0.01)
        if file_limit is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        while True:
            events = _read(pipe)
            try:
                answer = service.submit(service.requests.rows(events)).result() if events else {}
            except PintgnError as error:
                answer = {"error": type(error).__name__}
            _write(pipe, answer | {"stored": service.store.total})

    def send(self, events: list[dict]) -> dict[str, Any]:
        try:
            _write(self.pipe, events)
            return _read(self.pipe)
        except OSError as error:
            raise Gone from error

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def bury(self) -> None:
        self.kill()
        os.waitpid(self.pid, 0)
        self.pipe.close()


class Served:
    """`pintgn serve` itself, over HTTP, in a fork of this process."""

    def __init__(self, run: Path, store: Path | str, *more: str, waits: bool = False):
        self.waits = waits  # a standby is what is wanted
        command = ["serve", str(run), "--store", str(store), "--port", "0", "--json", *more]
        command += ["--snapshot-every", str(OPTIONS["snapshot_every"])]
        self.noise = tempfile.TemporaryFile()  # noqa: SIM115 - read when it is over
        mine, theirs = os.pipe()
        self.port, self.pid = None, os.fork()
        if self.pid == 0:
            os.close(mine)
            os.dup2(theirs, 1)
            os.dup2(self.noise.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            try:
                from pintgn.cli.app import app

                app(command, standalone_mode=False)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        os.close(theirs)
        self.said_first = os.fdopen(mine, "r")

    def started(self) -> None:
        if self.port is None:
            line = self.said_first.readline()
            if not line:
                assert os.waitstatus_to_exitcode(self._wait()) == -signal.SIGKILL, f"it did not start: {self.said()}"
                raise Gone
            self.port = int(json.loads(line)["address"].rpartition(":")[2])
            self._await_role()

    def _await_role(self) -> None:
        """Until it is no standby: the one that was killed is known to be gone."""
        import httpx

        with contextlib.suppress(httpx.HTTPError):  # it may have been killed meanwhile
            while httpx.get(f"http://127.0.0.1:{self.port}/health").json()["role"] == "standby" and not self.waits:
                time.sleep(0.01)

    def client(self) -> Any:
        import httpx

        self.started()
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def _wait(self) -> int:
        if self.pid:
            self.ended, self.pid = os.waitpid(self.pid, 0)[1], 0
        return self.ended

    def kill(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def bury(self) -> None:
        self.kill()
        self._wait()
        self.said_first.close()
        self.noise.close()

    def said(self) -> str:
        self.noise.seek(0)
        return self.noise.read().decode()


def _write(pipe: socket.socket, value: Any) -> None:
    data = json.dumps(value).encode()
    pipe.sendall(struct.pack("<I", len(data)) + data)


def _read(pipe: socket.socket) -> Any:
    def exactly(count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            more = pipe.recv(count - len(parts))
            if not more:
                raise ConnectionResetError
            parts += more
        return parts

    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))
