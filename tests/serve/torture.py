"""What a service must survive: kill -9 at any moment, damage, a full disk, nonsense. Small in the tests, large on its
own:

python -m tests.serve.torture [--kills 300] [--late-kills 300] [--stores sqlite,postgres] [--writers 4]
                              [--damages 200] [--full 100] [--requests 10000] [--seed 0]
(or: make torture ARGS="--kills 1000")
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # victims are forks, which would wait for threads that forks do not have

from tests.postgres import Cluster
from tests.serve.hardship import FILES, HARMS, OPTIONS, damage, survive_damage, survive_full
from tests.serve.helpers import TRAINED, as_events, assert_same_state, happened, replayed, served, trained
from tests.serve.nonsense import send_nonsense, shout
from tests.serve.victims import Forked, Gone, Served

# -- kill -9 -----------------------------------------------------------------------------------------------------------


def survive_kills(
    victim: Callable[[Path, Any], Any],
    run: Path,
    columns: dict,
    folder: Path | str,
    kills: int,
    seed: int,
    patience: float,
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


def check_state(run: Path, columns: dict, folder: Path | str, total: int) -> None:
    """Every event is stored once, in order, and the state equals a clean replay, bit for bit."""
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    with Service.open(run, folder, Options(**OPTIONS)) as service:
        assert not service.reports, service.reports
        keys = [key for _, batch in service.store.read() for key in batch.keys or []]
        assert keys == [f"event {k}" for k in range(TRAINED, total)], "an event is missing, doubled or out of order"
        assert_same_state(service.live, replayed(run, columns, total))


LATENESS = ("--lateness", "8")
BACK = (1, 2, 4)
"""How late events are that are not on time."""


class Writer:
    """One of several clients: it remembers what was acknowledged, and sends again what may not have arrived.

    Of its events a share `late` is from before `t`, but not from before `earliest`.
    """

    def __init__(self, name: int, seed: int, late: float = 0.0, earliest: int = 0):
        self.name, self.rng, self.late, self.earliest = name, random.Random(f"{seed} {name}"), late, earliest
        self.acknowledged: list[dict] = []
        self.pending: list[dict] = []

    def write(self, alive: Served, t: int, everybody: threading.Barrier, more: bool) -> None:
        """Send what was not answered last time, before anybody moves the clock; then, if there is more to come, send
        until the service dies.
        """
        import httpx

        try:
            with alive.client() as client:
                self._send(client)
                everybody.wait()
                while more:
                    count = len(self.acknowledged)
                    ends = [f"person {self.rng.randrange(40)}" for _ in range(2 * self.rng.randint(1, 30))]
                    when = sorted(self._time(t) for _ in ends[::2])
                    self.pending = [
                        {"src": src, "dst": dst, "t": at, "key": f"{self.name}-{count + k}"}
                        for k, (src, dst, at) in enumerate(zip(ends[::2], ends[1::2], when, strict=True))
                    ]
                    self._send(client)
        except (httpx.HTTPError, Gone, threading.BrokenBarrierError):
            everybody.abort()

    def _time(self, t: int) -> int:
        late = self.late and self.rng.random() < self.late
        return max(self.earliest, t - self.rng.choice(BACK)) if late else t

    def _send(self, client: Any) -> None:
        if self.pending:
            answer = client.post("/events", json={"events": self.pending})
            assert answer.status_code in (200, 503), answer.text  # 503: it is going down
            if answer.status_code == 503:
                raise Gone
            told = answer.json()
            assert told["accepted"] + told["duplicates"] == len(self.pending)
            self.acknowledged += self.pending
            self.pending = []


def survive_kills_by_many(
    run: Path, folder: Path | str, kills: int, writers: int, seed: int, patience: float, late: float = 0.0
) -> int:
    """Kill a service over HTTP while several clients write; returns how many events were acknowledged.

    A share of the events comes late: then it serves with `LATENESS`. In the end each acknowledged event is there once,
    in order of time, each client's of one time in its own order, and the state is that of a clean replay of the store.
    """
    from pintgn.learn.run import Run
    from pintgn.live.live import Live
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    opened = Run.open(run)
    t = int(opened.log.t[-1])
    rng, clients = random.Random(seed), [Writer(name, seed, late, t) for name in range(writers)]
    for round in range(kills + 1):
        if round % 50 == 0 and sys.stderr.isatty():
            print(f"{round} of {kills} kills", file=sys.stderr)
        alive, t, more = Served(run, folder, *(LATENESS if late else ())), t + 1, round < kills
        everybody, errors = threading.Barrier(writers), []

        def work(client: Writer, *given: Any, errors: list = errors) -> None:
            try:
                client.write(*given)
            except BaseException as error:
                errors.append(error)

        if more and rng.random() < 0.2:  # it may die while it starts
            timer = threading.Timer(rng.random() * patience, alive.kill)
        else:
            alive.started()
            timer = threading.Timer(0.1 + rng.random() * patience, alive.kill)
        threads = [threading.Thread(target=work, args=(client, alive, t, everybody, more)) for client in clients]
        if more:
            timer.start()
        try:
            with contextlib.suppress(Gone):
                alive.started()
                for thread in threads:
                    thread.start()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(120)
                    assert not thread.is_alive(), "a client was never answered"
        finally:
            if more:
                timer.cancel()
                timer.join()
            alive.bury()
        if errors:
            raise errors[0]
    with Service.open(run, folder, Options(**OPTIONS)) as service:  # which lets all that wait happen
        while not service.writer.begun:  # until the one that was killed is known to be gone
            time.sleep(0.01)
        assert not service.reports, service.reports
        assert not any(client.pending for client in clients), "the last round sends them all"
        stored = service.call(lambda: [batch for _, batch in service.store.read()]).result()
        check_order(stored, {str(client.name): client.acknowledged for client in clients})
        assert service.store.total == sum(map(len, stored))
        clean = Live(opened, evaluate_every=10)
        for batch in stored:
            clean.observe_batch(batch)
        assert_same_state(service.live, clean)
    return sum(len(client.acknowledged) for client in clients)


def check_order(stored: list[Any], acknowledged: dict[str, list[dict]]) -> None:
    """Each client's events are stored once, by time, and those of one time as they were sent."""
    times = [t for batch in stored for t in batch.t.tolist()]
    keys = [key for batch in stored for key in batch.keys or []]
    assert times == sorted(times), "the store is not in order of time"
    assert len(keys) == len(set(keys)) == len(times), "an event is doubled"
    for name, events in acknowledged.items():
        mine = [event["key"] for event in sorted(events, key=lambda event: event["t"])]
        found = [key for key in keys if key.partition("-")[0] == name]
        assert found == mine, "an acknowledged event is lost or out of order, or one was never sent"


