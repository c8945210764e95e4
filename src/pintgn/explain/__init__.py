"""Explanations of answers: contacts, walks and known facts, each with the answer without it."""

from pintgn.explain.answer import Contact, Explanation, Reason, Without
from pintgn.explain.reasons import explain

__all__ = ["Contact", "Explanation", "Reason", "Without", "explain"]
