"""A store in hard times: a full disk, and files that are damaged in every way. What is lost is told."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import traceback
from pathlib import Path

from pintgn.serve.sqlite import TABLES
from tests.serve.helpers import TRAINED, as_events, assert_same_state, replayed

OPTIONS = {"snapshot_every": 70, "evaluate_every": 10}

# -- a full disk -------------------------------------------------------------------------------------------------------


def taken_until_full(run: Path, folder: Path, options: dict, limit: int, sent: list[list[dict]]) -> int:
    """How many requests a service in a process of its own acknowledges before its disk is full, and one more after;
    all but the last where it never is."""
    import resource

    mine, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            from pintgn.serve import answers
            from pintgn.serve.event_store import StoreFull
            from pintgn.serve.limits import Options
            from pintgn.serve.service import Service

            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            service = Service.open(run, folder, Options(**options))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
            done, full = 0, False
            while done < len(sent) - 1 and not full:
                try:
                    service.submit(service.requests.rows(sent[done])).result()
                    done += 1
                except StoreFull:
                    full = True
            if full:
                told = answers.health(service)
                assert (told["status"], told["taking"]) == ("degraded", False), told
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                service.submit(service.requests.rows(sent[done])).result()
                done += 1
                assert answers.health(service)["taking"]
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
            service.close()
            theirs.sendall(struct.pack("<I", done))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (done,) = struct.unpack("<I", mine.recv(4))
    mine.close()
    return int(done)


def survive_full(run: Path, columns: dict, folder: Path, limit: int, lateness: float | None = None) -> int:
    """Let every file end at so many bytes while a service takes events; returns how many it acknowledged.

    It refuses, says so, keeps nothing of what it refused, goes on when there is room again, and stops in peace.
    """
    sent = [as_events(columns, begin, begin + 20, keyed=True) for begin in range(TRAINED, 900, 20)]
    done = taken_until_full(run, folder, OPTIONS | {"lateness": lateness}, limit, sent)
    acknowledged = TRAINED + 20 * done
    from pintgn.serve.service import Service

    with Service.open(run, folder) as service:
        assert not service.reports, service.reports
        assert_same_state(service.live, replayed(run, columns, acknowledged))
    return acknowledged - TRAINED


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
    return harm_file(path, harm, f"{file} {harm} {seed}")


def harm_file(path: Path, harm: str, seed: str) -> bool:
    if not path.exists() or not path.stat().st_size:
        return False
    raw, rng = bytearray(path.read_bytes()), random.Random(seed)
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


def recovered(folder: Path) -> None:
    """What `sqlite3 events.db .recover` makes of a damaged database; by hand where that program is missing."""
    path, fresh = folder / "events.db", folder / "fresh.db"
    if program := shutil.which("sqlite3"):
        made = subprocess.run([program, path, ".recover"], capture_output=True)
        subprocess.run([program, fresh], input=made.stdout, capture_output=True)
    else:
        with contextlib.closing(sqlite3.connect(fresh)) as db:
            db.executescript(TABLES)
            for table in ("facts", "dropped_keys", "held", "events"):
                for order in ("", "DESC"):
                    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as old:
                        for row in old.execute(f"SELECT * FROM {table} ORDER BY 1 {order}"):
                            db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            db.commit()
    for name in ("events.db", "events.db-wal", "events.db-shm"):
        (folder / name).unlink(missing_ok=True)
    fresh.rename(path)


def survive_damage(run: Path, columns: dict, folder: Path, total: int) -> int:
    """Start a damaged store of events with keys: nothing is missing, or it is refused in one line, which helps.

    Returns how many events were missing.
    """
    from pintgn.errors import BadFile, BadInput
    from pintgn.learn.run import Run
    from pintgn.live.live import Live
    from pintgn.serve.limits import Options
    from pintgn.serve.recovery import accept_loss, undo_after
    from pintgn.serve.service import Service

    def started() -> Service:
        return Service.open(run, folder, Options(**OPTIONS))

    told = []
    for _ in range(2):
        try:
            started().close()
            break
        except BadFile as error:
            told.append(str(error))
    if told:
        assert len(told) == 2, "what was missing is forgotten by a restart"
        assert "\n" not in told[0]
        assert "pintgn restore" in told[0]
        count = re.search(r"--accept-loss (\d+)", told[0])
        if count is None:
            assert "is damaged" in told[0]
            assert ".recover" in told[0]
            recovered(folder)
            try:
                started().close()
            except BadFile as error:
                count = re.search(r"--accept-loss (\d+)", str(error))
                if count is None:  # nothing of it could be saved: a backup has to be put back
                    return total - TRAINED
    missing = 0 if not told or count is None else int(count[1])
    if missing:
        try:
            accept_loss(Run.open(run), folder, missing + 1)
            raise AssertionError("a loss of another size was accepted")
        except BadInput:
            pass
    if told and count is not None:
        assert accept_loss(Run.open(run), folder, missing)["lost"] == missing
    with started() as service:
        assert not service.reports or not told
        expected = {
            k - TRAINED + 1: (columns["src"][k], columns["dst"][k], f"event {k}") for k in range(TRAINED, total)
        }
        clean, kept = Live(Run.open(run), evaluate_every=OPTIONS["evaluate_every"]), {}
        for first, batch in service.store.read():
            rows = zip(batch.src, batch.dst, batch.keys, strict=True)
            kept |= {first + row: event for row, event in enumerate(rows)}
            clean.skip_to(first - 1)
            clean.observe_batch(batch)
        assert all(expected[number] == event for number, event in kept.items()), "an event that was never sent"
        assert len(kept) + missing == len(expected), "an acknowledged event is lost silently"
        assert service.taking
        assert_same_state(service.live, clean)
    undo_after(Run.open(run), folder, columns["t"][TRAINED] - 1)  # the surest way to make it good: all of it again
    with started() as service:
        assert service.live.total == 0
        service.submit(service.requests.rows(as_events(columns, TRAINED, total, keyed=True))).result(60)
        assert_same_state(service.live, replayed(run, columns, total))
    return missing
