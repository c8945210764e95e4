"""In which position does this driver finish, given the grid and how many start?

The trees know both and, strictly before the race, of driver, constructor, driver in this car and driver at this circuit
the finishes, places won, points, laps and early ends of the newest races, of a year and ever; and, as the list of who
starts is known before a race, how these compare with those of the others who start.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums, mean

FEATURES = ["grid", "starters", "positionOrder", "points", "laps"]


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "f1_results.parquet").with_columns(starters=pl.len().over("raceId"))
    return frame, pintgn.read_events(frame, "driverId", "constructorId", features=FEATURES, bipartite=True)


def columns(frame: pl.DataFrame) -> np.ndarray:  # (e, w)
    t = frame["t"].dt.epoch("s").to_numpy()
    whole = {name: frame[name].to_numpy().astype(np.int64) for name in frame.columns if name != "t"}
    grid, starters, position = (whole[name].astype(np.float64) for name in FEATURES[:3])
    race = np.unique(whole["raceId"], return_inverse=True)[1]
    laps, most = whole["laps"].astype(np.float64), np.zeros(race.max() + 1)
    np.maximum.at(most, race, laps)
    ended = (laps < 0.9 * most[race]).astype(np.float64)  # early
    start = np.where(grid > 0, grid, starters)  # from the pit lane
    values = [position, position / starters, start - position, frame["points"].to_numpy(), ended, start]
    found = [grid, start, starters, start / starters, t / (365 * DAY)]
    driver, car, circuit = (whole[name] for name in ("driverId", "constructorId", "circuitId"))
    mate = car * 10_000 + race  # the two of a car in a race
    form = []
    for key in (driver, car, driver * 1_000 + car, driver * 1_000 + circuit, circuit * 100 + start.astype(np.int64)):
        sums = Sums(key, t, *values)
        order = np.lexsort((t, key))
        for window in (90 * DAY, 365 * DAY, None):
            some = sums(key, t, None if window is None else t - window)
            found += [some[:, 0], *(mean(some, k) for k in range(1, 7))]
        form += [found[-6], mean(sums(key, t, t - 180 * DAY), 2, 0.5, 2.0)]
        for back in (1, 2, 3):
            at = sums.newest(key, t, back)
            found += [np.where(at >= 0, position[order[at]], np.nan), sums.since(key, t, back)]
    for some in form:  # beside those of the others in the race, and of the other driver of the car
        for group in (race, np.unique(mate, return_inverse=True)[1]):
            known = ~np.isnan(some)
            total, count = (np.bincount(group[known], w, group.max() + 1) for w in (some[known], None))
            found.append(some - (total / np.maximum(count, 1))[group])
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    x = columns(asked.frame)
    start = x[:, 1].astype(np.float64)  # trees say how many places are won or lost
    return asked.trees(x, seed, start, objective="l1", learning_rate=0.03, min_data_in_leaf=30)


JOB = Job(
    name="f1",
    asks="In which position does this driver finish, given the grid?",
    read=read,
    fit={"predict": "positionOrder", "given": ["grid", "starters"]},
    figure="mae",
    baselines={"LightGBM": lightgbm},
    smaller=True,
)
