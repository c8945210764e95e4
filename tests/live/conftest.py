"""The runs that the tests of the service use."""

from tests.serve.conftest import *  # noqa: F403
