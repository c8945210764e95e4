"""A paper of our own, small enough to be reproduced in a test: two data sets, a few rows."""

from __future__ import annotations

from pathlib import Path

import pintgn
from paper.results import Results
from paper.runner import Runner

CONFIG = """
[train]
epochs = 3
patience = 5
tolerance = 0.0
learning_rate = 1e-3
batch = 50
clip = 0.0
average = 0.0
choose_by = "chunked_ap"
protocol = "paper"
scale_features = false
checkpoint_seconds = 0.0
threads = 1

[stream]
positions_refresh = "block"

[rows."jodie/uci"]
model = { name = "jodie", dim = 4, memory = 4 }
published = { all = [86.73, 1.0], new = [75.26, 1.7] }

[rows."pint/uci"]
model = { name = "pint", dim = 4, neighbors = 2, layers = 1, positions = 2 }
published = { all = [96.01, 0.1], new = [93.97, 0.1] }

[rows."pint/enron"]
model = { name = "pint", dim = 4, neighbors = 2, layers = 1, positions = 2 }
published = { all = [88.71, 1.3], new = [81.05, 2.4] }

[rows."jodie/wikipedia"]
model = { name = "jodie", dim = 4, memory = 4 }
published = { all = [94.62, 0.5], new = [93.11, 0.4], auc = [84.84, 1.2] }

[rows."jodie/reddit"]
model = { name = "jodie", dim = 4, memory = 4 }
published = { all = [97.11, 0.3], new = [94.36, 1.1], auc = [61.83, 2.7] }
"""


def small_paper(folder: Path) -> tuple[Path, Path]:
    """Settings and data of the small paper: uci, and wikipedia with labels; enron and reddit are not here."""
    data = folder / "data"
    data.mkdir()
    log = pintgn.simulate("repeat", events=600, seed=1)
    pintgn.write_events(log, data / "uci.parquet")
    columns = {"src": log.src, "dst": log.dst, "t": log.t, "label": (log.src % 3 == 0).astype(int)}
    pintgn.write_events(pintgn.read_events(columns, label="label"), data / "wikipedia.parquet")
    (folder / "paper.toml").write_text(CONFIG)
    return folder / "paper.toml", data


def runner(folder: Path, paper: tuple[Path, Path], name: str = "runs", **options) -> Runner:
    place = folder / name
    return Runner(place, Results(place / "results.jsonl"), *paper, **options)


def link_row(model="pint", data="uci", seed=0, ap=(0.96, 0.94), ended="by itself", epochs=7, **more) -> dict:
    """A row as the runner leaves it, with figures made up."""
    groups = ("all", "new")
    figures = {group: {"events": 10, "ap": v, "chunked_ap": v, "auc": v} for group, v in zip(groups, ap, strict=True)}
    row = {"format": 1, "job": f"links {model}/{data} seed {seed}", "task": "links", "row": f"{model}/{data}"}
    row |= {"model": model, "data": data, "seed": seed, "ended": ended, "epochs": epochs, "best_epoch": 2}
    row |= {"cap": 60.0 if ended == "capped" else None, "test": figures, "features": 0, "first_epoch_share": None}
    row |= {"processor_seconds": 61.2, "wall_seconds": 100.0, "load": 2.0, "epoch_processor_seconds": 8.0}
    return row | {"settings": {"train": {"epochs": 50}}, "machine": {"cores": 2, "processor": "a"}} | more


def by_job(*rows: dict) -> dict:
    return {row["job"]: row for row in rows}
