"""Inside an index: its entries, look-ups without some events, and event numbers without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from pintgn.neighbors.adjacency import NO_HUBS
from pintgn.neighbors.index import NeighborIndex


class Contents(NamedTuple):
    """The entries of node v stand at starts[v] … starts[v] + lengths[v] - 1, newest first. Views: for reading only."""

    starts: np.ndarray  # (n,)
    lengths: np.ndarray  # (n,)
    ids: np.ndarray  # the other end of each entry
    times: np.ndarray
    numbers: np.ndarray  # event numbers
    sent: np.ndarray  # of how many entries, from the list's oldest to this one, the node was the source

    def outgoing(self, node: int, first: int, stop: int) -> np.ndarray:
        """Whether the node was the source, for each of its entries first … stop - 1, the newest being 0."""
        sent = self.sent[self.starts[node] + first : self.starts[node] + min(stop + 1, self.lengths[node])]
        if stop >= self.lengths[node]:
            sent = np.append(sent, 0)  # the oldest entry has none before it
        return sent[:-1] > sent[1:]


def contents(index: NeighborIndex) -> Contents:
    """Every node's entries, without trimmed ones."""
    heads = index._heads[: index.nodes]
    return Contents(heads[:, 0], heads[:, 1], *index._arenas)


@contextmanager
def left_out(index: NeighborIndex, events: np.ndarray, ends: np.ndarray) -> Iterator[None]:
    """Context in which the index answers as if these events had never been appended.

    `ends` are all nodes that the events touch. Event numbers and the clock stay as they are. The index must not be
    appended to meanwhile, nor read by others: leave events out of a fork.
    """
    touched = np.unique(ends[ends < index.nodes])
    before, hub = index._heads[touched].copy(), index._hub
    columns: tuple[np.ndarray, ...] = index._arenas
    kept: list[tuple[slice, list[np.ndarray]]] = []
    try:
        index._hub = NO_HUBS  # the lists of busy pairs stay as they are, and nobody reads them
        for node, (start, length) in zip(touched.tolist(), before.tolist(), strict=True):
            entries = slice(start, start + length)
            kept.append((entries, [column[entries].copy() for column in columns]))
            stays = ~np.isin(kept[-1][1][2], events)
            count = int(np.count_nonzero(stays))
            for column, old in zip(columns, kept[-1][1], strict=True):
                column[start + length - count : start + length] = old[stays]
            sent = kept[-1][1][3]
            outgoing = (sent - np.append(sent[1:], 0))[stays]
            columns[3][start + length - count : start + length] = np.cumsum(outgoing[::-1])[::-1]
            index._heads[node] = start + length - count, count
        yield
    finally:
        index._hub = hub
        index._heads[touched[: len(kept)]] = before[: len(kept)]
        for entries, was in kept:
            for column, old in zip(columns, was, strict=True):
                column[entries] = old


def renumber(index: NeighborIndex) -> np.ndarray:
    """Number the remaining events 0, 1, 2, … in order, after others were forgotten; returns their old numbers.

    Comparisons of event numbers come out as before; a table with a row for each event can drop all other rows.
    """
    hub, index._hub = index._hub, NO_HUBS
    index._rebuild(index._heads[:, 1].copy(), index._heads, *index._arenas)
    ids, times, numbers, sent = index._arenas
    kept = np.unique(np.concatenate([*index._tight(numbers, np.int64)]))
    # the arena has just been laid out anew: besides entries it holds nothing that is read
    index._arenas = ids, times, np.searchsorted(kept, numbers).astype(numbers.dtype), sent
    held = np.isin(index._open_numbers, kept)
    index._open_numbers = np.searchsorted(kept, index._open_numbers[held])
    index._open_ties = index._open_ties[held]
    index._events = len(kept)
    index._hub = hub
    index._enter_all_hubs()
    return kept
