"""The Temporal Graph Benchmark (py-tgb): its arrays as a log, its splits, its negatives and its evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.schema import Feature, Schema
from pintgn.packages import need

EDGE_TYPE = "edge_type"
NEEDED = ("sources", "destinations", "timestamps")
BATCH = 200
"""Events ranked at once; no figure depends on it."""


def from_tgb(dataset: Any) -> EventLog:
    """The events of a TGB data set; nodes keep TGB's numbers, which are also their ids.

    `edge_feat` becomes the event features (left out where it is zero throughout) and `node_feat` the node features. The
    types of edges of `tkgl-` and `thgl-` sets become a column `edge_type`: train with `relation="edge_type"`.
    TGB's other columns are a constant label (`edge_label`), a row number (`edge_idxs`) and a weight (`w`) that is part
    of `edge_feat` where it means something; they are not taken over.

    Args:
        dataset: a `LinkPropPredDataset`, a `PyGLinkPropPredDataset`, or the dict in their `full_data`.
    """
    held = getattr(dataset, "dataset", dataset)
    data = held if isinstance(held, Mapping) else getattr(held, "full_data", None)
    if not isinstance(data, Mapping) or any(name not in data for name in NEEDED):
        raise BadInput(
            f"{type(dataset).__name__} is no TGB data set: its full_data with {', '.join(NEEDED)} is needed."
        )
    t = np.asarray(data["timestamps"])
    features, schema = data.get("edge_feat"), None
    if features is not None:
        features = np.asarray(features, np.float32).reshape(len(t), -1)
        features = features if features.any() else None
    if (types := data.get("edge_type")) is not None:
        column = np.asarray(types, np.float32).reshape(len(t), 1)
        names = [Feature(f"f{k}") for k in range(0 if features is None else features.shape[1])]
        features = column if features is None else np.concatenate([features, column], 1)
        schema = Schema(features=(*names, Feature(EDGE_TYPE)))
    nodes = None if isinstance(held, Mapping) else getattr(held, "node_feat", None)
    return EventLog(
        np.asarray(data["sources"]),
        np.asarray(data["destinations"]),
        t.astype(np.float64 if t.dtype.kind == "f" else np.int64),
        features=features,
        node_features=None if nodes is None else np.asarray(nodes, np.float32),
        schema=None if schema is None else _with_node_features(schema, nodes),
    )


def _with_node_features(schema: Schema, nodes: Any) -> Schema:
    width = 0 if nodes is None else np.asarray(nodes).shape[1]
    return replace(schema, node_features=tuple(f"x{k}" for k in range(width)))


def tgb_parts(dataset: Any, log: EventLog) -> tuple[EventLog, EventLog, EventLog]:
    """Training, validation and test part of the log of a TGB data set, by TGB's own masks."""
    held = getattr(dataset, "dataset", dataset)
    masks = [np.asarray(getattr(held, f"{name}_mask")) for name in ("train", "val", "test")]
    sizes = [int(mask.sum()) for mask in masks]
    if sum(sizes) != len(log) or any(mask.shape != log.t.shape for mask in masks):
        raise BadInput(f"the masks of the data set cover {sum(sizes):,} events, the log has {len(log):,}.")
    cuts = list(pairwise(np.cumsum([0, *sizes]).tolist()))
    if not all(mask[a:b].all() for mask, (a, b) in zip(masks, cuts, strict=True)):
        raise BadInput("the masks of the data set do not cut it by time.")
    train, val, test = (log[a:b] for a, b in cuts)
    return train, val, test


def evaluate_tgb(run: Any, dataset: Any, part: str = "test", *, evaluator: Any = None) -> dict[str, float]:
    """MRR and Hits@k of a run on TGB's own negatives, by TGB's own `Evaluator`.

    Every event is ranked as of its own time, and then happens: nothing of the same time is seen. TGB's own example
    scripts show their models the events up to the last batch only.

    Args:
        run: what `fit` made of `from_tgb(dataset)`, or its folder.
        dataset: the data set, with `load_val_ns` and `load_test_ns` (they are called here where need be).
        part: `test` or `val`.
        evaluator: an `Evaluator` of your own, for another k.
    """
    from pintgn.learn.measure import eval_mode
    from pintgn.learn.metrics import check_finite
    from pintgn.learn.run import Run

    if part not in ("val", "test"):
        raise BadInput(f"part={part!r}; it is 'val' or 'test'.")
    run = Run.open(run) if isinstance(run, str | Path) else run
    held = getattr(dataset, "dataset", dataset)
    given = from_tgb(dataset)
    if any(not np.array_equal(getattr(given, name), getattr(run.log, name)) for name in ("src", "dst", "t")):
        raise BadInput("the run was trained on other events than this data set's. Train on from_tgb(dataset).")
    if evaluator is None:
        evaluator = need("tgb.linkproppred.evaluate", "py-tgb", extra=None).Evaluator(name=held.name)
    sampler = held.negative_sampler
    if sampler.eval_set.get(part) is None:
        (held.load_val_ns if part == "val" else held.load_test_ns)()
    log = run.parts.log
    events = dict(zip(("train", "val", "test"), tgb_parts(dataset, log), strict=True))[part]
    stream = run.new_stream()
    stream.observe(log[: events.first - log.first])
    totals: dict[str, float] = {}
    with eval_mode(stream.model):
        for batch in events.batches(BATCH):
            types = [] if run.settings.task.relation is None else [_types(run, batch)]
            others = sampler.query_batch(batch.src, batch.dst, batch.t, *types, split_mode=part)
            logits = stream.rank(batch, batch.query, _padded(batch.dst, others)).numpy(force=True)
            check_finite(logits)  # their evaluator would count NaN as a win
            sizes = np.array([len(row) for row in others])
            for size in np.unique(sizes):
                rows = sizes == size
                scores = {
                    "y_pred_pos": logits[rows, 0],
                    "y_pred_neg": logits[rows, 1 : 1 + size],
                    "eval_metric": ["mrr"],
                }
                for name, mean in evaluator.eval(scores).items():
                    totals[name] = totals.get(name, 0.0) + float(mean) * int(rows.sum())
    return {name: total / len(events) for name, total in totals.items()} | {"events": len(events)}


def _types(run: Any, batch: EventLog) -> np.ndarray:
    """The types of edges, as TGB numbers them."""
    from pintgn.learn.tasks.column import column_values

    begin = batch.first - run.parts.log.first
    return column_values(run.log[begin : begin + len(batch)], run.settings.task.relation).astype(np.int64)


def _padded(dst: np.ndarray, others: list[list[int]]) -> np.ndarray:  # (q, 1 + c)
    """The true destination, then the others; short rows are filled up with the true one, which is not looked at."""
    made = np.repeat(dst[:, None], 1 + max(map(len, others)), 1)
    for row, mine in enumerate(others):
        made[row, 1 : 1 + len(mine)] = mine
    return made
