"""A run: a model, the data it learned from, how that went, and a stream that is ready to go on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from dataclasses import dataclass, field, replace
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
from pintgn.facts import AtLeast, check, check_format, reading
from pintgn.learn.calibration import Calibration
from pintgn.learn.folder import FORMAT, Folder
from pintgn.learn.later import Start
from pintgn.learn.metrics import Metrics
from pintgn.learn.protocol import Parts, cut
from pintgn.learn.scaling import Scaling
from pintgn.learn.settings import Settings
from pintgn.learn.tasks.base import Task
from pintgn.learn.tasks.registry import make_task
from pintgn.models.base import Model, check_device
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.drawing.curves import Picture

logger = logging.getLogger(__name__)
MAPPED = 1_000_000
"""Events from which on a run keeps its log as an Arrow file, which is mapped in seconds, instead of Parquet."""
PROGRESS = {
    "averaged": AtLeast(0),
    "epoch": AtLeast(1),
    "step": AtLeast(0),
    "events": AtLeast(0),
    "loss": float,
    "best_epoch": AtLeast(0),
    "best_value": float,
    "reference": float,
    "stale": AtLeast(0),
    "history": [dict],
}
"""What last.safetensors says about how far training has come."""


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
    spent: dict[str, float] = field(default_factory=dict)  # seconds and bytes; see `finish`
    finished: bool = False
    asked: Settings | None = None  # before the model filled in what it had left open
    start: Start | None = None  # the weights of an earlier run, which this one began with
    refit: Run | None = None  # the same model trained on the whole log; see `refit.py`
    refit_asked: bool = False  # whether it is to be trained on the whole log at the end
    prepared: bool = False
    device: str | None = None  # where it computes, in place of what its settings say
    _stream: Stream | None = None

    # -- what it is made of ------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> str:
        """What is still to be done, in words that are put to every answer until then."""
        if not self.finished:
            return "training unfinished"
        return "refit unfinished" if self.refit_asked and self.refit is None else ""

    @property
    def deployed(self) -> Run:
        """What is used: the model that was trained on the whole log where there is one, else the one measured."""
        return self.refit or self

    @cached_property
    def basis(self) -> EventLog:
        """The events that decide how features and times are read: the training part, or that of the weights that the
        run began with, which have learned to read them so."""
        return cut(self.log, **self.settings.train.split)[0] if self.start is None else self.log[: self.start.rows]

    @cached_property
    def task(self) -> Task:
        """What is asked."""
        return make_task(self.settings.task, self.log, self.basis)

    @cached_property
    def scaling(self) -> Scaling:
        """How features are read, by the training part: known categories, a common scale."""
        return Scaling.of(self.task.bare(self.basis), self.settings.train.scale_features)

    @cached_property
    def written(self) -> tuple[Schema, str | None]:
        """How events after the log are written one by one: their schema, in which a label that is predicted is a
        feature, and the column that may be missing because it is not known yet."""
        return self.task.written(self.log.schema)

    def view(self, log: EventLog) -> EventLog:
        """A log of this run's columns as the model reads it: features to scale, and what becomes known of events."""
        return self.task.complete(self.scaling(self.task.bare(log)), log)

    @cached_property
    def parts(self) -> Parts:
        """The log as the model reads it, cut for learning."""
        train = self.settings.train
        links = self.settings.task.scores_links
        return Parts.of(self.view(self.log), hidden=train.hidden, seed=self.seed, links=links, **train.split)

    @cached_property
    def schema(self) -> Schema:
        """The log's schema as the model reads it: with the categories and the time scale of the training part alone."""
        known, bare = self.basis, self.task.bare(self.log[:0])
        schema = self.task.schema(self.scaling.schema(bare.schema))
        return replace(schema, time_scale=time_scale(known.src, known.dst, known.t))

    @cached_property
    def fingerprint(self) -> str:
        """Of data, settings and seed: what a checkpoint must agree with."""
        metadata = [self.settings.to_toml(whole=False), str(self.seed), self.log.fingerprint]
        return hashlib.blake2b("\n".join(metadata).encode(), digest_size=16).hexdigest()

    @property
    def scores_links(self) -> bool:
        """Whether the model scores links; some only embed nodes, others are asked about a column."""
        return self.answers and self.settings.task.scores_links

    @property
    def answers(self) -> bool:
        """Whether the model answers its task; some only embed nodes."""
        return type(self.model).forward is not Model.forward

    def prepare(self) -> None:
        """Let the model compute what depends on the training events as a whole."""
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
            **dataclasses.asdict(self.settings.stream) | ({} if self.device is None else {"device": self.device}),
        )
        made.looks_ahead = self.settings.train.threads != 1
        return made

    @property
    def stream(self) -> Stream:
        """The stream that has observed the whole log; read or made on first use."""
        if self._stream is None:
            saved = self.folder is not None and self.finished and (self.folder / "stream" / "stream.json").exists()
            if saved:
                assert self.folder is not None
                self._stream = Stream.open(self.folder / "stream", type(self.model), device=self.device or "cpu")
                self.model = self._stream.model
            else:
                from pintgn.learn.finish import catch_up

                if self.folder is not None and not (self.folder / "last.safetensors").exists():
                    raise BadFile(
                        f"the run in {self.folder.path} was stopped before its first checkpoint. "
                        f"Start it again: pintgn train {self.folder.path} --resume."
                    )
                catch_up(self)
        assert self._stream is not None
        return self._stream

    # -- on disk -----------------------------------------------------------------------------------------------------

    def create(self, own_negatives: bool = False, refit: bool = False) -> None:
        """Write what does not change: settings, seed, data, the weights that the run begins with, whether the negatives
        are the caller's own, and whether it is to be trained on the whole log at the end."""
        assert self.folder is not None
        self.folder.write("settings.toml", self.settings.to_toml())
        path = self.folder / ("events.arrow" if len(self.log) >= MAPPED else "events.parquet")
        with self.folder.errors(path):
            self.log.save(path)
        asked = (self.asked or self.settings).to_dict()
        facts = {"pintgn": __version__, "format": FORMAT, "seed": self.seed, "asked": asked}
        facts |= {"fingerprint": self.fingerprint}
        facts |= {"data": self.log.fingerprint, "events": len(self.log), "nodes": self.log.nodes}
        facts |= {"own_negatives": own_negatives, "refit": refit}
        if self.start is not None:
            weights = {f"model.{name}": value for name, value in self.start.weights.items()}
            self.folder.write_tensors("start.safetensors", weights, {"run": self.fingerprint})
            facts["start"] = self.start.facts()
        self.folder.write_json("run.json", facts)

    def ask_refit(self) -> None:
        """Remember that the run is to be trained on the whole log, also when it had ended without."""
        self.refit_asked = True
        if self.folder is not None and not (facts := self.folder.read_json("run.json")).get("refit"):
            self.folder.write_json("run.json", facts | {"refit": True})

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
        run = cls(settings, facts["seed"], log, None, run_folder, device=device)  # type: ignore[arg-type]
        if "asked" in facts:
            run.asked = replace(settings, model={k: v for k, v in facts["asked"]["model"].items() if k != "name"})
        run.refit_asked = facts.get("refit", False)
        if "start" in facts:
            run.start = Start(facts["start"]["rows"], facts["start"]["events"])
        if run.fingerprint != facts["fingerprint"]:
            raise BadFile(
                f"the run in {folder} is damaged: settings.toml, run.json and {run_folder.events.name} do not belong "
                "together. "
                "Train again."
            )
        run.model = _unbuilt(settings, model)
        if weights:
            run.restore()
        return run

    def restore(self) -> None:
        """The best weights so far, how training went, and the result if it has ended."""
        assert self.folder is not None
        if (self.folder / "last.safetensors").exists():
            path = self.folder / "last.safetensors"
            metadata = check(self.read_checkpoint(path.name)[1], PROGRESS, str(path))
            self.history, self.best_epoch = metadata["history"], metadata["best_epoch"]
            self.load_weights("best.safetensors" if self.best_epoch else "last.safetensors")
        if (self.folder / "result.json").exists():
            self.load_result(self.folder.read_json("result.json"))
        if (self.folder / "refit.json").exists():
            from pintgn.learn.refit import open_refit

            self.refit = open_refit(self)

    def start_weights(self) -> dict[str, torch.Tensor]:
        """The weights that the run began with, where it began with any."""
        assert self.start is not None
        return self.start.weights or self.read_weights("start.safetensors")

    def load_start(self) -> None:
        """Give a model that is built the weights that the run begins with; one with nothing to learn has none."""
        if self.start is not None and any(p.requires_grad for p in self.model.parameters()):
            self.model.load_state_dict(self.start_weights())

    def read_checkpoint(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A checkpoint of this run; one of another run is refused."""
        assert self.folder is not None
        arrays, metadata = self.folder.read_tensors(name)
        if metadata.get("run") != self.fingerprint:
            raise BadFile(
                f"{self.folder / name} belongs to another run: its settings, seed or data differ. "
                "Put back the file of this run, or train again."
            )
        return arrays, metadata

    def read_weights(self, name: str) -> dict[str, torch.Tensor]:
        """The weights in a checkpoint."""
        return self.weights_in(self.read_checkpoint(name)[0])

    @staticmethod
    def weights_in(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
        return {key.removeprefix("model."): torch.from_numpy(a) for key, a in arrays.items() if key[:6] == "model."}

    def load_weights(self, name: str) -> None:
        """Take over the weights of a checkpoint."""
        self.take_weights(self.read_checkpoint(name)[0], name)

    def take_weights(self, arrays: dict[str, np.ndarray], name: str) -> None:
        """Take over the weights among the arrays of a checkpoint of this name."""
        self.model.build(self.schema, self.seed)
        try:
            self.model.load_state_dict(self.weights_in(arrays))
        except RuntimeError as error:
            raise BadFile(f"the weights in {name} do not fit the settings of the run.") from error

    def result(self) -> dict[str, Any]:
        return {
            "model": self.settings.name,
            "seed": self.seed,
            "best_epoch": self.best_epoch,
            "protocol": self.settings.train.protocol,
            "test": self.test,
            "heuristics": self.heuristics,
            "calibration": self.calibration and dataclasses.asdict(self.calibration),
            "calibration_known": self.calibration_known and dataclasses.asdict(self.calibration_known),
            "calibration_error": self.calibration_error,
            "next_slope": self.next_slope,
            "task": dataclasses.asdict(self.settings.task),
            "answer_calibration": self.answer_calibration,
            "spent": self.spent,
            "refit": self.refit and {"epochs": self.refit.best_epoch, "events": len(self.refit.log)},
        }

    def load_result(self, metadata: dict[str, Any]) -> None:
        self.test, self.heuristics = metadata["test"], metadata["heuristics"]
        how, known = metadata["calibration"], metadata.get("calibration_known")
        self.calibration, self.calibration_known = how and Calibration(**how), known and Calibration(**known)
        self.calibration_error, self.spent = metadata["calibration_error"], metadata.get("spent", {})
        self.next_slope = metadata.get("next_slope")
        self.answer_calibration = metadata.get("answer_calibration", {})
        self.finished = True

    def note(self, line: str) -> None:
        """A line in the run's own log, and in that of `logging`."""
        logger.info("%s", line)
        if self.folder is not None:
            self.folder.note(line)

    def write_metrics(self) -> None:
        """One line of JSON per epoch, and one for the end."""
        if self.folder is not None:
            entries = [*self.history, *([self.result()] if self.finished else [])]
            self.folder.write("metrics.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))

    def __str__(self) -> str:
        from pintgn.learn.tables import run_table

        return run_table(self)

    def _repr_html_(self) -> str:
        from pintgn.learn.show import run_html

        return run_html(self)

    def plot(self) -> Picture:
        """Loss and validation AP by epoch: a notebook shows it, `.save("run.svg")` writes it."""
        from pintgn.learn.show import run_picture

        return run_picture(self)

    def to_pandas(self) -> Any:
        """A frame with one row for each epoch: loss, figures on validation, time."""
        from pintgn.learn.show import history_frame

        return history_frame(self)

    def __repr__(self) -> str:
        where = "" if self.folder is None else f", {self.folder.path}"
        state = f"best epoch {self.best_epoch} of {len(self.history)}" if self.history else "untrained"
        return f"Run({self.settings.name}, seed {self.seed}, {state}{where})"


def _unbuilt(settings: Settings, given: type[Model] | Model | None) -> Model:
    if given is None:
        return settings.make_model()
    if isinstance(given, type):
        return given.from_settings(dict(settings.model))
    return given
