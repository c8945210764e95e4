"""SASRec (Kang and McAuley, 2018) in sixty lines: self-attention over a source's newest items scores the next one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.jobs.common import Found
from benchmarks.jobs.next_item import NEWEST, Ranked, Scorer
from pintgn.events.log import EventLog

WIDTH, LAYERS, HEADS, BATCH, OTHERS, EPOCHS = 64, 2, 2, 128, 1_000, 10


class SASRec(nn.Module):
    def __init__(self, items: int):
        super().__init__()
        self.item, self.place = nn.Embedding(items + 1, WIDTH, padding_idx=0), nn.Embedding(NEWEST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDTH, 0.2, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        nn.init.normal_(self.item.weight, std=0.02)
        self.register_buffer("ahead", torch.ones(NEWEST, NEWEST, dtype=torch.bool).triu(1))

    def forward(self, sequence: Tensor) -> Tensor:  # (b, l) items, padded on the right with 0 -> (b, l, d)
        long = sequence.shape[1]
        x = self.item(sequence) + self.place.weight[:long]
        return self.layers(x, mask=self.ahead[:long, :long], is_causal=True)


def sequences(log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Windows of each source's items, numbered from 1, and the item after each; 0 where there is none."""
    mine: dict[int, list[int]] = defaultdict(list)
    for who, item in zip(log.src.tolist(), log.dst.tolist(), strict=True):
        mine[who].append(item + 1)
    found = []
    for items in mine.values():
        for begin in range(0, len(items) - 1, NEWEST):
            some = items[begin : begin + NEWEST + 1]
            found.append((some[:-1] + [0] * (NEWEST - len(some) + 1), some[1:] + [0] * (NEWEST - len(some) + 1)))
    said, after = (np.array(column) for column in zip(*found, strict=True))
    return said, after


def trained(log: EventLog, seed: int, epochs: int = EPOCHS) -> SASRec:
    """Learned on every next item of a log, by softmax over the items of a batch and some others."""
    torch.manual_seed(seed)
    model, (said, after) = SASRec(log.nodes), map(torch.from_numpy, sequences(log))
    items = torch.from_numpy(np.unique(log.dst) + 1)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(said)).split(BATCH):
            rows = rows[:, None], torch.arange(int((after[rows] > 0).sum(1).max()))
            asked = after[rows] > 0
            true = after[rows][asked]
            among, where = torch.cat([true, items[torch.randint(len(items), (OTHERS,))]]).unique(return_inverse=True)
            logits = model(said[rows])[asked] @ model.item(among).T
            loss = cross_entropy(logits, where[: len(true)])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


class Sequential(Scorer):
    """A trained SASRec; items that it has not learned come last, by their popularity."""

    def __init__(self, model: SASRec, log: EventLog):
        super().__init__(log.nodes)
        self.model, self.items = model, defaultdict(list)
        self.known = np.isin(np.arange(log.nodes), log.dst)

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        super().observe(src, dst, t)
        for who, item in zip(src.tolist(), dst.tolist(), strict=True):
            self.items[who].append(item + 1)

    def scores(self, src: int, t: Any) -> np.ndarray:
        mine = self.items[src][-NEWEST:]
        if not mine:
            return self.count
        with torch.no_grad():
            state = self.model(torch.tensor([mine]))[0, -1]
            found = (self.model.item.weight[1:] @ state).double().numpy()
        return np.where(self.known, found, found[self.known].min() - 1 + self.count / (self.count.max() + 1))


def sasrec(asked: Ranked, seed: int) -> Found:
    model = trained(asked.parts.train, seed)
    return asked.found(lambda: Sequential(model, asked.parts.train))
