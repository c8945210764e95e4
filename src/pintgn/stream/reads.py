"""Positions: what models have asked for is read while a batch's events become visible."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pintgn.errors import BadInput
from pintgn.models.history_view import Events, HistoryView


class Positions(Protocol):
    """Who answers reads of positions; `RelativePositions`, unless something stands in for it."""

    def replay(
        self, src: Any, dst: Any, t: Any, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray, *, transform: str = ...
    ) -> np.ndarray:
        """Positions (q, m, w, r) of nodes relative to roots, as of each query's time, while events happen."""

    def append(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> Any: ...

    def fork(self) -> Positions: ...


def serve_positions(positions: Positions, transform: str, views: list[HistoryView], events: Events) -> None:
    """Answer every read of a batch, each as of its own query's time, while the batch's events become visible."""
    reads = [read for view in views for read in view.reads]
    if not len(events.t):
        for read in reads:
            nothing = (events.src, events.dst, events.t)
            read.answer = positions.replay(*nothing, read.nodes, read.roots, read.t, transform=transform)
        return
    if not reads:
        positions.append(events.src, events.dst, events.t)
        return
    slots, roots = (max(getattr(read, name).shape[1] for read in reads) for name in ("nodes", "roots"))
    found = positions.replay(
        events.src,
        events.dst,
        events.t,
        np.concatenate([_padded(read.nodes, slots) for read in reads]),
        np.concatenate([_padded(read.roots, roots) for read in reads]),
        np.concatenate([read.t for read in reads]),
        transform=transform,
    )
    row = 0
    for read in reads:
        rows, slots = read.nodes.shape
        read.answer = found[row : row + rows, :slots, : read.roots.shape[1]]
        row += rows


def add_blocks(positions: Positions, blocks: list[Events]) -> None:
    for block in blocks:
        positions.append(block.src, block.dst, block.t)


def _padded(nodes: np.ndarray, width: int) -> np.ndarray:
    return np.pad(nodes, ((0, 0), (0, width - nodes.shape[1])), constant_values=-1) if nodes.shape[1] < width else nodes


def node_numbers(nodes: Any, name: str) -> np.ndarray:
    nodes = np.atleast_1d(np.asarray(nodes))
    if nodes.dtype.kind not in "iu" and len(nodes):
        raise BadInput(f"{name} holds {nodes.dtype}; a stream takes node numbers. Use log.node(id) for users' ids.")
    if len(nodes) and nodes.min() < 0:
        raise BadInput(f"{name} holds {nodes.min()}; node numbers start at 0.")
    return nodes.astype(np.int64, copy=False)
