"""Who met whom, as of any time: a growing time-sorted adjacency and walks back through it."""

from pintgn.neighbors.index import Last, NeighborIndex, Neighbors, PairHistory
from pintgn.neighbors.inputs import query_keys
from pintgn.neighbors.walks import Walks, causal_walks

__all__ = ["Last", "NeighborIndex", "Neighbors", "PairHistory", "Walks", "causal_walks", "query_keys"]
