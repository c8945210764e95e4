"""A PostgreSQL server for tests: on this machine only, with a password, in a folder that goes away with it."""

from __future__ import annotations

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

import pytest


def programs() -> Path | None:
    """Where PostgreSQL's programs are; Debian puts them beside the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(4))
    found += [Path(path) for path in [shutil.which("initdb")] if path]
    return found[-1].parent if found else None


@contextmanager
def postgres_server(password: str) -> Iterator[int]:
    """The port of a server with the user `ann`. Where it is missing tests skip, but in CI they fail."""
    folder_of = programs()
    if folder_of is None:
        missing = "PostgreSQL's server is not here (Debian: apt-get install postgresql)"
        pytest.fail(f"{missing}, and CI=true") if os.environ.get("CI") == "true" else pytest.skip(missing)
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # as which it does not run
        entry = pwd.getpwnam("postgres")
        who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="pintgn-postgres-", dir="/tmp"))
    try:
        (folder / "password").write_text(password)
        for path in (folder, folder / "password") if who else ():
            os.chown(path, who["user"], who["group"])
        make = f"initdb -D {folder}/data -U ann --auth scram-sha-256 --pwfile {folder}/password --no-sync -E UTF8"
        subprocess.run(
            [folder_of / "initdb", *make.split()[1:]], check=True, stdout=subprocess.DEVNULL, cwd=folder, **who
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = f"listen_addresses=127.0.0.1 port={port} unix_socket_directories= fsync=off timezone=Asia/Tokyo"
        start = [folder_of / "postgres", "-D", folder / "data"]
        start += [word for one in settings.split() for word in ("-c", one)]
        with open(folder / "output", "w") as output:
            process = subprocess.Popen(start, stderr=output, cwd=folder, **who)
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None, (folder / "output").read_text()
                time.sleep(0.05)
            yield port
        finally:
            process.send_signal(signal.SIGINT)  # end now, and properly
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
