"""Floods of one kind at a time against a service, and how long `/health` takes meanwhile. Called by serve.py --load.

Clients are threads of a process of their own, each with one connection, asking again as soon as it is answered; another
process asks for `/health` every 20 ms. A client that is refused (429, 503) pauses for 50 ms.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import pintgn

JSON = {"Content-Type": "application/json"}
Question = tuple[str, str, bytes | None]  # method, path, body
REFUSED = (408, 413, 429, 503, 507)


def world(destinations: int, trained: int = 20_000, seed: int = 0) -> dict[str, np.ndarray]:
    """Events of 2,000 sources, some of them hubs; every destination is met, some of them very often."""
    rng = np.random.default_rng(seed)
    events = trained + destinations
    src = (2_000 * rng.random(events) ** 3).astype(np.int64)
    dst = 2_000 + (destinations * rng.random(events) ** 4).astype(np.int64)
    dst[trained:] = np.where(rng.random(destinations) < 0.2, 2_000, 2_000 + rng.permutation(destinations))
    dst[-destinations // 100 :] = 2_000  # the first destination is the hub
    return {"src": src, "dst": dst, "t": np.arange(events, dtype=np.int64) * 10}


def made_run(folder: Path, columns: dict[str, np.ndarray], trained: int = 20_000) -> Path:
    """A PINT as `pintgn train` makes it; its speed does not depend on how well it was trained."""
    if not folder.exists():
        head = {name: column[:trained] for name, column in columns.items()}
        pintgn.fit("pint", pintgn.read_events(head), folder=folder, seed=0, epochs=1)
    return folder


def rows(columns: dict[str, np.ndarray], start: int, stop: int) -> list[dict[str, int]]:
    parts = zip(*(columns[name][start:stop].tolist() for name in ("src", "dst", "t")), strict=True)
    return [{"src": src, "dst": dst, "t": t} for src, dst, t in parts]


def questions(columns: dict[str, np.ndarray], clock: int) -> dict[str, list[Question]]:
    """Some requests of every kind. Events are all of one time: whoever comes first, none is late."""
    rng = np.random.default_rng(1)
    sources, destinations = np.unique(columns["src"]), np.unique(columns["dst"])

    def post(path: str, value: Any) -> Question:
        return "POST", path, json.dumps(value).encode()

    def events(count: int) -> list[dict[str, int]]:
        some = zip(rng.choice(sources, count).tolist(), rng.choice(destinations, count).tolist(), strict=True)
        return [{"src": src, "dst": dst, "t": clock} for src, dst in some]

    def pairs(count: int) -> dict[str, Any]:
        return {"pairs": [{"src": event["src"], "dst": event["dst"]} for event in events(count)]}

    hubs = np.argsort(-np.bincount(columns["src"]))[:10].tolist()
    return {
        "events of 1": [post("/events", events(1)) for _ in range(50)],
        "events of 500": [post("/events", events(500)) for _ in range(20)],
        "score of 1": [post("/score", pairs(1)) for _ in range(50)],
        "score of 100": [post("/score", pairs(100)) for _ in range(50)],
        "recommend": [("GET", f"/recommend/{node}?k=10", None) for node in hubs],
        "explain hubs": [("GET", f"/explain?src={node}&dst=2000", None) for node in hubs],
    }


def ask(connection: http.client.HTTPConnection, question: Question) -> int:
    method, path, body = question
    connection.request(method, path, body, JSON if body is not None else {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def flood(port: int, asked: list[Question], clients: int, seconds: float, ready: Any, go: Any, told: Any) -> None:
    """A process: so many clients at once; tells [(status, seconds), …]."""
    found: list[list[tuple[int, float]]] = [[] for _ in range(clients)]

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        go.wait()
        end, k = time.perf_counter() + seconds, number
        while time.perf_counter() < end:
            begin = time.perf_counter()
            try:
                status = ask(connection, asked[k % len(asked)])
            except (OSError, http.client.HTTPException):
                connection.close()
                status = 0
            found[number].append((status, time.perf_counter() - begin))
            if status in REFUSED or not status:
                time.sleep(0.05)
            k += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    ready.set()
    for thread in threads:
        thread.join()
    told.put([one for each in found for one in each])


def probe(port: int, stop: Any, ready: Any, told: Any) -> None:
    """A process: `/health` every 20 ms until told to stop; tells seconds."""
    connection, found = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
    ask(connection, ("GET", "/health", None))
    ready.set()
    while not stop.is_set():
        begin = time.perf_counter()
        assert ask(connection, ("GET", "/health", None)) == 200
        found.append(time.perf_counter() - begin)
        time.sleep(0.02)
    told.put(found)


def cell(port: int, kind: str, asked: list[Question], clients: int, seconds: float) -> dict[str, Any]:
    """One flood, measured."""
    context = multiprocessing.get_context("spawn")
    stop, go = context.Event(), context.Event()
    answers, health = context.Queue(), context.Queue()
    ready = [context.Event(), context.Event()]
    processes = [context.Process(target=probe, args=(port, stop, ready[0], health))]
    if clients:
        processes.append(context.Process(target=flood, args=(port, asked, clients, seconds, ready[1], go, answers)))
    for process in processes:
        process.start()
    ready[0].wait()
    if clients:
        ready[1].wait()
        go.set()
        found = answers.get()
    else:
        time.sleep(seconds)
        found = []
    stop.set()
    probed = np.array(health.get())
    for process in processes:
        process.join()
    good = np.array([took for status, took in found if status == 200])
    return {
        "flood": kind,
        "clients": clients,
        "answered_per_second": len(good) / seconds,
        "p50_ms": _ms(good, 50),
        "p99_ms": _ms(good, 99),
        "refused": sum(status in REFUSED for status, _ in found),
        "failed": sum(status not in REFUSED and status != 200 for status, _ in found),
        "health_p50_ms": _ms(probed, 50),
        "health_p99_ms": _ms(probed, 99),
        "health_max_ms": _ms(probed, 100),
    }


def _ms(seconds: np.ndarray, percent: float) -> float | None:
    return round(1000 * float(np.percentile(seconds, percent)), 1) if len(seconds) else None


HEADS = ("flood", "clients", "answers/s", "p50 ms", "p99 ms", "refused", "failed", "health p50", "p99", "max")


def line(row: dict[str, Any] | None = None) -> str:
    """A row of the table, or its head; columns of fixed width, so that rows can be printed as they come."""
    if row is None:
        cells: tuple[Any, ...] = HEADS
    else:
        cells = tuple(
            "-" if value is None else f"{value:,.1f}" if isinstance(value, float) else value for value in row.values()
        )
    widths = (14, 8, 10, 10, 10, 9, 7, 11, 9, 9)
    return "".join(
        f"{cell!s:<{width}}" if place == 0 else f"{cell!s:>{width}}"
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
