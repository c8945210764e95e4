"""Every model on one log: training and inference time per 1,000 events, beside torch_geometric's own TGN.

    python benchmarks/models.py [--data ../shared/data/uci.parquet] [--threads 1] [--epochs 1] [--json]
    python benchmarks/models.py --quick                      # 7,000 events: does it run
    python benchmarks/models.py --models tgn tgn-as-pyg pyg --epochs 5  # the comparison with torch_geometric alone

All models take turns, slice by slice of 1,000 events, in an order that rotates, so that noise on the machine hits all
of them alike; a ratio is the median over slices of two times measured right after each other. Times are wall time;
`cpu` is the ratio of processor time, which other people's processes disturb less. Everybody trains on the first 70 % of
the events, in batches of 200 with one random destination against each, Adam at the same rate, and is then asked about
the last 15 % with the same wrong destinations, knowing all that came before. Nobody looks things up in a second thread.

`pyg` is TGN as torch_geometric's public example puts it together from the library's parts (TGNMemory,
LastNeighborLoader, TransformerConv, Adam as it comes), with the layers, neighbors, widths and heads of our TGN and,
like ours, no dropout. It needs an event feature, so it gets a column of zeros. As in the example, it answers for a
whole batch as of the batch's start: every node is embedded once per batch. Ours answers as of each event's own time,
which makes about twice as many embeddings and a better model. `tgn-as-pyg` is our TGN trained the way of `pyg`: it is
asked about all events of a batch as of the batch's start, in training and after it. That row compares like with like.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from pintgn import EventLog, Query, Stream, read_events, simulate
from pintgn.learn.metrics import average_precision
from pintgn.models.registry import MODELS, model_class

BATCH, SLICE, RATE = 200, 1_000, 1e-4
SETTINGS: dict[str, tuple[str, dict[str, object]]] = {  # label: model and settings beside the defaults, as users run it
    **{name: (name, {}) for name in MODELS},
    "pint-plain": ("pint", {"positions": 0, "memory": 100}),
    "tgn-positions": ("tgn", {"positions": 4}),
    "tgn-as-pyg": ("tgn", {}),
}
SIZES = {"dim": 100, "neighbors": 10, "heads": 2, "memory": 100, "time_dim": 100}  # of the two TGN, one layer each


Seconds = list[tuple[float, float]]
"""Of each slice: by the clock on the wall, and of the processor."""


@dataclass
class Clock:
    """How long each slice took."""

    train: Seconds = field(default_factory=list)
    test: Seconds = field(default_factory=list)


class Ours:
    """A pintgn model: a stream, and Adam."""

    def __init__(self, log: EventLog, train: EventLog, label: str):
        self.log, self.at_start = log, label == "tgn-as-pyg"
        name, settings = SETTINGS[label]
        self.model = model_class(name).from_settings(settings)
        self.model.prepare(train)
        self.stream = self._new_stream()
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(parameters, RATE, fused=True) if parameters else None
        self.trains = self.optimizer is not None

    def _new_stream(self) -> Stream:
        return Stream(self.model, self.log.schema, node_features=self.log.node_features)

    def start(self) -> None:
        """Forget what has happened, not what was learned."""
        self.stream = self._new_stream()

    def _scores(self, batch: EventLog, wrong: np.ndarray) -> tuple[Tensor, Tensor]:
        query = batch.query
        if self.at_start:
            query = Query(query.src, query.dst, np.full_like(query.t, query.t[0]))
        yes, no = self.stream.replay(batch, [query, query.toward(wrong)])
        return yes, no

    def train(self, batch: EventLog, wrong: np.ndarray) -> None:
        yes, no = self._scores(batch, wrong)
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            (softplus(-yes).mean() + softplus(no).mean()).backward()
            self.optimizer.step()

    @torch.no_grad()
    def test(self, batch: EventLog, wrong: np.ndarray) -> tuple[Tensor, Tensor]:
        return self._scores(batch, wrong)

    @torch.no_grad()
    def observe(self, events: EventLog) -> None:
        self.stream.observe(events)


class Geometric:
    """torch_geometric's TGN, in a loop like that of its public example."""

    trains = True

    def __init__(self, log: EventLog):
        from torch_geometric.nn import TransformerConv
        from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader, TGNMemory

        dim, neighbors, heads, memory, waves = SIZES.values()
        torch.manual_seed(0)
        self.t = torch.from_numpy(log.t.astype(np.int64))
        features = torch.zeros(len(log), 1) if log.marked_features is None else torch.from_numpy(log.marked_features)
        self.features = features
        width = features.shape[1]
        message = IdentityMessage(width, memory, waves)
        self.memory = TGNMemory(log.nodes, width, memory, waves, message, LastAggregator())
        self.neighbors = LastNeighborLoader(log.nodes, neighbors)
        self.attention = TransformerConv(memory, dim // heads, heads=heads, edge_dim=width + waves)
        self.ends = torch.nn.ModuleList([torch.nn.Linear(dim, dim) for _ in range(2)])
        self.last = torch.nn.Linear(dim, 1)
        self.parts = torch.nn.ModuleList([self.memory, self.attention, self.ends, self.last])
        self.optimizer = torch.optim.Adam(self.parts.parameters(), RATE)
        self.place = torch.empty(log.nodes, dtype=torch.long)

    def start(self) -> None:
        self.parts.train()
        self.memory.reset_state()
        self.neighbors.reset_state()

    def _scores(self, batch: EventLog, wrong: np.ndarray) -> tuple[Tensor, Tensor]:
        src, dst, other = (torch.from_numpy(x.copy()) for x in (batch.src, batch.dst, wrong))
        nodes, edges, events = self.neighbors(torch.cat([src, dst, other]).unique())
        self.place[nodes] = torch.arange(len(nodes))
        state, updated = self.memory(nodes)
        since = (updated[edges[0]] - self.t[events]).float()
        known = torch.cat([self.memory.time_enc(since), self.features[events]], -1)
        h = self.attention(state, edges, known)
        h_src, h_dst, h_other = (h[self.place[x]] for x in (src, dst, other))
        ours = self.ends[0](h_src)
        yes, no = (self.last((ours + self.ends[1](x)).relu()).squeeze(-1) for x in (h_dst, h_other))
        return yes, no

    def _happen(self, batch: EventLog) -> None:
        src, dst = torch.from_numpy(batch.src.copy()), torch.from_numpy(batch.dst.copy())
        assert self.neighbors.cur_e_id == batch.first, "it numbers events by what it was given: none may be left out"
        rows = slice(batch.first, batch.first + len(batch))
        self.memory.update_state(src, dst, self.t[rows], self.features[rows])
        self.neighbors.insert(src, dst)

    def train(self, batch: EventLog, wrong: np.ndarray) -> None:
        self.optimizer.zero_grad()
        yes, no = self._scores(batch, wrong)
        loss = softplus(-yes).mean() + softplus(no).mean()
        self._happen(batch)
        loss.backward()
        self.optimizer.step()
        self.memory.detach()

    @torch.no_grad()
    def test(self, batch: EventLog, wrong: np.ndarray) -> tuple[Tensor, Tensor]:
        self.parts.eval()
        answer = self._scores(batch, wrong)
        self._happen(batch)
        return answer

    @torch.no_grad()
    def observe(self, events: EventLog) -> None:
        self.parts.eval()
        for batch in events.batches(BATCH):
            self._happen(batch)


Runner = Ours | Geometric


def batches(log: EventLog, size: int) -> Iterator[EventLog]:
    """Cut where the number of an event is a multiple of the size, as memory does; the first may be shorter."""
    short = -log.first % size
    if short:
        yield log[:short]
    yield from log[short:].batches(size)


def take_turns(
    runners: dict[str, Runner], log: EventLog, work: Callable[[Runner, EventLog], None]
) -> dict[str, Seconds]:
    """Seconds of every runner for every slice, the last one shorter; who begins rotates."""
    seconds: dict[str, Seconds] = {label: [] for label in runners}
    for number, events in enumerate(batches(log, SLICE)):
        labels = list(runners)
        turn = number % len(labels)
        for label in labels[turn:] + labels[:turn]:
            start, processor = time.perf_counter(), time.process_time()
            work(runners[label], events)
            seconds[label].append((time.perf_counter() - start, time.process_time() - processor))
    return seconds


def measure(log: EventLog, labels: list[str], epochs: int) -> dict[str, dict[str, float | None]]:
    train, val, test = log.split()
    wrong = np.random.default_rng(0).choice(np.unique(train.dst), (epochs + 1, len(log)))
    runners: dict[str, Runner] = {}
    for label in labels:
        runners[label] = Geometric(log) if label == "pyg" else Ours(log, train, label)
    clocks = {label: Clock() for label in labels}

    for runner in runners.values():  # compile; weights are moved a little, equally for all
        for batch in train[:SLICE].batches(BATCH):
            runner.train(batch, wrong[0, batch.first : batch.first + len(batch)])

    def note(epoch: int) -> Callable[[Runner, EventLog], None]:
        def run(runner: Runner, events: EventLog) -> None:
            for batch in batches(events, BATCH):
                runner.train(batch, wrong[epoch, batch.first : batch.first + len(batch)])

        return run

    for epoch in range(epochs):
        for runner in runners.values():
            runner.start()
        for label, seconds in take_turns(runners, train, note(epoch)).items():
            clocks[label].train += seconds
        print(f"epoch {epoch + 1}/{epochs}", file=sys.stderr)
    scores: dict[str, list[Tensor]] = {label: [] for label in labels}
    names = {id(runner): label for label, runner in runners.items()}
    for runner in runners.values():
        if not isinstance(runner, Geometric):  # its memory after training is what its example goes on with
            runner.start()
            runner.observe(train)
        else:
            runner.parts.eval()
        runner.observe(val)

    def ask(runner: Runner, events: EventLog) -> None:
        for batch in batches(events, BATCH):
            pair = runner.test(batch, wrong[-1, batch.first : batch.first + len(batch)])
            scores[names[id(runner)]].append(torch.stack(pair))

    for label, seconds in take_turns(runners, test, ask).items():
        clocks[label].test = seconds
    found: dict[str, dict[str, float | None]] = {}
    for label, clock in clocks.items():
        yes, no = torch.cat(scores[label], 1).numpy()
        ap = average_precision(np.repeat([True, False], len(yes)), np.concatenate([yes, no]))
        row: dict[str, float | None] = dict.fromkeys(("train", "epoch"))
        row |= {"infer": 1e3 * float(np.median(clock.test, 0)[0]), "ap": 100 * ap}
        if runners[label].trains:
            row["train"] = 1e3 * float(np.median(clock.train, 0)[0])
            row["epoch"] = float(np.sum(clock.train, 0)[0]) / epochs
        if "pyg" in clocks:
            for part in ("train", "test") if runners[label].trains else ("test",):
                ratios = np.array(getattr(clocks["pyg"], part)) / np.array(getattr(clock, part))
                row[f"{part}_ratio"], row[f"{part}_cpu_ratio"] = np.median(ratios, 0).tolist()
        found[label] = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/uci.parquet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--events", type=int, help="Only the first so many events.")
    parser.add_argument("--quick", action="store_true", help="Only 7,000 events.")
    parser.add_argument("--json", action="store_true")
    known = [*(label for label in SETTINGS if label != "ctdne"), "pyg"]
    parser.add_argument("--models", nargs="*", default=known, choices=known, metavar="MODEL", help=", ".join(known))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    log = read_events(options.data) if Path(options.data).exists() else simulate("repeat", events=60_000)
    log = log[: 7_000 if options.quick else options.events]
    found = measure(log, options.models, options.epochs)
    load = os.getloadavg()[0]
    if options.json:
        about = {"data": repr(log), "threads": options.threads, "epochs": options.epochs, "load": load}
        print(json.dumps(about | {"models": found}, indent=1))
        return
    print(f"{log!r}; {options.threads} thread(s), batch {BATCH}, {options.epochs} epoch(s), load {load:.1f}")
    print(f"{'':<15}{'ms per 1,000 events':>20}{'epoch':>8}{'test':>8}{'times as fast as pyg':>28}")
    print(f"{'':<15}{'train':>10}{'infer':>10}{'s':>8}{'AP':>8}{'train':>9}{'cpu':>6}{'infer':>7}{'cpu':>6}")
    for label, row in found.items():
        cells = [("train", 10, ".1f"), ("infer", 10, ".1f"), ("epoch", 8, ".2f"), ("ap", 8, ".2f")]
        cells += [(f"{part}_ratio", wide, ".2f") for part, wide in (("train", 9), ("train_cpu", 6))]
        cells += [(f"{part}_ratio", wide, ".2f") for part, wide in (("test", 7), ("test_cpu", 6))]
        told = ((row.get(key), wide, form) for key, wide, form in cells)
        print(f"{label:<15}" + "".join(f"{'-' if x is None else format(x, form):>{wide}}" for x, wide, form in told))
    if "tgn-as-pyg" in found:
        print("tgn-as-pyg is asked about a whole batch as of its start, as pyg is; the others as of each event's time")


if __name__ == "__main__":
    main()
