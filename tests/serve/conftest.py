"""Runs that the tests of this room serve, trained once."""

from __future__ import annotations

import pytest

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
