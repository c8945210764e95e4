"""Independent jobs on processes of this machine or a Ray cluster, behind one interface.

A job is a function that can be imported and arguments that can be pickled; it changes nothing that another job reads.
So one whose worker was lost is simply done again. Results come back as they are ready, to the one process that writes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol

from pintgn.errors import BadInput, LostWorker, PintgnError, suggest
from pintgn.packages import need

PLACES = ("local", "ray")
RETRIES = 3
"""Times that a job is done again when its worker is lost."""
PASSED = ("PINTGN_MODELS", "PINTGN_CACHE", "NUMBA_CACHE_DIR")
"""Environment variables that workers on other machines are given, too."""


class Jobs(Protocol):
    """Interface of workers for independent jobs."""

    workers: int

    def run(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """The number and the result of each job, as soon as it is known. An error of ours ends all of them.

        A job is taken from `jobs` when a worker is free for it, so it may depend on earlier results.
        """


@contextmanager
def open_jobs(on: str = "local", workers: int = 1) -> Iterator[Jobs]:
    """Workers for independent jobs.

    Args:
        on: `local` for processes of this machine, `ray` for a cluster: the one that `RAY_ADDRESS` names, or else one on
            this machine.
        workers: how many jobs run at once; one thread each.
    """
    if on not in PLACES:
        raise BadInput(f"on={on!r} does not exist.{suggest(on, PLACES)}")
    if on == "local" and workers == 1:
        yield InThisProcess()
        return
    opened: Any = LocalPool(workers) if on == "local" else RayCluster(workers)
    try:
        yield opened
    finally:
        opened.close()


class InThisProcess:
    """Runs jobs one after another, here."""

    workers = 1

    def run(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        for number, job in enumerate(jobs):
            yield number, function(*job)


class LocalPool:
    """Processes of this machine, which end with this one, however it ends."""

    def __init__(self, workers: int):
        self.workers = workers
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # a fork would share threads that do not survive it
        return ProcessPoolExecutor(self.workers, context, _begin)

    def run(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        coming, lost = enumerate(jobs), 0
        taken: dict[int, tuple[Any, ...]] = {}  # and not done yet
        running: dict[Future[Any], int] = {}
        while True:
            while len(taken) < self.workers and (job := next(coming, None)) is not None:
                taken[job[0]] = job[1]
            if not taken:
                return
            try:
                with _one_thread_each():
                    for number in taken.keys() - running.values():
                        running[self._pool.submit(_attempt, function, taken[number])] = number
                done = wait(running, return_when=FIRST_COMPLETED).done.pop()
                result, number = done.result(), running.pop(done)
            except BrokenProcessPool as error:
                lost += 1
                if lost > RETRIES:
                    raise LostWorker(_too_often("the same work")) from error
                self.close()
                self._pool, running = self._started(), {}
                continue
            del taken[number]
            lost = 0
            yield number, _checked(result)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


class RayCluster:
    """A Ray cluster, which repeats a job elsewhere when its worker or node is lost."""

    def __init__(self, workers: int):
        self.ray = need("ray", extra="ray")
        self.started = not self.ray.is_initialized()
        if self.started:
            address = os.environ.get("RAY_ADDRESS")
            given: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
            try:
                self.ray.init(
                    **given, include_dashboard=None if address else False, log_to_driver=False, logging_level="ERROR"
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise LostWorker(f"the Ray cluster at {address or 'this machine'} cannot be used: {reason}") from error
        self.workers = max(workers, int(self.ray.cluster_resources().get("CPU", workers)))

    def run(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        own = {"OMP_NUM_THREADS": "1"} | {name: os.environ[name] for name in PASSED if name in os.environ}
        attempt = self.ray.remote(max_retries=RETRIES, num_cpus=1, runtime_env={"env_vars": own})(_attempt)
        coming = enumerate(jobs)
        running: dict[Any, int] = {}
        while True:
            while len(running) < self.workers and (job := next(coming, None)) is not None:
                running[attempt.remote(function, job[1])] = job[0]
            if not running:
                return
            done = self.ray.wait(list(running))[0][0]
            number = running.pop(done)
            try:
                result = self.ray.get(done)
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self.ray.exceptions.RayError as error:
                raise LostWorker(_too_often(f"job {number}")) from error
            yield number, _checked(result)

    def close(self) -> None:
        if self.started:
            self.ray.shutdown()


def _too_often(what: str) -> str:
    return f"workers were lost {RETRIES + 1} times in a row at {what}, perhaps for want of memory. Use fewer workers."


def _attempt(function: Callable[..., Any], job: tuple[Any, ...]) -> tuple[Any, PintgnError | None]:
    """A job's result, or its error: errors of ours are returned as they are."""
    try:
        return function(*job), None
    except PintgnError as error:
        error.__cause__ = None
        return None, error


def _checked(result: tuple[Any, PintgnError | None]) -> Any:
    value, error = result
    if error is not None:
        raise error
    return value


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Environment of worker processes: one thread each, as they share the machine."""
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _begin() -> None:
    """In a worker: leave Ctrl-C to the process that started it, and end with that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
