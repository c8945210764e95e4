"""Kernels: functions that Numba compiles for this machine, once, and where their machine code is kept.

Numba's own cache looks only at the file of the function that is called, so a change of something it calls goes
unnoticed: users would run yesterday's code after an upgrade. Here it has a folder of its own for every version of what
machine code is made of: all kernel sources of the package, Numba, llvmlite, Python, and Numba's settings. (Numba itself
tells processors apart.) The folder is in the user's cache (`~/.cache/pintgn` on Linux), or in NUMBA_CACHE_DIR where
that is set.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import platformdirs
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from pintgn import files
from pintgn.errors import PintgnWarning

LONGEST_WAIT, PAUSE = 120.0, 0.005
"""Seconds to wait for another process, which compiles or reads and writes the cache, and between two looks."""
UNUSED_DAYS = 30
"""After so many days without use the code of other versions is deleted."""
logger = logging.getLogger(__name__)
NOT_ABOUT_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_DEBUG_CACHE"}


def kernel(function: Callable[..., Any] | None = None, *, allocates: bool = True, **options: Any) -> Any:
    """Compile a function on first use and keep its machine code. It may be called from Python and by other kernels.

    One that allocates nothing need not count references, which costs at every call between kernels. Other options are
    those of `numba.njit`.
    """
    if function is None:
        return lambda function: kernel(function, allocates=allocates, **options)
    options |= {"nogil": True, "_nrt": allocates}
    made: Any = numba.njit(**options)(function)
    where = folder()
    if where is not None:
        made._cache = Kept(function, where)  # what `cache=True` does, with one in Numba's own folder
    return made


def inner(function: Callable[..., Any] | None = None, *, allocates: bool = True, **options: Any) -> Any:
    """A part of kernels. Only they can call it, so Numba need not make it callable from Python: a third less to do."""
    if function is None:
        return lambda function: inner(function, allocates=allocates, **options)
    options |= {"nogil": True, "_nrt": allocates, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(**options)(function)
    made.__class__ = Part
    return made


class Part(CPUDispatcher):
    """What `inner` makes. Without this, a call from Python would end the process."""

    def __call__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"{self.py_func.__name__} is a part of kernels; make it a @kernel to call it from Python.")


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """In kernels: `prefetch(array, i)` says that the i-th number of an array, as it lies in memory, is needed soon.

    Nothing waits for it, and nothing goes wrong where the number lies beyond the array.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        called = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        where = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        builder.call(called, [where, number(0), number(3), number(1)])  # to read, into all caches, of data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


prefetch: Any = intrinsic(_prefetch)


# --- the key --------------------------------------------------------------------------------------------------


def sources() -> list[Path]:
    """The files that kernels are made of: those that name this module or Numba."""
    words = b"pintgn.compiled", b"numba"
    return [path for path in sorted(Path(__file__).parent.rglob("*.py")) if any(w in path.read_bytes() for w in words)]


def key() -> str:
    """What machine code depends on beside the function, its signature and the processor."""
    found = hashlib.sha256()
    for path in sources():
        text = path.read_bytes()
        found.update(f"{path.name} {len(text)} ".encode() + text)
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in NOT_ABOUT_CODE)
    found.update(repr((numba.__version__, llvmlite.__version__, sys.version, settings)).encode())
    return found.hexdigest()[:24]


