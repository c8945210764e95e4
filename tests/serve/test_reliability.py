"""A small dose of torture; `make torture` has the large one. And the command itself, as people start and stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from pintgn.serve.api import create_app
from pintgn.serve.service import Service
from tests.serve import hardship, nonsense
from tests.serve.helpers import TRAINED, TestClient, as_events, assert_same_state, replayed

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("limit", [0, 8_192, 33_000, 60_000, 120_000])
def test_a_full_disk_refuses_loses_nothing_and_is_survived(run_folder, columns, tmp_path, limit):
    assert hardship.survive_full(run_folder, columns, tmp_path / "store", limit) < 880 - TRAINED, "it was never full"


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("limit", [0, 100, 4_096, 8_192, 20_000])
def test_a_start_on_a_full_disk_says_so_in_one_line(run_folder, columns, tmp_path, limit):
    """Or works, where nothing has to be written; and nothing is lost by it."""
    import resource

    from pintgn.errors import PintgnError
    from tests.serve.helpers import restarted, served

    served(run_folder, columns, tmp_path / "store", keyed=True)
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            restarted(run_folder, tmp_path / "store").close()
        except PintgnError:
            os._exit(0)
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with restarted(run_folder, tmp_path / "store") as service:
        assert not service.reports
        assert_same_state(service.live, replayed(run_folder, columns, 600))


def test_nonsense_never_gives_a_500_or_a_trace(rich_folder, tmp_path, caplog):
    with Service.open(rich_folder, tmp_path / "store") as service:
        client = TestClient(create_app(service), raise_server_exceptions=False)
        answered = nonsense.send_nonsense(client, 200, seed=0)
        assert answered[422] > 50
        assert service.healthy
    assert "Traceback" not in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on Unix")
def test_the_command_serves_refuses_a_second_one_and_stops_properly(run_folder, columns, tmp_path):
    import httpx
    from typer.testing import CliRunner

    from pintgn.cli.app import app
    from pintgn.errors import BadInput

    command = [sys.executable, "-m", "pintgn", "serve", str(run_folder), "--store", str(tmp_path / "store")]
    first = subprocess.Popen(
        [*command, "--port", "0", "--json", "--new-key"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        key = json.loads(first.stdout.readline())["key"]
        address = json.loads(first.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:"), "only this machine, unless told otherwise"
        with httpx.Client(base_url=address, headers={"authorization": f"Bearer {key}"}) as client:
            told = client.post("/events", json={"events": as_events(columns, TRAINED, 300)}).json()
            assert told["accepted"] == 60
            assert httpx.get(f"{address}/status").status_code == 401
            assert httpx.get(f"{address}/").status_code == 200
        second = CliRunner().invoke(app, command[3:])
        assert isinstance(second.exception, BadInput)
        assert "in use by process" in str(second.exception)
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate(timeout=60)
        assert first.returncode in (0, -signal.SIGTERM)
        assert key.encode() not in said
    finally:
        first.kill()
        first.wait()
    assert (tmp_path / "store" / "snapshots" / f"{60:012d}" / "manifest.json").exists(), "it ended with a snapshot"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "accepts other machines"),
        (["--key-file", "nowhere"], "cannot read the key"),
        (["--key-file", "x", "--new-key"], "choose one"),
        (["--window", "-3"], "more than 0"),
    ],
)
def test_unsafe_or_senseless_options_are_refused(run_folder, tmp_path, options, said):
    from typer.testing import CliRunner

    from pintgn.cli.app import app

    result = CliRunner().invoke(app, ["serve", str(run_folder), "--store", str(tmp_path / "s"), *options])
    assert result.exit_code != 0
    assert said in str(result.exception)


@pytest.mark.parametrize("name", ["all.parquet", "all.csv"])
def test_what_happened_can_be_exported_and_trained_on(rich_folder, rich_columns, tmp_path, name):
    from typer.testing import CliRunner

    from pintgn import read_events
    from pintgn.cli.app import app
    from tests.serve.helpers import as_batch

    with Service.open(rich_folder, tmp_path / "s") as service:
        for begin in range(TRAINED, 700, 115):
            service.submit(as_batch(service.live, rich_columns, begin, begin + 115)).result(30)
    command = ["serve", str(rich_folder), "--store", str(tmp_path / "s"), "--export", str(tmp_path / name), "--json"]
    assert json.loads(CliRunner().invoke(app, command).stdout)["live_events"] == 460
    made = read_events(tmp_path / name, features=["amount", "kind"])
    head = {name: column[:700] for name, column in rich_columns.items()}
    whole = read_events(head, features=["amount", "kind"])
    for column in ("src", "dst", "t", "features"):
        assert (getattr(made, column) == getattr(whole, column)).all(), column
    assert made.ids == whole.ids
