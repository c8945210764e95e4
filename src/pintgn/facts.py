"""Typed readers of our own files: each declares its shape, and a file of another shape is refused in one line.

A shape is written as the value would look:

    {"seed": int, "asked": dict}     an object with these fields; others may be there, too
    [float]                          a list
    DictOf(float)                    an object with any names
    (int, None)                      one of several shapes
    {"int64", "float64"}             one of these texts
    AtLeast(0)                       a whole number
    Maybe(bool)                      a field that may be missing
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pintgn.errors import BadFile, PintgnError
from pintgn.files import regular

NAMES = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "an object", list: "a list",
    None: "null",
}  # fmt: skip


class Maybe(NamedTuple):
    """An optional field."""

    of: Any


class DictOf(NamedTuple):
    """An object with any keys, whose values all have one shape."""

    of: Any


class AtLeast(NamedTuple):
    """An integer of at most 64 bits, with a minimum."""

    least: int


def check_format(found: int, known: int, what: str, again: str, oldest: int | None = None) -> None:
    """Refuse the format of another version of pintgn; `again` says how to make the file anew.

    Every file of ours says its format, a number that grows when older code could not read it, or newer code would
    misread it. It is checked before the rest, which may have another shape. Formats from `oldest` on are read, and
    completed by whoever reads them; `tests/formats` has one of each.
    """
    if found > known:
        raise BadFile(f"{what} was written by a newer pintgn (format {found}, not {known}). Update pintgn to read it.")
    if found < (known if oldest is None else oldest):
        raise BadFile(f"{what} was written by an older pintgn (format {found}, not {known}). {again}")


def check(value: Any, shape: Any, what: str, advice: str = "") -> Any:
    """The value, if it has the shape; else an error that names the field.

    >>> check({"seed": "x"}, {"seed": int}, "run.json")
    Traceback (most recent call last):
    pintgn.errors.BadFile: run.json is damaged: seed is 'x', not a whole number.
    """
    if wrong := _wrong(value, shape, ""):
        raise BadFile(f"{what} is damaged: {wrong}. {advice}".strip())
    return value


def _wrong(value: Any, shape: Any, at: str) -> str:
    """Message about a value of the wrong shape; empty if it is right."""
    fitting = [one for one in (_options(shape)) if _fits(value, one)]
    if not fitting:
        shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"
        return f"{at or 'it'} is {shown}, not {' or '.join(map(_name, _options(shape)))}"
    inner: list[tuple[str, Any, Any]] = []
    if isinstance(fitting[0], DictOf):
        inner = [(f"{at}.{field}".lstrip("."), one, fitting[0].of) for field, one in value.items()]
    elif isinstance(fitting[0], list):
        inner = [(f"{at}[{index}]", one, fitting[0][0]) for index, one in enumerate(value)]
    elif isinstance(fitting[0], dict):
        for field, one in fitting[0].items():
            if field in value:
                inner.append((f"{at}.{field}".lstrip("."), value[field], one.of if isinstance(one, Maybe) else one))
            elif not isinstance(one, Maybe):
                return f"{at or 'it'} has no {field!r}"
    return next((wrong for where, one, part in inner if (wrong := _wrong(one, part, where))), "")


def _options(shape: Any) -> tuple[Any, ...]:
    """The shapes of which a value may have one; named tuples are shapes of their own."""
    return shape if type(shape) is tuple else (shape,)


def _fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape, as far as one sees without looking inside."""
    if isinstance(shape, set):
        return isinstance(value, str) and value in shape
    if isinstance(shape, AtLeast):
        return _fits(value, int) and shape.least <= value < 2**63
    if shape is None or shape is Any:
        return shape is Any or value is None
    if isinstance(value, bool):
        return shape is bool
    kind = dict if isinstance(shape, dict | DictOf) else list if isinstance(shape, list) else shape
    return isinstance(value, int | float if kind is float else kind)


def _name(shape: Any) -> str:
    if isinstance(shape, set):
        return " or ".join(sorted(map(repr, shape)))
    if isinstance(shape, AtLeast):
        return f"a whole number from {shape.least} on"
    return NAMES[dict if isinstance(shape, dict | DictOf) else list if isinstance(shape, list) else shape]


def parse(text: str | bytes, shape: Any, what: str, advice: str = "") -> Any:
    """JSON of a shape."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{what} is damaged: {_first_line(error)}. {advice}".strip()) from error
    return check(value, shape, what, advice)


def read_json(path: Path, shape: Any, advice: str = "") -> Any:
    """A JSON file of a shape. One that is not there is a FileNotFoundError, for the caller to explain."""
    try:
        text = regular(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError, BadFile):
        raise
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror or error}.") from error
    return parse(text, shape, str(path), advice)


@contextlib.contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Context that reports in one line whatever NumPy, zip files or safetensors raise about damaged bytes."""
    regular(path)
    try:
        yield
    except PintgnError:
        raise
    except FileNotFoundError as error:
        raise BadFile(f"{path} is missing. {advice}".strip()) from error
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, OverflowError, MemoryError,
        RuntimeError, zlib.error, zipfile.BadZipFile, SyntaxError, pa.ArrowException,
    ) as error:  # fmt: skip
        raise BadFile(f"{path} is damaged: {_first_line(error)}. {advice}".strip()) from error


def read_arrays(path: Path, advice: str = "") -> dict[str, np.ndarray]:
    """All arrays of an .npz file, by zip's own checksums, in one pass over it."""
    arrays = {}
    with reading(path, advice), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:  # which compares the checksum where it ends
                array = np.lib.format.read_array(file, allow_pickle=False)
                arrays[member.filename.removesuffix(".npy")] = _owner(array)
                if file.read(1):  # NumPy alone believes an array that says it is shorter
                    raise ValueError("its checksums do not fit")
    return arrays


def _owner(array: np.ndarray) -> np.ndarray:
    """The same array, as the one that owns its memory if there is one: that can grow without a copy."""
    base = array.base
    if isinstance(base, np.ndarray) and base.flags.owndata and base.nbytes == array.nbytes and array.flags.c_contiguous:
        base.resize(array.shape, refcheck=False)
        return base
    return array


def archive_mark(path: Path) -> str:
    """A mark of an .npz file's contents, made of the checksums in it."""
    with reading(path), zipfile.ZipFile(path) as archive:
        listed = sorted((member.filename, member.CRC, member.file_size) for member in archive.infolist())
    return hashlib.blake2b(repr(listed).encode(), digest_size=16).hexdigest()


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """A digest of named arrays, whatever their order."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__} {str(error)[:120]}".splitlines()[0].strip().rstrip(".")
