"""A PostgreSQL server for tests: on this machine only, with a password, in a folder that goes away with it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest


def programs() -> Path | None:
    """Where PostgreSQL's programs are; Debian puts them beside the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(4))
    found += [Path(path) for path in [shutil.which("initdb")] if path]
    return found[-1].parent if found else None


class Cluster:
    """A server with the user `ann`, that can be killed and started again. Where it is missing tests skip, but in CI
    they fail.

    Args:
        durable: flush every commit to the disk.
    """

    def __init__(self, password: str, durable: bool = False):
        found = programs()
        if found is None:
            missing = "PostgreSQL's server is not here (Debian: apt-get install postgresql)"
            pytest.fail(f"{missing}, and CI=true") if os.environ.get("CI") == "true" else pytest.skip(missing)
        self.password, self.durable, self._programs = password, durable, found
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:  # as which it does not run
            entry = pwd.getpwnam("postgres")
            self._who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.folder = Path(tempfile.mkdtemp(prefix="pintgn-postgres-", dir="/tmp"))
        self.process: subprocess.Popen | None = None
        self._databases = 0
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        folder = self.folder
        (folder / "password").write_text(self.password)
        for path in (folder, folder / "password") if self._who else ():
            os.chown(path, self._who["user"], self._who["group"])
        make = f"initdb -D {folder}/data -U ann --auth scram-sha-256 --pwfile {folder}/password --no-sync -E UTF8"
        subprocess.run(
            [self._programs / "initdb", *make.split()[1:]],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **self._who,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> None:
        settings = f"listen_addresses=127.0.0.1 port={self.port} unix_socket_directories= timezone=Asia/Tokyo"
        settings += " max_wal_size=256MB" if self.durable else " fsync=off"
        start = [self._programs / "postgres", "-D", self.folder / "data"]
        start += [word for one in settings.split() for word in ("-c", one)]
        with open(self.folder / "output", "a") as output:
            self.process = subprocess.Popen(start, stderr=output, cwd=self.folder, **self._who)
        for _ in range(600):
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.address()):
                return
            assert self.process.poll() is None, (self.folder / "output").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9 of the server; its children notice and end."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        family = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        for pid in (self.process.pid, *family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        time.sleep(0.2)

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://ann:{quote(self.password, safe='')}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The address of a new, empty database."""
        self._databases += 1
        with psycopg.connect(self.address(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE d{self._databases}")
        return self.address(f"d{self._databases}")

    def disconnect(self, address: str) -> int:
        """End every other session of a database; returns how many."""
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(self.address(), autocommit=True) as db:
            return len(db.execute(asked, (address.rpartition("/")[2],)).fetchall())

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # end now, and properly
            self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def postgres_server(password: str) -> Iterator[int]:
    """The port of a server that forgets everything in the end."""
    with contextlib.closing(Cluster(password)) as cluster:
        yield cluster.port
