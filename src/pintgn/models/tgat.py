"""TGAT: temporal graph attention (paper, appendix A)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pintgn.models.tgn import TGN


@dataclass(eq=False, repr=False)
class TGAT(TGN):
    """Temporal attention over neighbors, layer by layer, without memory.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ) V        h_v = MLP(h_v ‖ h̃_v)        φ(x) = cos(ω x + b)

    with ω and b learned and h_j^(0) = x_j. It is TGN-Att with its memory switched off, as the paper has it.

    Differs from the released code: softmax is scaled by the square root of a head's width; dt of every depth is
    measured from the query's own time; the newest neighbors are taken, which is far stronger than uniform ones
    (docs/results.md has both), unless `sample="uniform"`.

    Args:
        sample: `recent`, or `uniform` as in TGAT's paper: each of the node's contacts equally likely. Nodes that are
            asked about at one time draw alike: two with equally many contacts get those of the same ranks.
        draw_seed: of uniform neighbors.
        Others: see `TGN`.
    """

    layers: int = 2
    neighbors: int = 20
    sample: str = "recent"
    draw_seed: int = 0
    memory: int = field(default=0, init=False)
    memory_cell: str = field(default="gru", init=False)
    memory_aggregate: str = field(default="last", init=False)
    embedding: str = field(default="attention", init=False)
    message: str = field(default="state", init=False)
