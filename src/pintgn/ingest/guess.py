"""Which columns hold who, whom and when? By their names, or by what is in them, where nobody has said it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pintgn.events.columns import is_text, plain
from pintgn.events.timeformat import likely_formats, since_1970
from pintgn.events.times import is_time
from pintgn.ingest.table_source import Source
from pintgn.ingest.textfile import TextSource

NAMES = {
    "src": "src source sourceid srcid from fromid sender senderid user userid u buyer caller author actor follower "
    "customer customerid client payer origin head node1 idfrom sourcenode fromnodeid fromnode",
    "dst": "dst dest destination dstid to toid target targetid receiver receiverid recipient item itemid i v seller "
    "callee followee product productid page merchant payee object tail node2 idto targetnode tonodeid tonode",
    "t": "t time ts timestamp timestamps date datetime when at unixtime unixtimestamp epoch created createdat "
    "eventtime",
}
ROWS, COLUMNS = 200, 50
"""Rows and columns that are looked at."""
FEW = 12
"""Values of a column from which on it can be one of ids rather than of ratings."""


def by_name(names: Sequence[str]) -> dict[str, str]:
    """Columns that are called as such columns are, where that is not open to doubt.

    >>> by_name(["Sender", "receiver_id", "created_at", "amount"])
    {'src': 'Sender', 'dst': 'receiver_id', 't': 'created_at'}
    """
    plain_names: dict[str, list[str]] = {}
    for name in names:
        bare = re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower())  # edge.from: from
        plain_names.setdefault(bare, []).append(name)
    found: dict[str, str] = {}
    for role, known in NAMES.items():
        for word in known.split():  # the usual names first
            alike = [name for name in plain_names.get(word, ()) if name not in found.values()]
            if len(alike) == 1:
                found[role] = alike[0]
                break
    return found


def by_look(source: Source) -> dict[str, str]:
    """A guess for an error message: names first, then what is in the first rows; nothing where that leaves doubt."""
    found = by_name(source.names)
    looks = [_Look(name, values) for name, values in _sample(source).items() if name not in found.values()]
    if "t" not in found:
        time = _only(looks, _Look.is_date) or _only(looks, _Look.is_year) or _only(looks, _Look.grows)
        last = [look for look in looks if look.numbers] if len(found) == 2 else []  # what else could it be?
        time = time or (last[0] if len(last) == 1 else None)
        found |= {"t": time.name} if time else {}
    ids = [look for look in looks if look.name not in found.values() and look.is_id]
    missing = [role for role in ("src", "dst") if role not in found]
    if len(ids) > len(missing):  # a rating or a category is no one's name
        ids = [look for look in ids if not look.few and not look.negative]
    if len(ids) == len(missing):
        found |= {role: look.name for role, look in zip(missing, ids, strict=True)}
    return {role: found[role] for role in NAMES if role in found}


def konect(source: Source) -> dict[str, Any]:
    """The columns of a file of KONECT with times, which says in its first line what it is: % asym positive."""
    words = next(iter(getattr(source, "preamble", [])), "").lstrip("%").split()
    if not words or words[0] not in ("sym", "asym", "bip") or len(source.names) != 4:
        return {}
    return {"src": "0", "dst": "1", "t": "3"} | ({"bipartite": True} if words[0] == "bip" else {})


def _only(looks: list[_Look], test: Callable[[_Look], bool]) -> _Look | None:
    """The one column that passes; of several, the one that grows from row to row."""
    passing = [look for look in looks if test(look)]
    growing = [look for look in passing if look.grows()]
    return passing[0] if len(passing) == 1 else growing[0] if len(growing) == 1 else None


def _sample(source: Source) -> dict[str, pa.Array]:
    names = source.names[:COLUMNS]
    if isinstance(source, TextSource):  # without rows of another width, which are another error
        batch = source.sample(names, lenient=True)
    else:
        batches = source.batches(names)
        batch = next(iter(batches), None)
        getattr(batches, "close", lambda: None)()
    return {} if batch is None else {name: batch.column(k)[:ROWS] for k, name in enumerate(names)}


class _Look:
    """What a column looks like by its first values."""

    def __init__(self, name: str, values: pa.Array):
        kind = values.type
        self.name, self.date, self.numbers = name, pa.types.is_timestamp(kind) or pa.types.is_date(kind), []
        listed = [value for value in plain(values).to_pylist() if value is not None and value != ""]
        if is_text(kind) or str(kind) == "string_view":
            try:
                self.numbers = [float(text) for text in listed]
            except ValueError:
                self.date = bool(listed) and all(is_time(text) or likely_formats(text) for text in listed[:20])
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            self.numbers = [float(value) for value in listed]
        self.distinct = len(set(map(str, listed)))
        self.whole = all(number.is_integer() for number in self.numbers)
        self.few = self.distinct < FEW and len(listed) > 5 * self.distinct
        self.negative = bool(self.numbers) and min(self.numbers) < 0
        unfit = pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)  # see `as_ids`
        self.is_id = not self.date and self.whole and self.distinct > 2 and not unfit

    def is_date(self) -> bool:
        return self.date or bool(self.numbers and since_1970(min(self.numbers), max(self.numbers)))

    def is_year(self) -> bool:
        return self.whole and bool(self.numbers) and 1800 <= min(self.numbers) <= max(self.numbers) <= 2100

    def grows(self) -> bool:
        """Whether rows come in the order of this column; that of a few may be chance."""
        return len(self.numbers) > 2 and self.distinct > 1 and self.numbers == sorted(self.numbers)
