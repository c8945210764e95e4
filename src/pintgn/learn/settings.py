"""Settings: constructor arguments = TOML keys = `--set`. Unknown keys are errors; open ones are decided by the log.

A settings file has up to three tables; a file of many rows has them under `rows."NAME"`:

    [model]                 name = "pint" and the arguments of its class
    [train]                 the fields of `Training`
    [stream]                the fields of `Streaming`
    [task]                  the fields of `TaskSettings`
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.splits import DYGLIB
from pintgn.learn.protocol import PROTOCOLS
from pintgn.models.base import Model, check_device
from pintgn.models.registry import MODELS, dotted, model_class, model_name
from pintgn.positions.relative import WIDTH

CHOOSE_BY = ("ap", "chunked_ap", "auc")
SCHEDULES = ("cosine", "constant")
PURPOSES = ("scores", "ranking")
QUESTIONS: dict[str, Any] = {
    "link": "pintgn.learn.tasks.link:Link",
    "return": "pintgn.learn.tasks.when:When",
    "meet": "pintgn.learn.tasks.when:When",
}
"""What `predict` names that is no column of the log, and the task that asks it: a class, or where it is."""
LEGACY_DEFAULTS: dict[str, dict[str, Any]] = {
    "train": {
        "schedule": "constant",
        "negatives_per_event": 1,
        "purpose": "scores",
        "train_until": None,
        "val_until": None,
    },
    "model": {"pair_history": False, "aggregates": False, "historical": False},
    "stream": {"history_refresh": "event", "positions_width": WIDTH},
    "task": {"predict": "link", "given": [], "known_after": None, "of": "event", "within": None, "relation": None},
}
"""Settings that early runs do not name, and what they had; so those runs stay readable."""
Time = str | int | float | datetime.date
"""A time as a user says it; `events.moment.read_time` reads it."""


@dataclass(frozen=True)
class Training:
    """Settings of training, and of the choice of the epoch.

    Args:
        epochs: at most so many passes over the training part; from the size of the log when not given.
        patience: stop after so many epochs in a row without a better validation figure. When neither it nor `epochs` is
            given, half of the epochs, at least 5 and at most 10; with `epochs` alone, never.
        tolerance: how much better counts as better; the best epoch is kept however small its lead.
        purpose: what links are scored for: `scores` tells an event from a random destination; `ranking` also puts it
            before several others at once, some of which are popular now, and chooses the epoch by MRR.
        choose_by: the figure on validation that decides: `ap`, `chunked_ap` (the papers') or `auc`.
        batch: events per step.
        learning_rate: of Adam; from the size of the log when not given.
        schedule: `cosine` lets the learning rate fall to almost nothing over the epochs; `constant` keeps it, also when
            not given with a learning rate that is.
        negatives_per_event: questions whose answer should be no, for each event.
        clip: largest norm of a step's gradient; 0 for no limit.
        average: decay of the running mean of the weights that is measured and kept, per step; 0 keeps the weights
            themselves.
        weight_decay: of Adam.
        val, test: shares of the log, by time.
        train_until, val_until: instead of shares, the times at which the training and the validation part end: events
            strictly before it belong to the part. A date, or a number in the log's unit.
        hidden: share of nodes kept out of training, so that more new ones can be measured; or `dyglib`, the one set
            that TGN and DyGLib hide, for comparisons with their figures. When not given, 0: training learns from all
            nodes, and new are those that are really new; 0.1 with `protocol="paper"`.
        protocol: `stream` measures what a deployed system would know; `paper` as TGN and PINT do.
        scale_features: bring event and node features to a common scale, by the training part.
        checkpoint_seconds: time between two checkpoints within an epoch (there is one after every epoch anyhow).
        threads: with 1 everything is done in turn; with 2 the next batch is looked up while this one is computed, and
            the results are the same, bit for bit; more than 2 compute. By the number of cores when not given.
    """

    epochs: int | None = None
    patience: int | None = None
    tolerance: float = 5e-4
    purpose: str = "scores"
    choose_by: str = "ap"
    batch: int = 200
    learning_rate: float | None = None
    schedule: str | None = None
    negatives_per_event: int = 1
    clip: float = 1.0
    average: float = 0.99
    weight_decay: float = 0.0
    val: float = 0.15
    test: float = 0.15
    train_until: Time | None = None
    val_until: Time | None = None
    hidden: float | str | None = None
    protocol: str = "stream"
    scale_features: bool = True
    checkpoint_seconds: float = 60.0
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("patience", 1), ("batch", 1), ("negatives_per_event", 1), ("threads", 1)):
            if (value := getattr(self, name)) is not None and value < least:
                raise BadInput(f"train.{name}={value}; it is at least {least}.")
        for name in ("tolerance", "clip", "weight_decay", "checkpoint_seconds"):
            if not getattr(self, name) >= 0:
                raise BadInput(f"train.{name}={getattr(self, name)}; it cannot be negative.")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise BadInput(f"train.learning_rate={self.learning_rate}; it is a number above 0.")
        for name in ("train_until", "val_until"):
            object.__setattr__(self, name, _plain_time(getattr(self, name)))
        if (self.train_until is None) != (self.val_until is None):
            raise BadInput("train.train_until and train.val_until go together: where training ends, and validation.")
        if isinstance(self.hidden, str) and self.hidden != DYGLIB:
            raise UnknownName(f"train.hidden={self.hidden!r}; it is a share of the nodes, or {DYGLIB!r}.")
        if not 0 <= self.average < 1:
            raise BadInput(f"train.average={self.average}; it is at least 0 and below 1.")
        for name, known in (
            ("protocol", PROTOCOLS),
            ("purpose", PURPOSES),
            ("choose_by", CHOOSE_BY),
            ("schedule", SCHEDULES),
        ):
            if (value := getattr(self, name)) not in known and not (name == "schedule" and value is None):
                raise UnknownName(f"train.{name}={value!r} does not exist.{suggest(value, known)}")

    @property
    def split(self) -> dict[str, Any]:
        """The arguments of `protocol.cut`."""
        return {name: getattr(self, name) for name in ("val", "test", "train_until", "val_until")}


def _plain_time(value: Any) -> str | int | float | None:
    """A time as TOML and JSON can hold it; whether it is one is for the log to say."""
    if isinstance(value, datetime.date):  # with its subclasses, of which pandas' Timestamp is one
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Streaming:
    """Settings of the stream's history, and the device; see `Stream`.

    Args:
        positions_width: numbers that estimated positions keep for each node and level; by the log: fewer where there
            are very many nodes.
        device: `cpu`, `cuda`, `cuda:1` or `mps`. Look-ups stay on the processor.
    """

    memory_block: int = 200
    positions_refresh: str = "event"
    positions_backend: str = "auto"
    positions_width: int | None = None
    history_refresh: str = "event"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.positions_width is not None and self.positions_width < 1:
            raise BadInput(f"stream.positions_width={self.positions_width}; it is at least 1.")


@dataclass(frozen=True)
class TaskSettings:
    """The question of a run; see `learn.tasks` and docs/tasks.md.

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
        return self.predict not in QUESTIONS

    @property
    def sides(self) -> tuple[int, ...]:
        """The ends that are asked about: of a question about a node one, 0 for sources and 1 for destinations."""
        return {"src": (0,), "dst": (1,)}.get("src" if self.predict == "return" else self.of, (0, 1))


@dataclass(frozen=True)
class Settings:
    """All settings of a run, which it is made from together with its data and seed."""

    name: str
    model: dict[str, Any]  # the arguments of the model's class
    train: Training = field(default_factory=Training)
    stream: Streaming = field(default_factory=Streaming)
    task: TaskSettings = field(default_factory=TaskSettings)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from nested tables, as in a TOML file; only what differs from the defaults need be given."""
        check_names(given, ("model", "train", "stream", "task"), "settings")
        model = dict(_table(given, "model"))
        name = dotted(model.pop("name", "pint"))
        return cls._of(name, check_table(model, model_parameters(name), f"model {name!r}", "model"), given)

    @classmethod
    def of_model(cls, model: Model, tables: Mapping[str, Any]) -> Settings:
        """Settings of a model that was made in Python, with every argument as it is; other tables as of `of`."""
        return cls._of(model_name(type(model)), model.settings(), tables)

    @classmethod
    def _of(cls, name: str, model: dict[str, Any], given: Mapping[str, Any]) -> Settings:
        kinds = {"train": Training, "stream": Streaming, "task": TaskSettings}
        tables: dict[str, Any] = {
            table: kind(**check_table(_table(given, table), dataclass_parameters(kind), table, table))
            for table, kind in kinds.items()
        }
        check_device(tables["stream"].device)  # a run that is only read may come from another machine
        return cls(name, model, **tables)

    def make_model(self) -> Model:
        return model_class(self.name).from_settings(dict(self.model))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        return {
            "model": {"name": self.name} | self.model,
            "train": dataclasses.asdict(self.train),
            "stream": dataclasses.asdict(self.stream),
            "task": dataclasses.asdict(self.task),
        }

    def to_toml(self, whole: bool = True) -> str:
        """The settings as a file that `read_settings` takes; None, which TOML lacks, is left out.

        Not `whole`: as an early run would have written them, which is what its fingerprint is made from.
        """
        legacy: Mapping[str, Any] = {} if whole else LEGACY_DEFAULTS
        tables = {
            table: {key: value for key, value in values.items() if legacy.get(table, {}).get(key) != value}
            for table, values in self.to_dict().items()
        }
        if not whole and not tables["task"]:
            del tables["task"]
        return toml_tables(tables)

    @classmethod
    def from_toml(cls, text: str) -> Settings:
        """Settings written by `to_toml`: what is left out is None, not a default, or what early runs had."""
        given = tomllib.loads(text)
        model = dict(given["model"])
        name = model.pop("name")
        if name in MODELS:
            model = {key: model.get(key, LEGACY_DEFAULTS["model"].get(key)) for key in model_parameters(name)}
        tables = [
            {
                key: given.get(table, {}).get(key, LEGACY_DEFAULTS.get(table, {}).get(key))
                for key in dataclass_parameters(kind)
            }
            for table, kind in (("train", Training), ("stream", Streaming), ("task", TaskSettings))
        ]
        return cls(name, model, Training(**tables[0]), Streaming(**tables[1]), TaskSettings(**tables[2]))


# -- checking and writing --------------------------------------------------------------------------------------------


def model_parameters(name: str) -> dict[str, Any]:
    """The arguments of a model's class and their types."""
    cls = model_class(name)
    hints = typing.get_type_hints(cls.__init__)
    return {key: hints.get(key, Any) for key in inspect.signature(cls.__init__).parameters if key != "self"}


def dataclass_parameters(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}


def check_table(given: Mapping[str, Any], known: Mapping[str, Any], owner: str, table: str) -> dict[str, Any]:
    """Values of known names and right types; a whole number where a decimal belongs is taken as one."""
    check_names(given, known, owner)
    return {key: _typed(f"{table}.{key}", value, known[key]) for key, value in given.items()}


def check_names(given: Mapping[str, Any], known: Any, owner: str) -> None:
    for name in given:
        if name not in known:
            raise UnknownName(f"{owner} has no setting {name!r}.{suggest(name, known)}")


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, Mapping):
        raise BadInput(f"{name} is a table of settings, as in [{name}], not {table!r}.")
    return table


WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "none"}


def _typed(name: str, value: Any, hint: Any) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if any(option not in WORDS for option in options):
        return value  # a type of the model's own; its class will check
    if type(value) in options:
        return value
    if float in options and type(value) is int:
        return float(value)
    raise BadInput(f"{name} is {' or '.join(WORDS[option] for option in options)}, not {value!r}.")


def toml_tables(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of settings as TOML; None, which it lacks, is left out."""
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {toml_value(v)}" for key, v in values.items() if v is not None), ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    if isinstance(value, float):  # 1e-05 is TOML, 1e16 and inf need no change either
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
