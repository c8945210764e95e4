"""Reads of positions: what models have asked for is answered while a batch's events become visible."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pintgn.models.history_view import Events, HistoryView


class Positions(Protocol):
    """Source of relative positions; `RelativePositions`, unless something stands in for it. Arrays are checked."""

    def serve(
        self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray,
        transform: str,
    ) -> np.ndarray:  # fmt: skip
        """Positions (q, m, w, r) of nodes relative to roots, as of each query's time, while events happen."""

    def append(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> Any: ...

    def fork(self) -> Positions: ...


def serve_positions(positions: Positions, transform: str, views: list[HistoryView], events: Events) -> None:
    """Answer every read of a batch, each as of its own query's time, while the batch's events become visible."""
    reads, happening = [read for view in views for read in view.reads], (events.src, events.dst, events.t)
    if not reads:
        if len(events.t):
            positions.append(*happening)
        return
    if len(reads) == 1 or not len(events.t):
        for read in reads:
            read.answer = positions.serve(*happening, read.nodes, read.roots, read.t, transform)
        return
    nodes, roots = ([getattr(read, name) for read in reads] for name in ("nodes", "roots"))
    times = np.concatenate([read.t for read in reads])
    found, row = positions.serve(*happening, _stacked(nodes), _stacked(roots), times, transform), 0
    for read in reads:
        rows, slots = read.nodes.shape
        read.answer = found[row : row + rows, :slots, : read.roots.shape[1]]
        row += rows


def add_blocks(positions: Positions, blocks: list[Events]) -> None:
    for block in blocks:
        positions.append(block.src, block.dst, block.t)


def _stacked(columns: list[np.ndarray]) -> np.ndarray:
    """Rows of several widths, padded with -1."""
    width = max(column.shape[1] for column in columns)
    pads = (((0, 0), (0, width - column.shape[1])) for column in columns)
    return np.concatenate([np.pad(one, pad, constant_values=-1) for one, pad in zip(columns, pads, strict=True)])
