"""Newer events: evaluate a run on what came after its log, or continue training with it (warm start)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from pintgn.errors import BadInput, EventOrderError
from pintgn.events.log import COLUMNS, EventLog
from pintgn.facts import digest_of
from pintgn.ingest.read import read_events
from pintgn.ingest.read_options import Cleaning
from pintgn.learn.protocol import cut
from pintgn.learn.settings import Settings, Training, check_names, check_table, dataclass_parameters

if TYPE_CHECKING:
    from pintgn.learn.run import Run


@dataclass(frozen=True)
class Start:
    """Initial weights of a run on a longer log: those of an earlier run."""

    rows: int  # the first events of the log, by which those weights have learned to read features and times
    events: int  # what they may have learned from; measured is what comes after
    weights: dict[str, Tensor] = field(default_factory=dict)  # empty where they stand in a folder

    def facts(self) -> dict[str, Any]:
        digest = digest_of({name: value.numpy(force=True) for name, value in self.weights.items()})
        return {"rows": self.rows, "events": self.events, "digest": digest}


def longer_log(log: EventLog, newer: Any) -> EventLog:
    """A log and the events after it, as one: nodes keep their numbers, new ones follow.

    Args:
        log: what a run has learned from.
        newer: a file, frame, table or log with the same columns, in any order of time: either only events after the
            log's last one, or the whole log again with more events behind.
    """
    title = str(newer) if isinstance(newer, str | Path) else "the newer events"
    table = newer.to_table() if isinstance(newer, EventLog) else newer
    later = read_events(table, like=log, cleaning=Cleaning(sort=True))
    if len(later) > len(log) and _continues(log, later):
        return _joined(log, later, later[len(log) :])
    if not len(later):
        raise BadInput(f"{title} has no events, so there is nothing after the run's log.")
    if len(log) and later.t[0] <= log.t[-1]:
        show = log.schema.time.show
        raise EventOrderError(
            f"{title} begins at {show(later.t[0])}, but the run has learned from events up to {show(log.t[-1])}. "
            "Give it events after that, or the whole log with more events behind."
        )
    return _joined(log, later, later)


def _continues(log: EventLog, later: EventLog) -> bool:
    """Whether a log begins with all events of another, and continues strictly after them."""
    same = all(np.array_equal(getattr(log, name), getattr(later, name)[: len(log)]) for name in ("src", "dst", "t"))
    return same and bool(later.t[len(log)] > log.t[-1])


def _joined(log: EventLog, named: EventLog, newer: EventLog) -> EventLog:
    """Two logs as one, with the nodes of `named`."""
    columns: dict[str, Any] = {"node_features": named.node_features}
    for name in COLUMNS[:-1]:
        one, other = getattr(log, name), getattr(newer, name)
        if name == "t" and one.dtype != other.dtype:
            if (exact := other.astype(one.dtype)).astype(other.dtype).tolist() != other.tolist():
                raise BadInput(f"times of this run are {one.dtype}, those of the newer events {other.dtype}.")
            other = exact
        columns[name] = None if one is None or other is None else np.concatenate([one, other])
    label, known = (None if columns[name] is None else getattr(log.schema, name) for name in ("label", "known"))
    schema = replace(log.schema, label=label, known=known)
    return EventLog.trusted(columns, named.ids, schema)


def continued(run: Run, newer: Any, given: Mapping[str, Any]) -> tuple[Settings, EventLog, Start]:
    """Settings, log and initial weights of a run that continues an earlier one and is evaluated on the new events.

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
    train = replace(run.settings.train, **changed)
    settings = replace(run.settings, model=(run.asked or run.settings).model, train=train)
    rows = len(used.basis) if used.start is None else used.start.rows
    weights = {name: value.detach().clone() for name, value in used.model.state_dict().items()}
    return settings, log, Start(rows, known, weights)
