"""Counts and times as columns that a network can read: logarithms and decays at several scales, written in one pass."""

from __future__ import annotations

import math

from pintgn.compiled import kernel

AGES = 4
"""Columns of `ages`."""
KNOWN = 8
"""Columns of `known` for each count and time."""


@kernel
def ages(dt, mask, out):
    """Four columns of how long ago each slot's event was; zeros where there is none."""
    for slot in range(dt.shape[0]):
        for j in range(AGES):
            out[slot, j] = 0
        if mask[slot]:
            d = dt[slot]
            out[slot, 0] = math.log1p(d)
            out[slot, 1] = math.log1p(100 * d) / 2
            out[slot, 2] = math.log1p(10_000 * d) / 4
            out[slot, 3] = 2.0 ** (-10 * d)


@kernel
def known(counts, dt, unit, out):
    """Eight columns for each of a pair's counts and times since; zeros where nothing happened."""
    for q in range(counts.shape[0]):
        for way in range(counts.shape[1]):
            at = KNOWN * way
            for j in range(KNOWN):
                out[q, at + j] = 0
            if counts[q, way] > 0:
                d = dt[q, way] / unit
                out[q, at] = 1
                out[q, at + 1] = math.log1p(counts[q, way]) / 2
                out[q, at + 2] = math.log1p(d) / 2
                out[q, at + 3] = math.log1p(100 * d) / 4
                out[q, at + 4] = math.log1p(10_000 * d) / 8
                out[q, at + 5] = 2.0 ** (-0.1 * d)
                out[q, at + 6] = 2.0 ** (-d)
                out[q, at + 7] = 2.0 ** (-10 * d)
