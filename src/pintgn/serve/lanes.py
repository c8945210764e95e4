"""Lanes: who asks for the same kind of work stands in one queue, before few threads and never before all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pintgn.serve.limits import Busy


class Lane:
    """Work for a few threads, in the order of arrival; used by one event loop.

    Threads of one process take turns at Python, so more of them answer nothing sooner, and everybody else waits: with
    40 at work `/health` took seconds. Who waits here waits without a thread.

    Args:
        threads: how many work at once.
        most: how many may work or wait; more are refused. Any number when not given.
    """

    def __init__(self, name: str, threads: int, most: int | None = None):
        self.name, self.most = name, most
        self.inside = 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"pintgn-{name}")

    async def __call__(self, work: Callable[..., Any], *given: Any) -> Any:
        if self.most is not None and self.inside >= self.most:
            raise Busy(f"{self.inside} {self.name} are being answered already.")
        self.inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
        finally:
            self.inside -= 1
