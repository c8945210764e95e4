"""What a service must survive: kill -9 at any moment, a full disk, nonsense. Small in the tests, large on its own:

python -m tests.serve.torture [--kills 100] [--requests 10000] [--seed 0]     (or: make torture)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from tests.serve.helpers import TRAINED, as_events, assert_same_state, happened, replayed, trained

OPTIONS = {"snapshot_every": 70, "judge_every": 10}


class Gone(Exception):
    """The victim is dead."""


# -- victims: services that can be killed ------------------------------------------------------------------------------


class Forked:
    """A service in a fork of this process: no time is lost with starting Python."""

    def __init__(self, run: Path, store: Path, file_limit: int | None = None):
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
    def _serve(run: Path, store: Path, pipe: socket.socket, file_limit: int | None) -> None:
        from pintgn.errors import PintgnError
        from pintgn.serve.limits import Options
        from pintgn.serve.service import Service

        service = Service.open(run, store, Options(**OPTIONS))
        if file_limit is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        while True:
            events = _read(pipe)
            try:
                answer = service.submit(service.engine.intake.rows(events)).result() if events else {}
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
    """`pintgn serve` itself, over HTTP."""

    def __init__(self, run: Path, store: Path):
        command = [sys.executable, "-m", "pintgn", "serve", str(run), "--store", str(store), "--port", "0", "--json"]
        command += ["--snapshot-every", str(OPTIONS["snapshot_every"])]
        self.noise = tempfile.TemporaryFile()  # noqa: SIM115 - read when it is over
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.noise)
        self.port = None

    def started(self) -> None:
        if self.port is None:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if not line:
                assert self.process.wait() == -signal.SIGKILL, f"it did not start: {self.said()}"
                raise Gone
            self.port = int(json.loads(line)["address"].rpartition(":")[2])

    def send(self, events: list[dict]) -> dict[str, Any]:
        import httpx

        self.started()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as client:
                if not events:
                    return {"stored": client.get("/status").json()["live_events"]}
                answer = client.post("/events", json={"events": events})
                assert answer.status_code == 200, answer.text
                return answer.json()
        except httpx.HTTPError as error:
            raise Gone from error

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def bury(self) -> None:
        self.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
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


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def survive_kills(
    victim: Callable[[Path, Path], Any], run: Path, columns: dict, folder: Path, kills: int, seed: int, patience: float
) -> int:
    """Kill a service again and again while it takes events; returns how many events it had acknowledged.

    After every restart nothing that was acknowledged may be missing. The client, who cannot know whether what it sent
    last arrived, sends it again under the same keys. In the end everything is there once, and the state is that of a
    service that never stopped.
    """
    rng = random.Random(seed)
    acknowledged, total = TRAINED, len(columns["t"])
    for _ in range(kills):
        alive = victim(run, folder)
        try:
            if rng.random() < 0.8:  # else it may die while it starts
                stored = alive.send([])["stored"]
                assert stored >= acknowledged - TRAINED, "an acknowledged event is lost"
            timer = threading.Timer(rng.random() * patience, alive.kill)
            timer.start()
            while True:
                again = max(TRAINED, acknowledged - rng.choice([0, 0, 5]))  # some that it knows already
                until = min(acknowledged + rng.randint(1, 40), total)
                answer = alive.send(as_events(columns, again, until, keyed=True))
                assert answer["accepted"] + answer["duplicates"] == until - again
                acknowledged = until
                if acknowledged == total:
                    acknowledged = TRAINED + (total - TRAINED) // 2  # go on with what it knows
        except Gone:
            pass
        finally:
            timer.cancel()
            alive.bury()
    alive = victim(run, folder)
    try:
        alive.send(as_events(columns, TRAINED, total, keyed=True))
    finally:
        alive.bury()
    check_state(run, columns, folder, total)
    return acknowledged - TRAINED


def check_state(run: Path, columns: dict, folder: Path, total: int) -> None:
    """Every event is stored once, in order, and the state equals a clean replay, bit for bit."""
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    with Service.open(run, folder, Options(**OPTIONS)) as service:
        assert not service.reports, service.reports
        keys = [key for _, batch in service.store.read() for key in batch.keys or []]
        assert keys == [f"event {k}" for k in range(TRAINED, total)], "an event is missing, doubled or out of order"
        assert_same_state(service.engine, replayed(run, columns, total))


# -- damage ------------------------------------------------------------------------------------------------------------

FILES = ("database", "log", "snapshot", "mark")
HARMS = ("flipped", "zeroed", "cut", "deleted")
PAGE = 4096


def damage(folder: Path, file: str, harm: str, seed: int) -> bool:
    """Do something bad to a file of a store; False where there is no such file."""
    names = {"database": "events.db", "log": "events.db-wal", "mark": "high-water"}
    if file == "snapshot":
        inside = [path for path in max((folder / "snapshots").iterdir()).rglob("*") if path.is_file()]
        path = random.Random(seed).choice(sorted(inside))
    else:
        path = folder / names[file]
    if not path.exists() or not path.stat().st_size:
        return False
    raw, rng = bytearray(path.read_bytes()), random.Random(f"{file} {harm} {seed}")
    place = rng.randrange(len(raw))
    if harm == "flipped":
        raw[place] ^= 1 << rng.randrange(8)
    elif harm == "zeroed":
        begin = place - place % PAGE
        raw[begin : begin + PAGE] = bytes(len(raw[begin : begin + PAGE]))
    elif harm == "cut":
        del raw[place:]
    path.write_bytes(raw)
    if harm == "deleted":
        path.unlink()
    return True


def pages_of(raw: bytes, table: str) -> list[int]:
    """Where the leaves of a table begin in the file of a database."""
    import sqlite3

    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.db"
        copy.write_bytes(raw)
        db = sqlite3.connect(copy)
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        db.close()
    page = raw[(root - 1) * PAGE : root * PAGE]
    assert page[0] == 5, "an inner page"
    cells = struct.unpack(f">{int.from_bytes(page[3:5], 'big')}H", page[12 : 12 + 2 * int.from_bytes(page[3:5], "big")])
    return [(int.from_bytes(page[at : at + 4], "big") - 1) * PAGE for at in cells]


def survive_damage(run: Path, columns: dict, folder: Path, total: int) -> int:
    """Start a damaged store of events with keys: what is missing is told, for good, and can be made good.

    Returns how many events were missing.
    """
    from pintgn.learn.run import Run
    from pintgn.serve import answers
    from pintgn.serve.limits import Degraded, Options
    from pintgn.serve.rewind import undo_after
    from pintgn.serve.service import Service

    told = []
    for _ in range(2):
        with Service.open(run, folder, Options(**OPTIONS)) as service:
            health = answers.health(service)
            missing = {k for gap in health["missing"] for k in range(gap["first"], gap["last"] + 1)}
            kept = {}
            for first, batch in service.store.read():
                kept |= {
                    first + row: event for row, event in enumerate(zip(batch.src, batch.dst, batch.keys, strict=True))
                }
            expected = {
                k - TRAINED + 1: (columns["src"][k], columns["dst"][k], f"event {k}") for k in range(TRAINED, total)
            }
            assert all(expected[number] == event for number, event in kept.items()), "an event that was never sent"
            missing |= {k for gap in service.store.missing for k in range(gap.first, gap.last + 1)}  # by reading all
            assert kept.keys() | missing == expected.keys(), "an acknowledged event is lost silently"
            assert not kept.keys() & missing, "an event that is there is said to be missing"
            assert service.engine.total <= total - TRAINED
            if health["missing"]:
                assert (health["status"], health["taking"]) == ("degraded", False)
                try:
                    service.submit(service.engine.intake.rows(as_events(columns, total, total + 1)))
                    raise AssertionError("events were taken although others are missing")
                except Degraded:
                    pass
            else:
                assert_same_state(service.engine, replayed(run, columns, total))
            told.append(missing)
    assert told[0] <= told[1], "what was missing is forgotten by a restart"
    undo_after(Run.open(run), folder, columns["t"][TRAINED] - 1)  # the surest way to make it good: all of it again
    with Service.open(run, folder, Options(**OPTIONS)) as service:
        assert service.engine.total == 0
        assert service.taking
        service.submit(service.engine.intake.rows(as_events(columns, TRAINED, total, keyed=True))).result(60)
        assert_same_state(service.engine, replayed(run, columns, total))
    return len(told[-1])


# -- nonsense ----------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**30, "person 1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
EVENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("src", "dst", "t", "features", "op", "key", "at"), VALUES))
BODIES = st.one_of(
    st.binary(max_size=60),
    VALUES.map(lambda value: json.dumps(value).encode()),
    EVENTS.map(lambda value: json.dumps(value).encode()),
    st.lists(EVENTS, max_size=3).map(lambda value: json.dumps({"events": value}).encode()),
    st.lists(EVENTS, max_size=3).map(lambda value: json.dumps({"pairs": value}).encode()),
    EVENTS.map(lambda value: json.dumps({"columns": value}).encode()),
)
KINDS = ("application/json", "application/vnd.apache.arrow.stream", "text/plain", "")


def send_nonsense(client: Any, count: int, seed: int) -> dict[int, int]:
    """Malformed requests, half of them by the interface's own description; how often each status was answered."""
    answered: dict[int, int] = {}

    def check(answer: Any) -> None:
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, f"{answer.request.method} {answer.request.url}: {answer.text}"
        assert "Traceback" not in answer.text
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "message", "next"}, answer.text

    by_description(client, count // 2, seed, check)

    @seeded(seed)
    @settings(
        max_examples=count - sum(answered.values()),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(["/events", "/score"]), BODIES, st.sampled_from(KINDS))
    def bodies(path: str, body: bytes, kind: str) -> None:
        check(client.post(path, content=body, headers={"content-type": kind} if kind else {}))

    bodies()
    return answered


def by_description(client: Any, count: int, seed: int, check: Callable[[Any], None]) -> None:
    """Requests that schemathesis makes of the OpenAPI description: right ones, and wrong ones on purpose."""
    import schemathesis
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    share = max(1, count // (len(operations) * len(modes)))
    for operation in operations:
        for mode in modes:
            try:
                strategy = operation.as_strategy(generation_mode=mode)

                @seeded(seed)
                @settings(max_examples=share, deadline=None, database=None, suppress_health_check=list(HealthCheck))
                @given(strategy)
                def one(case: Any) -> None:
                    asked = case.as_transport_kwargs(base_url=str(client.base_url))
                    if "data" in asked:
                        asked["content"] = asked.pop("data")
                    names = ("method", "url", "params", "headers", "content", "json", "cookies")
                    asked = {name: asked[name] for name in names if asked.get(name) is not None}
                    asked.pop("cookies", None)
                    try:
                        answer = client.request(**asked)
                    except (UnicodeError, TypeError, ValueError):
                        return  # the client itself cannot say that
                    check(answer)

                one()
            except Exception as error:
                if type(error).__name__ != "Unsatisfiable" and "cannot be negated" not in str(error).lower():
                    raise


def shout(port: int, count: int, seed: int) -> None:
    """Bytes that are no HTTP at all."""
    rng = random.Random(seed)
    starts = [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"POST /events HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
        b"\x16\x03\x01",
    ]
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(rng.choice(starts) + rng.randbytes(rng.randint(0, 300)))
            if rng.random() < 0.5:
                line.settimeout(0.02)
                line.recv(1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import httpx

    with tempfile.TemporaryDirectory() as scratch:
        folder, columns = Path(scratch), happened(6_000, nodes=40, seed=options.seed)
        run, begin = trained(folder / "run", columns), time.perf_counter()
        half = options.kills // 2
        kinds = ((Forked, half, 0.5), (Served, options.kills - half, 1.5))
        for k, (victim, kills, patience) in enumerate(kinds):
            taken = survive_kills(victim, run, columns, folder / f"store-{k}", kills, options.seed + k, patience)
            print(
                f"{kills} kills of {victim.__name__}: no acknowledged event lost, none doubled, the state of a clean "
                f"replay to the bit ({taken:,} acknowledged; {time.perf_counter() - begin:.0f} s)",
                flush=True,
            )
        alive = Served(run, folder / "nonsense")
        try:
            alive.started()
            with httpx.Client(base_url=f"http://127.0.0.1:{alive.port}", timeout=60) as client:
                answered = send_nonsense(client, options.requests, options.seed)
                shout(alive.port or 0, 500, options.seed)
                assert client.get("/health").json()["status"] == "ok"
            assert "Traceback" not in alive.said(), alive.said()
        finally:
            alive.bury()
        told = ", ".join(f"{count} x {status}" for status, count in sorted(answered.items()))
        print(f"{sum(answered.values()):,} requests: {told}; 500 connections of noise; no 500, no traceback")


if __name__ == "__main__":
    main()
