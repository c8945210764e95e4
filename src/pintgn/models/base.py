"""The contract between a model and the stream that runs it.

Shape letters, used in every signature of this package:

    q queries    e events    n nodes    k neighbors    d width    r positional length
    b trees (two per link query: one rooted at each endpoint)    m nodes of one tree, all levels

A model is a plain `nn.Module` in two halves. `gather` looks things up in the past: arrays only, no parameters.
`forward` computes: parameters, no looking up. The stream decides what the past is, so a model cannot see what it must
not.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.formatting import plural
from pintgn.models.aggregates import summed_columns
from pintgn.models.history_view import Events, HistoryView

QUESTIONS = ("anyone", "known")
"""What an event is distinguished from: a link to a random destination, or a pair that met before but not now."""


class Model(nn.Module):
    """Base of every model: settings in the constructor, parameters in `build`, then `gather` and `forward`.

    `__init__` only stores its arguments, under their own names; the models here are dataclasses, whose fields are their
    settings. Parameters are made by `build(schema, seed)`, when the widths of the data are known; the stream calls it.

    A subclass defines `make(schema)`, `gather`, `forward`, and where it applies `gather_nodes` and `embed`. A model
    that remembers also defines `initial_state` and `observe`.
    """

    positions: int = 0
    """Positional length the stream must keep for this model; 0 for none."""
    positions_transform: str = "log1p"
    time_unit: float | None = None
    """What dt is divided by; the log's own time scale when None."""

    def __init__(self) -> None:
        super().__init__()
        self.schema: Schema | None = None

    def __post_init__(self) -> None:  # of dataclasses: fields are set by now
        Model.__init__(self)

    def __repr__(self) -> str:
        """The settings that are not the defaults, and how many parameters there are once they are."""
        chosen = inspect.signature(type(self)).parameters
        given = [f"{name}={value!r}" for name, value in self.settings().items() if value != chosen[name].default]
        size = f": {plural(sum(p.numel() for p in self.parameters()), 'parameter')}" if self.schema is not None else ""
        return f"{type(self).__name__}({', '.join(given)}){size}"

    def __str__(self) -> str:
        """The layers, as torch prints them, once there are any."""
        return repr(self) if self.schema is None else f"{self!r}\n{super().__repr__()}"

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as they are written to a run folder and read from a TOML file."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Model:
        known = list(inspect.signature(cls).parameters)
        for name in settings:
            if name not in known:
                near = suggest(name, known)
                raise UnknownName(
                    f"{cls.__name__} has no setting {name!r}.{near} Settings: {', '.join(sorted(known))}."
                )
        return cls(**settings)

    def fresh(self) -> Model:
        """An unbuilt model of the same settings."""
        return type(self).from_settings(copy.deepcopy(self.settings()))

    def build(self, schema: Schema, seed: int = 0) -> Model:
        """Make the parameters for data of this schema, from this seed. Does nothing if they exist."""
        if self.schema is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                if schema.asking is not None and not self.answers_columns:
                    asked = "given a relation" if schema.asking.relations else "about a column of events"
                    raise BadInput(f"{type(self).__name__} scores links; it cannot be asked {asked}.")
                self.schema = schema
                self.make(schema)
                self.eval()  # until a training loop says otherwise
        else:
            for name, mine, theirs in (
                ("event features", self.schema.width, schema.width),
                ("node features", len(self.schema.node_features), len(schema.node_features)),
            ):
                if mine != theirs:
                    raise BadInput(f"this model was built for {mine} {name}; the data has {theirs}.")
        return self

    @property
    def dt_unit(self) -> float:
        """The unit that dt is divided by, as a number."""
        assert self.schema is not None
        return self.time_unit or self.schema.time_scale or 1.0

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    @property
    def questions(self) -> tuple[str, ...]:
        """Those of `QUESTIONS` that the model has a logit for. With several, `forward` gives a column for each."""
        return QUESTIONS[:1]

    answers_columns = False
    """Whether the model can be asked about a column of events, not only whether they happen; see `Schema.asking`."""
    aggregates = False
    """Whether the model is told of what is usual (`models.aggregates`)."""
    with_trees = False
    """Whether the model also has boosted trees, which are grown after its network is trained; see `learn.stack`."""
    boosted: Model
    """The trees, if it has any."""
    trees_share: Tensor
    """Their weight in an answer, from 0 to 1."""
    on_processor = False
    """Whether the model computes, or learns, on the processor, whatever the device."""

    @property
    def summed_columns(self) -> tuple[list[int], slice]:
        """Feature columns that the model needs running sums of, and those that mark events which do not count."""
        assert self.schema is not None
        first = self.schema.feature_width
        columns = summed_columns(self.schema) if self.aggregates else []
        return columns, slice(first, first + 2) if self.schema.op else slice(0)

    def answer_shape(self, queries: int) -> tuple[int, ...]:
        """Shape of what `forward` returns for so many queries."""
        asking = None if self.schema is None else self.schema.asking
        if asking is not None and asking.outputs:
            return (queries, asking.outputs)
        return (queries, len(self.questions)) if len(self.questions) > 1 else (queries,)

    def answer(self, logits: Any, against: str) -> Any:  # (q,)
        """The logits of one question; a model that has one logit gives the same answer to every question."""
        if against not in QUESTIONS:
            raise UnknownName(f"against={against!r} does not exist.{suggest(against, QUESTIONS)}")
        return logits if logits.ndim == 1 else logits[:, self.questions.index(against)]

    @property
    def remembers(self) -> bool:
        """Whether the model has a state that events update."""
        return False

    # -- for subclasses ------------------------------------------------------------------------------------------

    def prepare(self, train: EventLog) -> None:
        """Compute what depends on the training events as a whole, once, before the first of them is replayed.

        Settings that were left open are filled in, so that they are saved with the model.
        """

    def make(self, schema: Schema) -> None:
        """Create the parameters."""
        raise NotImplementedError

    def gather(self, query: Query, history: HistoryView) -> Any:
        """Look up everything that `forward` will need, as of each query's own time."""
        raise NotImplementedError

    def forward(self, inputs: Any, state: Any) -> Tensor:  # (q,) or (q, questions)
        """One logit per query; with several `questions`, one for each of them."""
        raise NotImplementedError

    def columns(self, inputs: Any, state: Any) -> Tensor:  # (q, a)
        """Inputs of a model without gradients, in place of `forward`."""
        raise NotImplementedError

    def learn(self, columns: list[Tensor], seed: int) -> None:
        """Fit without gradients, in one call: columns of all training events, of each of their random negatives and,
        where the model answers two questions, of their historical ones; rows in order of time."""
        raise NotImplementedError

    def learn_answers(self, columns: Tensor, truth: np.ndarray, seed: int) -> None:
        """Fit without gradients on labelled questions: their columns (q, a) and labels (q,), classes as numbers; rows
        in order of time."""
        raise NotImplementedError

    @property
    def learns_at_once(self) -> bool:
        return type(self).learn is not Model.learn

    def gather_ranking(self, query: Query, history: HistoryView) -> Any:
        """Look up everything that `rank` will need; `query.dst` is (q, c). Without positions, pairs do as well."""
        raise NotImplementedError

    def rank(self, inputs: Any, state: Any) -> Tensor:  # (q, c)
        """Logits of c candidates for each source against anyone: equal to `forward`, with shared work done once."""
        raise NotImplementedError

    def gather_nodes(self, nodes: np.ndarray, history: HistoryView) -> Any:
        """Look up everything that `embed` will need."""
        raise NotImplementedError

    def embed(self, inputs: Any, state: Any) -> Tensor:  # (q, d)
        """One embedding per node."""
        raise NotImplementedError

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> Any:
        """The state before the first event, owned by the stream; None for models without memory."""
        return None

    def gather_events(self, events: Events, history: HistoryView) -> dict[str, np.ndarray]:
        """Look up what `observe` needs besides the events themselves: arrays with a row (e, …) for each event, as of
        its own time. They come back in `block.looked_up`."""
        return {}

    def observe(self, block: Events, state: Any) -> None:
        """Update the state, in place, by a block of events."""
        raise NotImplementedError


