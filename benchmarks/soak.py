"""A service for an hour under mixed load: do memory, files, threads, work per event or answering times grow?

    python benchmarks/soak.py [--minutes 60] [--rate 200] [--store sqlite|postgres] [--turns 5] [--json]

A small PINT is trained on random events and served over loopback, in a process of its own, with everything that bounds
what it keeps: `--keep-last 20 --keep-events 20000 --snapshot-every 10000 --lateness 5`. Clients send
events in batches of 20, some of them twice under the same keys, some out of order and one every 20 s far too late, and
meanwhile score pairs, recommend, explain, look at nodes, and read `/status`, `/metrics` and `/health`. Every 10 s the
service's memory, open files, threads, processor time and bytes read and written are looked up, and the processor time
of a fixed computation beside it (the yardstick), which says how much slower the machine has become by what else it
does. In the end the middle values of each third stand side by side.

Then a second service begins, of the same run, on an empty store, and both do the same work in turns: what an event
costs the one that has seen all the others, divided by what it costs the new one, is no matter of the machine's load.

Exit code 1 when an answer was wrong, or memory of the last third is more than 5 % above that of the second.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from serve import Server

import pintgn
from tests.postgres import Cluster

EVERY = 10.0
"""Seconds between two samples."""
BATCH = 20
OPTIONS = "--keep-last 20 --keep-events 20000 --snapshot-every 10000 --lateness 5 --evaluate-every 10"
WORK = 10_000
"""Events of a turn: as many as between two snapshots, so that each turn has one."""
GROWN = 1.05
"""By how much memory may be above that of the third before."""


class Load:
    """What the clients do, and how long each answer took."""

    def __init__(self, port: int, nodes: list[str], clock: int, rate: float):
        self.port, self.nodes, self.begin, self.clock = port, nodes, clock, clock + 10
        self.stop = threading.Event()
        self.times: dict[str, list[tuple[float, float]]] = defaultdict(list)  # when, and seconds, of each kind
        self.wrong: list[str] = []
        self.sent = self.late = 0
        per_second = rate / BATCH
        self.asked = {
            "score": self._score,
            "recommend": self._ask(lambda who: ("recommend", f"/recommend/{who}?k=5")),
            "explain": self._ask(lambda who: ("explain", f"/explain?src={who}&dst={self.random.choice(nodes)}")),
        }
        self.threads = [
            self._every(1 / per_second, self._events),
            self._every(20, self._late),
            self._every(0.2, self.asked["score"]),
            self._every(1, self.asked["recommend"]),
            self._every(2, self.asked["explain"]),
            self._every(1, self._ask(lambda who: ("node", f"/nodes/{who}"))),
            self._every(2, self._ask(lambda who: ("status", "/status"))),
            self._every(5, self._ask(lambda who: ("metrics", "/metrics"))),
            self._every(0.5, self._ask(lambda who: ("health", "/health"))),
        ]
        self.random = random.Random(0)

    def _every(self, seconds: float, work: Callable[[http.client.HTTPConnection], None]) -> threading.Thread:
        def run() -> None:
            connection, due = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120), time.monotonic()
            while not self.stop.wait(max(0.0, due - time.monotonic())):
                due = max(due + seconds, time.monotonic())
                try:
                    work(connection)
                except (OSError, http.client.HTTPException) as error:
                    self.wrong.append(f"{type(error).__name__}: {error}")
                    connection.close()

        return threading.Thread(target=run, daemon=True)

    def _asked(self, kind: str, connection: Any, method: str, path: str, body: Any = None, expected: int = 200) -> Any:
        begin = time.monotonic()
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        read = answer.read()
        self.times[kind].append((begin, time.monotonic() - begin))
        if answer.status != expected:
            self.wrong.append(f"{path}: {answer.status} {read[:200]!r}")
            return None
        return json.loads(read) if kind != "metrics" else None

    def _event(self, t: int) -> dict[str, Any]:
        src, dst = self.random.sample(self.nodes, 2)
        self.sent += 1
        return {"src": src, "dst": dst, "t": t, "key": f"{self.sent}"}

    def _events(self, connection: http.client.HTTPConnection) -> None:
        self.clock += 1
        events = [self._event(self.clock - self.random.choice([0, 0, 0, 3])) for _ in range(BATCH)]
        for again in range(1 + (self.random.random() < 0.05)):
            told = self._asked("events", connection, "POST", "/events", {"events": events})
            if told is not None and told["duplicates" if again else "accepted"] != BATCH:
                self.wrong.append(f"of {BATCH} events: {told}")

    def _late(self, connection: http.client.HTTPConnection) -> None:
        """About a thousand events back: refused."""
        one = {"src": self.nodes[0], "dst": self.nodes[1], "t": self.clock - max(10, 1000 // BATCH)}
        if one["t"] > self.begin:
            self._asked("late", connection, "POST", "/events", one, 409)
            self.late += 1

    def _score(self, connection: http.client.HTTPConnection) -> None:
        pairs = [dict(zip(("src", "dst"), self.random.sample(self.nodes, 2), strict=True)) for _ in range(100)]
        self._asked("score", connection, "POST", "/score", {"pairs": pairs})

    def _ask(self, path: Callable[[str], tuple[str, str]]) -> Callable[[http.client.HTTPConnection], None]:
        def ask(connection: http.client.HTTPConnection) -> None:
            kind, asked = path(self.random.choice(self.nodes))
            self._asked(kind, connection, "GET", asked)

        return ask

    def turn(self, events: int) -> None:
        """The same mix as fast as it goes, one request after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        for k in range(events // BATCH):
            self._events(connection)
            for every, work in ((2, self.asked["score"]), (10, self.asked["recommend"]), (20, self.asked["explain"])):
                if k % every == 0:
                    work(connection)
            if k % 200 == 100:
                self._late(connection)
        connection.close()

    def between(self, kind: str, begin: float, end: float) -> list[float]:
        return sorted(seconds for when, seconds in self.times[kind] if begin <= when < end)


class Yardstick:
    """A fixed computation, as a service's: look-ups all over memory, small products, Python."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.table, self.rows = rng.random((500_000, 8), np.float32), rng.integers(0, 500_000, (20, 4_000))
        self.weights = rng.random((8, 8), np.float32)

    def seconds(self) -> float:
        """Processor time that it takes now."""
        begin = time.thread_time()
        for rows in self.rows:
            (self.table[rows] @ self.weights).sum()
            json.loads(json.dumps([{"src": f"p{k}", "t": k} for k in range(200)]))
        return time.thread_time() - begin


def sample(server: Server, load: Load, yardstick: Yardstick) -> dict[str, float]:
    """What a process holds now, and what it has done so far."""
    process = Path(f"/proc/{server.process.pid}")
    status, moved = (
        dict(line.split(":", 1) for line in (process / name).read_text().splitlines()) for name in ("status", "io")
    )
    return {
        "at": time.monotonic(),
        "memory": int(status["VmRSS"].split()[0]) / 1024,
        "files": len(os.listdir(process / "fd")),
        "threads": int(status["Threads"]),
        "processor": server.processor_time(),
        "read": int(moved["rchar"]) / 1024,
        "written": int(moved["wchar"]) / 1024,
        "sent": load.sent,
        "yardstick": 1e3 * yardstick.seconds(),
    }


def thirds(samples: list[dict[str, float]], load: Load) -> list[dict[str, float]]:
    begin, end = samples[0]["at"], samples[-1]["at"]
    found = []
    for k in range(3):
        first, last = begin + (end - begin) * k / 3, begin + (end - begin) * (k + 1) / 3
        some = [one for one in samples if first <= one["at"] <= last]
        row = {name: statistics.median(one[name] for one in some) for name in ("memory", "files", "threads")}
        done = {name: some[-1][name] - some[0][name] for name in ("at", "sent", "processor", "read", "written")}
        row["events per second"] = done["sent"] / done["at"]
        row["processor ms per event"] = 1e3 * done["processor"] / done["sent"]
        row["yardstick ms"] = statistics.fmean(one["yardstick"] for one in some)
        row["processor time in yardsticks, per 1,000 events"] = (
            1e3 * row["processor ms per event"] / row["yardstick ms"]
        )
        row |= {f"KB {name} per event": done[name] / done["sent"] for name in ("read", "written")}
        for kind in ("events", "score", "recommend", "explain", "health"):
            times = load.between(kind, first, last) or [float("nan")]
            row |= {
                f"{kind} p50 ms": 1e3 * times[len(times) // 2],
                f"{kind} p99 ms": 1e3 * times[len(times) * 99 // 100],
            }
        found.append(row)
    return found


def in_turns(old: tuple[Server, Load], new: tuple[Server, Load], turns: int) -> list[tuple[float, float]]:
    """Processor milliseconds per event of an old service and of a new one, which do the same work in turns."""
    new[1].turn(3 * WORK)  # until it, too, keeps as much as it ever will, and has dropped events
    found = []
    for k in range(turns):
        cost = {}
        for server, load in (old, new) if k % 2 else (new, old):
            begin = server.processor_time()
            load.turn(WORK)
            cost[load] = 1e3 * (server.processor_time() - begin) / WORK
        found.append((cost[old[1]], cost[new[1]]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200, help="events per second")
    parser.add_argument("--store", default="sqlite", choices=["sqlite", "postgres"])
    parser.add_argument("--turns", type=int, default=5, help="in which an old service and a new one are compared")
    parser.add_argument("--json", action="store_true", help="print every sample, too")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = {name: [f"p{k}" for k in ends] for name, ends in pairs_of(3_000).items()}
        log = pintgn.read_events(world | {"t": list(range(3_000))})
        pintgn.fit(pintgn.PINT(dim=16, neighbors=10, pair_history=False), log, folder=folder / "run", epochs=1)
        where: Path | str = folder / "store"
        if options.store == "postgres":
            cluster = stack.enter_context(contextlib.closing(Cluster("s3cret-word", durable=True)))
            where = cluster.database()
        server = Server(folder / "run", where, *OPTIONS.split())
        stack.callback(server.kill)
        nodes, yardstick = sorted({*world["src"], *world["dst"]}), Yardstick()
        load = Load(server.port, nodes, 3_000, options.rate)
        for thread in load.threads:
            thread.start()
        samples, end = [sample(server, load, yardstick)], time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            time.sleep(min(EVERY, max(0.0, end - time.monotonic())))
            samples.append(sample(server, load, yardstick))
            if options.json:
                print(json.dumps(samples[-1]), flush=True)
        load.stop.set()
        for thread in load.threads:
            thread.join(120)
        found = thirds(samples, load)
        tell(options.minutes, load, found)
        if options.turns:
            other = folder / "new" if options.store == "sqlite" else cluster.database()
            fresh = Server(folder / "run", other, *OPTIONS.split())
            stack.callback(fresh.kill)
            beside, before = Load(fresh.port, nodes, 3_000, options.rate), load.sent
            pairs = in_turns((server, load), (fresh, beside), options.turns)
            ratios = sorted(one / other for one, other in pairs)
            print(f"processor ms per event after {before:,} events and of a new service, in turns of {WORK:,} events:")
            print("  " + ", ".join(f"{one:.3f} / {other:.3f}" for one, other in pairs))
            print(f"  ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
            load.wrong += beside.wrong
    if load.wrong or found[2]["memory"] > GROWN * found[1]["memory"]:
        raise SystemExit(1)


def tell(minutes: float, load: Load, found: list[dict[str, float]]) -> None:
    requests = sum(map(len, load.times.values()))
    print(f"{load.sent:,} events and {requests:,} requests in {minutes:g} minutes, ", end="")
    print(f"{load.late} events far too late were refused; {len(load.wrong)} answers were wrong")
    for line in load.wrong[:10]:
        print(f"  {line}")
    print(f"{'':48}" + "".join(f"{name:>12}" for name in ("first third", "second", "last")))
    for name in found[0]:
        print(f"{name:48}" + "".join(f"{row[name]:12.2f}" for row in found))
    sys.stdout.flush()


def pairs_of(events: int, people: int = 300) -> dict[str, list[int]]:
    """Who meets whom, at random."""
    rng = random.Random(1)
    pairs = [rng.sample(range(people), 2) for _ in range(events)]
    return {"src": [pair[0] for pair in pairs], "dst": [pair[1] for pair in pairs]}


if __name__ == "__main__":
    main()
