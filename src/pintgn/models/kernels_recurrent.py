"""The elementwise part of a GRU's backward pass in one loop. Plain arrays in and out; float32 or float64."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def gru_backward(grad, gates, kept, state, to_gates, to_kept):
    """Fill `to_gates` (n, 3d) and `to_kept` (n, d); see `recurrent.gru_backward`, which this equals."""
    rows, d = grad.shape
    one = grad.dtype.type(1)
    for i in range(rows):
        for j in range(d):  # three short loops over few rows each: the compiler makes vector instructions of them
            to_n = grad[i, j] * (one - gates[i, d + j]) * (one - gates[i, 2 * d + j] * gates[i, 2 * d + j])
            to_gates[i, 2 * d + j] = to_n
            to_kept[i, j] = to_n * gates[i, j]
        for j in range(d):
            r = gates[i, j]
            to_gates[i, j] = to_kept[i, j] * kept[i, j] * (one - r)
        for j in range(d):
            z = gates[i, d + j]
            to_gates[i, d + j] = grad[i, j] * (state[i, j] - gates[i, 2 * d + j]) * z * (one - z)