@contextmanager
def eval_mode(model: Model) -> Iterator[None]:
    """Context without dropout and gradients. A model in eval mode already is left alone: other threads may be using
    it."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()


def check_least(model: Model, least: int, *names: str) -> None:
    """Refuse settings below a minimum."""
    for name in names:
        if (value := getattr(model, name)) < least:
            raise BadInput(f"{name}={value}; {type(model).__name__} needs at least {least}.")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a setting that is not one of the choices."""
    if value not in choices:
        raise BadInput(f"{name}={value!r} does not exist.{suggest(value, choices)}")


def check_device(given: str | torch.device) -> torch.device:
    """The device to compute on; refused in one line if it is not there."""
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        raise BadInput(f"device={given!r} does not exist; it is 'cpu', 'cuda', 'cuda:1' or 'mps'.") from None
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        has = f"has {plural(count, 'CUDA device')}, from 0 on" if count else "has no CUDA"
        raise BadInput(f"device={str(given)!r}, but this machine or this build of torch {has}. Use device='cpu'.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise BadInput(f"device={str(given)!r}, but this machine or this build of torch has no MPS. Use device='cpu'.")
    if device.type not in ("cpu", "cuda", "mps"):
        raise BadInput(f"device={str(given)!r} cannot be trained on; it is 'cpu', 'cuda', 'cuda:1' or 'mps'.")
    return device
