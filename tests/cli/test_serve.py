"""How `pintgn serve` ends: by the signals that whoever started it lets through, with its own stop message."""

from __future__ import annotations

import signal
import socket

import pytest

from pintgn.serve.http_server import Server
from pintgn.serve.limits import Limits

BOTH = (signal.SIGINT, signal.SIGTERM)


def stopped_by(*signals: int) -> list[bool]:
    """A real server that gets some signals while it starts: whether it means to stop, after each."""
    stopping = []

    async def app(scope, receive, send):
        await receive()
        for number in signals:
            signal.raise_signal(number)
            stopping.append(server.should_exit)
        for word in ("startup", "shutdown"):
            await send({"type": f"lifespan.{word}.complete"})
            if word == "startup":
                await receive()

    server = Server(app, Limits())
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
