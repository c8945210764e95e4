"""pintgn: learn from streams of timestamped interactions."""

__version__ = "0.1.0"
