"""Relative positions in someone else's model: PyTorch Geometric's TGN, with and without them.

    python examples/pyg_tgn.py events.parquet --seeds 3

The network is PyG's (`TGNMemory`, `LastNeighborLoader`, `TransformerConv`); the loop is plain PyTorch. All that pintgn
adds stands in `Positions`: it observes the same events and gives 16 numbers for each pair, which the last layer reads
beside both embeddings. Split 70/15/15 by time, one random destination for each event, the epoch chosen on validation;
both rows share seeds, negatives and settings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

import pintgn
from pintgn.interop import to_pyg
from pintgn.learn.metrics import average_precision


# [positions]
class Positions:
    """How often, and how far back, each end of a pair occurs in the other's past: (pairs, 16)."""

    def __init__(self, fresh: bool):
        self.counts, self.fresh = pintgn.RelativePositions(d=4), fresh

    def __call__(self, src: Tensor, dst: Tensor, t: Tensor, other: Tensor) -> Tensor:
        """Observe a batch of events; the positions of its pairs, then those of (src, other)."""
        ends = torch.stack([src.repeat(2), torch.cat([dst, other])], 1).numpy()  # both ends, relative to both ends
        events = (src.numpy(), dst.numpy(), t.numpy())
        if self.fresh:  # each pair as of its own time
            found = self.counts.replay(*events, ends, ends, at=t.repeat(2).numpy())
        else:  # all pairs as of the start of the batch, like TGN's own memory and neighbors
            found = self.counts.read(ends[:, :, None], ends[:, None, :], at=events[2][0])
            self.counts.observe(*events)
        return torch.from_numpy(found).flatten(1)


# [/positions]


class TGN(nn.Module):
    """PyG's TGN: memory, one layer of attention over the last ten neighbors, and a scorer of pairs."""

    def __init__(self, data, width: int = 100, positions: int = 0):
        super().__init__()
        message = IdentityMessage(data.msg.size(1), width, width)
        self.memory = TGNMemory(data.num_nodes, data.msg.size(1), width, width, message, LastAggregator())
        with torch.no_grad():  # periods from seconds to decades, as in TGN's own code; PyG's start fits no such times
            self.memory.time_enc.lin.weight[:, 0] = 10 ** -torch.linspace(0, 9, width)
            self.memory.time_enc.lin.bias.zero_()
        edge = data.msg.size(1) + width
        self.conv = TransformerConv(width, width // 2, heads=2, dropout=0.1, edge_dim=edge)
        self.scorer = nn.Sequential(nn.Linear(2 * width + positions, width), nn.ReLU(), nn.Linear(width, 1))
        self.neighbors = LastNeighborLoader(data.num_nodes, size=10)
        self.place = torch.empty(data.num_nodes, dtype=torch.long)
        self.data = data

    def restart(self, positions: Positions | None) -> None:
        self.memory.reset_state()
        self.neighbors.reset_state()
        self.positions = positions

    def forward(self, src: Tensor, dst: Tensor, t: Tensor, msg: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of a batch and of its negatives; afterwards the batch has happened."""
        nodes, edges, number = self.neighbors(torch.cat([src, dst, other]).unique())
        self.place[nodes] = torch.arange(len(nodes))
        state, last = self.memory(nodes)
        ago = self.memory.time_enc((last[edges[0]] - self.data.t[number]).to(state.dtype))
        h = self.conv(state, edges, torch.cat([ago, self.data.msg[number]], 1))
        pair = [h[self.place[src.repeat(2)]], h[self.place[torch.cat([dst, other])]]]
        if self.positions is not None:
            pair.append(self.positions(src, dst, t, other))
        logits = self.scorer(torch.cat(pair, 1)).squeeze(1)
        self.memory.update_state(src, dst, t, msg)
        self.neighbors.insert(src, dst)
        return logits[: len(src)], logits[len(src) :]


def passed(model: TGN, part, pool: Tensor, draw: torch.Generator, optimizer=None) -> float:
    """One pass over a part of the data, learning if there is an optimizer; the AP over all its scores."""
    model.train(optimizer is not None)
    scores: list[Tensor] = []
    for start in range(0, len(part.src), 200):
        src, dst, t, msg = (getattr(part, name)[start : start + 200] for name in ("src", "dst", "t", "msg"))
        other = pool[torch.randint(len(pool), (len(src),), generator=draw)]
        with torch.set_grad_enabled(optimizer is not None):
            yes, no = model(src, dst, t, msg, other)
        if optimizer is not None:
            loss = nn.functional.softplus(-yes).mean() + nn.functional.softplus(no).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.memory.detach()
        scores.append(torch.stack([yes, no]).detach())
    both = torch.cat(scores, 1)
    truth = np.repeat([True, False], both.size(1))
    return average_precision(truth, both.numpy().ravel())


def train(data, parts, kind: str, seed: int, epochs: int, learning_rate: float) -> dict:
    """The best epoch by validation, and what it scores on test."""
    torch.manual_seed(seed)
    model = TGN(data, positions=0 if kind == "TGN" else 16)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    pool, best, began = data.dst.unique(), {"val": 0.0}, time.perf_counter()
    learn = torch.Generator().manual_seed(seed)
    for epoch in range(1, epochs + 1):
        model.restart(None if kind == "TGN" else Positions(fresh="batch" not in kind))
        passed(model, parts[0], pool, learn, optimizer)
        val, test = (
            passed(model, part, pool, torch.Generator().manual_seed(1000 + seed + place))
            for place, part in enumerate(parts[1:])
        )
        print(f"{kind}, seed {seed}: epoch {epoch}/{epochs}  val AP {100 * val:.2f}", flush=True)
        if val > best["val"]:
            best = {"val": val, "test": test, "epoch": epoch}
    return best | {"seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description="PyG's TGN with and without relative positions.")
    parser.add_argument("events", help="a file of events with the columns src, dst and t")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--json", help="write all results to this file")
    given = parser.parse_args()

    log = pintgn.read_events(given.events)
    data = to_pyg(log)
    data.t = data.t - data.t[0]  # TGNMemory starts every node's clock at 0
    if "msg" not in data:
        data.msg = torch.zeros(len(data.src), 1)
    cuts = np.cumsum([len(part) for part in log.split()])
    parts = [data[a:b] for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    rows = {}
    for kind in ("TGN", "TGN + positions", "TGN + positions, once per batch"):
        rows[kind] = [train(data, parts, kind, seed, given.epochs, given.learning_rate) for seed in range(given.seeds)]
    for kind, found in rows.items():
        test, seconds = ([one[name] for one in found] for name in ("test", "seconds"))
        spread = statistics.stdev(test) if len(test) > 1 else 0.0
        print(
            f"{kind:<32} test AP {100 * statistics.mean(test):.2f} ± {100 * spread:.2f}  "
            f"{statistics.mean(seconds):.0f} s a seed"
        )
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
