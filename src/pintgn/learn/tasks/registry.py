"""Which task settings name."""

from __future__ import annotations

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.settings import TaskSettings
from pintgn.learn.tasks.base import Task
from pintgn.learn.tasks.link import Link


def make_task(settings: TaskSettings, log: EventLog, train: EventLog) -> Task:
    """The task of a run on a log; the training part decides what can be asked."""
    if settings.relation is not None:
        if settings.predict != "link":
            raise BadInput(
                f"task.relation={settings.relation!r} asks who meets whom, predict={settings.predict!r} something "
                f"else: give one of them. Which {settings.relation} comes next is predict={settings.relation!r}."
            )
        for name in ("given", "known_after", "within"):
            if getattr(settings, name):
                raise BadInput(f"task.{name} does not go with task.relation: leave it out.")
        from pintgn.learn.tasks.relation import Related

        return Related(settings, log, train)
    if settings.predict == "link":
        for name in ("given", "known_after", "within"):
            if getattr(settings, name):
                raise BadInput(f"task.{name} needs a column to predict: name it with predict= (--predict).")
        return Link(settings)
    if settings.predict in ("return", "meet"):
        from pintgn.learn.tasks.when import When

        return When(settings, train)
    from pintgn.learn.tasks.column import column_task

    return column_task(settings, log, train)