@contextlib.contextmanager
def kept_in(kind: str, folder: Path) -> Iterator[tuple[Path | str, Path | str]]:
    """Two places for stores."""
    if kind == "sqlite":
        yield folder / "one", folder / "many"
    else:
        with contextlib.closing(Cluster("s3cret-word", durable=True)) as cluster:
            yield cluster.database(), cluster.database()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--stores", default="sqlite,postgres", help="stores of services that are killed")
    parser.add_argument("--late-kills", type=int, default=300, help="while one event in ten comes late")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--damages", type=int, default=200)
    parser.add_argument("--full", type=int, default=100, help="sizes at which the disk is full")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("pintgn.serve").setLevel(logging.CRITICAL)  # it has much to say
    import httpx

    with tempfile.TemporaryDirectory() as scratch:
        folder, columns = Path(scratch), happened(900, seed=options.seed)
        run, begin = trained(folder / "run", columns), time.perf_counter()

        def tell(line: str) -> None:
            print(f"{line} ({time.perf_counter() - begin:.0f} s)", flush=True)

        for kind in options.stores.split(",") if options.late_kills else ():
            with kept_in(kind, folder) as (one, _):
                taken = survive_kills_by_many(run, one, options.late_kills, options.writers, options.seed, 1.0, 0.1)
                tell(
                    f"{kind}: {options.late_kills} kills over HTTP, {options.writers} writers, one event in ten late, "
                    f"{' '.join(LATENESS)}: no event lost, none doubled, in order of time, the state of a clean replay "
                    f"to the bit ({taken:,} acknowledged)"
                )
            shutil.rmtree(folder / "one", ignore_errors=True)
        for kind in options.stores.split(",") if options.kills else ():
            with kept_in(kind, folder) as (one, many):
                taken = survive_kills(Forked, run, columns, one, options.kills // 10, options.seed, 0.5)
                tell(f"{kind}: {options.kills // 10} kills without HTTP: none lost or doubled ({taken:,} acknowledged)")
                taken = survive_kills_by_many(run, many, options.kills, options.writers, options.seed, 1.0)
                tell(
                    f"{kind}: {options.kills} kills over HTTP, {options.writers} writers: no event lost, none doubled, "
                    f"the state of a clean replay to the bit ({taken:,} acknowledged)"
                )
        if options.damages:
            served(run, columns, folder / "killed", range(270, 601, 30), 300, keyed=True)
            missing = []
            for k in range(options.damages):
                place = folder / "damaged"
                shutil.copytree(folder / "killed", place)
                if damage(place, FILES[k % 4], HARMS[k // 4 % 4], options.seed + k // 16):
                    missing.append(survive_damage(run, columns, place, 600))
                shutil.rmtree(place)
            tell(f"{len(missing)} damaged files: {sum(missing):,} events missing after {sum(map(bool, missing))}, told")
        for lateness in (None, 8):
            for k in range(options.full):
                survive_full(run, columns, folder / "full", 1_500 * k, lateness)
                shutil.rmtree(folder / "full")
        if options.full:
            tell(f"{options.full} sizes of a full disk, without late events and with: refused, told, nothing lost")
        if options.requests:
            alive = Served(run, folder / "nonsense")
            try:
                with alive.client() as client:
                    answered = send_nonsense(client, options.requests, options.seed)
                    shout(alive.port or 0, 500, options.seed)
                    assert httpx.get(f"http://127.0.0.1:{alive.port}/health").json()["status"] == "ok"
                assert "Traceback" not in alive.said(), alive.said()
            finally:
                alive.bury()
            told = ", ".join(f"{count} x {status}" for status, count in sorted(answered.items()))
            tell(f"{sum(answered.values()):,} requests: {told}; 500 connections of noise; no 500, no traceback")


if __name__ == "__main__":
    main()
