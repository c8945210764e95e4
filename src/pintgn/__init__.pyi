"""What `pintgn` offers, each name once: the package loads from here, type checkers and editors read it."""

from . import errors as errors
from . import events as events
from . import interop as interop
from . import theory as theory
from .check import check_model as check_model
from .datasets.simulate import simulate as simulate
from .discrete.conversion import from_snapshots as from_snapshots
from .discrete.conversion import to_snapshots as to_snapshots
from .events.log import EventLog as EventLog
from .events.log import Query as Query
from .events.schema import ADD as ADD
from .events.schema import DELETE as DELETE
from .events.schema import NODE as NODE
from .events.splits import hidden_nodes as hidden_nodes
from .explain import Explanation as Explanation
from .ingest.read import read_events as read_events
from .ingest.read import write_events as write_events
from .ingest.read_options import Cleaning as Cleaning
from .ingest.read_options import Columns as Columns
from .ingest.read_options import FileFormat as FileFormat
from .learn.evaluate import evaluate as evaluate
from .learn.fit import fit as fit
from .learn.run import Run as Run
from .learn.tune import tune as tune
from .live.live import Live as Live
from .live.live import open as open
from .models.base import Model as Model
from .models.boosted import Boosted as Boosted
from .models.caw import CAW as CAW
from .models.ctdne import CTDNE as CTDNE
from .models.heuristics import EdgeBank as EdgeBank
from .models.heuristics import Heuristic as Heuristic
from .models.pint import PINT as PINT
from .models.static import GAT as GAT
from .models.static import GraphSAGE as GraphSAGE
from .models.tgn import JODIE as JODIE
from .models.tgn import TGAT as TGAT
from .models.tgn import TGN as TGN
from .models.tgn import DyRep as DyRep
from .neighbors.index import NeighborIndex as NeighborIndex
from .positions import RelativePositions as RelativePositions
from .report.write import write_report as write_report
from .serve.service import Service as Service
from .stream import Stream as Stream

__version__: str
