"""What the workers of these tests do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch

import pintgn
from pintgn.learn import fit
from pintgn.learn.settings import Settings
from pintgn.models.registry import MODELS
from pintgn.workers.group import together


def small_log() -> pintgn.EventLog:
    """Ties, self-loops, repeats, and batches that cannot be shared evenly."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 12, (2, 260))
    return pintgn.EventLog(src, dst, np.sort(rng.integers(0, 120, 260)), features=rng.normal(size=(260, 2)))


def gradients(target: str) -> None:
    """Every gradient that a training of each model gives the optimizer, while the weights stay what they were."""
    found: dict[str, np.ndarray] = {}
    step = torch.optim.Adam.step
    for name in MODELS:
        steps: list[np.ndarray] = []

        def record(self: torch.optim.Adam, steps: list[np.ndarray] = steps) -> None:
            given = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.param_groups[0]["params"]]
            steps.append(torch.cat([g.flatten() for g in given]).numpy().copy())

        torch.optim.Adam.step = record  # type: ignore[method-assign]
        model = {"name": name} | ({"dim": 8} if name not in ("boosted", "edgebank", "heuristic") else {})
        train = {"epochs": 2, "batch": 31, "clip": 0.0, "threads": 1}
        settings = Settings.of({"model": model, "train": train})
        with together() as group:
            pintgn.fit(settings, small_log(), progress=False)
        if group.rank == 0:
            found[name] = np.array(steps)
    torch.optim.Adam.step = step  # type: ignore[method-assign]
    if group.rank == 0:
        np.savez(target, **found)  # type: ignore[arg-type]


def train(target: str, events: int, model: str, folder: str | None = None) -> None:
    """Train; each worker writes its last weights, for comparison."""
    log = pintgn.simulate("repeat", events=events, seed=0)
    with together() as group:
        run = pintgn.fit(model, log, folder=folder, progress=False, epochs=2, threads=1, learning_rate=1e-2)
    weights = {name: value.numpy() for name, value in run.model.state_dict().items()}
    np.savez(Path(target) / f"{group.rank}.npz", **weights)  # type: ignore[arg-type]


def evaluate(folder: str, target: str) -> None:
    """Figures of a run against two kinds of negatives, and ranked."""
    with together() as group:
        found = pintgn.evaluate(folder, ["random", "historical"], "all", baselines=["heuristic"])
    if group.rank == 0:
        Path(target).write_text(found.to_pandas().to_json())


def disagree(what: str) -> None:
    """Workers that were given different things."""
    with together() as group:
        events = 300 + group.rank if what == "data" else 300
        options = {"batch": 100 + group.rank} if what == "settings" else {}
        seed = group.rank if what == "seed" else 0
        log = pintgn.simulate("repeat", events=events, seed=0)
        if what == "versions" and group.rank:
            fit.__version__ = "0.0.0"  # type: ignore[attr-defined]
        settings = Settings.of({"model": {"name": "pint", "dim": 8}, "train": {"epochs": 1} | options})
        pintgn.fit(dataclasses.replace(settings), log, seed=seed, progress=False)


def command_on_no_file(path: str) -> None:
    """The command line of a worker that is given a file that is not there."""
    import sys

    from pintgn.cli.app import main

    sys.argv = ["pintgn", "train", path, "-o", path + ".run"]
    main()


def command_out_of_memory(message: str, of_torch: bool) -> None:
    """The command line of a worker whose second step finds no memory."""
    import sys

    from pintgn.cli.app import run

    def work() -> None:
        with together() as group:
            if group.rank:
                raise (RuntimeError if of_torch else MemoryError)(message)
            group.any(False)

    sys.argv = ["pintgn"]
    run(work)
