"""Neighbors as of any time: a growing time-sorted adjacency, and causal walks."""

from pintgn.neighbors.index import Last, NeighborIndex, Neighbors, PairHistory, Walks, causal_walks
from pintgn.neighbors.queries import query_keys

__all__ = ["Last", "NeighborIndex", "Neighbors", "PairHistory", "Walks", "causal_walks", "query_keys"]
