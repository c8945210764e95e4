"""Loops of recurrent memory: what waits for nodes is laid out, applied, and left again. Plain arrays in and out.

The inner loops run along a row and mix no types, and a place that is a sum is unsigned, so that the compiler makes
vector instructions of them.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.models.blas import gemm
from pintgn.models.kernels import HEEDFUL, TURN, exp, wide_vectors


@inner(fastmath=HEEDFUL)
def lay_out(nodes, memory, pending, message, dt, frequency, phase, sine, late, since, given, everyone):
    """Copy what a recurrent cell will read, for the nodes a message waits for; returns how many there are.

    Of the i-th such node: late[i] is its place in `nodes`, since[i] its dt, given[i] = message ‖ cos(frequency · dt +
    phase). Copies all: the tables move on before the gradient comes back.
    `everyone` gets the state of every node; zeros where the table does not know it. `sine` is `kernels.SINE` in the
    type of the arrays.
    """
    known, d = memory.shape
    width, waves = np.uint64(message.shape[1]), np.uint64(frequency.shape[0])
    turn = memory.dtype.type(TURN)
    frequency, phase = frequency * turn, phase * turn
    zero, half, quarter = memory.dtype.type(0), memory.dtype.type(0.5), memory.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    count = 0
    for i in range(nodes.shape[0]):
        v = nodes[i]
        if v >= known:
            for j in range(d):
                everyone[i, j] = zero
            continue
        if not pending[v]:
            for j in range(d):
                everyone[i, j] = memory[v, j]
            continue
        ago = dt[v]
        for j in range(width):
            given[count, j] = message[v, j]
        for j in range(waves):
            turns = ago * frequency[j] + phase[j]
            g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
            y = g * g
            given[count, width + j] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
        late[count], since[count] = i, ago
        count += 1
    return count


@kernel(fastmath=HEEDFUL)
def step(
    nodes, memory, pending, message, dt, weight_ih, weight_hh, bias_ih, bias_hh, frequency, phase, sine, late, since,
    given, gates, kept, everyone,
):  # fmt: skip
    """s' = cell(message ‖ cos(frequency · dt + phase), s) of the nodes that a message waits for; returns how many.

    Filled are late, since and given (see `lay_out`), gates (n, 3d or d) after their bends, of a GRU kept (n, d), what
    it keeps of the state before it is let in, and everyone's new state.
    """
    d = np.uint64(memory.shape[1])
    count = lay_out(nodes, memory, pending, message, dt, frequency, phase, sine, late, since, given, everyone)
    given, gates, kept = given[:count], gates[:count], kept[:count]
    merged = d if gates.shape[1] == d else d + d  # gates that simply add their maps of input and state
    weight, bias = weight_ih.copy(), bias_ih.copy()
    for i in range(merged):  # the input begins with the state
        for j in range(d):
            weight[i, j] += weight_hh[i, j]
        bias[i] += bias_hh[i]
    gemm(1, given, weight.T, 0, gates)
    if merged == d:
        rnn_end(late[:count], bias, gates, everyone)
    else:
        gemm(1, given[:, :d], weight_hh[merged:].T, 0, kept)
        gru_end(late[:count], given, bias, bias_hh[merged:], gates, kept, everyone)
    return count


@inner(fastmath=HEEDFUL, error_model="numpy")
def rnn_end(late, bias, gates, everyone):
    """s' = tanh(gates + bias)."""
    one, two = gates.dtype.type(1), gates.dtype.type(2)
    for i in range(late.shape[0]):
        row = late[i]
        for j in range(gates.shape[1]):
            s = one - two / (one + exp(two * (gates[i, j] + bias[j])))
            gates[i, j] = s
            everyone[row, j] = s


@inner(fastmath=HEEDFUL, error_model="numpy")
def gru_end(late, given, bias, kept_bias, gates, kept, everyone):
    """r, z = σ(gates + bias), n = tanh(a + r · kept), s' = n + z (s - n); gates (n, 3d) become r, z and n."""
    wide_vectors()  # type: ignore[call-arg]
    d = np.uint64(everyone.shape[1])
    one, two = gates.dtype.type(1), gates.dtype.type(2)
    for i in range(late.shape[0]):
        row = late[i]
        for j in range(d):  # short loops over few rows each: the compiler makes vector instructions of them
            kept[i, j] += kept_bias[j]
        for j in range(d + d):
            gates[i, j] = one / (one + exp(-gates[i, j] - bias[j]))
        for j in range(d):
            gates[i, d + d + j] += bias[d + d + j] + gates[i, j] * kept[i, j]
        for j in range(d + d, d + d + d):
            gates[i, j] = one - two / (one + exp(two * gates[i, j]))
        for j in range(d):
            n = gates[i, d + d + j]
            everyone[row, j] = n + gates[i, d + j] * (given[i, j] - n)


