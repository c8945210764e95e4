"""Every model learns the world it can learn, within a bounded number of steps, and not the one it provably cannot.

The margins hold for other seeds of the weights as well: `python -m tests.models.test_learns` prints the test AP of
every model for four of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from pintgn.datasets.simulate import make_world
from pintgn.events.log import EventLog
from pintgn.models.base import Model
from pintgn.models.caw import CAW
from pintgn.models.heuristics import EdgeBank, Heuristic
from pintgn.models.pint import PINT
from pintgn.models.static import GAT, GraphSAGE
from pintgn.models.tgn import JODIE, TGAT, TGN, DyRep
from pintgn.stream import Stream

pytestmark = pytest.mark.learning

STEPS = 200
"""Steps of 100 events that a model is given where it can learn; twice as many for a plain recurrent cell."""
MARGIN = 0.1
"""By how much it must then beat the heuristic, in AP."""


@dataclass
class Task:
    """A world's events, a wrong destination for each, and where the test part begins."""

    log: EventLog
    wrong: np.ndarray
    first: int

    def replay(self, model: Model, first: int, last: int, stream: Stream):
        """Batches of 100: scores of the events and of the wrong destinations."""
        for start in range(first, last, 100):
            batch = self.log[start : min(start + 100, last)]
            wrong = self.wrong[start : start + len(batch)]
            yield stream.replay(batch, [batch.query, batch.query.toward(wrong)])

    def stream(self, model: Model, seed: int = 0) -> Stream:
        return Stream(model, self.log.schema, node_features=self.log.node_features, seed=seed, memory_block=50)

    def learned_ap(self, model: Model, steps: int = STEPS, rate: float = 0.01, seed: int = 0) -> float:
        """AP on the test part, after so many steps on what comes before it, again and again."""
        model = model.fresh()
        self.stream(model, seed)  # makes the weights
        parameters = list(model.parameters())
        optimizer = torch.optim.Adam(parameters, rate) if parameters else None
        done = 0
        while optimizer and done < steps:
            for yes, no in self.replay(model, 0, self.first, self.stream(model)):
                optimizer.zero_grad()
                (softplus(-yes).mean() + softplus(no).mean()).backward()
                optimizer.step()
                done += 1
                if done == steps:
                    break
        with torch.no_grad():
            stream = self.stream(model)
            stream.observe(self.log[: self.first])
            scores = [torch.stack(pair) for pair in self.replay(model, self.first, len(self.log), stream)]
        return average_precision(*torch.cat(scores, 1))


def average_precision(yes: torch.Tensor, no: torch.Tensor) -> float:
    """Ties, up to rounding, in random order: half of them count as right."""
    above = (yes[:, None] - torch.cat([yes, no])[None]).abs() < 1e-4
    higher = yes[:, None] + 1e-4 <= torch.cat([yes, no])[None]
    count = len(yes)
    right = higher[:, :count].sum(1) + (above[:, :count].sum(1) + 1) / 2
    wrong = higher[:, count:].sum(1) + above[:, count:].sum(1) / 2
    return float((right / (right + wrong)).mean())


def shop() -> Task:
    """Purchases of a taste; an event carries the genre of what was bought, which the heuristics cannot read."""
    world = make_world("shop", users=200, items=150, genres=5, loyalty=0.95, drift=0.01)
    log = world.simulate(events=2500, seed=0)
    genre = np.eye(5, dtype=np.float32)[(log.dst - 200) % 5]
    return Task(EventLog(log.src, log.dst, log.t, features=genre), world.negatives(log, seed=1), 2000)


def twins() -> Task:
    """Who belongs together is written nowhere but in who met whom."""
    world = make_world("twins", communities=10, roles=5)
    log = world.simulate(events=1500, seed=0)
    return Task(log, world.negatives(log, seed=1), 1000)


def noise() -> Task:
    """Any node meets any other: nobody can tell."""
    world = make_world("repeat", nodes=100, repeat=0.0)
    log = world.simulate(events=2500, seed=0)
    return Task(log, world.negatives(log, seed=1), 1000)


DIM = {"dim": 16}
ANONYMOUS = {
    "TGN-Att": TGN(**DIM, time_dim=8, memory=16),
    "TGAT": TGAT(**DIM, time_dim=8, neighbors=5),
    "JODIE": JODIE(**DIM, time_dim=8, memory=16),
    "DyRep": DyRep(**DIM, time_dim=8, memory=16, neighbors=5),
    "GAT": GAT(**DIM, layers=1),
    "GraphSAGE": GraphSAGE(**DIM, layers=1),
    "PINT without positions": PINT(**DIM, positions=0),
}
POSITIONAL = {
    "PINT": PINT(**DIM),
    "TGN-Att + positions": TGN(**DIM, time_dim=8, memory=16, positions=4),
    "CAW": CAW(**DIM, time_dim=8, walks=16, length=2),
}
TRAINING_FREE = {"EdgeBank": EdgeBank(), "heuristic": Heuristic()}
TASKS = {"shop": shop(), "twins": twins(), "noise": noise()}
HEURISTIC_IN_SHOP = TASKS["shop"].learned_ap(Heuristic())


def each(models):
    return pytest.mark.parametrize("model", models.values(), ids=models.keys())


def taste(model: Model, seed: int = 0) -> float:
    """AP in the shop. A plain recurrent cell, without gates, needs smaller steps, and more of them, than the others."""
    plain = getattr(model, "memory_cell", None) == "rnn"
    return TASKS["shop"].learned_ap(model, *((2 * STEPS, 0.005) if plain else (STEPS, 0.01)), seed=seed)


@each(ANONYMOUS | POSITIONAL)
def test_it_learns_what_events_say_about_taste(model):
    assert taste(model) > max(0.5, HEURISTIC_IN_SHOP) + MARGIN


@each(POSITIONAL)
def test_it_learns_who_belongs_together(model):
    assert TASKS["twins"].learned_ap(model, steps=60) > 0.95


@each(ANONYMOUS)
def test_without_positions_it_cannot_learn_who_belongs_together(model):
    assert TASKS["twins"].learned_ap(model, steps=20) == pytest.approx(0.5, abs=0.02)


@each(POSITIONAL | TRAINING_FREE)
def test_where_there_is_nothing_to_learn_it_learns_nothing(model):
    assert TASKS["noise"].learned_ap(model, steps=20) == pytest.approx(0.5, abs=0.04)


if __name__ == "__main__":
    print(f"{'shop, heuristic':<30} {HEURISTIC_IN_SHOP:.3f}")
    for name, model in (ANONYMOUS | POSITIONAL).items():
        print(f"{'shop, ' + name:<30}", *(f"{taste(model, seed):.3f}" for seed in range(4)), flush=True)
    for name, model in POSITIONAL.items():
        found = (TASKS["twins"].learned_ap(model, steps=60, seed=seed) for seed in range(4))
        print(f"{'twins, ' + name:<30}", *(f"{ap:.3f}" for ap in found), flush=True)
