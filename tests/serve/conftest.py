"""Runs that the tests of this room serve, trained once."""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest

from tests.postgres import Cluster
from tests.serve.helpers import happened, trained


@pytest.fixture(scope="session")
def columns():
    return happened()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, columns):
    """A PINT without features; ids are names."""
    return trained(tmp_path_factory.mktemp("serve") / "run", columns)


@pytest.fixture(scope="session")
def rich_columns():
    return happened(seed=1, features=True)


@pytest.fixture(scope="session")
def rich_folder(tmp_path_factory, rich_columns):
    """A PINT with a number and a category for each event."""
    return trained(tmp_path_factory.mktemp("serve") / "rich", rich_columns)


@pytest.fixture(scope="session")
def cluster():
    """A PostgreSQL server that keeps what it acknowledges."""
    with contextlib.closing(Cluster("s3cret-word", durable=True)) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def new_store(request, tmp_path):
    """Makes a place for a store, of either kind."""
    if request.param == "postgres":
        return request.getfixturevalue("cluster").database
    count = itertools.count()
    return lambda: tmp_path / f"store {next(count)}"


@pytest.fixture
def permissive():
    """A process whose new files anybody may read and change, unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)
