"""How `pintgn serve` ends: by the signals that whoever started it lets through, with its own stop message."""

from __future__ import annotations

import inspect
import signal
import socket
import sys

import pytest
from typer.testing import CliRunner

from pintgn.cli import feed, serve
from pintgn.cli.app import app
from pintgn.errors import BadInput
from pintgn.live.prequential import EVERY
from pintgn.serve.http_server import Server
from pintgn.serve.limits import Limits, Options

BOTH = (signal.SIGINT, signal.SIGTERM)


def stopped_by(*signals: int) -> list[bool]:
    """A real server that gets some signals while it starts: whether it means to stop, after each."""
    stopping = []

    async def application(scope, receive, send):
        await receive()
        for number in signals:
            signal.raise_signal(number)
            stopping.append(server.should_exit)
        for word in ("startup", "shutdown"):
            await send({"type": f"lifespan.{word}.complete"})
            if word == "startup":
                await receive()

    server = Server(application, Limits())
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server.run(sockets=[bound])
    return stopping


@pytest.mark.parametrize("number", BOTH)
def test_ctrl_c_and_sigterm_end_the_server_and_come_back(ctrl_c, number):
    before = [signal.getsignal(one) for one in BOTH]
    assert stopped_by(number) == [True]
    assert [signal.getsignal(one) for one in BOTH] == before


def test_where_ctrl_c_is_ignored_the_server_goes_on_until_sigterm(no_ctrl_c):
    assert stopped_by(*BOTH) == [False, True]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("module", ["prometheus_client", "uvicorn", "starlette", "msgspec"])
def test_what_is_not_installed_is_said_in_one_line(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"{module}.*pip install 'pintgn\[serve\]'") as found:
        CliRunner().invoke(app, ["serve", str(tmp_path)], catch_exceptions=False)
    assert "\n" not in str(found.value)


def test_a_command_has_few_parameters_and_a_flag_for_each_field_of_its_groups():
    for command in (serve.serve, feed.feed):
        assert len(inspect.signature(inspect.unwrap(command), eval_str=True).parameters) <= 12
    said = CliRunner().invoke(app, ["serve", "--help"]).stdout
    for flag in ("--tls-cert", "--tls-key", "--key-file", "--log-format", "--audit", "--lateness", "--export"):
        assert flag in said


def test_how_often_a_service_evaluates_is_one_number():
    assert Options().evaluate_every == EVERY
