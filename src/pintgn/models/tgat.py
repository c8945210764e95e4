"""TGAT: temporal graph attention (paper, appendix A)."""

from __future__ import annotations

from pintgn.models.tgn import TGN


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

    def __init__(
        self,
        dim: int = 100,
        layers: int = 2,
        neighbors: int = 20,
        heads: int = 2,
        positions: int = 0,
        positions_at: str = "input",
        positions_transform: str = "log1p",
        time_dim: int = 100,
        time_unit: float | None = None,
        sample: str = "recent",
        draw_seed: int = 0,
    ):
        super().__init__(
            dim=dim,
            layers=layers,
            neighbors=neighbors,
            heads=heads,
            memory=0,
            positions=positions,
            positions_at=positions_at,
            positions_transform=positions_transform,
            time_dim=time_dim,
            time_unit=time_unit,
        )
        self.choose_sample(sample, draw_seed)
