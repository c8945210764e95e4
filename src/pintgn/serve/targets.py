"""`POST /targets`: what became known about events after they had happened, as durable as they are, and in its place."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pintgn.live.arriving_targets import new_targets, read_targets

if TYPE_CHECKING:
    from pintgn.serve.service import Service


def submit(service: Service, targets: list[tuple[Any, ...]], at: Any = None) -> Future:
    """Queue targets; the future has the acknowledgement, when they are durable and count in answers.

    They are rows of the store, between the events that came before them and those that came after. What is known
    already is left out; a batch with anything that cannot be is refused whole.
    """
    writer = service.writer
    writer.check_taking()

    def known() -> dict[str, Any]:
        live = writer.live
        batch = read_targets(live, targets, at)
        new = batch.take(new_targets(live, batch))
        if len(new):
            writer.happen([(new.as_events(live.clock), False)])
        answer = writer.acknowledged(len(new), len(batch) - len(new))
        answer.pop("held", None)
        return answer

    return writer.call(known)
