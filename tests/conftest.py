"""What tests share: real data where it is present, random small logs, the repository's root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
