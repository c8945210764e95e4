"""Guesses by column names: which columns are src, dst and t, and whether their ids name two kinds of nodes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn.errors import PintgnWarning
from pintgn.formatting import plural
from pintgn.ingest.table_source import Source

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


def by_name(names: Sequence[str]) -> dict[str, str]:
    """Columns with common names (src, dst, t), where the choice is not in doubt.

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


def note_sides(src: np.ndarray, dst: np.ndarray, names: tuple[str, str]) -> None:
    """Warn if columns of two kinds share ids."""
    kinds = {kind_of(name) for name in names}
    two_kinds = len(kinds) == 2 and kinds <= PEOPLE | THINGS and not kinds <= PEOPLE
    if two_kinds and (shared := len(np.intersect1d(src, dst))):
        warnings.warn(
            f"{names[0]!r} and {names[1]!r} seem to name two kinds of things, but share {plural(shared, 'id')}, "
            "each of which counts as one node. If they are different, pass bipartite=True (--bipartite), else "
            "bipartite=False (--no-bipartite).",
            PintgnWarning,
            stacklevel=5,
        )


def kind_of(name: str) -> str:
    """The kind of node that a column names.

    >>> kind_of("user_id"), kind_of("sourcePageId"), kind_of("items"), kind_of("from")
    ('user', 'page', 'item', 'from')
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
    telling = [word.lower() for word in words if word.lower() not in FILLING] or [""]
    last = re.sub(r"id$", "", telling[-1]) or telling[-1]
    return last[:-1] if last.endswith("s") and last[:-1] in PEOPLE | THINGS else last
