"""Five walks through the code: how many functions, files and calls of ours one thing passes through.

    python tools/calls.py                 # a table: a training step, fit, POST /events, POST /score, a CSV read
    python tools/calls.py step --list     # one walk, and every function on it with how often it was called

Only functions of the package count, the second time they are used: the first compiles and fills caches.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "src" / "pintgn")
EVENTS = 2_000


class Calls:
    """Calls of our functions while it is counting, in this thread and in every one that was started since."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.counting = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: Any, event: str, arg: Any) -> None:
        if self.counting and event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            name = frame.f_code.co_qualname
            if "<" not in name.rpartition(".")[2]:  # comprehensions and lambdas belong to who wrote them
                self.found[f"{frame.f_code.co_filename[len(PACKAGE) + 1 :]}:{name}"] += 1

    def of(self, work: Callable[[], Any]) -> Counter[str]:
        self.counting = True
        work()
        self.counting = False
        return self.found


def a_log() -> Any:
    import pintgn

    columns = {"src": [f"u{k % 7}" for k in range(EVENTS)], "dst": [f"v{k % 11}" for k in range(EVENTS)]}
    return pintgn.read_events(columns | {"t": range(EVENTS)})


def csv(folder: Path) -> Counter[str]:
    import pintgn

    path = folder / "events.csv"
    lines = [f"user {k % 7},item {k % 11},{k // 2},{k / 3:.2f}" for k in range(EVENTS)]
    path.write_text("src,dst,t,amount\n" + "\n".join(lines) + "\n")
    pintgn.read_events(path, features=["amount"])
    return Calls().of(lambda: pintgn.read_events(path, features=["amount"]))


def step(folder: Path) -> Counter[str]:
    """The third training step of PINT as it comes: from one report of progress to the next."""
    import pintgn

    calls, steps = Calls(), 0

    def after_step(state: dict[str, Any]) -> None:
        nonlocal steps
        steps += "done" in state
        calls.counting = steps == 2

    pintgn.fit("pint", a_log(), epochs=1, threads=1, progress=after_step)
    return calls.found


def fit(folder: Path) -> Counter[str]:
    """PINT as it comes, one epoch, into a folder."""
    import pintgn

    log = a_log()
    pintgn.fit("pint", log, folder=folder / "first", epochs=1, progress=False)
    return Calls().of(lambda: pintgn.fit("pint", log, folder=folder / "second", epochs=1, progress=False))


def post(folder: Path) -> Counter[str]:
    """`POST /events` with one event: from the first byte that the application sees to the acknowledgement."""
    return served(folder, "/events", b'{"src": "u1", "dst": "v1", "t": %d}')


def score(folder: Path) -> Counter[str]:
    """`POST /score` with one pair."""
    return served(folder, "/score", b'{"src": "u1", "dst": "v1", "at": %d}')


def served(folder: Path, path: str, body: bytes) -> Counter[str]:
    import pintgn
    from pintgn.serve.api import create_app
    from pintgn.serve.service import Service

    pintgn.fit(pintgn.PINT(dim=8), a_log(), folder=folder / "run", epochs=1, progress=False)
    calls = Calls()
    with Service.open(folder / "run", folder / "store") as service:
        app = create_app(service)

        async def ask() -> None:
            for t in range(EVENTS, EVENTS + 5):
                await asked(app, path, body % t)
            calls.counting = True
            await asked(app, path, body % (EVENTS + 10))
            time.sleep(0.1)  # what the writer does once it has answered
            calls.counting = False

        asyncio.run(ask())
    return calls.found


async def asked(app: Any, path: str, body: bytes) -> None:
    sent: list[dict[str, Any]] = []
    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {"type": "http", "scheme": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent


WALKS = {"step": step, "fit": fit, "post": post, "score": score, "csv": csv}


def main() -> None:
    asked_for = [name for name in sys.argv[1:] if name in WALKS] or list(WALKS)
    print("walk   functions  files   calls")
    for name in asked_for:
        with tempfile.TemporaryDirectory() as folder:
            found = WALKS[name](Path(folder))
        files = {function.partition(":")[0] for function in found}
        print(f"{name:5}  {len(found):9,}  {len(files):5,}  {sum(found.values()):6,}")
        if "--list" in sys.argv:
            for function, calls in sorted(found.items()):
                print(f"    {calls:6,}  {function}")


if __name__ == "__main__":
    main()
