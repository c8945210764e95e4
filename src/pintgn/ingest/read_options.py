"""Options of `read_events` in groups that the command line and Python share; the description of a field is its help."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.timeformat import UNITS, check_format, zone_of

COLUMN, COLUMNS = {"metavar": "COLUMN"}, {"metavar": "COLUMNS"}
ENCODINGS = ("auto", "onehot", "hash", "code")


@dataclass(frozen=True)
class Columns:
    """Further columns of a table, and the encoding of categories.

    The table of nodes is any source: their ids in a column `id` (or one called as in the events), with `bipartite` also
    `side` (src or dst), and features: numbers, or text, which is categories. The column to predict may be missing: an
    event without it is no question. Numbers become the label, which is kept in full; all else a feature in codes. Name
    it in `fit` as well.

    >>> import pintgn
    >>> links = {"src": ["a", "a"], "dst": ["b", "b"], "t": [1, 2], "what": ["add", "delete"]}
    >>> pintgn.read_events(links, columns=Columns(op="what"))
    EventLog: 2 events, 2 nodes, 1 to 2, of which 1 delete and 0 node
    """

    op: Annotated[
        str | int | None,
        "What an event does: add (1), delete (-1), node (0: it changes), or remove (a node and its living edges).",
        COLUMN,
    ] = None
    node_updates: Annotated[Sequence[str | int], "New node features that node events carry.", COLUMNS] = ()
    nodes: Annotated[Any, "Node features: a column 'id', and numbers or text.", {"metavar": "FILE"}] = None
    predict: str | int | None = None
    known_at: Annotated[
        str | int | None, "Times at which what is predicted becomes known; empty for never (docs/tasks.md).", COLUMN
    ] = None
    categorical: Annotated[Sequence[str | int], "Features that are categories although they are numbers.", COLUMNS] = ()
    encoding: Annotated[
        str | Mapping[str, str],
        "Encoding of categories: onehot, hash (32 columns of ±1), code (1, 2, … in one column), or auto: one-hot up to "
        "32 of them, else hash; or COLUMN=KIND,….",
        {"metavar": "KIND"},
    ] = "auto"

    def __post_init__(self) -> None:
        for kind in [self.encoding] if isinstance(self.encoding, str) else self.encoding.values():
            if kind not in ENCODINGS:
                raise BadInput(f"there is no encoding {kind!r}.{suggest(kind, ENCODINGS)}")


@dataclass(frozen=True)
class Cleaning:
    """Handling of rows that are out of order, repeated, incomplete or wrong.

    >>> import pintgn
    >>> late = {"src": [1, 2], "dst": [2, 3], "t": [7, 5]}
    >>> pintgn.read_events(late, cleaning=Cleaning(sort=True)).t.tolist()
    [5, 7]
    """

    sort: Annotated[
        bool | None,
        "Sort events by time, simultaneous ones in their order; by default with a note. If not, they are refused.",
        {"flag": "--sort/--no-sort"},
    ] = None
    skip_bad: Annotated[
        bool, "Leave out rows that cannot be used (no id, time or number, too few or too many values), and count them."
    ] = False
    max_bad: Annotated[float, "How many rows may be left out; below 1, a share of all.", {"metavar": "LIMIT"}] = 0.1
    drop_duplicates: Annotated[bool, "Of rows equal in every column that is read, keep the first."] = False
    fill: Annotated[float | None, "Value of missing features; an error by default."] = None
    strict: Annotated[bool, "Refuse a deletion of an edge that does not exist."] = False

    def __post_init__(self) -> None:
        if not self.max_bad >= 0:
            raise BadInput(f"max_bad={self.max_bad}; give a number of rows, or a share below 1 such as 0.1.")


@dataclass(frozen=True)
class FileFormat:
    """Format of rows, numbers and times; detected by default, and kept for later files.

    >>> import pintgn
    >>> german = {"src": [1], "dst": [2], "t": ["24.12.2024"]}
    >>> pintgn.read_events(german, format=FileFormat(time_format="%d.%m.%Y"))
    EventLog: 1 event, 2 nodes, 2024-12-24 to 2024-12-24
    """

    delimiter: Annotated[str | None, "Separator of CSV columns; detected by default."] = None
    header: Annotated[
        bool | None,
        "Whether the first line names the columns; without, name them by position, from 0.",
        {"flag": "--header/--no-header"},
    ] = None
    names: Annotated[
        Sequence[str] | None, "Names for the columns of a CSV instead of a header.", COLUMNS | {"flag": "--columns"}
    ] = None
    skip_lines: Annotated[int, "Lines above the header to skip."] = 0
    comment: Annotated[
        str | None, "Mark at the start of comment lines; # and % at the top are detected.", {"metavar": "MARK"}
    ] = None
    charset: Annotated[str, "Encoding of a text file, such as latin-1."] = "utf-8"
    decimal: Annotated[
        str | None, "Decimal mark of numbers in text: , for 1.234,50 and . for 1,234.50.", {"metavar": "MARK"}
    ] = None
    time_format: Annotated[
        str | None,
        "Format of times that are not ISO-8601: '%d.%m.%Y %H:%M', or s, ms, us, ns since 1970.",
        {"metavar": "FORMAT"},
    ] = None
    assume_zone: Annotated[
        str | None, "Zone of dates that are written without one, such as Europe/Berlin.", {"metavar": "ZONE"}
    ] = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise BadInput(f"a delimiter is one character, such as ',' or '\\t', not {self.delimiter!r}.")
        if self.decimal not in (None, ".", ","):
            raise BadInput(f"decimal={self.decimal!r}; the decimal mark is ',' or '.'.")
        check_format(self.time_format)
        if self.assume_zone is not None:
            zone_of(self.assume_zone)
            if self.time_format in UNITS:
                raise BadInput(
                    f"time_format={self.time_format!r} counts since 1970 UTC, whatever the zone. Leave out assume_zone."
                )


GROUPS = {"columns": Columns, "cleaning": Cleaning, "format": FileFormat}


def grouped(**options: Any) -> dict[str, Any]:
    """Options by their own names as the groups that `read_events` takes.

    >>> grouped(op="op", fill=0)
    {'columns': Columns(op='op', node_updates=(), nodes=None, predict=None, known_at=None, categorical=(), \
encoding='auto'), 'cleaning': Cleaning(sort=None, skip_bad=False, max_bad=0.1, drop_duplicates=False, fill=0, \
strict=False)}
    """
    found: dict[str, dict[str, Any]] = {}
    homes = {field.name: group for group, kind in GROUPS.items() for field in dataclasses.fields(kind)}
    for name, value in options.items():
        if name not in homes:
            raise UnknownName(f"read_events has no option {name!r}.{suggest(name, homes)}")
        found.setdefault(homes[name], {})[name] = value
    return {group: GROUPS[group](**given) for group, given in found.items()}
