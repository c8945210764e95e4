"""A model, its history and its memory under one clock."""

from pintgn.stream.core import Stream

__all__ = ["Stream"]
