"""A service under load: durable ingestion, latency beside it, restart. Loopback, the clients in processes of their own.

    python benchmarks/serve.py [--data ../shared/data/wikipedia.parquet] [--events 120000] [--batch 5000] [--run FOLDER]
                               [--stores sqlite,postgres]

The first events of the data train a PINT for one epoch (its speed does not depend on how well it was trained); the
last 120,000 are sent to `pintgn serve`, which makes them durable, updates positions and index, and judges one in ten.

1. scores of 100 pairs while 1,000 events per second come in, 100 at a time;
2. ingestion: batches, one after the other, as fast as they are acknowledged: JSON without and with keys;
3. kill -9, then a restart from a snapshot and a tail of 100,000 events;
4. on PostgreSQL (a server of its own, with fsync): takeover by a standby after kill -9 of the writer, a replica's
   processor time per score beside the writer's, and scores per second of one service and of two.

    python benchmarks/serve.py --load [--clients 1,8,64] [--seconds 3] [--destinations 100000] [--json]

floods a service over a world of 100,000 destinations, by 1, 8 and 64 clients: events of 1 and of 500, scores of 1 and
of 100 pairs, recommendations among all destinations, explanations of hubs. p50, p99 and refusals of each, and `/health`
meanwhile, which should stay below 100 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import pintgn

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import load

from tests.postgres import Cluster, programs

DATA = Path(__file__).parents[2] / "shared" / "data" / "wikipedia.parquet"
JSON = {"Content-Type": "application/json"}
TAKEOVERS = 10
BARS = {  # what is aimed at, on a quiet machine; and whether less is better
    "durable events/s, the best kind of batches": (50_000, False),
    "POST /score p99, ms": (15, True),
    "takeover, at most, s": (5, True),
    "a replica's processor time per score, of the writer's": (1.1, True),
}
SCORES = 300


class Server:
    """`pintgn serve` in a process of its own."""

    def __init__(self, run: Path, store: Path | str, *options: str):
        self.begin = time.perf_counter()
        command = [sys.executable, "-m", "pintgn", "serve", str(run), "--store", str(store), "--port", "0", "--json"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the service did not start")
        self.port = int(json.loads(line)["address"].rpartition(":")[2])
        self.seconds = time.perf_counter() - self.begin

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def processor_time(self) -> float:
        """Seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """One connection."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def post(self, path: str, body: bytes, headers: dict[str, str] = JSON) -> dict[str, Any]:
        self.connection.request("POST", path, body, headers)
        answer = self.connection.getresponse()
        told = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}: {told}")
        return told

    def get(self, path: str) -> dict[str, Any]:
        self.connection.request("GET", path)
        return json.loads(self.connection.getresponse().read())


def bodies(columns: dict[str, list], start: int, stop: int, batch: int, keyed: bool = False) -> list[bytes]:
    """Batches as a client would send them, with all that JSON repeats in every event."""
    made = []
    for begin in range(start, stop, batch):
        rows = range(begin, min(begin + batch, stop))
        events = [{name: columns[name][k] for name in ("src", "dst", "t")} for k in rows]
        if keyed:
            for k, event in zip(rows, events, strict=True):
                event["key"] = f"event-{k}"
        made.append(json.dumps({"events": events}).encode())
    return made


def ingest(port: int, parts: list[bytes], events: int, headers: dict[str, str] = JSON) -> float:
    """Events per second, acknowledged."""
    client = Client(port)
    begin = time.perf_counter()
    for part in parts:
        client.post("/events", part, headers)
    return events / (time.perf_counter() - begin)


def trickle(port: int, parts: list[bytes], every: float, ready: Any, stop: Any) -> None:
    """Send a batch at fixed times until told to stop."""
    client = Client(port)
    ready.set()
    begin = time.perf_counter()
    for k, part in enumerate(parts):
        if stop.is_set():
            return
        time.sleep(max(0.0, begin + k * every - time.perf_counter()))
        client.post("/events", part)


def latencies(port: int, ids: list, destinations: list, seconds: float, rng: np.random.Generator) -> np.ndarray:
    """Milliseconds of POST /score with 100 pairs, one after the other with short pauses."""
    client, found = Client(port), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        src, dst = rng.choice(ids, 100).tolist(), rng.choice(destinations, 100).tolist()
        body = json.dumps({"pairs": [{"src": s, "dst": d} for s, d in zip(src, dst, strict=True)]}).encode()
        begin = time.perf_counter()
        client.post("/score", body)
        found.append(1000 * (time.perf_counter() - begin))
        time.sleep(0.01)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--events", type=int, default=120_000, help="how many of the last events are sent")
    parser.add_argument("--batch", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, help="how long latency is measured (20), or a flood lasts (3)")
    parser.add_argument("--run", type=Path, help="a run of all but the last events, made by an earlier call")
    parser.add_argument("--stores", default="sqlite,postgres", help="which stores are measured")
    parser.add_argument("--load", action="store_true", help="floods, and /health meanwhile")
    parser.add_argument("--clients", default="1,8,64", help="how many clients make a flood")
    parser.add_argument("--only", default="", help="floods whose name has this in it")
    parser.add_argument("--destinations", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    options = parser.parse_args()
    options.seconds = options.seconds or (3 if options.load else 20)
    if options.load:
        under_floods(options)
        return
    if not options.data.exists():
        print(f"skipped: {options.data} is not here")
        return
    table = pq.read_table(options.data, columns=["src", "dst", "t"])
    head = table.num_rows - options.events
    columns = {name: table.column(name).to_pylist()[head:] for name in ("src", "dst", "t")}
    print(f"load average before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        run = options.run or Path(scratch) / "run"
        if not run.exists():
            pintgn.fit("pint", pintgn.read_events(table.slice(0, head)), folder=run, seed=0, epochs=1)
        for kind in options.stores.split(","):
            print(f"\n{kind}")
            found: dict[str, float] = {}
            if kind == "sqlite":
                measure(run, Path(scratch) / "store", columns, options, found)
            elif programs() is None:
                print("skipped: PostgreSQL's server is not here")
            else:
                with contextlib.closing(Cluster("a password", durable=True)) as cluster:
                    measure(run, cluster.address(), columns, options, found)
                    together(run, cluster.address(), columns, found)
            for name, value in found.items():
                bar, less = BARS[name]
                met = "met" if (value <= bar if less else value >= bar) else "MISSED"
                print(f"bar: {name}: {value:,.2f}, {'at most' if less else 'at least'} {bar:,}: {met}")
    print(f"load average after: {os.getloadavg()[0]:.2f}")


def under_floods(options: argparse.Namespace) -> None:
    """Every kind of flood by every number of clients."""
    columns = load.world(options.destinations)
    with tempfile.TemporaryDirectory() as scratch:
        run = load.made_run(options.run or Path(scratch) / "run", columns)
        server = Server(run, Path(scratch) / "store")
        try:
            client = Client(server.port)
            for start in range(20_000, len(columns["t"]), 5_000):
                client.post("/events", json.dumps(load.rows(columns, start, start + 5_000)).encode())
            clock = client.get("/status")["clock"] + 10
            found = [load.cell(server.port, "nothing", [], 0, options.seconds)]
            if not options.json:
                print(
                    f"{options.destinations:,} destinations, load average {os.getloadavg()[0]:.1f}",
                    load.line(),
                    sep="\n",
                )
                print(load.line(found[0]), flush=True)
            for kind, asked in load.questions(columns, clock).items():
                for clients in map(int, options.clients.split(",")):
                    if options.only in kind:
                        found.append(load.cell(server.port, kind, asked, clients, options.seconds))
                        if not options.json:
                            print(load.line(found[-1]), flush=True)
        finally:
            server.kill()
    if options.json:
        print(json.dumps({"destinations": options.destinations, "seconds": options.seconds, "floods": found}, indent=1))


def measure(
    run: Path, store: Path | str, columns: dict[str, list], options: argparse.Namespace, measured: dict[str, float]
) -> None:
    server = Server(run, store, "--snapshot-every", str(10 * options.events))
    try:
        print(f"start from the run's log: {server.seconds:.1f} s")
        before = under_load(server, columns, options, measured)
    finally:
        server.kill()
    server = Server(run, store)
    try:
        same = Client(server.port).post("/score", question(columns)) == before
        print(f"restart after kill -9, snapshot + 100,000 events: {server.seconds:.1f} s, same scores: {same}")
    finally:
        server.kill()


def together(run: Path, address: str, columns: dict[str, list], measured: dict[str, float]) -> None:
    """Several services on one store: who takes over when, and what a replica's scores cost."""
    t, services = columns["t"][-1], [Server(run, address), Server(run, address)]
    replica = Server(run, address, "--follow")
    try:
        seconds = []
        for k in range(TAKEOVERS):
            writer = next(one for one in services if Client(one.port).get("/health")["taking"])
            services.remove(writer)
            event = json.dumps({"src": columns["src"][0], "dst": columns["dst"][0], "t": t, "key": f"takeover-{k}"})
            writer.kill()
            begin = time.perf_counter()
            while not acknowledged(services[0].port, event.encode()):
                time.sleep(0.005)
            seconds.append(time.perf_counter() - begin)
            services.append(Server(run, address))
        print(
            f"takeover after kill -9 of the writer, until the next event is acknowledged: median "
            f"{np.median(seconds):.2f} s, at most {max(seconds):.2f} s ({TAKEOVERS} times)"
        )
        measured["takeover, at most, s"] = max(seconds)
        writer = next(one for one in services if Client(one.port).get("/health")["taking"])
        cost = {}
        for _ in range(2):  # the second time counts: both are warm
            for name, one in (("writer", writer), ("replica", replica)):
                begin = one.processor_time()
                scored(one.port, question(columns), SCORES)
                cost[name] = 1000 * (one.processor_time() - begin) / SCORES
        print(
            f"processor time per POST /score of 100 pairs: writer {cost['writer']:.2f} ms, replica "
            f"{cost['replica']:.2f} ms, ratio {cost['replica'] / cost['writer']:.2f}"
        )
        measured["a replica's processor time per score, of the writer's"] = cost["replica"] / cost["writer"]
        for several in ([writer], [writer, replica]):
            rate = flooded([one.port for one in several], question(columns))
            print(f"POST /score by {len(several)} of them at once: {rate:,.0f} requests/s")
    finally:
        for one in (*services, replica):
            one.kill()


