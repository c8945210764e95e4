"""Layers that several models share, and fused steps of autograd.

A fused step has a hand-written derivative and shares its work out among threads, because autograd of many small steps
costs more than the steps. It keeps what `backward` needs: views of the tensors it is given and of what it returns
(`save_for_backward` refuses when they have changed since), copies of everything else that others may write to.
`backward` may be called several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pintgn.models import kernels_trees

kernels: Any = kernels_trees  # compiled: their arguments are not for mypy to check

SEEN_OFTEN = 4
"""Slots per tree node from which on it pays to map a tree node before its slots, when nothing is learned."""
WORTH_A_THREAD = 20_000
"""Slots below which a second thread costs more than it brings."""


def tensor(array: np.ndarray, device: torch.device | None = None) -> Tensor:
    """A NumPy array as a tensor, without a copy where possible."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)


class MLP(nn.Module):
    """Two linear maps with a ReLU between: approximates any function on a finite support (paper, Section 4)."""

    def __init__(self, width: int, hidden: int, out: int):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:  # (…, width) -> (…, out)
        return self.last(torch.relu(self.first(x)))


@dataclass
class TreeNodes:
    """The inputs of tree nodes: a row of a table, which several may share, and positions of their own."""

    table: Tensor  # (rows, s)
    row_of: np.ndarray | None  # (nodes,); None: every node has its own row, in order
    positions: np.ndarray  # (nodes, p); p may be 0

    def __len__(self) -> int:
        return len(self.positions)

    def first(self, count: int) -> TreeNodes:
        if self.row_of is None:
            return TreeNodes(self.table[:count], None, self.positions[:count])
        return TreeNodes(self.table, self.row_of[:count], self.positions[:count])

    def spread(self, by_row: Tensor) -> Tensor:
        """For each node, its row of something that has a row for each row of the table."""
        if self.row_of is None:
            return by_row
        return by_row.index_select(0, tensor(self.row_of, by_row.device))

    def dense(self) -> Tensor:  # (nodes, s + p)
        own = self.spread(self.table)
        return torch.cat([own, tensor(self.positions, own.device)], -1) if self.positions.shape[1] else own


@dataclass
class Edges:
    """Edges from the first tree nodes to their contacts: k slots for each, one node's slots after the other's."""

    child: np.ndarray  # (slots,) the tree node at the other end
    mask: Tensor  # (slots,) bool, False where there is no contact
    dt: Tensor  # (slots,) time from the event to the query, in units of the log's time scale
    event_of: np.ndarray  # (slots,) which of the distinct events
    features: Tensor | None  # (e', f) of the distinct events
    k: int

    @property
    def parents(self) -> int:
        return len(self.child) // self.k

    def first(self, parents: int) -> Edges:
        slots = parents * self.k
        return Edges(
            self.child[:slots], self.mask[:slots], self.dt[:slots], self.event_of[:slots], self.features, self.k
        )

    def seen(self, nodes: TreeNodes) -> TreeNodes:
        """The tree node at the other end of every slot."""
        row_of = self.child if nodes.row_of is None else nodes.row_of[self.child]
        return TreeNodes(nodes.table, row_of, nodes.positions[self.child])


class InjectiveLayer(nn.Module):
    """One step of PINT's message passing (Eqs. 5-6), from all tree nodes to the first ones.

        ĥ_v = Σ_u MLP_agg(h_u ‖ e) · weight_u        h_v = MLP_upd(h_v ‖ ĥ_v)

    On the CPU it is computed without waste, by rewrites that change nothing but rounding: the first map of MLP_agg
    splits by input, so that what slots share is mapped once; its last map commutes with the weighted sum and merges
    with the first map of MLP_upd; what remains per slot is one fused loop. Elsewhere, or with `fused = False`, it is
    computed as written.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, dim: int):
        super().__init__()
        self.split, self.own = [state, positions, features], [state, positions]
        self.aggregate = MLP(sum(self.split), dim, dim)
        self.update = MLP(sum(self.own) + dim, dim, dim)

    def forward(self, nodes: TreeNodes, edges: Edges, weight: Tensor) -> Tensor:
        """The first tree nodes' embeddings (parents, d); `weight` is (slots,)."""
        if self.fused and weight.device.type == "cpu":
            return self._fused(nodes, edges, weight)
        parts = [edges.seen(nodes).dense()]
        if edges.features is not None:
            parts.append(edges.features[tensor(edges.event_of, weight.device)])
        message = self.aggregate(torch.cat(parts, -1)) * weight[:, None]
        summed = message.view(edges.parents, edges.k, -1).sum(1)
        return self.update(torch.cat([nodes.first(edges.parents).dense(), summed], -1))

    def _fused(self, nodes: TreeNodes, edges: Edges, weight: Tensor) -> Tensor:
        first, last, into, slots = self.aggregate.first, self.aggregate.last, self.update.first, len(edges.child)
        (state, place, _), parents = self.split, nodes.first(slots // edges.k)
        # Σ_u relu(first map of MLP_agg) · weight_u
        by_state, by_position, by_feature = first.weight.split(self.split, 1)
        row, row_of = first.bias.expand(1, -1), np.zeros(slots, np.int32)  # of a slot without inputs
        own, mix = np.zeros((slots, 0), np.float32), by_position[:, :0]
        if state:
            row = torch.addmm(first.bias, nodes.table, by_state.T)
            row_of = edges.child if nodes.row_of is None else nodes.row_of[edges.child]
        if place and (torch.is_grad_enabled() or slots > SEEN_OFTEN * len(nodes.positions)):
            bias = nodes.spread(row) if state else first.bias
            row, row_of = torch.addmm(bias, tensor(nodes.positions), by_position.T), edges.child
        elif place:  # slot by slot: storing what is seen once or twice costs more than mapping it again
            own, mix = nodes.positions[edges.child], by_position
        none = first.weight.new_zeros(0, len(first.bias))
        carried = none if edges.features is None else edges.features @ by_feature.T
        summed = WeightedReluSum.apply(row, carried, mix.T, weight, edges.k, row_of, edges.event_of, own)
        # the last map of MLP_agg and the first of MLP_upd, as one
        own_state, own_position, from_sum = into.weight.split([*self.own, len(last.bias)], 1)
        total = weight.view(-1, edges.k).sum(1, keepdim=True)
        z = torch.addmm(into.bias, summed, (from_sum @ last.weight).T) + total * (from_sum @ last.bias)
        if state:
            z = z + parents.spread(parents.table @ own_state.T)
        if place:
            z = torch.addmm(z, tensor(parents.positions), own_position.T)
        return self.update.last(torch.relu(z))


class TimeEncoding(nn.Module):
    """φ(dt) = cos(ω dt + b), learned (paper, Eq. S1; TGAT). dt in units of the log's time scale.

    The frequencies start evenly spaced on a log scale, from a thousandth to a million times the time scale, which
    covers seconds to years for any log whose nodes act every few hours.
    """

    def __init__(self, width: int):
        super().__init__()
        self.frequency = nn.Parameter(torch.logspace(3, -6, width))
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, dt: Tensor) -> Tensor:  # (…) -> (…, width)
        return torch.cos(dt[..., None] * self.frequency + self.phase)


