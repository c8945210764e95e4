"""What `pintgn.interop` offers, each name once: the package loads from here, type checkers and editors read it."""

from .graphs import networkx_snapshots as networkx_snapshots
from .graphs import sparse_positions as sparse_positions
from .graphs import to_networkx as to_networkx
from .pyg import from_pyg as from_pyg
from .pyg import to_pyg as to_pyg
from .tgb import evaluate_tgb as evaluate_tgb
from .tgb import from_tgb as from_tgb
from .tgb import tgb_parts as tgb_parts
