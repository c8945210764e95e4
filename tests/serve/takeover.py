"""Two services and one PostgreSQL store: whatever is killed, the other goes on, and no acknowledged event is lost.

python -m tests.serve.takeover [--kills 100] [--late 0.1] [--writers 4] [--seed 0]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.postgres import Cluster
from tests.serve.hardship import OPTIONS
from tests.serve.helpers import assert_same_state, happened, trained
from tests.serve.torture import BACK, LATENESS, check_order
from tests.serve.victims import Gone, Served

HARMS = ("writer", "writer", "connections", "server")


class Pair:
    """Two services on one store; clients ask whichever takes events."""

    def __init__(self, run: Path, address: str, *more: str):
        self.run, self.address, self.more = run, address, more
        self.services = [self._started(), self._started()]

    def _started(self) -> Served:
        service = Served(self.run, self.address, *self.more, waits=True)
        service.started()
        return service

    def writer(self, within: float = 60) -> int:
        """Which of the two takes events; waits until one does."""
        import httpx

        end = time.perf_counter() + within
        while time.perf_counter() < end:
            for k, one in enumerate(self.services):
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.get(f"http://127.0.0.1:{one.port}/health", timeout=5).json()["taking"]:
                        return k
            time.sleep(0.005)
        told = [httpx.get(f"http://127.0.0.1:{one.port}/health", timeout=5).text for one in self.services]
        raise AssertionError(f"nobody takes events: {told} {[one.said()[-2000:] for one in self.services]}")

    def kill_writer(self) -> None:
        k = self.writer()
        self.services[k].kill()
        self.services[k].bury()
        self.services[k] = self.services[1 - k]  # the clients have one to ask until there is another

    def complete(self) -> None:
        """Start another in place of the one that was killed."""
        if self.services[0] is self.services[1]:
            self.services[1] = self._started()

    def close(self) -> None:
        for one in {id(one): one for one in self.services}.values():
            one.bury()


class Client:
    """Sends events of its own until it is told to stop; what was not answered is sent again under the same keys."""

    def __init__(self, name: int, pair: Pair, clock: list[int], seed: int, late: float):
        self.name, self.pair, self.clock, self.earliest, self.late = name, pair, clock, clock[0] - 1, late
        self.rng, self.acknowledged, self.refused = random.Random(f"{seed} {name}"), [], 0
        self.stop, self.error = threading.Event(), None
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            count = 0
            while not self.stop.is_set():
                ends = [f"person {self.rng.randrange(40)}" for _ in range(2 * self.rng.randint(1, 30))]
                when = sorted(self._time(self.clock[0]) for _ in ends[::2])
                events = [
                    {"src": src, "dst": dst, "t": at, "key": f"{self.name}-{count + k}"}
                    for k, (src, dst, at) in enumerate(zip(ends[::2], ends[1::2], when, strict=True))
                ]
                self._send(events)
                self.acknowledged += events
                count += len(events)
        except BaseException as error:
            self.error = error

    def _time(self, t: int) -> int:
        return max(self.earliest, t - self.rng.choice(BACK)) if self.rng.random() < self.late else t

    def _send(self, events: list[dict]) -> None:
        import httpx

        while True:
            for one in list(self.pair.services):
                with contextlib.suppress(httpx.HTTPError):
                    answer = httpx.post(f"http://127.0.0.1:{one.port}/events", json={"events": events}, timeout=30)
                    if answer.status_code == 200:
                        told = answer.json()
                        assert told["accepted"] + told["duplicates"] == len(events), told
                        return
                    said = answer.json()["error"]
                    assert said in ("not_writer", "store_lost", "stopped"), answer.text
                    self.refused += 1
            time.sleep(0.02)


def survive_takeovers(
    run: Path, cluster: Cluster, address: str, harms: list[str], writers: int, seed: int, late: float = 0.0
) -> dict[str, Any]:
    """Kill the writer, its connections or the database again and again while clients write; what came of it.

    A share of the events comes late: then both serve with `LATENESS`. In the end each acknowledged event is there once,
    by time, each client's of one time in its own order, numbered without gaps; the state is that of a clean replay.
    """
    from pintgn.learn.run import Run
    from pintgn.live.live import Live
    from pintgn.serve.limits import Options
    from pintgn.serve.service import Service

    rng, opened, seconds = random.Random(seed), Run.open(run), []
    clock = [int(opened.log.t[-1]) + 1]
    pair = Pair(run, address, *(LATENESS if late else ()))
    clients = [Client(name, pair, clock, seed, late) for name in range(writers)]
    try:
        pair.writer()
        for client in clients:
            client.thread.start()
        for harm in harms:
            clock[0] += late > 0  # else what a client sends again would be late, and refused
            time.sleep(0.1 + rng.random() * 0.5)
            pair.writer()
            begin = time.perf_counter()
            if harm == "writer":
                pair.kill_writer()
                begin = time.perf_counter()
            elif harm == "connections":
                cluster.disconnect(address)
            else:
                cluster.kill()
                cluster.start()
            pair.writer()
            seconds.append((harm, time.perf_counter() - begin))
            with contextlib.suppress(Gone):
                pair.complete()
        for client in clients:
            client.stop.set()
        for client in clients:
            client.thread.join(60)
            assert not client.thread.is_alive(), "a client was never answered"
            if client.error is not None:
                raise client.error
        said = [one.said() for one in pair.services]
        assert not any("Traceback" in text or cluster.password in text for text in said), said
    finally:
        for client in clients:
            client.stop.set()
        pair.close()
    with Service.open(run, address, Options(follow=not late, **OPTIONS)) as service:
        while late and not service.writer.begun:  # until those that were killed are known to be gone
            time.sleep(0.01)
        assert not service.reports, service.reports
        stored = list(service.store.read())
        check_order([batch for _, batch in stored], {str(client.name): client.acknowledged for client in clients})
        assert sum(len(batch) for _, batch in stored) == service.store.total, "a number is missing"
        clean = Live(opened, evaluate_every=10)
        for _, batch in stored:
            clean.observe_batch(batch)
        assert_same_state(service.live, clean)
    return {
        "acknowledged": sum(len(client.acknowledged) for client in clients),
        "refused": sum(client.refused for client in clients),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--late", type=float, default=0.0, help="share of events that come late, such as 0.1")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("pintgn.serve").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch, contextlib.closing(Cluster("s3cret-word", durable=True)) as cluster:
        run, begin = trained(Path(scratch) / "run", happened(900, seed=options.seed)), time.perf_counter()
        rng = random.Random(options.seed)
        harms = [rng.choice(HARMS) for _ in range(options.kills)]
        found = survive_takeovers(run, cluster, cluster.database(), harms, options.writers, options.seed, options.late)
        print(f"{options.kills} kills: of {found['acknowledged']:,} acknowledged events none was lost or doubled")
        for harm in sorted(set(harms)):
            times = sorted(seconds for name, seconds in found["seconds"] if name == harm)
            middle = times[len(times) // 2]
            print(f"  {harm}: {len(times)}; events are taken again after {middle:.2f} s, at most {times[-1]:.2f} s")
        print(json.dumps({"seconds": round(time.perf_counter() - begin), "refused": found["refused"]}))


if __name__ == "__main__":
    main()