@kernel(fastmath=HEEDFUL)
def step_backward(
    grad, weight_ih, weight_hh, frequency, phase, sine, late, since, given, gates, kept, to_ih, to_hh, to_bias_ih,
    to_bias_hh, to_frequency, to_phase,
):  # fmt: skip
    """Fill the gradients of the parameters of `step`, from that of everyone's new state."""
    to_bias_ih[:], to_bias_hh[:], to_frequency[:], to_phase[:] = 0, 0, 0, 0
    d, waves = np.uint64(grad.shape[1]), frequency.shape[0]
    merged = d if gates.shape[1] == d else d + d
    to_gates, to_kept = np.empty_like(gates), np.empty_like(kept)
    if merged == d:
        rnn_backward(late, grad, gates, to_gates, to_bias_ih)
    else:
        gru_backward(late, grad, gates, kept, given, to_gates, to_kept, to_bias_ih, to_bias_hh[merged:])
        gemm(1, to_kept.T, given[:, :d], 0, to_hh[merged:])
    gemm(1, to_gates.T, given, 0, to_ih)
    for i in range(merged):
        for j in range(d):
            to_hh[i, j] = to_ih[i, j]
        to_bias_hh[i] = to_bias_ih[i]
    to_waves = np.empty((late.shape[0], waves), grad.dtype)
    gemm(1, to_gates, weight_ih[:, weight_ih.shape[1] - waves :], 0, to_waves)
    waves_backward(since, frequency, phase, sine, to_waves, to_frequency, to_phase)


@inner(fastmath=HEEDFUL)
def rnn_backward(late, grad, gates, to_gates, to_bias):
    """Fill `to_gates` (n, d), and add up its columns; `grad` has a row for every node."""
    one = grad.dtype.type(1)
    for i in range(late.shape[0]):
        row = late[i]
        for j in range(gates.shape[1]):
            g = grad[row, j] * (one - gates[i, j] * gates[i, j])
            to_gates[i, j] = g
            to_bias[j] += g


@inner(fastmath=HEEDFUL)
def gru_backward(late, grad, gates, kept, given, to_gates, to_kept, to_bias, to_kept_bias):
    """Fill `to_gates` (n, 3d) and `to_kept` (n, d), and add up their columns; `gru_end` says what is what.

    `grad` has a row for every node, the others one for each late one; `given` begins with its state.
    """
    d = np.uint64(kept.shape[1])
    one = grad.dtype.type(1)
    for i in range(late.shape[0]):
        row = late[i]
        for j in range(d):
            to_n = grad[row, j] * (one - gates[i, d + j]) * (one - gates[i, d + d + j] * gates[i, d + d + j])
            to_gates[i, d + d + j] = to_n
            to_kept[i, j] = to_n * gates[i, j]
        for j in range(d):
            r = gates[i, j]
            to_gates[i, j] = to_kept[i, j] * kept[i, j] * (one - r)
        for j in range(d):
            z = gates[i, d + j]
            to_gates[i, d + j] = grad[row, j] * (given[i, j] - gates[i, d + d + j]) * z * (one - z)
        for j in range(d + d + d):
            to_bias[j] += to_gates[i, j]
        for j in range(d):
            to_kept_bias[j] += to_kept[i, j]


@inner(fastmath=HEEDFUL)
def waves_backward(since, frequency, phase, sine, grad, to_frequency, to_phase):
    """Add up the gradients of the waves that `lay_out` made; `grad` (n, w) is that of their values."""
    waves = frequency.shape[0]
    turn = grad.dtype.type(TURN)
    frequency, phase = frequency * turn, phase * turn
    half, quarter = grad.dtype.type(0.5), grad.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    for i in range(since.shape[0]):
        ago = since[i]
        for j in range(waves):
            turns = ago * frequency[j] + phase[j] - quarter  # sin(x) = cos(x - a quarter turn)
            g = quarter - abs(turns - np.floor(turns + half))
            y = g * g
            s = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4)))) * grad[i, j]
            to_phase[j] -= s
            to_frequency[j] -= ago * s


@kernel
def leave_messages(
    nodes, ends, t, applied, context, features, last, unit, memory, updated, ever, pending, message, message_t,
    message_dt, newest, count,
):  # fmt: skip
    """Commit what waited for a block's nodes, then leave the block's own messages, in the columns of a `MemoryState`.

    `ends` (2, e) are the places of sources and destinations in `nodes`, `applied` (nodes, d) everyone's new state,
    `context` (e, 2, c) and `features` (e, f) what else a message says; any width may be 0. A message is the mean over
    the node's events, with `last` over those of its newest time. `newest` and `count` (nodes,) are room to work in.
    """
    d, f, c = np.uint64(applied.shape[1]), np.uint64(features.shape[1]), np.uint64(context.shape[2])
    zero = message.dtype.type(0)
    for i in range(nodes.shape[0]):
        v = nodes[i]
        if pending[v]:
            updated[v], ever[v] = message_t[v], True
        pending[v] = True
        message_dt[v] = zero
        for j in range(d):
            memory[v, j] = applied[i, j]
            message[v, j] = applied[i, j]
        for j in range(d, np.uint64(message.shape[1])):
            message[v, j] = zero
        count[i] = 0
    for e in range(t.shape[0]):  # times never fall
        newest[ends[0, e]] = t[e]
        newest[ends[1, e]] = t[e]
    for e in range(t.shape[0]):
        for side in range(2):
            mine, other = ends[side, e], ends[1 - side, e]
            if (side and mine == other) or (last and t[e] != newest[mine]):  # a self-loop is one message
                continue
            v = nodes[mine]
            count[mine] += 1
            for j in range(d):
                message[v, d + j] += applied[other, j]
            for j in range(c):
                message[v, d + d + j] += context[e, 1 - side, j]
            for j in range(f):
                message[v, d + d + c + j] += features[e, j]
            if ever[v]:
                message_dt[v] += message.dtype.type((t[e] - updated[v]) / unit)
    for i in range(nodes.shape[0]):
        v = nodes[i]
        message_t[v] = newest[i]
        if count[i] > 1:
            share = message.dtype.type(1 / count[i])
            message_dt[v] *= share
            for j in range(d, np.uint64(message.shape[1])):
                message[v, j] *= share
