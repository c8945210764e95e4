"""Whether 32 bits hold the numbers of a log: its features are float32, and float64 where that would lose something."""

from __future__ import annotations

import numpy as np

FAR = 64
"""Standard deviations that a column's mean may be away from 0; rounding is then below 1/250,000 of one."""
PIECE = 1 << 20
"""Numbers that are looked at together."""


def fits_float32(matrix: np.ndarray) -> bool:
    """Whether float32 holds every column (e, f): whole numbers exactly, others well within their own spread.

    >>> fits_float32(np.array([[0.1], [5.2]])), fits_float32(np.array([[1e9 + 0.1], [1e9 + 5.2]]))
    (True, False)
    >>> fits_float32(np.array([[2.0**24]])), fits_float32(np.array([[2.0**24 + 1]]))
    (True, False)
    """
    rows, width = matrix.shape
    inexact, total, squares = np.zeros(width, bool), np.zeros(width), np.zeros(width)
    step = max(1, PIECE // max(width, 1))
    for start in range(0, rows, step):
        piece = matrix[start : start + step]
        rounded = piece.astype(np.float32) != piece
        if rounded.any():
            if (piece[rounded] % 1 == 0).any():
                return False
            inexact |= rounded.any(0)
        away = piece - matrix[0]  # of numbers far from 0, the squares themselves would say nothing
        total += away.sum(0)
        squares += (away**2).sum(0)
    if not inexact.any():
        return True
    mean = total / rows
    spread = np.sqrt(np.maximum(squares / rows - mean**2, 0))
    return not (inexact & (spread > 0) & (np.abs(matrix[0] + mean) > FAR * spread)).any()
