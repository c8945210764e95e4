"""What `pintgn.theory` offers, each name once: the package loads from here, type checkers and editors read it."""

from .colors import Coloring as Coloring
from .colors import temporal_wl as temporal_wl
from .colors import temporal_wl_test as temporal_wl_test
from .comparison import MODELS as MODELS
from .comparison import Distinction as Distinction
from .comparison import Verdict as Verdict
from .comparison import distinguish as distinguish
from .computation_trees import Tree as Tree
from .computation_trees import computation_tree as computation_tree
from .computation_trees import monotone_tree as monotone_tree
from .data_report import DataReport as DataReport
from .data_report import report as report
from .items import gallery as gallery
from .items import item as item
from .walks import anonymous_walks as anonymous_walks
from .walks import temporal_diameter as temporal_diameter
