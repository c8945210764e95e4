"""A training step, split into gather / forward / backward / update, mid-stream on real data.

    python benchmarks/step.py [--data ../shared/data/uci.parquet] [--threads 2] [--layers 2] [--models pint ...]

Every model runs as users run it; PINT also as its equations are written (`plain`: the same look-ups, but every node
computed wherever it stands in a tree, no fused kernel, no rewrites). Both take turns on the same batches, so that the
ratio is measured side by side. A step is 200 events and a random negative for each. MB is the size of what a step looks
up.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn import EventLog, Stream, read_events, simulate
from pintgn.models.layers import InjectiveLayer
from pintgn.models.registry import MODELS, model_class
from pintgn.models.trees import Trees

PARTS = ("gather", "forward", "backward", "update")


class Runner:
    """One model mid-stream, and the seconds that each part of its steps has taken."""

    def __init__(self, log: EventLog, name: str, plain: bool, **settings: object):
        self.plain = plain
        self.label = f"{name}, plain" if plain else name
        self.model = model_class(name).from_settings(settings)
        self.stream = Stream(self.model, log.schema, node_features=log.node_features)
        self.stream.observe(log[: len(log) // 2])
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-4) if list(self.model.parameters()) else None
        self.seconds: list[list[float]] = []
        self.gathered = 0  # bytes that the last step looked up
        self.forward_seconds = 0.0
        inner = self.model.forward

        def timed(inputs: Any, state: object) -> torch.Tensor:
            self.gathered = bytes_in(inputs)
            inputs = unrolled(inputs) if plain else inputs
            start = time.perf_counter()
            out = inner(inputs, state)
            self.forward_seconds += time.perf_counter() - start
            return out

        self.model.forward = timed  # type: ignore[method-assign]

    def step(self, events: EventLog, negative: object) -> None:
        InjectiveLayer.fused = not self.plain
        self.forward_seconds = 0.0
        start = time.perf_counter()
        yes, no = self.stream.replay(events, [events.query, negative])
        replayed = time.perf_counter()
        marks = [replayed - start - self.forward_seconds, self.forward_seconds]
        if self.optimizer is not None:
            loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
            self.optimizer.zero_grad()
            loss.backward()
            back = time.perf_counter()
            self.optimizer.step()
            marks += [back - replayed, time.perf_counter() - back]
        self.seconds.append([*marks, 0, 0][:4])

    @property
    def parts(self) -> np.ndarray:
        """Median milliseconds of each part; the first steps, which compile, are left out."""
        return 1000 * np.median(np.array(self.seconds[3:]), axis=0)


def unrolled(trees: Trees) -> Trees:
    """The same trees with a place for every node wherever it stands, as the equations have them."""
    levels, rows = [np.arange(trees.sizes[0])], []
    for _ in trees.sizes[1:]:
        rows.append(levels[-1])
        levels.append(trees.child[levels[-1]].ravel())
    everyone, parents = np.concatenate(levels), np.concatenate(rows)
    below = trees.sizes[0] + np.arange(parents.size * trees.child.shape[1])
    return dataclasses.replace(
        trees,
        sizes=np.cumsum([len(level) for level in levels]).tolist(),
        group=trees.group[everyone],
        rank=trees.rank[everyone],
        node_of=trees.node_of[everyone],
        child=below.reshape(len(parents), -1),
        mask=trees.mask[parents],
        dt=trees.dt[parents],
        event_of=trees.event_of[parents],
    )


def bytes_in(inputs: object) -> int:
    """Bytes of all arrays in what `gather` returned."""
    if isinstance(inputs, np.ndarray):
        return inputs.nbytes
    if dataclasses.is_dataclass(inputs):
        inputs = [getattr(inputs, field.name) for field in dataclasses.fields(inputs)]
    elif isinstance(inputs, dict):
        inputs = list(inputs.values())
    return sum(map(bytes_in, inputs)) if isinstance(inputs, list | tuple) else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/uci.parquet")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--no-positions", action="store_true")
    parser.add_argument("--models", nargs="*", default=[name for name in MODELS if name != "ctdne"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    log = read_events(options.data) if Path(options.data).exists() else simulate("repeat", events=60_000)
    print(f"{log!r}; {options.threads} threads, batch 200, mid-stream, median of {options.steps} steps, milliseconds")
    pool, rng = np.unique(log.dst), np.random.default_rng(0)
    runners = []
    for name in options.models:
        settings = (
            {"layers": options.layers, "memory": options.memory, **({"positions": 0} if options.no_positions else {})}
            if name == "pint"
            else {}
        )
        runners.append(Runner(log, name, plain=False, **settings))
        if name == "pint":
            runners.append(Runner(log, name, plain=True, **settings))
    start = len(log) // 2
    for number, events in enumerate(log[start:].batches(200)):
        if number == options.steps + 3:
            break
        negative = events.query.toward(rng.choice(pool, len(events)))
        for runner in runners:
            runner.step(events, negative)
    print(f"{'':<16}" + "".join(f"{name:>10}" for name in (*PARTS, "step", "gather %", "MB", "ratio")))
    slowest = {r.label.split(",")[0]: r.parts.sum() for r in runners if r.plain}
    for runner in runners:
        total = runner.parts.sum()
        reference = slowest.get(runner.label)
        ratio = f"{reference / total:9.1f}x" if reference else ""
        cells = "".join(
            f"{part:10.2f}" for part in (*runner.parts, total, 100 * runner.parts[0] / total, runner.gathered / 1e6)
        )
        print(f"{runner.label:<16}{cells}{ratio}")


if __name__ == "__main__":
    main()
