"""Bodies on their way in: how long each may take, and how much all of them together may hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from pintgn.errors import PintgnError
from pintgn.serve.limits import Busy, Limits, Stopped, TooMuch, TooSlow, WrongType


class Bodies:
    """Reads the bodies of requests within bounds; one for a service, used by its event loop only.

    What a body holds is counted from its first byte until its request is answered. When all together would hold too
    much, the one that has been arriving longest gives way: a slow client never keeps out a quick one.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self.held = 0
        self._arriving: dict[Body, None] = {}  # in the order in which they began
        self._stopped = False

    @contextmanager
    def one(self) -> Iterator[Body]:
        """The body of one request."""
        body = Body(self)
        try:
            yield body
        finally:
            self.held -= body.size

    def stop(self) -> None:
        """Wait for no body any more: the service is going down."""
        self._stopped = True
        for body in list(self._arriving):
            body.give_up(Stopped("the service is going down; nothing of this request was applied."))

    def claim(self, body: Body, size: int) -> None:
        """Let a body hold so many bytes more."""
        while self.held + size > self.limits.bodies:
            oldest = next(iter(self._arriving), body)
            busy = Busy(f"all bodies together hold {self.held:,} bytes already, of {self.limits.bodies:,}.")
            if oldest is body:
                raise busy
            self.held -= oldest.size
            oldest.size = 0
            oldest.give_up(busy)
        body.size += size
        self.held += size


class Body:
    """What one request sends."""

    def __init__(self, bodies: Bodies):
        self.bodies, self.size = bodies, 0
        self._reason: PintgnError | None = None
        self._deadline: asyncio.Timeout | None = None

    def give_up(self, reason: PintgnError) -> None:
        """Stop waiting for what has not arrived yet."""
        self._reason = reason
        self.bodies._arriving.pop(self, None)
        if self._deadline is not None:
            self._deadline.reschedule(0)

    async def read(self, request: Request, kinds: tuple[str, ...] = ("application/json",)) -> tuple[bytearray, str]:
        """The body, no longer and no slower than allowed, and its type.

        Only types that a web page of somebody else's cannot send without being asked first.
        """
        limits = self.bodies.limits
        kind = content_type(request)
        if kind not in kinds:
            raise WrongType(f"a body of type {kind[:100]!r} is not taken. Send Content-Type: {' or '.join(kinds)}.")
        if self.bodies._stopped:
            raise Stopped("the service is going down.")
        length = request.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limits.body):
            raise _too_large(limits.body)
        data = bytearray()  # grows in place: to join parts in the end would stop everybody for as long
        self.bodies._arriving[self] = None
        try:
            async with asyncio.timeout(limits.arrival) as self._deadline:
                async for part in request.stream():
                    if len(data) + len(part) > limits.body:
                        raise _too_large(limits.body)
                    if part:
                        self.bodies.claim(self, len(part))
                        data += part
        except TimeoutError:
            if self._reason is not None:
                raise self._reason from None
            raise TooSlow(
                f"{len(data):,} bytes of the body have arrived in {limits.arrival:g} s, and not the rest. Nothing was "
                "applied."
            ) from None
        finally:
            self._deadline = None
            self.bodies._arriving.pop(self, None)
        if self._reason is not None:
            raise self._reason
        return data, kind


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_large(most: int) -> TooMuch:
    return TooMuch(f"the body is larger than {most:,} bytes. Send less at once.")
