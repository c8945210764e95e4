"""Kernels: functions that Numba compiles for this machine, once, and the cache of their machine code.

Numba's own cache looks only at the file of the function that is called, so a change of something it calls goes
unnoticed: users would run yesterday's code after an upgrade. Here it has a folder of its own for every version of what
machine code is made of: all kernel sources of the package, Numba, llvmlite, Python, and Numba's settings. (Numba itself
tells processors apart.) The folder is in the user's cache (`~/.cache/pintgn` on Linux), or in NUMBA_CACHE_DIR where
that is set. What is read from it is run, so it must belong to the user, and nobody else may write to it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
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
"""Seconds to wait for another process, which reads or writes the cache, and between two looks."""
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
        made._cache = MachineCodeCache(function, where)  # what `cache=True` does, with one in Numba's own folder
    return made


def inner(function: Callable[..., Any] | None = None, *, allocates: bool = True, **options: Any) -> Any:
    """Mark a function that only kernels call, so Numba need not make it callable from Python: a third less to
    compile."""
    if function is None:
        return lambda function: inner(function, allocates=allocates, **options)
    options |= {"nogil": True, "_nrt": allocates, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(**options)(function)
    made.__class__ = Part
    return made


class Part(CPUDispatcher):
    """A function marked by `inner`. Without this class, a call from Python would end the process."""

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
    """The source files of kernels: those that name this module or Numba."""
    words = b"pintgn.compiled", b"numba"
    return [path for path in sorted(Path(__file__).parent.rglob("*.py")) if any(w in path.read_bytes() for w in words)]


def key() -> str:
    """Everything that machine code depends on, except the function, its signature and the processor."""
    found = hashlib.sha256()
    for path in sources():
        text = path.read_bytes()
        found.update(f"{path.name} {len(text)} ".encode() + text)
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in NOT_ABOUT_CODE)
    found.update(repr((numba.__version__, llvmlite.__version__, sys.version, settings)).encode())
    return found.hexdigest()[:24]


@cache
def folder() -> Path | None:
    """The cache folder of this version's machine code; None, with a warning, where nothing can be cached."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(base, "pintgn") if base else Path(platformdirs.user_cache_dir("pintgn"), "kernels")
    made = home / key()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        for one in (home, made):
            one.mkdir(mode=0o700, exist_ok=True)
            check_private(one)
        os.utime(made)  # so that it is seen to be in use
        forget_unused(home)
    except OSError as error:
        warn_unkept(error.strerror or str(error))
        return None
    return made


def check_private(where: Path) -> None:
    """Refuse a folder that belongs to somebody else, or that others may write to: the code in it would be executed."""
    found = where.stat()
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise PermissionError(f"{where} belongs to another user")
    if os.name == "posix" and found.st_mode & 0o022:
        raise PermissionError(f"others may write to {where}: chmod go-w it")
    if not os.access(where, os.W_OK):
        raise PermissionError(f"{where} cannot be written to")


def forget_unused(home: Path) -> None:
    """Delete the machine code of versions that have not been used for a while."""
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


class MachineCodeCache(FunctionCache):
    """Numba's cache of one function, in our folder, one process at a time. A damaged entry is compiled again."""

    def __init__(self, function: Any, where: Path):
        self.where = where
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(where)  # type: ignore[attr-defined]
        try:
            super().__init__(function)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
        if not Path(self.cache_path).is_relative_to(where):  # Numba looks elsewhere where it cannot write
            self.disable()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The code for a signature; None where it has to be compiled."""
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
    """Lock the cache against other processes: Numba's index of a function is read, changed and written, and two that do
    so at once could leave one signature with the code of another."""
    with open(where / "lock", "ab") as file:
        until = time.monotonic() + LONGEST_WAIT
        while not files.try_lock(file):
            if time.monotonic() > until:
                raise TimeoutError("another process keeps it locked")
            time.sleep(PAUSE)
        yield


# --- the time it takes ----------------------------------------------------------------------------------------


class Clock(event.Listener):
    """Adds up compile time."""

    def __init__(self) -> None:
        self.total, self.depth, self.begun, self.noted = 0.0, 0, 0.0, False
        self.lock = threading.RLock()

    def on_start(self, _: Any = None) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.begun = time.perf_counter()
            if not self.noted:
                self.noted = True
                logger.info("Compiling for this machine, once …")

    def on_end(self, _: Any = None) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.total += time.perf_counter() - self.begun


_clock = Clock()
event.register("numba:compile", _clock)


def seconds() -> float:
    """Seconds that this process has spent compiling."""
    with _clock.lock:
        return _clock.total + (time.perf_counter() - _clock.begun if _clock.depth else 0.0)


def working_time() -> float:
    """A clock that stops while kernels compile, so that the first run and the second measure the same."""
    return time.perf_counter() - seconds()
