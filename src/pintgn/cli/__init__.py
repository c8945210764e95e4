"""The command line: a thin skin over the library. Nothing imports it."""

from pintgn.cli.app import main

__all__ = ["main"]
