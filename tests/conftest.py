"""What tests share: real data where it is present, random small logs, the repository's root."""

from __future__ import annotations

import os

# many small operations: threads of their own would only get in the way of the tests running beside them
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# No test is about time. What is drawn is the same in every run, so that none fails by bad luck; see `make explore`.
settings.register_profile("pintgn", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "pintgn"))

ROOT = Path(__file__).parents[1]


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The path of a real event stream, or a skip that says why."""

    def find(name: str) -> Path:
        path = ROOT.parent / "shared" / "data" / f"{name}.parquet"
        if not path.exists():
            pytest.skip(f"real data is not here: ../shared/data/{name}.parquet")
        return path

    return find


def around(size: int) -> tuple[int, int, int]:
    """Just below a size, at it, and just above."""
    return size - 1, size, size + 1
