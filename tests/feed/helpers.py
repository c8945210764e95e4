"""A service to feed, feeders that can be killed, and a NATS server."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pintgn.serve.limits import Options
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED
from tests.serve.victims import Served


class Alive:
    """A service in a process of its own, and what it holds in the end."""

    def __init__(self, run: Path, store: Path, *more: str):
        self.run, self.store = run, store
        self.served = Served(run, store, *more)
        self.served.started()
        self.address = f"http://127.0.0.1:{self.served.port}"

    def client(self) -> Any:
        return self.served.client()

    def total(self) -> int:
        with self.client() as client:
            return client.get("/health").json()["events"] - TRAINED

    def end(self) -> list[tuple[str, str, Any, str]]:
        """Stop it; every stored event, in order."""
        self.served.bury()
        with Service.open(self.run, self.store, Options(snapshot_every=10**6)) as service:
            return [
                row
                for _, batch in service.store.read()
                for row in zip(batch.src, batch.dst, batch.t.tolist(), batch.keys or [None] * len(batch), strict=True)
            ]


def fed(*arguments: str, kill_after: float | None = None) -> tuple[int, str, str]:
    """`pintgn feed` in a fork."""
    return ran("feed", *arguments, kill_after=kill_after)


def ran(*arguments: str, kill_after: float | None = None) -> tuple[int, str, str]:
    """`pintgn` in a fork, killed after a while or not: exit code (negative for a signal), stdout and stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as noise:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(noise.fileno(), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
                from pintgn.cli.app import app, run

                sys.argv = ["pintgn", *map(str, arguments)]
                code = 0
                run(lambda: app(standalone_mode=False))
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException:
                code = 1
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        if kill_after is not None:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        noise.seek(0)
        return code, out.read().decode(), noise.read().decode()


def killed_often(arguments: list[str], kills: int, seed: int, patience: float = 0.5) -> int:
    """Kill a feeder at random moments; returns how many were killed before they had finished."""
    rng, count = random.Random(seed), 0
    for _ in range(kills):
        code, _, noise = fed(*arguments, kill_after=rng.random() * patience)
        assert code in (0, -signal.SIGKILL), noise
        count += code != 0
    return count


@contextlib.contextmanager
def nats_server() -> Iterator[str]:
    """The address of a NATS server with JetStream. Where it is missing tests skip, but in CI they fail."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
    if program is None:
        missing = "nats-server is not here (Debian: apt-get install nats-server)"
        pytest.fail(f"{missing}, and CI=true") if os.environ.get("CI") == "true" else pytest.skip(missing)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="pintgn-nats-")
    try:
        process = subprocess.Popen(
            [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder], stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None
                time.sleep(0.05)
            yield f"nats://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
