"""What is asked, as settings."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from pintgn.errors import BadInput

NO_COLUMNS = ("link", "return", "meet")
"""What `predict` names that is no column of the log."""


@dataclass(frozen=True)
class TaskSettings:
    """What is asked; see `learn.tasks` and docs/tasks.md.

    Args:
        predict: `link`, whether two meet; or a column of the log: a feature or the label. Numbers are regressed;
            categories, booleans and a column of 0 and 1 alone are classified.
        given: features of an event that are known when it is asked about; all others are known after it has happened.
        known_after: how long after its event a target becomes known, such as P30D or a number in the log's unit; with
            the event when not given, or at `EventLog.known` where the log says when.
        of: `event`; or `src` or `dst`: the target is a state of that node, asked without looking at the other end.
        within: a horizon, for questions about time.
        relation: the column that says by which relation two meet. It is part of the question: who comes next, given a
            source, a relation and a time; and its inverse is asked, too.
    """

    predict: str = "link"
    given: list[str] = field(default_factory=list)
    known_after: str | int | float | None = None
    of: str = "event"
    within: str | int | float | None = None
    relation: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.given, str) or not all(isinstance(name, str) for name in self.given):
            raise BadInput(f"task.given is a list of columns, as in given=['amount'], not {self.given!r}.")
        object.__setattr__(self, "given", list(self.given))
        for name in ("known_after", "within"):
            if isinstance(value := getattr(self, name), datetime.timedelta):
                object.__setattr__(self, name, f"PT{value.total_seconds():.0f}S")

    @property
    def scores_links(self) -> bool:
        """Whether the question is whether two meet."""
        return self.predict == "link"

    @property
    def asks_column(self) -> bool:
        """Whether the question is about a column of the log."""
        return self.predict not in NO_COLUMNS

    @property
    def sides(self) -> tuple[int, ...]:
        """The ends that are asked about: of a question about a node one, 0 for sources and 1 for destinations."""
        return {"src": (0,), "dst": (1,)}.get("src" if self.predict == "return" else self.of, (0, 1))
