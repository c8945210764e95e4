"""A small run, and a service of it."""

from __future__ import annotations

import pytest

from tests.feed.helpers import Alive
from tests.serve.helpers import happened, trained


@pytest.fixture(scope="session")
def columns():
    return happened()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, columns):
    return trained(tmp_path_factory.mktemp("feed") / "run", columns, "heuristic")


@pytest.fixture
def alive(run_folder, tmp_path):
    made = Alive(run_folder, tmp_path / "store")
    yield made
    made.served.bury()
