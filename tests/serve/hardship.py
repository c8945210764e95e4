"""A store in hard times: a full disk, and files that are damaged in every way. What is lost is told, for good."""

from __future__ import annotations

import os
import random
import socket
import struct
import tempfile
import traceback
from pathlib import Path

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
            from pintgn.serve import answers, late
            from pintgn.serve.limits import Options
            from pintgn.serve.service import Service
            from pintgn.serve.store import StoreFull

            late.GATHER, late.AGAIN = 0.0, 0.02
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
                full = full or not service.taking  # events that wait do so on, because the store cannot take them
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


def survive_full(run: Path, columns: dict, folder: Path, limit: int) -> int:
    """Let every file end at so many bytes while a service takes events; returns how many it acknowledged.

    It refuses, says so, keeps nothing of what it refused, goes on when there is room again, and stops in peace.
    """
    sent = [as_events(columns, begin, begin + 20, keyed=True) for begin in range(TRAINED, 900, 20)]
    acknowledged = TRAINED + 20 * taken_until_full(run, folder, OPTIONS, limit, sent)
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
            assert service.live.total <= total - TRAINED
            if health["missing"]:
                assert (health["status"], health["taking"]) == ("degraded", False)
                try:
                    service.submit(service.requests.rows(as_events(columns, total, total + 1)))
                    raise AssertionError("events were taken although others are missing")
                except Degraded:
                    pass
            else:
                assert_same_state(service.live, replayed(run, columns, total))
            told.append(missing)
    assert told[0] <= told[1], "what was missing is forgotten by a restart"
    undo_after(Run.open(run), folder, columns["t"][TRAINED] - 1)  # the surest way to make it good: all of it again
    with Service.open(run, folder, Options(**OPTIONS)) as service:
        assert service.live.total == 0
        assert service.taking
        service.submit(service.requests.rows(as_events(columns, TRAINED, total, keyed=True))).result(60)
        assert_same_state(service.live, replayed(run, columns, total))
    return len(told[-1])
