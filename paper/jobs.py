"""What there is to run: a published row and a seed is a job; the paper's tables and figures are lists of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pintgn.errors import BadInput, UnknownName, suggest

ROOT = Path(__file__).resolve().parents[1]
SETTINGS, BEST = (ROOT / "paper" / name for name in ("paper.toml", "best.toml"))
"""The settings of the paper's rows, and of our own."""
MODELS = {
    "gat": "GAT",
    "graphsage": "GraphSAGE",
    "jodie": "Jodie",
    "dyrep": "DyRep",
    "tgat": "TGAT",
    "tgn": "TGN-Att",
    "caw": "CAW",
    "pint-plain": "PINT (w/o pos. feat.)",
    "pint": "PINT",
    "tgn-positions": "TGN-Att + RPF",
    "pint-d10": "PINT, d = 10",
    "pint-d15": "PINT, d = 15",
    "pint-d20": "PINT, d = 20",
    "ctdne": "CTDNE",
}
"""Rows by the name they have in paper/paper.toml, as the paper calls them."""
SETS = {
    "reddit": "Reddit",
    "wikipedia": "Wikipedia",
    "twitter": "Twitter",
    "uci": "UCI",
    "enron": "Enron",
    "lastfm": "LastFM",
}
"""Data sets in the paper's order of columns."""
DIMS = {4: "pint", 10: "pint-d10", 15: "pint-d15", 20: "pint-d20"}
"""Lengths of positions, and the rows that have them."""

LAYOUT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table1": (("gat", "graphsage", "jodie", "dyrep", "tgat", "tgn", "caw", "pint-plain", "pint"), tuple(SETS)),
    "table2": (("tgn", "tgn-positions", "pint"), ("uci", "enron", "lastfm")),
    "dims": (tuple(DIMS.values()), ("uci", "enron")),
    "time": (("tgat", "jodie", "dyrep", "tgn", "pint-plain", "pint", "caw"), ("uci", "enron", "wikipedia", "lastfm")),
    "nodes": (("ctdne", "jodie", "tgat", "dyrep", "tgn", "pint"), ("wikipedia", "reddit")),
}
"""Rows and columns of each table and figure."""
TASKS = {"table1": "links", "table2": "links", "dims": "links", "time": "time", "nodes": "nodes"}
SLOW = ("caw", "pint-d10", "pint-d15", "pint-d20")
"""Models that take ten minutes and more."""
SEVERAL_SEEDS = ("uci", "enron")
"""Data sets on which other rows have three seeds, unless --seeds says otherwise; on all others, and slow rows, one."""
SEEDS = re.compile(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", re.ASCII)
"""A seed, or the first and last of a range."""


@dataclass(frozen=True, order=True)
class Job:
    """One row of results: links (AP), nodes (AUC) or time (seconds per epoch) of a model on a data set."""

    task: str
    model: str  # as in paper/paper.toml before the slash
    data: str
    seed: int = 0

    @property
    def row(self) -> str:
        return f"{self.model}/{self.data}"

    @property
    def key(self) -> str:
        """What its newest row of results is found by."""
        return f"{self.task} {self.row} seed {self.seed}"

    @property
    def place(self) -> Path:
        """Its run's folder, relative to the folder of all."""
        return Path(self.row.replace("/", "-")) / f"seed-{self.seed}"

    def __str__(self) -> str:
        return f"{MODELS.get(self.model, self.model)} on {SETS.get(self.data, self.data)}, seed {self.seed}"


def jobs_of(
    wanted: str,
    rows: Iterable[str],
    models: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Job]:
    """The jobs of a table or figure (or of `all`), each once, in order of seeds: a whole table comes first.

    Args:
        wanted: `table1`, `table2`, `dims`, `time`, `nodes` or `all`.
        rows: the rows that there are settings for, as `model/data`.
        models, data: only these.
        seeds: these, instead of those of `SEVERAL_SEEDS`.
    """
    tables = list(LAYOUT) if wanted == "all" else [wanted]
    if wanted != "all" and wanted not in LAYOUT:
        raise UnknownName(f"there is no {wanted!r} to reproduce.{suggest(wanted, [*LAYOUT, 'all', 'best'])}")
    check_among("--models", models, {m for table in tables for m in LAYOUT[table][0]})
    check_among("--data", data, {d for table in tables for d in LAYOUT[table][1]})
    known, found = set(rows), {}
    for table in tables:
        for one in LAYOUT[table][1]:
            for model in LAYOUT[table][0]:
                if f"{model}/{one}" not in known or one not in (data or [one]) or model not in (models or [model]):
                    continue
                chosen = range(3 if one in SEVERAL_SEEDS and model not in SLOW else 1) if seeds is None else seeds
                for seed in chosen if TASKS[table] != "time" else chosen[:1]:
                    found[Job(TASKS[table], model, one, seed)] = (TASKS[table] == "time", seed)
    return sorted(found, key=lambda job: found[job])


def check_among(option: str, given: Sequence[str] | None, known: Iterable[str]) -> None:
    """Names that exist; otherwise the near miss."""
    names = sorted(known)
    for name in given or []:
        if name not in names:
            raise UnknownName(f"{option} {name}: there is no such row here.{suggest(name, names)}")


def parse_seeds(text: str | None, runs: int | None = None) -> list[int] | None:
    """`7` is seed 7, `3,5` and `0-9` are these; `runs` is a number of seeds, from 0 on.

    >>> parse_seeds("7"), parse_seeds("3,5"), parse_seeds("2-4"), parse_seeds("0-2,7"), parse_seeds(None, runs=2)
    ([7], [3, 5], [2, 3, 4], [0, 1, 2, 7], [0, 1])
    """
    if runs is not None:
        if text is not None:
            raise BadInput(f"--seeds {text} says which seeds, --runs {runs} how many. Give one of them.")
        return list(range(runs))
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        read = SEEDS.fullmatch(part)
        some = range(int(read[1]), int(read[2] or read[1]) + 1) if read else ()
        if not some:
            raise BadInput(f"--seeds {text}: give one (7), a list (3,5) or a range (0-9); --runs 3 is for a number.")
        found |= set(some)
    return sorted(found)


def shown_seeds(jobs: Iterable[Job]) -> str:
    """Which seeds some jobs have, as `--seeds` takes them.

    >>> shown_seeds(Job("best", "default", "uci", seed) for seed in (0, 1, 2, 7, 8, 1))
    'seeds 0-2,7-8'
    >>> shown_seeds([Job("best", "default", "uci", 7)])
    'seed 7'
    """
    ranges: list[list[int]] = []
    for seed in sorted({job.seed for job in jobs}):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return f"seed {text}" if text.isdecimal() else f"seeds {text}"
