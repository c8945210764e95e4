"""Kernels: functions that Numba compiles for this machine, once, and how their machine code is kept.

Numba's own cache looks only at the file of the function that is called, so a change of something it calls goes
unnoticed: users would run yesterday's code after an upgrade. Here one key covers every kernel source of the package,
the versions of Numba, llvmlite and Python, and Numba's settings. Machine code is kept in a folder named by this key.
Inside it each file is named by what it holds (function, signature, processor) and carries a checksum, so it does not
matter who writes it, in which order, or whether it is damaged: a file fits exactly, or the kernel is compiled again.

The folder is in the user's cache (`~/.cache/pintgn` on Linux), or in NUMBA_CACHE_DIR where that is set.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import platformdirs
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.compiler import CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.extending import intrinsic

from pintgn import files
from pintgn.errors import PintgnWarning

LONGEST_WAIT, PAUSE = 120.0, 0.02
"""Seconds to wait for another process that is compiling the same kernel, and between two looks; then it is compiled
here, too."""
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
    made._cache = Kept(function)  # what `cache=True` does, with a cache of Numba's own
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
        if not os.access(made, os.W_OK) and not any(made.iterdir()):
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


class Kept:
    """The machine code of one function, one file per signature and processor. Numba asks it before it compiles."""

    def __init__(self, function: Any):
        self.function, self.locks = function, {}  # type: ignore[var-annotated]

    @property
    def cache_path(self) -> str:
        return str(folder())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The code for a signature, as somebody kept it; None where it has to be compiled, here and now."""
        context.refresh()
        where = folder()
        if where is None:
            return None
        name = self._name(signature, context.codegen())
        path = where / name
        found = read(path, name)
        if found is None:
            found = self._wait(path, name)
        return None if found is None else CompileResult._rebuild(context, *found)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        where = folder()
        if where is None:
            return
        name = self._name(signature, compiled.codegen)
        try:
            # sources that changed since they were loaded: an upgrade is under way, and what this is made of is gone
            if key() == where.name and not compiled.library.has_dynamic_globals:
                write(where / name, name, compiled._reduce())
        except OSError as error:
            warn_unkept(error.strerror or str(error))
        finally:
            self._release(where / name)

    def flush(self) -> None:
        """Nothing to do: what does not fit is not used."""

    def _name(self, signature: Any, codegen: Any) -> str:
        code = self.function.__code__
        told = signature, codegen.magic_tuple(), code.co_code, code.co_names
        cells = tuple(cell.cell_contents for cell in self.function.__closure__ or ())
        short = hashlib.sha256(repr(told).encode() + dumps(cells)).hexdigest()[:24]
        return f"{self.function.__module__.removeprefix('pintgn.')}.{self.function.__name__}-{short}"

    def _wait(self, path: Path, name: str) -> Any:
        """Take the lock of a file that is to be made. While another process has it, wait for what it makes."""
        _clock.on_start()
        try:
            for _ in range(int(LONGEST_WAIT / PAUSE)):
                lock = try_lock(lock_of(path))
                found = read(path, name)
                if lock is not None:
                    self.locks[path] = lock
                    if found is not None:
                        self._release(path)
                if found is not None or lock is not None:
                    return found
                time.sleep(PAUSE)
            return None
        finally:
            _clock.on_end()

    def _release(self, path: Path) -> None:
        lock = self.locks.pop(path, None)
        if lock is not None:
            with suppress(OSError):
                lock_of(path).unlink()
            os.close(lock)


def lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None while another process does. A process that dies lets go of it."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:  # a folder that cannot be written to
        return os.open(os.devnull, os.O_RDONLY)
    if files.try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def read(path: Path, name: str) -> Any:
    """What a file holds; None if it is not there, is damaged, or holds something else."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    checksum, body = content[:32], content[32:]
    if hashlib.sha256(name.encode() + body).digest() != checksum:
        return None
    return pickle.loads(body)


def write(path: Path, name: str, what: Any) -> None:
    """Keep something; whoever reads at the same time sees all of it or nothing."""
    body = dumps(what)
    files.write_file(path, hashlib.sha256(name.encode() + body).digest() + body, durable=False, mode=0o600)


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
    """Let another process run a module that needs kernels, unless one that it `holds` is there already.

    This process goes on; where it needs one of them it waits. Should the other fail, it compiles them itself.
    """
    where, cores = folder(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if where is None or cores < 2 or module in _started or any(where.glob(f"{holds}-*")):
        return
    command = [sys.executable, "-P", "-m", module]
    with suppress(OSError):
        _started[module] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


_started: dict[str, subprocess.Popen[bytes]] = {}
