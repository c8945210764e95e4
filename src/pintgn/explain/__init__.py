"""Reasons behind a score: the walks that join two nodes, and what the score would be without them."""

from pintgn.explain.answer import Contact, Explanation, Reason, Without
from pintgn.explain.reasons import explain

__all__ = ["Contact", "Explanation", "Reason", "Without", "explain"]
