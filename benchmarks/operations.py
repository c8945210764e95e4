"""What it is worth to compile a model's parts whole: operations, forward and backward, beside their equations in torch.

    OMP_NUM_THREADS=1 python benchmarks/operations.py [--threads 1] [--quick] [--json]

The sizes are those of one batch of TGN-Att on UCI: 200 events and a wrong destination each, 10 neighbors, 100 wide, two
heads. Both sides of a pair take turns; a ratio is the median of two times measured right after each other. `product` is
one product of matrices called from inside a compiled function, beside the same one called by torch; `product, scipy` is
what it would be with scipy's BLAS instead of torch's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from pintgn.models import blas
from pintgn.models.attention import AttentionLayer
from pintgn.models.fused import Run
from pintgn.models.layers import MLP, Edges, Places, TimeEncoding
from pintgn.models.memory import Memory, MemoryState
from pintgn.models.pairs import Judgement

NODES, LATE, PARENTS, ASKING, PAIRS, K, DIM, HEADS = 520, 430, 600, 300, 400, 10, 100, 2
Pair = tuple[Callable[[], object], Callable[[], object]]


def learned(run: Callable[[], Tensor], leaves: list[Tensor]) -> Callable[[], object]:
    def step() -> object:
        out = run()
        return torch.autograd.grad(out, leaves, torch.ones_like(out))

    return step


def memory_step(rng: np.random.Generator) -> Pair:
    machine = Memory(DIM, 0, time_width=DIM)
    state = machine.initial_state(None, np.dtype(np.int64))
    state.grow(NODES)
    state.memory.normal_()
    state.message.normal_()
    state.message[:, :DIM] = state.memory
    state.message_dt.exponential_()
    state.pending[rng.permutation(NODES)[:LATE]] = True
    nodes, leaves = np.arange(NODES), list(machine.parameters())

    def whole() -> Tensor:
        assert isinstance(state, MemoryState)
        return Run.apply(machine.step(state, nodes), *machine.weights)

    return learned(whole, leaves), learned(lambda: machine.written_out(state, nodes), leaves)


def attention(rng: np.random.Generator) -> Pair:
    layer, clock = AttentionLayer(DIM, 0, 0, DIM, DIM, HEADS), TimeEncoding(DIM)
    table = torch.randn(NODES, DIM, requires_grad=True)
    places = PARENTS + PARENTS * K
    row_of = np.concatenate([rng.integers(0, ASKING, PARENTS), rng.integers(0, NODES, PARENTS * K)]).astype(np.int32)
    known = Places(table, row_of, np.zeros((places, 0), np.float32))
    slots = PARENTS * K
    edges = Edges(
        child=np.arange(PARENTS, places, dtype=np.int32),
        mask=torch.from_numpy(rng.random(slots) < 0.75),
        dt=torch.rand(slots),
        event_of=np.zeros(slots, np.int32),
        features=None,
        k=K,
    )
    leaves = [table, *layer.parameters(), *clock.parameters()]

    def run(fused: bool) -> Callable[[], Tensor]:
        def forward() -> Tensor:
            layer.fused = fused
            return layer(known, edges, clock)

        return forward

    return learned(run(True), leaves), learned(run(False), leaves)


def judgement(rng: np.random.Generator) -> Pair:
    readout, h = MLP(2 * DIM, DIM, 1), torch.randn(PARENTS, DIM, requires_grad=True)
    source, end = np.repeat(rng.integers(0, PARENTS, PAIRS // 2), 2), rng.integers(0, PARENTS, PAIRS)
    tree_of = np.stack([source, end], 1).ravel()
    rows, leaves = torch.from_numpy(tree_of), [h, *readout.parameters()]
    whole = learned(lambda: Run.apply(Judgement(tree_of), h, *readout.weights), leaves)
    return whole, learned(lambda: readout(h[rows].view(PAIRS, -1)).squeeze(-1), leaves)


def product(rng: np.random.Generator) -> Pair:
    a, b, c = (rng.normal(size=s).astype(np.float32) for s in ((LATE, 300), (300, 300), (LATE, 300)))
    one, two, out = map(torch.from_numpy, (a, b, c))
    return lambda: blas.gemm(1, a, b.T, 0, c), lambda: torch.mm(one, two.T, out=out)


def product_by_scipy(rng: np.random.Generator) -> Pair:
    a, b, c = (rng.normal(size=s).astype(np.float32) for s in ((LATE, 300), (300, 300), (LATE, 300)))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(blas.scipy_address("sgemm"))
    numbers = [ctypes.byref(ctypes.c_int(n)) for n in (300, LATE, 300)]
    flags = [ctypes.byref(ctypes.c_char(flag)) for flag in (b"T", b"N")]
    wide, one, zero = numbers[0], ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))

    def run() -> None:
        call(*flags, *numbers, one, b.ctypes.data, wide, a.ctypes.data, wide, zero, c.ctypes.data, wide)

    return run, product(rng)[1]


def in_turns(pair: Pair, turns: int) -> np.ndarray:
    """Seconds (turns, 2) of both, right after each other; who begins alternates."""
    seconds = np.empty((turns, 2))
    for turn in range(-3, turns):  # the first compile
        for which in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            pair[which]()
            if turn >= 0:
                seconds[turn, which] = time.perf_counter() - start
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="10 turns instead of 200.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    parts = {
        "memory's step": memory_step,
        "attention": attention,
        "judgement of pairs": judgement,
        "product": product,
        "product, scipy": product_by_scipy,
    }
    found = {}
    for name, make in parts.items():
        seconds = in_turns(make(rng), 10 if options.quick else 200)
        compiled, written = 1e3 * np.median(seconds, 0)
        found[name] = {"compiled": compiled, "torch": written, "ratio": float(np.median(seconds[:, 1] / seconds[:, 0]))}
    if options.json:
        print(json.dumps({"threads": options.threads, "operations": found}, indent=1))
        return
    print(f"forward and backward, median ms; {options.threads} thread(s)")
    print(f"{'':<20}{'compiled':>10}{'torch':>10}{'times as fast':>16}")
    for name, row in found.items():
        print(f"{name:<20}{row['compiled']:>10.3f}{row['torch']:>10.3f}{row['ratio']:>16.2f}")


if __name__ == "__main__":
    main()
