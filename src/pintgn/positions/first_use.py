"""Positions take longest to compile. `python -m pintgn.positions.first_use` does it in a process of its own."""

from __future__ import annotations

from pintgn import compiled


def start() -> None:
    """Begin to compile what positions need, if it never was."""
    compiled.compile_ahead(__name__, holds="positions_*/passes.exact_pass-*.nbc")


if __name__ == "__main__":
    import numpy as np

    from pintgn.positions import RelativePositions

    RelativePositions(2).observe(np.array([0, 1]), np.array([1, 2]), np.array([1, 2]))
