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

settings.register_profile("pintgn", deadline=None)  # no test is about time
settings.load_profile("pintgn")

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
