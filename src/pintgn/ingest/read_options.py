"""Options of `read_events` in groups that the command line and Python share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.timeformat import UNITS, check_format, zone_of

ENCODINGS = ("auto", "onehot", "hash", "code")


@dataclass(frozen=True)
class Columns:
    """What further columns of a table mean, and how categories become numbers.

    Args:
        op: a column that says what an event does: add (1), delete (-1), node (0: the node changes, and carries
            `node_updates`), or remove (the node goes, and all its living edges are deleted).
        node_updates: columns that node events carry.
        nodes: a table of nodes (any source): their ids in a column `id` (or one called as in the events), with
            `bipartite` also `side` (src or dst), and features: numbers, or text, which is categories.
        predict: the column that is to be predicted, which may be missing: an event without it is no question. Numbers
            become the label, which is kept in full; all else a feature in codes. Name it in `fit` as well.
        known_at: a column of times at which what is to be predicted becomes known about each event, as that of a
            chargeback; empty where it never does. See docs/tasks.md.
        categorical: feature columns that are categories although they look like numbers.
        encoding: "onehot" (a 0/1 column for each category), "hash" (32 columns of ±1, the bits of a hash), "code" (1,
            2, … in one column), or "auto": one-hot up to 32 categories, else hash. A mapping says it for each column.

    >>> import pintgn
    >>> links = {"src": ["a", "a"], "dst": ["b", "b"], "t": [1, 2], "what": ["add", "delete"]}
    >>> pintgn.read_events(links, columns=Columns(op="what"))
    EventLog: 2 events, 2 nodes, 1 to 2, of which 1 delete and 0 node
    """

    op: str | int | None = None
    node_updates: Sequence[str | int] = ()
    nodes: Any = None
    predict: str | int | None = None
    known_at: str | int | None = None
    categorical: Sequence[str | int] = ()
    encoding: str | Mapping[str, str] = "auto"

    def __post_init__(self) -> None:
        for kind in [self.encoding] if isinstance(self.encoding, str) else self.encoding.values():
            if kind not in ENCODINGS:
                raise BadInput(f"there is no encoding {kind!r}.{suggest(kind, ENCODINGS)}")


@dataclass(frozen=True)
class Cleaning:
    """What happens to rows that are out of order, repeated, incomplete or wrong.

    Args:
        sort: events that are not in order of time are sorted, with a note; simultaneous ones keep their order. True
            leaves out the note, False makes it an error.
        skip_bad: leave out rows that cannot be used (no id, no time, no number where one is needed, too few or too
            many values) instead of ending with an error; a warning counts each kind and names the first ones.
        max_bad: how many rows may be skipped: a number, or, below 1, a share of all.
        drop_duplicates: of rows that are equal in every column that is read, keep the first.
        fill: what a missing feature counts as; otherwise it is an error.
        strict: refuse to delete what was never added or is already gone.

    >>> import pintgn
    >>> late = {"src": [1, 2], "dst": [2, 3], "t": [7, 5]}
    >>> pintgn.read_events(late, cleaning=Cleaning(sort=True)).t.tolist()
    [5, 7]
    """

    sort: bool | None = None
    skip_bad: bool = False
    max_bad: float = 0.1
    drop_duplicates: bool = False
    fill: float | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if not self.max_bad >= 0:
            raise BadInput(f"max_bad={self.max_bad}; give a number of rows, or a share below 1 such as 0.1.")


@dataclass(frozen=True)
class FileFormat:
    """How rows, numbers and times are written; found out when not given.

    Args:
        delimiter: what separates the columns of a text file.
        header: whether the first line names the columns.
        names: names for the columns of a text file without a header, or instead of it.
        skip_lines: lines above the header to skip.
        comment: how lines of comment begin; where a file begins with # or %, these are.
        charset: of a text file, such as latin-1.
        decimal: "," where text writes numbers as 1.234,50, "." where as 1,234.50.
        time_format: how times are written, where not as ISO-8601: a format of strptime such as "%d.%m.%Y %H:%M", or
            "s", "ms", "us" or "ns" for numbers that count since 1970 and are then shown as dates.
        assume_zone: the time zone of dates that are written without one, such as "Europe/Berlin" or "+02:00". Later
            files, and times that are asked about, are read so, too.

    >>> import pintgn
    >>> german = {"src": [1], "dst": [2], "t": ["24.12.2024"]}
    >>> pintgn.read_events(german, format=FileFormat(time_format="%d.%m.%Y"))
    EventLog: 1 event, 2 nodes, 2024-12-24 to 2024-12-24
    """

    delimiter: str | None = None
    header: bool | None = None
    names: Sequence[str] | None = None
    skip_lines: int = 0
    comment: str | None = None
    charset: str = "utf-8"
    decimal: str | None = None
    time_format: str | None = None
    assume_zone: str | None = None

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