def acknowledged(port: int, body: bytes) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/events", body, JSON)
        return connection.getresponse().status == 200
    except OSError:
        return False


def scored(port: int, body: bytes, count: int) -> None:
    client = Client(port)
    for _ in range(count):
        client.post("/score", body)


def flooded(ports: list[int], body: bytes) -> float:
    """Scores per second, a client in a process of its own for each service."""
    context = multiprocessing.get_context("spawn")
    begin = time.perf_counter()
    clients = [context.Process(target=scored, args=(port, body, 2 * SCORES)) for port in ports]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return 2 * SCORES * len(ports) / (time.perf_counter() - begin)


def question(columns: dict[str, list]) -> bytes:
    """Something to compare answers by."""
    return json.dumps({"src": columns["src"][0], "dst": sorted(set(columns["dst"]))[:100]}).encode()


def under_load(
    server: Server, columns: dict[str, list], options: argparse.Namespace, measured: dict[str, float]
) -> dict[str, Any]:
    """Latency, a snapshot, then ingestion; what it answered in the end."""
    total = options.events
    ids, destinations = sorted(set(columns["src"])), sorted(set(columns["dst"]))
    quiet = total - 100_000
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    parts = bodies(columns, 0, quiet, 100)
    sender = context.Process(target=trickle, args=(server.port, parts, 0.1, ready, stop))
    sender.start()
    ready.wait()
    found = latencies(server.port, ids, destinations, min(options.seconds, quiet / 1000 - 1), np.random.default_rng(0))
    stop.set()
    sender.join()
    client = Client(server.port)
    sent = client.get("/status")["live_events"]
    print(
        f"POST /score, 100 pairs, beside 1,000 events/s: median {np.median(found):.1f} ms, "
        f"p99 {np.percentile(found, 99):.1f} ms, max {found.max():.1f} ms ({len(found)} requests)"
    )
    measured["POST /score p99, ms"] = float(np.percentile(found, 99))
    if sent < quiet:
        ingest(server.port, bodies(columns, sent, quiet, 1_000), quiet - sent)
    print("snapshot:", json.dumps(client.post("/snapshot", b"")))

    ends = np.linspace(quiet, total, 3).astype(int).tolist()
    for kind, begin, end in zip(("JSON", "JSON with keys"), ends, ends[1:], strict=False):
        rate = ingest(server.port, bodies(columns, begin, end, options.batch, "keys" in kind), end - begin)
        best = "durable events/s, the best kind of batches"
        measured[best] = max(rate, measured.get(best, 0))
        print(f"ingestion, {kind}: {rate:,.0f} events/s durable, batches of {options.batch:,}")
    status = client.get("/status")
    assert status["live_events"] == total
    print(f"rolling AP {status['quality']['ap_rolling']:.3f}, reference {status['quality']['reference_ap']:.3f}")
    return client.post("/score", question(columns))


if __name__ == "__main__":
    main()
