"""Guesses by column names and values: which columns are src, dst and t, and whether ids or direction look mistaken."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pintgn.errors import PintgnWarning
from pintgn.events.columns import is_text, plain
from pintgn.events.timeformat import likely_formats, since_1970
from pintgn.events.times import is_time
from pintgn.formatting import plural
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
KINDS = {
    "people": "user customer client buyer purchaser shopper member subscriber visitor viewer reader listener player "
    "student patient person employee rater reviewer voter editor consumer guest passenger cardholder",
    "things": "item product article page movie film song track album book course lecture video post thread question "
    "tag topic subreddit community group channel store shop merchant restaurant business venue place location poi "
    "hotel game app ad campaign url site website domain query document doc category genre brand sku isbn asin "
    "listing job drug disease gene protein recipe repository repo",
    "filling": "id ids no nr num number key code name uuid index idx",
}
PEOPLE, THINGS, FILLING = (frozenset(words.split()) for words in KINDS.values())
"""Words in column names; `FILLING` does not name a kind."""
ACTIVE = frozenset(NAMES["src"].split()) - {"u", "head", "node1"}
PASSIVE = frozenset(NAMES["dst"].split()) - {"i", "v", "tail", "node2", "object"}
ROWS, COLUMNS = 200, 50
"""Rows and columns that are looked at."""
FEW = 12
"""Values of a column from which on it can be one of ids rather than of ratings."""


def by_name(names: Sequence[str]) -> dict[str, str]:
    """Columns that are called as such columns are, where that is not open to doubt.

    >>> by_name(["Sender", "receiver_id", "created_at", "amount"])
    {'src': 'Sender', 'dst': 'receiver_id', 't': 'created_at'}
    """
    bare = [re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower()) for name in names]  # edge.from: from
    found: dict[str, str] = {}
    for role, known in NAMES.items():
        for word in known.split():  # the usual names first
            alike = [name for name, one in zip(names, bare, strict=True) if one == word and name not in found.values()]
            if len(alike) == 1:
                found[role] = alike[0]
                break
    return found


def konect(source: Source) -> dict[str, Any]:
    """The columns of a file of KONECT with times, which says in its first line what it is: % asym positive."""
    words = next(iter(getattr(source, "preamble", [])), "").lstrip("%").split()
    if not words or words[0] not in ("sym", "asym", "bip") or len(source.names) != 4:
        return {}
    return {"src": "0", "dst": "1", "t": "3"} | ({"bipartite": True} if words[0] == "bip" else {})


def by_look(source: Source) -> dict[str, str]:
    """A guess for an error message: names first, then what is in the first rows; nothing where that leaves doubt."""
    found = by_name(source.names)
    looks = [_look(name, values) for name, values in _sample(source).items() if name not in found.values()]
    if "t" not in found:
        kinds = ([look for look in looks if look.date], [look for look in looks if look.year])
        time = next((one for kind in (*kinds, [look for look in looks if look.grows]) if (one := _only(kind))), None)
        last = [look for look in looks if look.number] if len(found) == 2 else []  # what else could it be?
        time = time or (last[0] if len(last) == 1 else None)
        found |= {"t": time.name} if time else {}
    ids = [look for look in looks if look.name not in found.values() and look.id]
    missing = [role for role in ("src", "dst") if role not in found]
    if len(ids) > len(missing):  # a rating or a category is no one's name
        ids = [look for look in ids if not look.rating]
    if len(ids) == len(missing):
        found |= {role: look.name for role, look in zip(missing, ids, strict=True)}
    return {role: found[role] for role in NAMES if role in found}


class Look(NamedTuple):
    """What a column may be by its first values."""

    name: str
    number: bool
    date: bool
    year: bool
    grows: bool
    """Whether rows come in the order of this column; that of a few may be chance."""
    id: bool
    rating: bool
    """Few values, or some below 0."""


def _only(looks: list[Look]) -> Look | None:
    """The one column; of several, the one that grows from row to row."""
    growing = [look for look in looks if look.grows]
    return looks[0] if len(looks) == 1 else growing[0] if len(growing) == 1 else None


def _sample(source: Source) -> dict[str, pa.Array]:
    names = source.names[:COLUMNS]
    if isinstance(source, TextSource):  # without rows of another width, which are another error
        batch = source.sample(names, lenient=True)
    else:
        batches = source.batches(names)
        batch = next(iter(batches), None)
        getattr(batches, "close", lambda: None)()
    return {} if batch is None else {name: batch.column(k)[:ROWS] for k, name in enumerate(names)}


def _look(name: str, values: pa.Array) -> Look:
    kind, numbers, date = values.type, [], pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)
    listed = [value for value in plain(values).to_pylist() if value is not None and value != ""]
    real = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    try:
        if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or str(kind) == "string_view":
            numbers = [float(value) for value in listed]
    except ValueError:
        date = bool(listed) and all(is_time(text) or likely_formats(text) for text in listed[:20])
    distinct, whole = len(set(map(str, listed))), all(number.is_integer() for number in numbers)
    least, most = min(numbers, default=0.0), max(numbers, default=0.0)
    return Look(
        name,
        number=bool(numbers),
        date=date or bool(numbers and since_1970(least, most)),
        year=whole and bool(numbers) and 1800 <= least <= most <= 2100,
        grows=len(numbers) > 2 and distinct > 1 and numbers == sorted(numbers),
        id=not (date or real or pa.types.is_boolean(kind)) and whole and distinct > 2,  # see `as_ids`
        rating=(distinct < FEW and len(listed) > 5 * distinct) or least < 0,
    )


# -- warnings ----------------------------------------------------------------------------------------------


def note_sides(src: np.ndarray, dst: np.ndarray, names: tuple[str, str]) -> None:
    """Warn if columns of two kinds share ids, or if the direction looks reversed."""
    one, other = (kind_of(name) for name in names)
    said = []
    two_kinds = one != other and {one, other} <= PEOPLE | THINGS and not {one, other} <= PEOPLE
    if two_kinds and (shared := len(np.intersect1d(src, dst))):
        said.append(
            f"{names[0]!r} and {names[1]!r} seem to name two kinds of things, but share {plural(shared, 'id')}, "
            "each of which counts as one node. If they are different, pass bipartite=True (--bipartite), else "
            "bipartite=False (--no-bipartite)."
        )
    if (one in THINGS and other in PEOPLE) or (one in PASSIVE and other in ACTIVE):
        said.append(
            f"links go from {names[0]!r} to {names[1]!r}, so the next {names[1]!r} of a {names[0]!r} is predicted. "
            f"For the other way round, swap src and dst (--src {names[1]} --dst {names[0]})."
        )
    for sentence in said:
        warnings.warn(sentence, PintgnWarning, stacklevel=5)


def kind_of(name: str) -> str:
    """The kind of node that a column names.

    >>> kind_of("user_id"), kind_of("sourcePageId"), kind_of("items"), kind_of("from")
    ('user', 'page', 'item', 'from')
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
    telling = [word.lower() for word in words if word.lower() not in FILLING] or [""]
    last = re.sub(r"id$", "", telling[-1]) or telling[-1]
    return last[:-1] if last.endswith("s") and last[:-1] in PEOPLE | THINGS else last
