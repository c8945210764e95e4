"""The elementwise part of a GRU's backward pass in one loop. Plain arrays in and out; float32 or float64."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def gru_backward(grad, gates, kept, state, to_gates, to_kept):
    """Fill `to_gates` (n, 3d) and `to_kept` (n, d); see `recurrent.gru_backward`, which this equals."""
    rows, d = grad.shape
    one = grad.dtype.type(1)
    for i in range(rows):
        g, s, k, gate, out, out_kept = grad[i], state[i], kept[i], gates[i], to_gates[i], to_kept[i]
        for j in range(d):
            r, z, n = gate[j], gate[d + j], gate[2 * d + j]
            to_n = g[j] * (one - z) * (one - n * n)
            out[2 * d + j] = to_n
            out_kept[j] = to_n * r
            out[j] = to_n * k[j] * r * (one - r)
            out[d + j] = g[j] * (s[j] - n) * z * (one - z)
