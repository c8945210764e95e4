"""Discrete time: a sequence of graphs becomes a log of events and back."""
