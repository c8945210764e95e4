"""Results between processes of one machine are the same whichever way they go, below, at and above every size."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pintgn.errors import BadInput
from pintgn.workers import packed as module
from pintgn.workers.jobs import open_jobs
from pintgn.workers.packed import LARGE, ROOM, Tray, packed, unpacked

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory without a name is Linux's")


def filled(size: int, value: int) -> np.ndarray:
    return np.full(size, value % 251, np.uint8)


def several(number: int) -> dict[str, object]:
    return {"array": filled(LARGE + number, number), "words": ["a", number], "table": pa.table({"x": [number] * 9_000})}


def refused(number: int) -> None:
    raise BadInput(f"{number} cannot be used.")


def kept() -> list[str]:
    """Trays whose files are open in this process."""
    files = [Path(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    return [f"{file}" for file in files if file.is_symlink() and "memfd:pintgn" in os.readlink(file)]


@pytest.fixture
def tray():
    made = Tray()
    yield made
    made.close()
    module._opened.cache_clear()  # which workers keep until they end


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, LARGE + 1, ROOM - 1, ROOM, ROOM + 1])
def test_an_array_of_any_size_arrives(tray, size):
    sent = filled(size, size)
    rest, ends = packed(sent, tray.address)
    assert (len(rest) < LARGE) == (size < LARGE - 1_000 or LARGE <= size <= ROOM)
    assert ends == ([0, size] if LARGE <= size <= ROOM else [0])
    found = unpacked(rest, ends, tray)
    packed(filled(size, size + 1), tray.address)  # the next result overwrites nothing that has arrived
    np.testing.assert_array_equal(found, sent)
    assert found.flags.writeable


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_arrays_that_fit_share_a_tray(tray, more):
    sent = [filled(ROOM // 2, 1), filled(ROOM // 2 + more, 2), filled(LARGE, 3)]
    rest, ends = packed(sent, tray.address)
    assert ends[-1] <= ROOM
    assert len(ends) == 3
    for one, other in zip(unpacked(rest, ends, tray), sent, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_has_no_tray_goes_by_the_pipe(tray):
    sent = filled(3 * LARGE, 1)
    for address in (None, ("/proc/self/fd/no-such-file", -1)):
        rest, ends = packed(sent, address)
        assert ends == [0]
        np.testing.assert_array_equal(unpacked(rest, ends, None), sent)
        np.testing.assert_array_equal(unpacked(rest, ends, tray), sent)


@pytest.mark.parametrize("there", [True, False])
def test_workers_answer_alike_with_and_without_shared_memory_and_keep_none_of_it(there, monkeypatch):
    if not there:
        monkeypatch.delattr(module.os, "memfd_create")
    with open_jobs("local", 2) as jobs:
        for number, found in jobs.run(several, [(k,) for k in range(9)], ahead=2):
            np.testing.assert_array_equal(found["array"], several(number)["array"])
            assert found["words"] == ["a", number]
            assert found["table"].equals(several(number)["table"])
        assert len(jobs._trays) == (4 if there else 0)
        assert len(kept()) == (8 if there else 0)  # a file, and that of its memory
        with pytest.raises(BadInput, match="7 cannot"):
            list(jobs.run(refused, [(7,)]))
    assert jobs._trays == []
    assert not kept()
