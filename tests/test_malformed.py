"""A short run of `make malformed`: changed files of every kind, each given to the command that reads it."""

from __future__ import annotations

import pytest

from tests import malformed


@pytest.mark.parametrize("each", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_malformed_files_are_read_rightly_or_refused_in_one_line(capsys, each):
    with capsys.disabled():  # forks write to files of their own
        found = malformed.run(13 * each, seed=7)
    assert found["faults"] == []
    assert [tally["cases"] for tally in found["kinds"].values()] == [each] * 13


def test_a_case_is_a_function_of_its_number():
    import numpy as np

    data = b"src,dst,t\n" + b"1,2,3\n" * 50
    drawn = [malformed.changed(data, np.random.default_rng([0, number])) for number in range(40)]
    assert drawn == [malformed.changed(data, np.random.default_rng([0, number])) for number in range(40)]
    assert all(made != data for made in drawn)


def test_crashes_hangs_tracebacks_and_long_errors_are_faults(tmp_path, monkeypatch):
    """The machinery itself: what a child does wrong is seen."""
    import os
    import signal
    import sys

    monkeypatch.setattr(malformed, "PATIENCE", 2)

    def ends(work):
        return malformed.fault(malformed.in_child(work, tmp_path))

    def talk(*lines):
        print(*lines, sep="\n", file=sys.stderr)
        sys.exit(2)

    assert ends(lambda: None) is None
    assert ends(lambda: talk("BadInput: no.")) is None
    assert ends(lambda: talk("note: by the way", "BadInput: no.")) is None
    assert ends(lambda: talk("BadInput:", "no.")).startswith("2 lines of error")
    assert ends(lambda: sys.exit(2)).startswith("0 lines of error")
    assert ends(lambda: os.kill(os.getpid(), signal.SIGTERM)) == f"signal {signal.SIGTERM.value}"
    assert ends(lambda: 1 / 0) == "traceback: ZeroDivisionError: division by zero"
    assert ends(lambda: sys.exit(3)).startswith("traceback")
    assert ends(signal.pause).startswith("hung")
