"""Go on training: a run on a longer log begins with the weights of an earlier one, and is measured on what is new."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.later import Start, longer_log
from pintgn.learn.protocol import cut
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings, Training, check_names, check_table, dataclass_parameters


def continued(run: Run, newer: Any, given: Mapping[str, Any]) -> tuple[Settings, EventLog, Start]:
    """Settings, log and weights of a run that goes on from another.

    Everything that the earlier run has seen is trained on. The new events are cut as a log is, 70 / 15 / 15, unless
    `train_until` and `val_until` are given: so validation and test hold nothing that the weights have learned from. No
    node is hidden, because the weights may have learned from any of them. How features and times are read stays as it
    was: the weights have learned to read them so.

    Args:
        run: finished, or stopped after its first epoch.
        newer: see `longer_log`.
        given: fields of `Training`, over those of the run.
    """
    if run.folder is not None and not (run.finished or run.history):
        raise BadInput(f"the run in {run.folder.path} has learned nothing yet, so there is nothing to begin with.")
    log, used, known = longer_log(run.log, newer), run.deployed, len(run.log)
    fields = dataclass_parameters(Training)
    check_names(given, fields, "a run that goes on")
    changed = {"hidden": 0.0, "train_until": None, "val_until": None} | check_table(given, fields, "train", "train")
    if changed["train_until"] is None:
        shares = {name: changed.get(name, getattr(run.settings.train, name)) for name in ("val", "test")}
        try:
            _, val, test = cut(log[known:], **shares)
        except BadInput as error:
            raise BadInput(f"of what is new, {error}") from None
        changed |= {"train_until": val.t[0].item(), "val_until": test.t[0].item()}
    elif len(log.between(None, changed["train_until"])) < known:
        show = log.schema.time.show
        raise BadInput(
            f"train_until={changed['train_until']} is before the end of what the run has learned from "
            f"({show(log.t[known - 1])}), so it would be measured on what it knows. Name a later time."
        )
    train = dataclasses.replace(run.settings.train, **changed)
    settings = dataclasses.replace(run.settings, model=(run.asked or run.settings).model, train=train)
    rows = len(used.basis) if used.start is None else used.start.rows
    weights = {name: value.detach().clone() for name, value in used.model.state_dict().items()}
    return settings, log, Start(rows, known, weights)
