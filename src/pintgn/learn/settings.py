"""Settings: constructor arguments = TOML keys = `--set`. Unknown keys are errors; what is left open comes from the log.

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
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from pintgn.errors import BadFile, BadInput, UnknownName, suggest
from pintgn.events.splits import DYGLIB
from pintgn.learn.protocol import PROTOCOLS
from pintgn.learn.tasks.settings import TaskSettings
from pintgn.models.base import Model, check_device
from pintgn.models.registry import MODELS, dotted, model_class, model_name
from pintgn.positions.relative import WIDTH

CHOOSE_BY = ("ap", "chunked_ap", "auc")
SCHEDULES = ("cosine", "constant")
LOSSES = ("binary", "ranking")
LEGACY_DEFAULTS: dict[str, dict[str, Any]] = {
    "train": {
        "schedule": "constant",
        "negatives_per_event": 1,
        "loss": "binary",
        "train_until": None,
        "val_until": None,
    },
    "model": {"pair_history": False, "historical": False},
    "stream": {"history_refresh": "event", "positions_width": WIDTH},
    "task": {"predict": "link", "given": [], "known_after": None, "of": "event", "within": None, "relation": None},
}
"""Settings that early runs do not name, and what they had; so those runs stay readable."""
Time = str | int | float | datetime.date
"""A time as a user says it; `events.moment.read_time` reads it."""


@dataclass(frozen=True)
class Training:
    """How a model is trained and what it is chosen by.

    Args:
        epochs: at most so many passes over the training part; from the size of the log when not given.
        patience: stop after so many epochs in a row without a better validation figure. When neither it nor `epochs` is
            given, half of the epochs, at least 5 and at most 10; with `epochs` alone, never.
        tolerance: how much better counts as better; the best epoch is kept however small its lead.
        choose_by: the figure on validation that decides: `ap`, `chunked_ap` (the papers') or `auc`.
        batch: events per step.
        learning_rate: of Adam; from the size of the log when not given.
        schedule: `cosine` lets the learning rate fall to almost nothing over the epochs; `constant` keeps it, also when
            not given with a learning rate that is.
        negatives_per_event: questions whose answer should be no, for each event.
        loss: `binary` cross-entropy of each answer; `ranking` adds that of the event among its negatives.
        clip: largest norm of a step's gradient; 0 for no limit.
        average: decay of the running mean of the weights that is measured and kept, per step; 0 keeps the weights
            themselves.
        weight_decay: of Adam.
        val, test: shares of the log, by time.
        train_until, val_until: instead of shares, the times at which the training and the validation part end: events
            strictly before it belong to the part. A date, or a number in the log's unit.
        hidden: share of nodes kept out of training, so that new ones can be measured; or `dyglib`, the one set that
            TGN and DyGLib hide, for comparisons with their figures.
        protocol: `stream` measures what a deployed system would know; `paper` as TGN and PINT do.
        scale_features: bring event and node features to a common scale, by the training part.
        checkpoint_seconds: time between two checkpoints within an epoch (there is one after every epoch anyhow).
        threads: with 1 everything is done in turn; with 2 the next batch is looked up while this one is computed, and
            the results are the same, bit for bit; more than 2 compute. By the number of cores when not given.
    """

    epochs: int | None = None
    patience: int | None = None
    tolerance: float = 5e-4
    choose_by: str = "ap"
    batch: int = 200
    learning_rate: float | None = None
    schedule: str | None = None
    negatives_per_event: int = 1
    loss: str = "binary"
    clip: float = 1.0
    average: float = 0.99
    weight_decay: float = 0.0
    val: float = 0.15
    test: float = 0.15
    train_until: Time | None = None
    val_until: Time | None = None
    hidden: float | str = 0.1
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
            ("choose_by", CHOOSE_BY),
            ("schedule", SCHEDULES),
            ("loss", LOSSES),
        ):
            if (value := getattr(self, name)) not in known and not (name == "schedule" and value is None):
                raise UnknownName(f"train.{name}={value!r} does not exist.{suggest(value, known)}")

    @property
    def split(self) -> dict[str, Any]:
        """How a log is cut: the arguments of `protocol.cut`."""
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
    """How the stream keeps its past, and where the model computes; see `Stream`.

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


class FitSettings(TypedDict, total=False):
    """The fields of `Training`, `Streaming` and `TaskSettings` as keywords of `fit`, for type checkers; a test compares
    them."""

    epochs: int | None
    patience: int | None
    tolerance: float
    choose_by: str
    batch: int
    learning_rate: float | None
    schedule: str | None
    negatives_per_event: int
    loss: str
    clip: float
    average: float
    weight_decay: float
    val: float
    test: float
    train_until: Time | None
    val_until: Time | None
    hidden: float | str
    protocol: str
    scale_features: bool
    checkpoint_seconds: float
    threads: int | None
    memory_block: int
    positions_refresh: str
    positions_backend: str
    positions_width: int | None
    history_refresh: str
    device: str
    predict: str
    given: list[str]
    known_after: str | int | float | None
    of: str
    within: str | int | float | None
    relation: str | None


@dataclass(frozen=True)
class Settings:
    """All that a run is made from, besides its data and seed."""

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
        checked = check_table(model, model_parameters(name), f"model {name!r}", "model")
        train = check_table(_table(given, "train"), dataclass_parameters(Training), "train", "train")
        stream = check_table(_table(given, "stream"), dataclass_parameters(Streaming), "stream", "stream")
        task = check_table(_table(given, "task"), dataclass_parameters(TaskSettings), "task", "task")
        return cls(name, checked, Training(**train), Streaming(**stream), TaskSettings(**task))._on_this_machine()

    @classmethod
    def of_model(
        cls, model: Model, train: Mapping[str, Any], stream: Mapping[str, Any], task: Mapping[str, Any] | None = None
    ) -> Settings:
        """Settings of a model that was made in Python, with every argument as it is."""
        checked = check_table(train, dataclass_parameters(Training), "train", "train")
        name = model_name(type(model))
        asked = check_table(task or {}, dataclass_parameters(TaskSettings), "task", "task")
        made = cls(name, model.settings(), Training(**checked), Streaming(**stream), TaskSettings(**asked))
        return made._on_this_machine()

    def _on_this_machine(self) -> Settings:
        """These, if there is what they ask for; a run that is only read may come from another machine."""
        check_device(self.stream.device)
        return self

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


# -- reading ---------------------------------------------------------------------------------------------------------


def read_settings(path: str | Path, row: str | None = None) -> dict[str, Any]:
    """The tables of a settings file, or of one row of a file of many.

    In a file of many, `models.NAME` holds what the rows of a model share, and what a row has published is left out.
    """
    given = read_toml(path)
    rows, models = given.pop("rows", None), given.pop("models", {})
    if rows is None:
        if row is not None:
            raise BadInput(f"{path} has no rows; leave out --row {row}.")
        return given
    if row is None:
        raise BadInput(f"{path} has {len(rows)} rows; say which with --row. There are: {', '.join(sorted(rows))}.")
    if row not in rows:
        raise UnknownName(f"{path} has no row {row!r}.{suggest(row, rows)}")
    chosen = {key: value for key, value in rows[row].items() if key != "published"}
    shared = {"model": models.get(chosen.get("model", {}).get("name"), {})}
    return merged(merged(given, shared), chosen)


def published_rows(path: str | Path) -> dict[str, dict[str, Any]]:
    """What each row of a settings file has published: figures as [mean, std], in percent, by name."""
    return {name: row.get("published", {}) for name, row in read_toml(path).get("rows", {}).items()}


def read_toml(path: str | Path, what: str = "settings") -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the {what} in {path}: {getattr(error, 'strerror', None) or error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not a TOML file: {error}.") from error


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, the second laid over the first."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def parse_setting(text: str, model: str = "pint") -> dict[str, Any]:
    """`--set model.dim=64` as nested tables; without a table the name is looked up in model, train, stream and task.

    >>> parse_setting("train.epochs=3"), parse_setting("positions_at=every")
    ({'train': {'epochs': 3}}, {'model': {'positions_at': 'every'}})
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise BadInput(f"--set {text!r} is not NAME=VALUE, as in --set model.layers=2.")
    table, dot, key = name.partition(".")
    if not dot:
        homes = {
            "model": model_parameters(model),
            "train": dataclass_parameters(Training),
            "stream": dataclass_parameters(Streaming),
            "task": dataclass_parameters(TaskSettings),
        }
        table = next((home for home, known in homes.items() if name in known), "")
        if not table:
            raise UnknownName(f"there is no setting {name!r}.{suggest(name, [k for h in homes.values() for k in h])}")
        key = name
    return {table: {key: parse_value(value)}}


def parse_value(text: str) -> Any:
    """A value as it would stand in a TOML file; a bare word is a string, `none` is None."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


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


# -- checking --------------------------------------------------------------------------------------------------------


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
