"""What is known about two nodes as columns: pair history.

Everything is looked up as of the query's own time. Times are in units of the log's time scale, so that the columns mean
the same in seconds and in days; counts enter as logarithms.
"""

from __future__ import annotations

import numpy as np
import torch

from pintgn.models.history_view import HistoryView
from pintgn.neighbors.index import CO_VISITS, WAYS

WINDOWS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""How far back rates look, in units of the time scale."""
NEWEST = 32
"""Contacts of each end that are compared with each other."""
LAST_DESTINATIONS = 10
"""Destinations of u that are compared with v."""
VISITORS = 64
"""Contacts of each destination in which its visitors are looked for."""
NEAR = 10
"""Contacts of a visitor within which two of its visits are near."""
LONGEST = 2.0**62
"""No window is longer, so that a time minus a window is still a time."""

EVER = ("met", "count", "age", "age, finer", "age, finest", "decay 10", "decay 1", "decay 0.1")
RECENT = (
    "v among u's newest", "rank of v", "u among v's newest", "rank of u", "partners of u", "contacts of u",
    "partners of v", "contacts of v", "shared", "shared, recent to u", "shared, recent to v",
)  # fmt: skip
COLUMNS = (
    *(f"{way}: {what}" for way in WAYS for what in EVER),
    *(f"{way} within {window:g}" for way in WAYS for window in WINDOWS),
    *RECENT,
    *(f"co-visits: {what}" for what in CO_VISITS),
)
"""Names of the columns of `pair_features`."""


def pair_features(src: np.ndarray, dst: np.ndarray, history: HistoryView, time_unit: float) -> np.ndarray:  # (q, a)
    """The block of sources and destinations, which broadcast together; a row for each pair."""
    whole = history.t.dtype.kind == "i"
    windows = np.clip(np.array(WINDOWS) * time_unit, 1 if whole else 0, LONGEST).astype(history.t.dtype)
    found, contacts = history.pair_history(src, dst, windows), history.recent_contacts(src, dst, NEWEST, time_unit)
    count, dt = torch.from_numpy(found.counts).float(), torch.from_numpy(found.dt / time_unit).float()
    pairs = count.numel() // len(WAYS)
    ever = [
        torch.ones_like(dt), torch.log1p(count), torch.log1p(dt), torch.log1p(100 * dt), torch.log1p(10_000 * dt),
        torch.exp2(-0.1 * dt), torch.exp2(-dt), torch.exp2(-10 * dt),
    ]  # fmt: skip
    within = torch.log1p(torch.from_numpy(found.within).float())
    ranks, partners, held, shared = (torch.from_numpy(one).view(pairs, -1) for one in contacts)
    near = torch.stack([(ranks >= 0).float(), torch.log1p(ranks.clamp_min(0))], -1)
    busy = torch.stack([partners / held.clamp_min(1), held / NEWEST], -1)
    visits = torch.from_numpy(history.co_visits(src, dst, LAST_DESTINATIONS, VISITORS, NEAR, time_unit))
    together = torch.cat([torch.log1p(visits[:, :2]), torch.sqrt(visits[:, 2:])], 1)
    blocks = (torch.stack(ever, -1) * (count > 0)[..., None], within, near, busy, torch.log1p(shared), together)
    return torch.cat([block.reshape(pairs, -1) for block in blocks], 1).numpy()
