"""A NATS JetStream stream as a source."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.feed.stream_source import Batch, Bookmark, BookmarkedSource, Row, json_row, short_name
from pintgn.formatting import shown_address
from pintgn.packages import need

TIMEOUT = 15.0
"""Seconds that a server has to answer."""
CONNECT = 5.0
"""Seconds for the first connection; later ones are tried for ever."""
INACTIVE_SECONDS = 600.0
"""Seconds after which the server forgets our consumer, when we no longer ask."""


class Connection:
    """A connection to NATS with its event loop in a thread of its own, so that pings are answered while the feed
    waits."""

    def __init__(self, server: str):
        self.nats, self.server = need("nats", "nats-py", extra="nats"), server
        self.reconnects = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="pintgn-nats", daemon=True)
        self.thread.start()
        try:
            self.client = self(self._connected())
        except Exception as error:
            self.stop()
            raise BadFile(f"cannot connect to {shown_address(server)}: {str(error) or 'no answer'}.") from None
        self.stream = self.client.jetstream(timeout=TIMEOUT)

    async def _connected(self) -> Any:
        async def quiet(error: Exception) -> None:
            pass

        async def again() -> None:
            self.reconnects += 1

        client = self.nats.NATS()
        await asyncio.wait_for(
            client.connect(self.server, error_cb=quiet, reconnected_cb=again, max_reconnect_attempts=-1), CONNECT
        )
        return client

    def __call__(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it is gone either way
            self(asyncio.wait_for(self.client.close(), TIMEOUT))
        self.stop()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class NatsSource(BookmarkedSource):
    """The messages of a stream, by their numbers in it.

    The consumer is ephemeral, begins after the bookmark and acknowledges nothing: a durable one would hand out later
    messages before those that a killed feeder had not acknowledged, and the service would refuse them as late. A
    gap in the consumer's own numbers means that messages were lost on the way; they are asked for again.

    Args:
        server: nats://host:port
        stream: its messages are JSON objects.
        bookmark: where the position is kept.
        subject: only messages of this subject; wildcards are allowed.
        from_start: read from the first message again.
    """

    def __init__(
        self, server: str, stream: str, bookmark: Bookmark, subject: str | None = None, from_start: bool = False
    ):
        self.connection = Connection(server)
        self.stream, self.bookmark, self.subject, self.name = stream, bookmark, subject, short_name(stream)
        self.position = 0 if from_start else int(bookmark.position or 0)
        self.consumer: Any = None
        try:
            self.connection(self._subscribe())
        except Exception as error:
            self.connection.close()
            raise BadInput(f"NATS has no stream {stream!r}, or refuses it: {error}.") from None

    async def _subscribe(self) -> None:
        api = self.connection.nats.js.api
        settings: dict[str, Any] = {"deliver_policy": api.DeliverPolicy.ALL}
        if self.position:
            settings = {"deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": self.position + 1}
        config = api.ConsumerConfig(ack_policy=api.AckPolicy.NONE, inactive_threshold=INACTIVE_SECONDS, **settings)
        if self.consumer is not None:
            await self.consumer.unsubscribe()
        self.reconnects, self.delivered = self.connection.reconnects, 0
        self.consumer = await self.connection.stream.pull_subscribe(
            self.subject or "", stream=self.stream, config=config
        )

    def read(self, most: int, wait: float) -> Batch:
        rows: list[Row] = []
        pending = 1
        try:
            if self.reconnects != self.connection.reconnects:
                self.connection(self._subscribe())
            for message in self.connection(self.consumer.fetch(most, timeout=max(wait, 0.1))):
                about = message.metadata
                if about.sequence.consumer != self.delivered + 1:  # some were lost on the way
                    self.connection(self._subscribe())
                    break
                self.delivered, self.position = about.sequence.consumer, about.sequence.stream
                rows.append(json_row(f"{self.name}:{self.position}", message.data))
                pending = about.num_pending
        except TimeoutError:  # nothing new
            pending = 0
        except self.connection.nats.errors.Error:  # the server is away, or has forgotten the consumer
            self.reconnects = -1
        return Batch(rows, self.position, end=not rows and not pending)

    def close(self) -> None:
        self.connection.close()
        super().close()
