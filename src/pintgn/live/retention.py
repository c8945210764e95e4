"""Retention: how many contacts, and how old ones, the live index keeps.

Every `every` events, counted from the start of the service, each node's contacts beyond its newest `keep_last`, and
those older than `window`, are forgotten. Positions, memory and the node table stay as they are; events stay in the
store. A model that reads at most `keep_last` contacts of a node gives the same scores as without (see `contacts_read`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pintgn.errors import BadInput
from pintgn.models.base import Model
from pintgn.models.message_passing import TreeModel
from pintgn.models.tgn import TGN
from pintgn.stream import Stream

NEVER = 2**62


@dataclass
class Retention:
    """Limits of the contacts that are kept; none by default.

    Args:
        keep_last: contacts of each node.
        window: how long contacts are kept, in the log's unit of time.
        every: events between two clean-ups; they are made at fixed event numbers, so that a replay makes the same.
    """

    keep_last: int | None = None
    window: float | None = None
    every: int = 10_000
    forgotten: int = 0
    active: bool = field(init=False)

    def __post_init__(self) -> None:
        self.active = self.keep_last is not None or self.window is not None
        for name in ("keep_last", "window", "every"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise BadInput(f"{name}={value}; it is more than 0.")

    def until_next(self, total: int) -> int:
        """Events until the next clean-up."""
        return self.every - total % self.every if self.active else NEVER

    def apply(self, stream: Stream, total: int) -> None:
        """Clean up if it is time, after so many events."""
        if self.active and total % self.every == 0:
            since = None if self.window is None else stream.clock - self.window  # type: ignore[operator]
            self.forgotten += stream.forget(keep_last=self.keep_last, before_t=since)

    def warning(self, model: Model) -> str | None:
        """A warning if these settings change the scores of a model."""
        if not self.active:
            return None
        reads = contacts_read(model)
        name = type(model).__name__
        if reads is None and getattr(model, "pair_history", False):
            return (
                f"{name} counts how often two nodes have met, so forgetting contacts changes its scores. Train with "
                "--set model.pair_history=false to have the same scores with fewer contacts."
            )
        if reads is None:
            return f"{name} looks at all contacts of a node, so forgetting some changes its scores."
        if self.keep_last is not None and self.keep_last < reads:
            return f"{name} reads {reads} contacts of a node; keeping {self.keep_last} changes its scores."
        if self.window is not None:
            return f"{name} reads {reads} contacts of a node, however old; those older than the window count no more."
        return None


def contacts_read(model: Model) -> int | None:
    """The number of a node's newest contacts that a model reads; None if there is no limit."""
    ours = (TreeModel.find_children, TGN.find_children)
    if isinstance(model, TreeModel) and type(model).find_children in ours and not model.pair_history:
        return model.neighbors
    return None
