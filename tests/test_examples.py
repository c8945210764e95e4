"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.learning
def test_the_first_day_ends_with_a_service():
    command = [sys.executable, EXAMPLES / "day_one.py", "--events", "1500", "--epochs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for words in (
        "skipped 15 of 1,520 rows",
        "were sorted by time",
        "unknown src",
        "'accepted': 1",
        "health: ok",
        "done",
    ):
        assert words in done.stdout