def gru(gates: Tensor, new: Tensor, kept: Tensor, h: Tensor) -> Tensor:  # (n, d)
    """The end of a GRU's step from states h (n, d), as `nn.GRUCell` defines it, with everything mapped already.

    `gates` (n, 2d) are reset and update before their sigmoid, `new` what the input adds to the candidate, and `kept`
    what the state adds, before the reset gate.
    """
    reset, update = torch.sigmoid(gates).chunk(2, 1)
    return torch.lerp(torch.tanh(torch.addcmul(new, reset, kept)), h, update)


# -- fused steps -------------------------------------------------------------------------------------------------------


class WeightedReluSum(torch.autograd.Function):
    """out[p] = Σ over the k slots of p of weight · relu(row[row_of] + event[event_of] + own · mix).

    Of row (n, d), event (e', d), mix (c, d) and weight (slots,); see the kernels for what the parts are. CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any, row: Tensor, event: Tensor, mix: Tensor, weight: Tensor, k: int, row_of: np.ndarray,
        event_of: np.ndarray, own: np.ndarray,
    ) -> Tensor:  # (parents, d)  # fmt: skip
        row_, event_, mix_, weight_ = arrays(row, event, mix, weight)
        parts = row_, row_of, event_, event_of, own, mix_, weight_
        out = np.empty((len(weight_) // k, row_.shape[1]), row_.dtype)
        in_chunks(lambda first, last: kernels.weighted_relu_sum(first, last, k, *parts, out), len(out), k)
        made = torch.from_numpy(out)
        ctx.parts, ctx.k, ctx.learned = parts, k, weight.requires_grad
        ctx.save_for_backward(row, event, mix, weight, made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # refuses when one of them was changed since
        row, _, event, _, _, mix, weight = parts = ctx.parts
        (grad_,), to_weight = arrays(grad), np.zeros(len(weight) if ctx.learned else 0, weight.dtype)
        run = kernels.weighted_relu_sum_backward
        sums = in_chunks(
            lambda first, last, *sums: run(first, last, ctx.k, *parts, grad_, *sums, to_weight),
            len(grad_), ctx.k, (row, event, mix),
        )  # fmt: skip
        return *sums, torch.from_numpy(to_weight) if ctx.learned else None, None, None, None, None


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [(x.detach() if x.requires_grad else x).contiguous().numpy() for x in tensors]


def in_chunks(run: Callable[..., Any], parents: int, k: int, like: Sequence[np.ndarray] = ()) -> list[Tensor]:
    """Call run(first, last, *sums) for one chunk of the parents per thread; as many threads as torch may use.

    Every thread has sums of its own, which begin as zeros `like` some arrays; returns all threads' sums together.
    """
    threads = min(torch.get_num_threads(), max(1, parents * k // WORTH_A_THREAD))
    sums = [[np.zeros_like(x) for x in like] for _ in range(threads)]
    if threads == 1:
        run(0, parents, *sums[0])
    else:
        bounds = np.linspace(0, parents, threads + 1).astype(int).tolist()
        list(_pool().map(run, bounds[:-1], bounds[1:], *zip(*sums, strict=True)))
    for more in sums[1:]:
        for mine, other in zip(sums[0], more, strict=True):
            mine += other
    return [torch.from_numpy(total) for total in sums[0]]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="pintgn-fused")
