"""Discrete time: sequences of graphs to logs of events and back."""
