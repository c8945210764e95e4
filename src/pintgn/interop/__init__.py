"""Conversions for other tools: PyTorch Geometric, the Temporal Graph Benchmark, NetworkX, SciPy.

Every name loads on first use, and its package only when it is called: none of them is needed to use pintgn.
(pandas, Polars, Arrow, JSON lines and CSV go straight into `pintgn.read_events`.)
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
