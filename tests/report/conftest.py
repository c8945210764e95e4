"""Three small runs on one log, and one page about them."""

from __future__ import annotations

import pytest

import pintgn

QUICK = {"hidden": 0.1, "epochs": 2, "batch": 100, "learning_rate": 3e-3}


@pytest.fixture(scope="session")
def log():
    return pintgn.simulate("repeat", events=1_400, seed=0)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def run(log, place):
    return pintgn.fit(pintgn.PINT(dim=8), log, folder=place / "pint", seed=0, **QUICK)


@pytest.fixture(scope="session")
def other_seed(log, place):
    return pintgn.fit(pintgn.PINT(dim=8), log, folder=place / "pint-1", seed=1, **QUICK)


@pytest.fixture(scope="session")
def without(log, place):
    return pintgn.fit(pintgn.PINT(dim=8, positions=0), log, folder=place / "without", seed=0, **QUICK)


@pytest.fixture(scope="session")
def figures(run, other_seed, without):
    from pintgn.report.figures import Figures
    from pintgn.report.study import study

    return Figures(study([run, other_seed, without]))


@pytest.fixture(scope="session")
def page(run, without, place):
    """A report on two runs that are read from their folders: what it says, and its HTML."""
    path = place / "two.html"
    report = pintgn.write_report([place / "pint", place / "without"], path)
    return report, path.read_text()
