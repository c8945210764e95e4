"""What tests share: real data where it is present, random small logs, the repository's root."""

from __future__ import annotations

import os

# many small operations: threads of their own would only get in the way of the tests running beside them
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No test is about time. What is drawn is the same in every run, so that none fails by bad luck; see `make explore`.
settings.register_profile("pintgn", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "pintgn"))

ROOT = Path(__file__).parents[1]


def one_thread() -> None:
    """OpenMP's threads do not survive a fork: a child that asked for several would wait for them for ever."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
        torch.set_num_threads = lambda count: None  # also where a run says how many it was trained with


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread)


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The path of a real event stream, or a skip that says why."""

    def find(name: str) -> Path:
        path = ROOT.parent / "shared" / "data" / f"{name}.parquet"
        if not path.exists():
            pytest.skip(f"real data is not here: ../shared/data/{name}.parquet")
        return path

    return find


FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-prefers-reduced-motion"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window. Where it is missing tests skip, but in CI they fail: there it has to be installed."""
    program, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not program or not driver:
        missing = "chromium and chromedriver are not here"
        pytest.fail(f"{missing}, and CI=true") if os.environ.get("CI") == "true" else pytest.skip(missing)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield made
    finally:
        made.quit()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C takes effect, here and in what is started, also where the tests run without it (`nohup make test &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def no_ctrl_c() -> Iterator[None]:
    """Ctrl-C is ignored, as under `nohup` or in a job that a script puts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def around(size: int) -> tuple[int, int, int]:
    """Just below a size, at it, and just above."""
    return size - 1, size, size + 1
