"""The past of a stream over the memory of several workers (`--partition`): contacts by node, positions by column.

Every worker has a stream of its own, observes the same events and asks its share of the questions; contacts and
positions that it lacks it asks the others for. Memory, node features and features of events every worker has whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pintgn.errors import BadInput
from pintgn.neighbors.partitioned import PartitionedIndex
from pintgn.positions import RelativePositions
from pintgn.positions.partitioned import PartitionedPositions
from pintgn.stream.history import History
from pintgn.stream.reads import Positions

if TYPE_CHECKING:
    from pintgn.stream.core import Stream


def new_past(stream: Stream, late: slice | None, block: int) -> tuple[History, Positions | None]:
    """The empty past of a new stream, or this worker's part of it where there is an exchange."""
    model, exchange, width = stream.model, stream.exchange, stream.schema.width
    backend = stream.positions_backend
    kept: Any = {"width": stream.positions_width, "time_unit": model.dt_unit}
    if exchange is None:
        positions = RelativePositions(model.positions, backend, **kept) if model.positions else None
        return History(width, block, late, relation=stream.schema.relation), positions
    if "block" in (stream.positions_refresh, stream.history_refresh):
        raise BadInput("--partition looks up as of each event; leave out positions_refresh and history_refresh.")
    parts = PartitionedPositions(exchange, model.positions, backend, **kept) if model.positions else None
    return History(width, block, late, PartitionedIndex(exchange), stream.schema.relation), parts
