"""How long the way is: functions of ours that a CSV passes through to become a log, and calls that an HTTP event costs.

    python tools/calls.py            # both counts
    python tools/calls.py --list     # and every function, with how often it was called

Only functions of the package count, the second time they are used: the first compiles and fills caches.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "src" / "pintgn")
EVENTS = 2_000


def counted(work: Callable[[], Any]) -> Counter[str]:
    """Calls of each of our functions while something is done, in whatever thread."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            name = frame.f_code.co_qualname
            if "<" not in name.rpartition(".")[2]:  # comprehensions and lambdas belong to who wrote them
                found[f"{frame.f_code.co_filename[len(PACKAGE) + 1 :]}:{name}"] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def csv_to_log(folder: Path) -> Counter[str]:
    import pintgn

    path = folder / "events.csv"
    lines = [f"user {k % 7},item {k % 11},{k // 2},{k / 3:.2f}" for k in range(EVENTS)]
    path.write_text("src,dst,t,amount\n" + "\n".join(lines) + "\n")
    pintgn.read_events(path, features=["amount"])
    return counted(lambda: pintgn.read_events(path, features=["amount"]))


def http_event(folder: Path) -> Counter[str]:
    """From the first byte that the application sees to the acknowledgement."""
    import pintgn
    from pintgn.serve.app import create_app
    from pintgn.serve.service import Service

    columns = {"src": [f"u{k % 7}" for k in range(300)], "dst": [f"v{k % 11}" for k in range(300)], "t": range(300)}
    pintgn.fit(pintgn.PINT(dim=8), pintgn.read_events(columns), folder=folder / "run", epochs=1)
    found: Counter[str] = Counter()

    with Service.open(folder / "run", folder / "store") as service:
        app = create_app(service)

        def post(t: int) -> None:
            asyncio.run(asked(app, b'{"src": "u1", "dst": "v1", "t": %d}' % t))

        for t in range(1_000, 1_005):
            post(t)
        writer = tapped_writer(service, found)
        found.update(counted(lambda: post(1_010)))
    writer()  # which has ended by now
    return found


def tapped_writer(service: Any, found: Counter[str]) -> Callable[[], None]:
    """Count what the writer thread does, from inside it; returns how to add that."""
    handle, mine = service._handle, Counter[str]()

    def tapped(jobs: Any) -> None:
        mine.update(counted(lambda: handle(jobs)))

    service._handle = tapped
    return lambda: found.update(mine)


async def asked(app: Any, body: bytes) -> None:
    sent: list[dict[str, Any]] = []
    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/events", "headers": headers, "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        reading, serving = csv_to_log(Path(name)), http_event(Path(name))
    if "--list" in sys.argv:
        for title, found in (("CSV to log", reading), ("HTTP event", serving)):
            print(f"{title}:")
            for function, calls in sorted(found.items()):
                print(f"{calls:8,}  {function}")
    print(f"CSV to log: {len(reading)} functions, {sum(reading.values()):,} calls for {EVENTS:,} events")
    print(f"HTTP event: {sum(serving.values())} calls of {len(serving)} functions")


if __name__ == "__main__":
    main()
