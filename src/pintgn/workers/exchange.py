"""Parcels that every worker has for every other one: how workers that keep a part of the past each ask one another."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import distributed as dist

from pintgn.workers.group import Group, _exchanged

_channels: dict[int, Any] = {}
"""A channel of its own for parcels: look-ups run in a second thread, while gradients are summed in the first."""


class Exchange:
    """Workers swap parcels; all of them call `swap` equally often, and one thread at a time.

    `sent` and `swaps` count the bytes that went to other workers and the calls.
    """

    def __init__(self, group: Group):
        self.rank, self.size = group.rank, group.size
        self.sent = self.swaps = 0
        if self.size > 1 and id(dist.group.WORLD) not in _channels:  # all come here with their first stream
            _channels[id(dist.group.WORLD)] = dist.new_group(backend="gloo")

    def swap(self, parcels: Sequence[Any]) -> list[Any]:
        """What each worker has for this one; `parcels` are what this one has for each, None for nothing."""
        assert len(parcels) == self.size
        if self.size == 1:
            return list(parcels)
        packed = [
            b"" if rank == self.rank or parcel is None else pickle.dumps(parcel, 5)
            for rank, parcel in enumerate(parcels)
        ]
        lengths = torch.tensor([len(one) for one in packed])
        coming = torch.empty_like(lengths)
        channel = _channels[id(dist.group.WORLD)]
        _exchanged(lambda: dist.all_to_all_single(coming, lengths, group=channel))
        sizes = coming.tolist()
        out = torch.frombuffer(bytearray(b"".join(packed)) or bytearray(1), dtype=torch.uint8)[: int(lengths.sum())]
        found = torch.empty(sum(sizes), dtype=torch.uint8)
        _exchanged(lambda: dist.all_to_all_single(found, out, sizes, lengths.tolist(), group=channel))
        self.sent += len(out) + 8 * (self.size - 1)
        self.swaps += 1
        begins = np.cumsum([0, *sizes]).tolist()
        whole: Any = found.numpy()
        answers = [pickle.loads(whole[a:b]) if b > a else None for a, b in pairwise(begins)]
        answers[self.rank] = parcels[self.rank]
        return answers
