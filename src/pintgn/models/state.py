"""Memory state of a model: a table with one row per node, owned by the stream."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor


@dataclass
class State:
    """Base of a model's memory. A subclass adds columns: arrays or tensors whose first axis is the node.

    A column of zeros is how every node starts, so a node that was never met has a row of zeros. Models read with `rows`
    (so that the stream can hand them an earlier view) and write with `put`.
    """

    def __post_init__(self) -> None:
        self.cached_states: Any = None  # computed for a score, for a commit to use again; see `Memory.current`

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def rows(self, nodes: np.ndarray) -> Self:
        """A copy of the rows of some nodes."""
        if nodes.max(initial=-1) < len(self):
            at = torch.from_numpy(nodes)
            return type(self)(**{f.name: _chosen(getattr(self, f.name), nodes, at) for f in fields(self)})
        known = nodes < len(self)
        found = type(self)(**{f.name: _zeros(getattr(self, f.name), len(nodes)) for f in fields(self)})
        found.put(np.flatnonzero(known), self.rows(nodes[known]))
        return found

    def put(self, nodes: np.ndarray, rows: Self) -> None:
        """Overwrite the rows of some nodes, growing where needed."""
        if len(nodes):
            self.grow(int(nodes.max()) + 1)
            for f in fields(self):
                getattr(self, f.name)[nodes] = getattr(rows, f.name)

    def grow(self, nodes: int) -> None:
        """Grow to at least this many nodes, at amortised constant cost."""
        if nodes > len(self):
            size = max(nodes, 2 * len(self))
            for f in fields(self):
                old = getattr(self, f.name)
                new = _zeros(old, size)
                new[: len(old)] = old
                setattr(self, f.name, new)

    def fork(self) -> Self:
        copies = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(**{k: v.clone() if isinstance(v, Tensor) else v.copy() for k, v in copies.items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """Every column as a plain array, for saving."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v.numpy(force=True) if isinstance(v, Tensor) else v for k, v in columns.items()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore saved columns, in the types of the present ones."""
        for f in fields(self):
            old, new = getattr(self, f.name), arrays[f.name]
            setattr(self, f.name, torch.from_numpy(new).to(old.device) if isinstance(old, Tensor) else new)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))


@dataclass
class StaleView:
    """A state as it was before some of its rows were overwritten; for reading only."""

    now: State
    nodes: np.ndarray  # sorted: whose rows have changed since
    old: State  # those rows as they were

    def rows(self, nodes: np.ndarray) -> State:
        found = self.now.rows(nodes)
        at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        changed = np.flatnonzero(self.nodes[at] == nodes)
        found.put(changed, self.old.rows(at[changed]))
        return found


def _chosen(column: Tensor | np.ndarray, rows: np.ndarray, at: Tensor) -> Tensor | np.ndarray:
    return column.index_select(0, at.to(column.device)) if isinstance(column, Tensor) else column[rows]


def _zeros(like: Tensor | np.ndarray, rows: int) -> Tensor | np.ndarray:
    if isinstance(like, Tensor):
        return torch.zeros(rows, *like.shape[1:], dtype=like.dtype, device=like.device)
    return np.zeros((rows, *like.shape[1:]), like.dtype)