@cache
def folder() -> Path | None:
    """Where this version's machine code is kept; None, with a note, where nothing can be."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(base, "pintgn") if base else Path(platformdirs.user_cache_dir("pintgn"), "kernels")
    try:
        made = home / key()
        if made.is_dir():
            with suppress(OSError):  # so that it is seen to be in use; it may belong to somebody else
                os.utime(made)
        else:
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
            forget_unused(home)
        if not os.access(made, os.W_OK):
            raise PermissionError(f"{made} cannot be written to")
    except OSError as error:
        warn_unkept(error.strerror or str(error))
        return None
    return made


def forget_unused(home: Path) -> None:
    """Delete the code of versions that nobody has used for a while."""
    for old in home.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > UNUSED_DAYS * 86_400:
                shutil.rmtree(old, ignore_errors=True)


@cache
def warn_unkept(reason: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept ({reason}), so it is compiled anew each time; "
        "set NUMBA_CACHE_DIR to a folder that can be written.",
        PintgnWarning,
        stacklevel=2,
    )


# --- the files ------------------------------------------------------------------------------------------------


class Kept(FunctionCache):
    """Numba's cache of one function, in our folder; one process at a time. What is damaged is compiled again."""

    def __init__(self, function: Any, where: Path):
        self.function, self.where = function, where
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(where)  # type: ignore[attr-defined]
        try:
            super().__init__(function)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
        if not Path(self.cache_path).is_relative_to(where):  # Numba looks elsewhere where it cannot write
            self.disable()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The code for a signature; None where it has to be compiled, here and now."""
        found = self._load(signature, context)
        if found is None and await_compiled(self.function.__module__):
            found = self._load(signature, context)
        return found

    def _load(self, signature: Any, context: Any) -> Any:
        with suppress(OSError), locked(self.where):
            try:
                return super().load_overload(signature, context)
            except Exception:  # a damaged pickle may raise anything
                self.flush()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        if key() != self.where.name:
            return  # sources changed since they were loaded: an upgrade is under way, and what this is made of is gone
        try:
            with locked(self.where):
                super().save_overload(signature, compiled)
        except OSError as error:
            warn_unkept(error.strerror or str(error))


@contextmanager
def locked(where: Path) -> Iterator[None]:
    """Keep other processes out: Numba's index of a function is read, changed and written, and two that do so at once
    could leave one signature with the code of another."""
    with open(where / "lock", "ab") as file:
        until = time.monotonic() + LONGEST_WAIT
        while not files.try_lock(file):
            if time.monotonic() > until:
                raise TimeoutError("another process keeps it locked")
            time.sleep(PAUSE)
        yield


# --- the time it takes ----------------------------------------------------------------------------------------


class Clock(event.Listener):
    """Adds up the time in which something is compiled here, or waited for while another process compiles it."""

    def __init__(self) -> None:
        self.total, self.depth, self.begun, self.said = 0.0, 0, 0.0, False
        self.lock = threading.RLock()

    def on_start(self, _: Any = None) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.begun = time.perf_counter()
            if not self.said:
                self.said = True
                logger.info("Compiling for this machine, once …")

    def on_end(self, _: Any = None) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.total += time.perf_counter() - self.begun

    def seconds(self) -> float:
        with self.lock:
            return self.total + (time.perf_counter() - self.begun if self.depth else 0.0)


_clock = Clock()
event.register("numba:compile", _clock)


def seconds() -> float:
    """How long this process has been compiling so far, or waiting for another that does."""
    return _clock.seconds()


def working_time() -> float:
    """A clock that stands still meanwhile: what is measured by it is the same in the first run and in the second."""
    return time.perf_counter() - _clock.seconds()


# --- another process ------------------------------------------------------------------------------------------


def compile_ahead(module: str, holds: str) -> None:
    """Let another process run a module whose package needs kernels, unless a file that it `holds` is there already.

    This process goes on; where it needs a kernel of that package it waits. Should the other fail, it compiles it.
    """
    where, cores = folder(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    package = module.rpartition(".")[0]
    if where is None or cores < 2 or package in _started or any(where.glob(holds)):
        return
    command = [sys.executable, "-P", "-m", module]
    with suppress(OSError):
        _started[package] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def await_compiled(module: str) -> bool:
    """Wait for the process that compiles a module's package ahead; whether there was one to wait for."""
    process = _started.get(module.rpartition(".")[0])
    if process is None:
        return False
    _clock.on_start()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_WAIT)
    finally:
        _clock.on_end()
    return True


_started: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that compile ahead, by package."""
