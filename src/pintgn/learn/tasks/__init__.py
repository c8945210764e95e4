"""Tasks: the questions that a run can be asked. `QUESTIONS` says which there are; add your own by its name."""

from __future__ import annotations

import importlib

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.settings import QUESTIONS, TaskSettings
from pintgn.learn.tasks.task import Task


def make_task(settings: TaskSettings, log: EventLog, train: EventLog) -> Task:
    """The task of a run on a log; the training part decides what can be asked."""
    kind = QUESTIONS.get(settings.predict, "pintgn.learn.tasks.column:column_task")
    if settings.relation is not None:
        if settings.predict != "link":
            raise BadInput(
                f"task.relation={settings.relation!r} asks who meets whom, predict={settings.predict!r} something "
                f"else: give one of them. Which {settings.relation} comes next is predict={settings.relation!r}."
            )
        kind = "pintgn.learn.tasks.relation:Related"
    for name in ("given", "known_after", "within") if settings.scores_links else ():
        if getattr(settings, name) and settings.relation is not None:
            raise BadInput(f"task.{name} does not go with task.relation: leave it out.")
        if getattr(settings, name):
            raise BadInput(f"task.{name} needs a column to predict: name it with predict= (--predict).")
    if isinstance(kind, str):
        module, _, name = kind.partition(":")
        kind = getattr(importlib.import_module(module), name)
    return kind(settings, log, train)
