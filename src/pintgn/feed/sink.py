"""Destinations of predictions: the interface, and a webhook."""

from __future__ import annotations

from typing import Any

from pintgn.feed.client import Client


class Sink:
    """Takes predictions, each a JSON object with an `id` that is the same when it is sent again."""

    def send(self, messages: list[dict[str, Any]]) -> None:
        """Hand them over; raises OSError when that failed and may be tried again."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class Webhook(Sink):
    """Predictions by HTTP, those of a batch together: `POST {"predictions": […]}`."""

    def __init__(self, address: str):
        self.client, self.path = Client.of(address)

    def send(self, messages: list[dict[str, Any]]) -> None:
        status, _, _ = self.client.ask("POST", self.path, {"predictions": messages})
        if not 200 <= status < 300:
            raise OSError(f"the webhook answered {status}")

    def close(self) -> None:
        self.client.close()
