"""Which columns hold who, whom and when? By their names, or by what is in them, where nobody has said it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from pintgn.events.columns import is_text, plain
from pintgn.events.sources import Source
from pintgn.events.timeformat import likely_formats, since_1970
from pintgn.events.times import is_time

NAMES = {
    "src": "src source sourceid srcid from fromid sender senderid user userid u buyer caller author actor follower "
    "customer customerid client payer origin head node1 idfrom sourcenode",
    "dst": "dst dest destination dstid to toid target targetid receiver receiverid recipient item itemid i v seller "
    "callee followee product productid page merchant payee object tail node2 idto targetnode",
    "t": "t time ts timestamp timestamps date datetime when at unixtime unixtimestamp epoch created createdat "
    "eventtime",
}
ROWS, COLUMNS = 200, 50
"""Rows and columns that are looked at."""


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
    """A guess for all three columns, for an error message: names first, then what is in the first rows."""
    found = by_name(source.names)
    looks = {name: _look(values) for name, values in _sample(source).items() if name not in found.values()}
    if "t" not in found:
        times = [name for name, look in looks.items() if look == "time"]
        times = times or [name for name, look in looks.items() if look == "decimal"]
        found |= {"t": times[0]} if times else {}
    ids = [name for name, look in looks.items() if look == "id" and name not in found.values()]
    for role in ("src", "dst"):
        if role not in found and ids:
            found[role] = ids.pop(0)
    return {role: found[role] for role in NAMES if role in found}


def _sample(source: Source) -> dict[str, pa.Array]:
    names = source.names[:COLUMNS]
    batches = source.batches(names)
    batch = next(iter(batches), None)
    getattr(batches, "close", lambda: None)()
    return {} if batch is None else {name: batch.column(k)[:ROWS] for k, name in enumerate(names)}


def _look(values: pa.Array) -> str:
    """What a column looks like: time, id, decimal, or something else."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    listed = [value for value in plain(values).to_pylist() if value is not None and value != ""]
    if not listed:
        return "other"
    if is_text(kind) or str(kind) == "string_view":
        if all(is_time(text) or likely_formats(text) for text in listed[:20]):
            try:
                listed = [float(text) for text in listed]
            except ValueError:
                return "time"  # dates
            whole = all(text.is_integer() for text in listed)
        else:
            return "id" if len(set(listed)) > 2 else "other"
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        whole = pa.types.is_integer(kind)
    else:
        return "other"
    if since_1970(min(listed), max(listed)) or (len(listed) > 2 and listed == sorted(set(listed))):
        return "time"
    if not whole:
        return "decimal"
    return "id" if len(set(listed)) > 2 else "other"
