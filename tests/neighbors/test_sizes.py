"""Sizes of the index: lists just shorter and longer than a block, and the largest node."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.errors import BadInput
from pintgn.neighbors import NeighborIndex, inputs
from pintgn.neighbors.kernels_pairs import BLOCK
from tests.conftest import around

B = int(BLOCK)


@pytest.mark.parametrize("length", [1, *around(B), *around(2 * B)])
def test_meetings_are_found_in_lists_of_any_length(length):
    """Node 0 meets others, and node 1 once, at any place of its list; node 1 has a list as long, so that it is read."""
    for place in sorted({0, length - 1, *(p for p in (B - 1, B, 2 * B - 1) if p < length)}):
        dst = np.full(length, 2)
        dst[place] = 1
        made = NeighborIndex()
        made.append(np.zeros(length, np.int64), dst, np.arange(length))
        made.append(np.ones(length, np.int64), np.full(length, 3), np.arange(length, 2 * length))
        for t in (place, place + 1, 2 * length):
            met = t > place
            assert made.count_pair(np.array([0]), np.array([1]), np.array([t])).tolist() == [int(met)]
            found = made.last(np.array([0]), np.array([1]), np.array([t]))
            assert bool(np.ravel(found.mask)[0]) == met
            assert not met or int(np.ravel(found.t)[0]) == place


def test_the_largest_node(monkeypatch):
    monkeypatch.setattr(inputs, "LARGEST_ID", 40)
    for node in (38, 39):
        made = NeighborIndex()
        made.append([0], [node], [1])
        assert made.count(np.array([node]), np.array([2])).tolist() == [1]
    with pytest.raises(BadInput, match="node id 40 is too large: ids are indices into a table and end at 39"):
        NeighborIndex().append([0], [40], [1])
