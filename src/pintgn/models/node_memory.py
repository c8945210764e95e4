"""Recurrent node memory (paper, Eqs. 3-4; TGN): messages wait, are applied when needed, and are committed by blocks.

A node's pending message is stored detached and kept until the node is touched again. Scoring applies the recurrent
update to the nodes in use, with gradient. The block of events that touches a node commits its pending message, then
leaves a new one. Every part of the state is an array over nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from pintgn.models import kernels_memory as kernels
from pintgn.models.base import check_choice
from pintgn.models.history_view import Events
from pintgn.models.layers import TimeEncoding, gru, tensor
from pintgn.models.state import StaleView, State

CELLS = ("gru", "rnn", "identity")
AGGREGATES = ("last", "mean")


@dataclass
class MemoryState(State):
    """State of the memory, one row per node."""

    memory: Tensor  # (n, d) s_v after the last commit
    updated: np.ndarray  # (n,) t_v: time of the last committed message, in the log's own type
    ever: np.ndarray  # (n,) whether there has been one
    pending: np.ndarray  # (n,) whether a message waits
    message: Tensor  # (n, 2d + c + f) own state, other's state and context, event features: means over its events
    message_t: np.ndarray  # (n,) time of the newest of them
    message_dt: Tensor  # (n,) time from t_v to them, in units of the log's time scale

    @contextmanager
    def on_cpu(self, nodes: np.ndarray) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Columns as plain arrays to change in place, and the rows of the nodes; changes are kept on leaving."""
        if self.memory.device.type == "cpu":
            yield nodes, self.arrays()  # they share their memory
        else:
            columns = self.rows(nodes).arrays()
            yield np.arange(len(nodes)), columns
            rows = self.rows(nodes[:0])
            rows.load(columns)
            self.put(nodes, rows)


class Memory(nn.Module):
    """The memory module: message, aggregate, update.

    Args:
        width: length of a state s_v.
        features: width of the event features.
        cell: `gru`, `rnn`, or `identity` (s_v stays x_v).
        aggregate: `last` - the node's newest events of the block (their mean when simultaneous); `mean` - all of them.
        time_width: length of the encoding of t - t_v.
        context: width of what a message says about the other end besides its state; see `commit`.
    """

    def __init__(
        self,
        width: int,
        features: int,
        cell: str = "gru",
        aggregate: str = "last",
        time_width: int = 16,
        context: int = 0,
    ):
        super().__init__()
        check_choice("memory_cell", cell, CELLS)
        check_choice("memory_aggregate", aggregate, AGGREGATES)
        self.width, self.aggregate, self.kind = width, aggregate, cell
        self.message_width = 2 * width + context + features
        if cell != "identity":
            self.time = TimeEncoding(time_width)
            make = nn.GRUCell if cell == "gru" else nn.RNNCell
            self.cell = make(self.message_width + time_width, width)

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> MemoryState:
        """s_v(0) = x_v, padded with zeros to the width of the memory."""
        device = next(self.parameters()).device if self.kind != "identity" else torch.device("cpu")
        state = MemoryState(
            memory=torch.zeros(0, self.width, device=device),
            updated=np.zeros(0, time_dtype),
            ever=np.zeros(0, bool),
            pending=np.zeros(0, bool),
            message=torch.zeros(0, self.message_width, device=device),
            message_t=np.zeros(0, time_dtype),
            message_dt=torch.zeros(0, device=device),
        )
        if node_features is not None:
            state.grow(len(node_features))
            state.memory[: len(node_features), : node_features.shape[1]] = tensor(node_features, device)
        return state

    def current(self, state: MemoryState | StaleView, nodes: np.ndarray) -> Tensor:  # (len(nodes), d)
        """s_v of each node with its pending message applied, differentiable in this module's parameters.

        While a model learns they are also cached: a commit in the same call of the stream need not compute them again.
        Without gradients nothing is cached, so what is observed does not depend, in its last bits, on what is asked.
        """
        rows = state.rows(nodes)
        assert isinstance(rows, MemoryState)
        if self.kind == "identity":
            return rows.memory
        waits = tensor(np.flatnonzero(rows.pending), rows.memory.device)
        message, dt, memory = (x.index_select(0, waits) for x in (rows.message, rows.message_dt, rows.memory))
        applied = rows.memory.index_copy(0, waits, self._updated(message, dt, memory))
        if torch.is_grad_enabled() and isinstance(state, MemoryState):
            state.cached_states = nodes, applied.detach()
        return applied

    def _updated(self, message: Tensor, dt: Tensor, memory: Tensor) -> Tensor:  # (n, d)
        """cell([message ‖ φ(dt)], memory), in fewer products than the cell itself.

        A message begins with the node's own state, so two maps of it are one wherever they are only added; and it is
        stored detached, so nothing but φ(dt) needs a gradient.
        """
        cell, d = self.cell, self.width
        added = (2 if self.kind == "gru" else 1) * d  # gates that add what input and state give
        by_message, by_time = cell.weight_ih.split([self.message_width, len(self.time.phase)], 1)
        rest = len(by_message) - added
        (by_own, by_kept), (own_bias, kept_bias) = (x.split([added, rest]) for x in (cell.weight_hh, cell.bias_hh))
        by_message = by_message + pad(by_own, (0, self.message_width - d, 0, rest))
        bias = cell.bias_ih + pad(own_bias, (0, rest))
        given = torch.addmm(linear(message, by_message, bias), self.time(dt), by_time.T)
        if self.kind == "rnn":
            return torch.tanh(given)
        gates, new = given.split([added, rest], 1)
        return gru(gates, new, linear(memory, by_kept, kept_bias), memory)

    def _applied(self, state: MemoryState, nodes: np.ndarray) -> Tensor:
        """`current` of sorted nodes, from the cache if all of them are there."""
        (known, applied), state.cached_states = state.cached_states or (nodes[:0], None), None
        order = np.argsort(known)
        at = order[np.searchsorted(known[order[:-1]], nodes)] if len(known) else nodes
        if applied is None or (known[at] != nodes).any():
            return self.current(state, nodes)
        return applied.index_select(0, tensor(at, applied.device))

    @torch.no_grad()
    def commit(self, state: MemoryState, block: Events, time_unit: float, context: Tensor | None = None) -> None:
        """Apply a block of events: commit the pending messages of its nodes, then store the block's own.

        Eq. 3: m_v = MemAgg {[s_v, s_u, t - t_v, e]}, both states as they are right after this commit; t_v is the time
        of the last message applied, and t - t_v is 0 for a node that has had none. With `context` (e, 2, c), about the
        source and the destination of each event, a message also says what is known about the other end.
        """
        if self.kind == "identity" or not len(block):
            return
        nodes, ends = block.ends
        applied = self._applied(state, nodes)
        state.grow(int(nodes[-1]) + 1)
        none = np.zeros((len(block), 2, 0), np.float32)
        context_rows = none if context is None else context.numpy(force=True)
        features = none[:, 0] if block.features is None else block.features
        work = np.empty(len(nodes), block.t.dtype), np.empty(len(nodes), np.int64)
        with state.on_cpu(nodes) as (rows, columns):
            leave: Any = kernels.leave_messages
            leave(
                rows, ends, block.t, applied.numpy(force=True), context_rows, features, self.aggregate == "last",
                time_unit, *columns.values(), *work,
            )  # fmt: skip
