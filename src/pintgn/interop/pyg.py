"""PyTorch Geometric's TemporalData, in and out. Node numbers are the same on both sides."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput, PintgnWarning, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import NODE
from pintgn.packages import need

if TYPE_CHECKING:
    from torch_geometric.data import TemporalData

NAMES = ("src", "dst", "t", "msg", "y", "op", "node_updates")


def to_pyg(log: EventLog) -> TemporalData:
    """A log as `torch_geometric.data.TemporalData`, one row for each event.

    `src` and `dst` are node numbers (`log.id(number)` gives the users' id), `t` int64 or float64, `msg` the event
    features where there are any, `y` the labels. Where a log has deletions or node events, `op` says so (1 add,
    -1 delete, 0 node) and `node_updates` holds what node events carry, zeros elsewhere. Columns are copied. Node
    features have no place in TemporalData: they are `log.node_features`.
    """
    need("torch_geometric")
    import torch
    from torch_geometric.data import TemporalData

    columns = {"src": log.src, "dst": log.dst, "t": log.t, "msg": log.features, "y": log.label, "op": log.op}
    if log.node_updates is not None and log.op is not None:
        updates = np.zeros((len(log), log.node_updates.shape[1]), np.float32)
        updates[log.op == NODE] = log.node_updates
        columns["node_updates"] = updates
    return TemporalData(**{name: torch.tensor(a) for name, a in columns.items() if a is not None})


def from_pyg(data: Any, *, sort: bool = False, nodes: int | None = None, label: str | None = "y") -> EventLog:
    """A `TemporalData` as a log; nodes keep their numbers, which are also their ids.

    Args:
        data: needs `src`, `dst` and `t`; `msg` becomes the event features, `op` and `node_updates` are read as `to_pyg`
            writes them. Other attributes are left alone.
        sort: sort by time, keeping the order of simultaneous events; otherwise unsorted events are an error.
        nodes: how many nodes there are, where some have no event.
        label: the attribute that holds labels, if there is one.
    """
    present = {name: data[name] for name in (*NAMES, label) if name is not None and name in data}
    for name in ("src", "dst", "t"):
        if name not in present:
            raise BadInput(f"the data has no {name!r}.{suggest(name, data.keys())} src, dst and t are needed.")
    arrays = {name: tensor.numpy(force=True) for name, tensor in present.items()}
    events = len(arrays["src"])
    t = _times(arrays["t"])
    order = np.argsort(t, kind="stable") if sort and (t[1:] < t[:-1]).any() else slice(None)
    op = arrays.get("op")
    updates = arrays.get("node_updates")
    if updates is not None:
        if op is None:
            raise BadInput("the data has 'node_updates' but no 'op' that says which events are node events.")
        updates = updates[order][op[order] == NODE]
    msg = arrays.get("msg")
    if msg is not None:
        msg = msg.reshape(events, -1).astype(np.float32, copy=False)[order]
        msg = msg if msg.shape[1] else None
    labels = None if label is None else arrays.get(label)
    src, dst = (_whole(arrays[name], name)[order] for name in ("src", "dst"))
    largest = int(max(src.max(initial=-1), dst.max(initial=-1)))
    if nodes is not None and nodes <= largest:
        raise BadInput(f"nodes={nodes}, but an event names node {largest}.")
    return EventLog(
        src,
        dst,
        t[order],
        features=msg,
        label=None if labels is None else labels.reshape(-1)[order],
        op=None if op is None else op[order],
        node_updates=updates,
        ids=None if nodes is None else IdMap(size=nodes),
    )


def _times(t: np.ndarray) -> np.ndarray:
    if t.dtype.kind == "f" and t.dtype.itemsize < 8 and len(t) and np.abs(t).max() >= 2**24:
        warnings.warn(
            f"times are {t.dtype}: above 16,777,216 they were rounded when the data was made, so distinct times may "
            "have merged. Make TemporalData with an int64 or float64 t.",
            PintgnWarning,
            stacklevel=3,
        )
    return t.astype(np.float64 if t.dtype.kind == "f" else np.int64)


def _whole(nodes: np.ndarray, name: str) -> np.ndarray:
    numbers = nodes.astype(np.int64)
    if (numbers != nodes).any():
        raise BadInput(f"{name} holds {nodes[numbers != nodes][0]}; node numbers are whole.")
    return numbers
