"""A small dose of torture; `make torture` has the large one. And the command itself, as people start and stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from pintgn.serve.app import create_app
from pintgn.serve.service import Service
from tests.serve import torture
from tests.serve.helpers import TRAINED, TestClient, as_events, assert_same_state, replayed

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_9_at_random_moments_loses_nothing_and_doubles_nothing(run_folder, columns, tmp_path):
    torture.survive_kills(torture.Forked, run_folder, columns, tmp_path / "store", kills=3, seed=1, patience=0.4)


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_full_disk_refuses_loses_nothing_and_is_survived(run_folder, columns, tmp_path):
    victim = torture.Forked(run_folder, tmp_path / "store", file_limit=120_000)
    acknowledged = TRAINED
    try:
        for begin in range(TRAINED, 900, 20):
            answer = victim.send(as_events(columns, begin, begin + 20, keyed=True))
            if "error" in answer:
                assert answer["error"] == "StoreFull"
                break
            acknowledged = begin + 20
        assert acknowledged < 900, "the disk was never full"
        assert victim.send(as_events(columns, acknowledged, acknowledged + 20, keyed=True))["error"] == "StoreFull"
    finally:
        victim.bury()
    with Service.open(run_folder, tmp_path / "store") as service:
        assert_same_state(service.engine, replayed(run_folder, columns, acknowledged))


def test_nonsense_never_gives_a_500_or_a_trace(rich_folder, tmp_path, caplog):
    with Service.open(rich_folder, tmp_path / "store") as service:
        client = TestClient(create_app(service), raise_server_exceptions=False)
        answered = torture.send_nonsense(client, 200, seed=0)
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
        (["--host", "0.0.0.0"], "lets other machines in"),
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
            service.submit(as_batch(service.engine, rich_columns, begin, begin + 115)).result(30)
    command = ["serve", str(rich_folder), "--store", str(tmp_path / "s"), "--export", str(tmp_path / name), "--json"]
    assert json.loads(CliRunner().invoke(app, command).stdout)["live_events"] == 460
    made = read_events(tmp_path / name, features=["amount", "kind"])
    head = {name: column[:700] for name, column in rich_columns.items()}
    whole = read_events(head, features=["amount", "kind"])
    for column in ("src", "dst", "t", "features"):
        assert (getattr(made, column) == getattr(whole, column)).all(), column
    assert made.ids == whole.ids


def test_compacting_from_the_command_line(run_folder, columns, tmp_path):
    from typer.testing import CliRunner

    from pintgn.cli.app import app
    from tests.serve.helpers import as_batch

    with Service.open(run_folder, tmp_path / "s") as service:
        service.submit(as_batch(service.engine, columns, TRAINED, 400)).result(30)
    result = CliRunner().invoke(app, ["serve", str(run_folder), "--store", str(tmp_path / "s"), "--compact", "--json"])
    assert json.loads(result.stdout)["dropped"] == 160
