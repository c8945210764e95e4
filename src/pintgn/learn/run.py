"""A run: settings, log and seed, the trained model, its results and its files."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pintgn import __version__
from pintgn.errors import BadFile, BadInput, PintgnError
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema
from pintgn.events.splits import time_scale
from pintgn.facts import check, check_format, reading
from pintgn.learn.calibration import Calibration
from pintgn.learn.folder import CURSOR, FORMAT, Folder
from pintgn.learn.metrics import Metrics
from pintgn.learn.newer_events import Start
from pintgn.learn.protocol import Parts, cut
from pintgn.learn.scaling import Scaling
from pintgn.learn.settings import Settings
from pintgn.learn.tasks.task import Task, make_task
from pintgn.models.base import Model, check_device
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.drawing.curves import Picture

logger = logging.getLogger(__name__)


@dataclass
class Run:
    """A trained model (or one in training), what it was trained on, and how it went.

    `pintgn.fit` makes one, `Run.open` reads one from its folder.

    >>> import pintgn
    >>> run = pintgn.fit("edgebank", pintgn.simulate("repeat", events=400, seed=0))
    >>> run.finished, list(run.test), list(run.heuristics)
    (True, ['all', 'seen', 'new'], ['heuristic'])
    """

    settings: Settings
    seed: int
    log: EventLog  # as the user gave it
    model: Model
    folder: Folder | None = None
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per epoch
    best_epoch: int = 0
    test: dict[str, Metrics] = field(default_factory=dict)  # all / seen / new, against random negatives
    heuristics: dict[str, dict[str, Metrics]] = field(default_factory=dict)  # the same, by training-free model
    calibration: Calibration | None = None  # against anyone
    calibration_known: Calibration | None = None  # against known ones, of a model that answers that question
    calibration_error: float | None = None
    answer_calibration: dict[str, float] = field(default_factory=dict)  # of answers that are no logits of links
    next_slope: float | None = None  # turns logits into probabilities of being the next; see `calibration.py`
    spent: dict[str, float] = field(default_factory=dict)  # seconds and bytes; see `fit.measure_run`
    finished: bool = False
    asked: Settings | None = None  # before the model filled in what it had left open
    start: Start | None = None  # the weights of an earlier run, which this one began with
    refit: Run | None = None  # the same model trained on the whole log; see `refit.py`
    refit_requested: bool = False  # whether it is to be trained on the whole log at the end
    prepared: bool = False
    device: str | None = None  # where it computes, in place of what its settings say
    _stream: Stream | None = None

    # -- what it is made of ------------------------------------------------------------------------------------------

    @property
    def deployed(self) -> Run:
        """The model for use: the one refitted on the whole log if there is one, else the tested one."""
        return self.refit or self

    @property
    def unfinished(self) -> str:
        """Status note that is added to answers until everything is done."""
        if not self.finished:
            return "training unfinished"
        return "refit unfinished" if self.refit_requested and self.refit is None else ""

    @property
    def answers(self) -> bool:
        """Whether the model answers its task; some only embed nodes."""
        return type(self.model).forward is not Model.forward

    @property
    def scores_links(self) -> bool:
        """Whether the model scores links; some only embed nodes, others are asked about a column."""
        return self.answers and self.settings.task.scores_links

    @cached_property
    def basis(self) -> EventLog:
        """The events that decide how features and times are read: the training part, or that of the weights that the
        run began with, which have learned to read them so."""
        return cut(self.log, **self.settings.train.split)[0] if self.start is None else self.log[: self.start.rows]

    @cached_property
    def task(self) -> Task:
        """The question that the model answers."""
        return make_task(self.settings.task, self.log, self.basis)

    @cached_property
    def scaling(self) -> Scaling:
        """Feature scaling, fitted on the training part: known categories, a common scale."""
        return Scaling.of(self.task.without_target(self.basis), self.settings.train.scale_features)

    @cached_property
    def event_schema(self) -> tuple[Schema, str | None]:
        """Schema of events that are observed one by one, in which a label that is predicted is a feature; and the
        column that may be missing because it is not known yet."""
        return self.task.event_schema(self.log.schema)

    def view(self, log: EventLog) -> EventLog:
        """A log of this run's columns as the model reads it: features to scale, and what becomes known of events."""
        return self.task.with_target(self.scaling(self.task.without_target(log)), log)

    @cached_property
    def parts(self) -> Parts:
        """The log as the model reads it, cut for learning."""
        train, links = self.settings.train, self.settings.task.scores_links
        return Parts.of(self.view(self.log), hidden=train.hidden or 0.0, seed=self.seed, links=links, **train.split)

    @cached_property
    def schema(self) -> Schema:
        """The log's schema as the model reads it: with the categories and the time scale of the training part alone."""
        known = self.basis
        schema = self.task.schema(self.scaling.schema(self.task.without_target(self.log[:0]).schema))
        return replace(schema, time_scale=time_scale(known.src, known.dst, known.t))

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of data, settings and seed, which a checkpoint must share."""
        metadata = [self.settings.to_toml(whole=False), str(self.seed), self.log.fingerprint]
        return hashlib.blake2b("\n".join(metadata).encode(), digest_size=16).hexdigest()

    def prepare(self) -> None:
        """Let the model compute what depends on all training events."""
        if not self.prepared:
            self.asked = self.asked or self.settings
            self.model.prepare(self.parts.trained)
            self.settings = replace(self.settings, model=self.model.settings())
            self.prepared = True

    def new_stream(self, model: Model | None = None) -> Stream:
        """An empty stream of this run's model, or of another."""
        made = Stream(
            model or self.model,
            self.schema,
            node_features=self.parts.log.node_features,
            seed=self.seed,
            **asdict(self.settings.stream) | ({} if self.device is None else {"device": self.device}),
        )
        made.prefetch_in_thread = self.settings.train.threads != 1
        return made

    def stream_after(self, *parts: EventLog) -> Stream:
        """A new stream that has observed these parts."""
        made = self.new_stream()
        for part in parts:
            made.observe(part)
        return made

    @property
    def stream(self) -> Stream:
        """The stream that has observed the whole log; read or made on first use."""
        if self._stream is None:
            if self.folder is not None and self.finished:
                self._stream = Stream.open(self.folder / "stream", type(self.model), device=self.device or "cpu")
                self.model = self._stream.model
            else:
                if self.folder is not None and not (self.folder / "last.safetensors").exists():
                    raise BadFile(
                        f"the run in {self.folder.path} was stopped before its first checkpoint. "
                        f"Start it again: pintgn train {self.folder.path} --resume."
                    )
                self.calibrate(lambda: self.stream_after(self.parts.train))
        assert self._stream is not None
        return self._stream

    def calibrate(self, after_training: Callable[[], Stream], test: bool = False, negatives: Any = None) -> None:
        """Give the run its calibration, with `test` its test figures, and its stream after the whole log."""
        if self.answers:
            self._stream = self.task.measure(self, after_training, test, negatives)
        else:
            self._stream = after_training()
            self._stream.observe(self.parts.log[len(self.parts.train) :])

    # -- weights and results -----------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        folder: str | Path,
        model: type[Model] | Model | None = None,
        *,
        weights: bool = True,
        device: str | None = None,
    ) -> Run:
        """Read a run, finished or not. `model` is needed for a class of your own.

        Without `weights` it is only read what the run is made of. `device` is where it computes from now on; by default
        it is trained and measured where the settings say, and answers on the processor.
        """
        if device is not None:
            check_device(device)
        run_folder = Folder(folder)
        if (found := sorted(run_folder.path.glob("seed-*/run.json"))) and not run_folder.holds_run:
            raise BadInput(f"{folder} holds {len(found)} runs; name one of them, such as {found[0].parent}.")
        facts = run_folder.read_json("run.json")
        check_format(facts.get("format", 1), FORMAT, f"the run in {folder}", "Train again.")
        with reading(run_folder / "settings.toml"):
            settings = Settings.from_toml((run_folder / "settings.toml").read_text())
        try:
            log = EventLog.open(run_folder.events)
        except PintgnError as error:
            raise BadFile(f"the run in {folder} is damaged: {error}") from error
        if isinstance(model, type):
            model = model.from_settings(dict(settings.model))
        model = model or settings.make_model()
        run = cls(settings, facts["seed"], log, model, run_folder, device=device)
        if "asked" in facts:
            run.asked = replace(settings, model={k: v for k, v in facts["asked"]["model"].items() if k != "name"})
        run.refit_requested = facts.get("refit", False)
        if "start" in facts:
            run.start = Start(facts["start"]["rows"], facts["start"]["events"])
        if run.fingerprint != facts["fingerprint"]:
            raise BadFile(
                f"the run in {folder} is damaged: settings.toml, run.json and {run_folder.events.name} do not belong "
                "together. Train again."
            )
        if weights:
            run.restore()
        return run

    def create(self, own_negatives: bool = False, refit: bool = False) -> None:
        """Write what does not change: settings, seed, data, the weights that the run begins with, whether the negatives
        are the caller's own, and whether it is to be trained on the whole log at the end."""
        assert self.folder is not None
        self.folder.write("settings.toml", self.settings.to_toml())
        with self.folder.errors(self.folder.events):
            self.log.save(self.folder.events)
        facts: dict[str, Any] = {"pintgn": __version__, "format": FORMAT, "seed": self.seed}
        facts |= {"asked": (self.asked or self.settings).to_dict(), "fingerprint": self.fingerprint}
        facts |= {"data": self.log.fingerprint, "events": len(self.log), "nodes": self.log.nodes}
        facts |= {"own_negatives": own_negatives, "refit": refit}
        if self.start is not None:
            self.folder.write_weights("start.safetensors", self.start.weights, self.fingerprint)
            facts["start"] = self.start.facts()
        self.folder.write_json("run.json", facts)

    def restore(self) -> None:
        """Load the best weights so far, the history of training, and the result if the run has ended."""
        assert self.folder is not None
        path = self.folder / "last.safetensors"
        if path.exists():
            metadata = check(self.read_checkpoint(path.name)[1], CURSOR, str(path))
            self.history, self.best_epoch = metadata["history"], metadata["best_epoch"]
            self.load_weights("best.safetensors" if self.best_epoch else "last.safetensors")
        if (self.folder / "result.json").exists():
            found = self.folder.read_json("result.json")
            for name in ("test", "heuristics", "calibration_error"):
                setattr(self, name, found[name])
            for name in ("calibration", "calibration_known"):
                setattr(self, name, Calibration(**found[name]) if found.get(name) else None)
            self.spent, self.next_slope = found.get("spent", {}), found.get("next_slope")
            self.answer_calibration, self.finished = found.get("answer_calibration", {}), True
        if (self.folder / "refit.json").exists():
            from pintgn.learn.refit import open_refit

            self.refit = open_refit(self)

    def start_weights(self) -> dict[str, torch.Tensor]:
        """The weights that the run began with, where it began with any."""
        assert self.start is not None
        return self.start.weights or weights_in(self.read_checkpoint("start.safetensors")[0])

    def read_checkpoint(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and facts of a checkpoint in the run's folder."""
        assert self.folder is not None
        return self.folder.read_checkpoint(name, self.fingerprint)

    def load_weights(self, name: str) -> None:
        """Load the weights of a checkpoint in the run's folder."""
        self.take_weights(self.read_checkpoint(name)[0], name)

    def take_weights(self, arrays: Mapping[str, np.ndarray], name: str) -> None:
        """Take over the weights among the arrays of a checkpoint of this name."""
        self.model.build(self.schema, self.seed)
        try:
            self.model.load_state_dict(weights_in(arrays))
        except RuntimeError as error:
            raise BadFile(f"the weights in {name} do not fit the settings of the run.") from error

    def result(self) -> dict[str, Any]:
        """The contents of result.json."""
        same = ("seed", "best_epoch", "test", "heuristics", "calibration_error", "next_slope", "answer_calibration")
        return {name: getattr(self, name) for name in same} | {
            "spent": self.spent,
            "model": self.settings.name,
            "protocol": self.settings.train.protocol,
            "calibration": self.calibration and asdict(self.calibration),
            "calibration_known": self.calibration_known and asdict(self.calibration_known),
            "task": asdict(self.settings.task),
            "refit": self.refit and {"epochs": self.refit.best_epoch, "events": len(self.refit.log)},
        }

    def note(self, line: str) -> None:
        """Append a line to the run's own log, and to that of `logging`."""
        logger.info("%s", line)
        if self.folder is not None:
            self.folder.note(line)

    def write_metrics(self) -> None:
        """One line of JSON per epoch, and one for the end."""
        if self.folder is not None:
            entries = [*self.history, *([self.result()] if self.finished else [])]
            self.folder.write("metrics.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))

    # -- as people see it --------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        from pintgn.learn.figures_text import run_table

        return run_table(self)

    def _repr_html_(self) -> str:
        from pintgn.learn.notebook import run_html

        return run_html(self)

    def plot(self) -> Picture:
        """Loss and validation AP by epoch: a notebook shows it, `.save("run.svg")` writes it."""
        from pintgn.learn.notebook import run_picture

        return run_picture(self)

    def to_pandas(self) -> Any:
        """A frame with one row for each epoch: loss, figures on validation, time."""
        from pintgn.learn.notebook import history_frame

        return history_frame(self)

    def __repr__(self) -> str:
        where = "" if self.folder is None else f", {self.folder.path}"
        state = f"best epoch {self.best_epoch} of {len(self.history)}" if self.history else "untrained"
        return f"Run({self.settings.name}, seed {self.seed}, {state}{where})"


def weights_in(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The weights among the arrays of a checkpoint."""
    return {key.removeprefix("model."): torch.from_numpy(a) for key, a in arrays.items() if key.startswith("model.")}
