"""Requests that are wrong in every way that a description, a fuzzer or noise can think of."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**30, "person 1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
EVENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("src", "dst", "t", "features", "op", "key", "at"), VALUES))
BODIES = st.one_of(
    st.binary(max_size=60),
    VALUES.map(lambda value: json.dumps(value).encode()),
    EVENTS.map(lambda value: json.dumps(value).encode()),
    st.lists(EVENTS, max_size=3).map(lambda value: json.dumps({"events": value}).encode()),
    st.lists(EVENTS, max_size=3).map(lambda value: json.dumps({"pairs": value}).encode()),
    EVENTS.map(lambda value: json.dumps({"columns": value}).encode()),
)
KINDS = ("application/json", "text/plain", "")
LONGEST = 30_000
"""Characters of an address that a server reads: uvicorn allows 64 KB for all that stands before a body."""


def send_nonsense(client: Any, count: int, seed: int) -> dict[int, int]:
    """Malformed requests, half of them by the interface's own description; how often each status was answered."""
    answered: dict[int, int] = {}

    def check(answer: Any) -> None:
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, f"{answer.request.method} {answer.request.url}: {answer.text}"
        assert "Traceback" not in answer.text
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "message", "next"}, answer.text

    by_description(client, count // 2, seed, check)

    @seeded(seed)
    @settings(
        max_examples=count - sum(answered.values()),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(["/events", "/score"]), BODIES, st.sampled_from(KINDS))
    def bodies(path: str, body: bytes, kind: str) -> None:
        check(client.post(path, content=body, headers={"content-type": kind} if kind else {}))

    bodies()
    return answered


def by_description(client: Any, count: int, seed: int, check: Callable[[Any], None]) -> None:
    """Requests that schemathesis makes of the OpenAPI description: right ones, and wrong ones on purpose."""
    import httpx
    import schemathesis
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    share = max(1, count // (len(operations) * len(modes)))
    for operation in operations:
        for mode in modes:
            try:
                strategy = operation.as_strategy(generation_mode=mode)

                @seeded(seed)
                @settings(max_examples=share, deadline=None, database=None, suppress_health_check=list(HealthCheck))
                @given(strategy)
                def one(case: Any) -> None:
                    asked = case.as_transport_kwargs(base_url=str(client.base_url))
                    if "data" in asked:
                        asked["content"] = asked.pop("data")
                    names = ("method", "url", "params", "headers", "content", "json", "cookies")
                    asked = {name: asked[name] for name in names if asked.get(name) is not None}
                    asked.pop("cookies", None)
                    try:
                        if len(str(client.build_request(**asked).url)) > LONGEST:
                            return  # the server's own parser refuses it, before there is a request
                        answer = client.request(**asked)
                    except (UnicodeError, TypeError, ValueError, httpx.InvalidURL):
                        return  # the client itself cannot say that
                    check(answer)

                one()
            except Exception as error:
                if type(error).__name__ != "Unsatisfiable" and "cannot be negated" not in str(error).lower():
                    raise


def shout(port: int, count: int, seed: int) -> None:
    """Bytes that are no HTTP at all."""
    rng = random.Random(seed)
    starts = [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"POST /events HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
        b"\x16\x03\x01",
    ]
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(rng.choice(starts) + rng.randbytes(rng.randint(0, 300)))
            if rng.random() < 0.5:
                line.settimeout(0.02)
                line.recv(1000)
