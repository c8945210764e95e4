"""Node classification on a dynamic label column: a decoder on frozen embeddings, AUC (paper, appendix; as in TGN).

The label of an event is the state of its source at that time (JODIE's banned users, for example). Each source is
embedded as of its event's own time, by what came strictly before; the model stays as link prediction left it. An MLP
is trained on the embeddings of the training part, its epoch is chosen by validation AUC, and test AUC is reported.

A model with `pair_history` reads what is known about a node itself, such as how active it has been, at the readout of a
link, not in its embedding; so the decoder is given that, too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.learn.measure import BATCH
from pintgn.learn.metrics import area_under_curve
from pintgn.learn.run import Run
from pintgn.learn.train import reproducible
from pintgn.models.base import Model, eval_mode
from pintgn.models.history_view import Events, HistoryView
from pintgn.models.pair_features import pair_features


@dataclass(frozen=True)
class Classification:
    """How well labels are predicted from frozen embeddings."""

    label: str
    positives: dict[str, int]  # by part
    events: dict[str, int]
    val_auc: float | None  # None where a part has one value only
    test_auc: float | None
    best_epoch: int
    history: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        from pintgn.formatting import percent, text_table

        aucs = {"train": None, "val": self.val_auc, "test": self.test_auc}
        rows = [[p, f"{self.events[p]:,}", f"{self.positives[p]:,}", percent(aucs[p])] for p in self.events]
        title = f"Label {self.label!r} of each event's source, from frozen embeddings; epoch {self.best_epoch}"
        return f"{title}\n\n{text_table(['part', 'events', 'positive', 'AUC'], rows)}"


class SourceEmbedding(Model):
    """A model that answers a query with its source's embedding instead of a logit, so that streams can replay it; what
    is known about the source itself follows for a model with pair history."""

    def __init__(self, model: Model):
        super().__init__()
        self.inner = model
        self.schema, self.time_unit = model.schema, model.time_unit
        self.positions, self.positions_transform = model.positions, model.positions_transform

    @property
    def remembers(self) -> bool:
        return self.inner.remembers

    def gather(self, query: Query, history: HistoryView) -> Any:
        own = None
        if getattr(self.inner, "pair_history", False):
            own = pair_features(query.src, query.src, history, self.inner.dt_unit)
        return self.inner.gather_nodes(query.src, history), own

    def forward(self, inputs: Any, state: Any) -> Tensor:  # (q, d)
        nodes, own = inputs
        found = self.inner.embed(nodes, state)
        return found if own is None else torch.cat([found, torch.from_numpy(own).to(found.device)], 1)

    def gather_events(self, events: Events, history: HistoryView) -> Any:
        return self.inner.gather_events(events, history)

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> Any:
        return self.inner.initial_state(node_features, time_dtype)

    def observe(self, block: Events, state: Any) -> None:
        self.inner.observe(block, state)


class Decoder(nn.Module):
    """The MLP of TGN's node classification: 80, 10, 1, with dropout."""

    def __init__(self, width: int, dropout: float = 0.1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 80), nn.ReLU(), nn.Dropout(dropout), nn.Linear(80, 10), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(10, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return self.layers(x).squeeze(-1)


def source_embeddings(run: Run, log: EventLog) -> np.ndarray:  # (e, d)
    """The source of every event as of its own time, by the run's model; from the log's beginning."""
    model = run.model
    if type(model).gather_nodes is Model.gather_nodes:
        raise BadInput(f"{type(model).__name__} scores links; it has no embeddings of nodes to classify.")
    model.build(run.schema, run.seed)
    stream = run.new_stream(SourceEmbedding(model))
    with eval_mode(stream.model):
        found = [scores[0].numpy(force=True) for _, scores in stream.prefetch(log.batches(BATCH), lambda b: [b.query])]
    return np.concatenate(found)


def classify(
    run: Run | str | Path,
    *,
    epochs: int = 10,
    patience: int = 5,
    batch: int = 100,
    learning_rate: float = 3e-4,
    seed: int = 0,
) -> Classification:
    """Train a decoder for the label column of a run's log on frozen embeddings, and measure it. Defaults as in TGN."""
    run = run if isinstance(run, Run) else Run.open(run)
    parts = run.parts
    labels = binary_labels(run.log)
    trained, chosen = parts.val.first - run.log.first, parts.test.first - run.log.first  # of a log cut from another
    bounds = {"train": (0, len(parts.train)), "val": (trained, chosen), "test": (chosen, len(run.log))}
    labelled = {name: _rows(labels, *ends) for name, ends in bounds.items()}
    name = str(run.log.schema.label)
    if not 0 < labels[labelled["train"]].sum() < len(labelled["train"]):
        value = "positive" if len(labelled["train"]) and labels[labelled["train"]].all() else "negative"
        raise BadInput(f"label {name!r} is {value} in all {len(labelled['train'])} training events; there is no other.")
    features = torch.from_numpy(source_embeddings(run, parts.log))
    truth = torch.from_numpy(labels.astype(np.float32))
    history: list[dict[str, Any]] = []
    best: tuple[float, int, float | None] = (-1.0, 0, None)
    with reproducible(run.settings.train.threads):
        torch.manual_seed(seed)
        mean, std = features[labelled["train"]].mean(0), features[labelled["train"]].std(0) + 1e-6
        features = (features - mean) / std
        decoder = Decoder(features.shape[1])
        optimizer = torch.optim.Adam(decoder.parameters(), learning_rate)
        rows = torch.from_numpy(labelled["train"])
        for epoch in range(1, epochs + 1):
            decoder.train()
            for chosen in rows.split(batch):  # in order of time, as TGN does
                loss = cross_entropy(decoder(features[chosen]), truth[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            decoder.eval()
            with torch.no_grad():
                logits = decoder(features).numpy()
            val, test = (_auc(labels, logits, labelled[part]) for part in ("val", "test"))
            history.append({"epoch": epoch, "val_auc": val})
            if (val or 0.0) > best[0]:
                best = (val or 0.0, epoch, test)
            if epoch - best[1] >= patience:
                break
    return Classification(
        name,
        {part: int(labels[rows].sum()) for part, rows in labelled.items()},
        {part: len(rows) for part, rows in labelled.items()},
        None if history[best[1] - 1]["val_auc"] is None else best[0],
        best[2],
        best[1],
        history,
    )


def binary_labels(log: EventLog) -> np.ndarray:
    """The label column as -1 (missing), 0 and 1."""
    if log.label is None:
        raise BadInput("this log has no labels; name their column with label= (--label) when reading it.")
    values = np.asarray(log.label, np.float64)
    missing = np.isnan(values)
    distinct = np.unique(values[~missing])
    if len(distinct) < 2:
        only = f"{distinct[0]:g} in every event" if len(distinct) else "missing in every event"
        raise BadInput(f"label {log.schema.label!r} is {only}; there is nothing to tell apart.")
    if len(distinct) > 2:
        raise BadInput(f"label {log.schema.label!r} has {len(distinct)} values; AUC needs two.")
    return np.where(missing, -1, (values == distinct[1]).astype(np.int64))


def _rows(labels: np.ndarray, begin: int, end: int) -> np.ndarray:
    return begin + np.flatnonzero(labels[begin:end] >= 0)


def _auc(labels: np.ndarray, logits: np.ndarray, rows: np.ndarray) -> float | None:
    truth = labels[rows] == 1
    return area_under_curve(truth, logits[rows]) if 0 < truth.sum() < len(truth) else None
