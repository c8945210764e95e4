"""Relative positional features, exact and sketched (paper Sec. 4, Eqs. 7-11; appendix for simultaneous events)."""

from pintgn.positions.relative import RelativePositions

__all__ = ["RelativePositions"]
