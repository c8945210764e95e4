"""Warnings by column names: ids that two kinds of nodes share, and a direction that looks reversed."""

from __future__ import annotations

import re
import warnings

import numpy as np

from pintgn.errors import PintgnWarning
from pintgn.formatting import plural
from pintgn.ingest.guess import NAMES

WORDS = {
    "people": "user customer client buyer purchaser shopper member subscriber visitor viewer reader listener player "
    "student patient person employee rater reviewer voter editor consumer guest passenger cardholder",
    "things": "item product article page movie film song track album book course lecture video post thread question "
    "tag topic subreddit community group channel store shop merchant restaurant business venue place location poi "
    "hotel game app ad campaign url site website domain query document doc category genre brand sku isbn asin "
    "listing job drug disease gene protein recipe repository repo",
    "filling": "id ids no nr num number key code name uuid index idx",
}
"""Words in column names; `filling` does not name a kind."""
PEOPLE, THINGS, FILLING = (frozenset(words.split()) for words in WORDS.values())
ACTIVE = frozenset(NAMES["src"].split()) - {"u", "head", "node1"}
PASSIVE = frozenset(NAMES["dst"].split()) - {"i", "v", "tail", "node2", "object"}


def note_sides(src: np.ndarray, dst: np.ndarray, names: tuple[str, str]) -> None:
    """Warn if columns of two kinds share ids, or if the direction looks reversed."""
    one, other = (kind_of(name) for name in names)
    if one != other and {one, other} <= PEOPLE | THINGS and not {one, other} <= PEOPLE:
        shared = len(np.intersect1d(src, dst))
        if shared:
            warnings.warn(
                f"{names[0]!r} and {names[1]!r} seem to name two kinds of things, but share {plural(shared, 'id')}, "
                "each of which counts as one node. If they are different, pass bipartite=True (--bipartite), else "
                "bipartite=False (--no-bipartite).",
                PintgnWarning,
                stacklevel=5,
            )
    if (one in THINGS and other in PEOPLE) or (one in PASSIVE and other in ACTIVE):
        warnings.warn(
            f"links go from {names[0]!r} to {names[1]!r}, so the next {names[1]!r} of a {names[0]!r} is predicted. "
            f"For the other way round, swap src and dst (--src {names[1]} --dst {names[0]}).",
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
