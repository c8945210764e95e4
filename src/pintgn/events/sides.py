"""Are sources and destinations two kinds of things whose ids happen to overlap? And is the direction the usual one?

User 1 and item 1 would become one node without a word. Names of columns tell it, and where they do not, the ids
themselves: each side counts from the same number to an end of its own, and links are returned as often as chance would
have it, which is what two populations show and one does not.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pyarrow as pa

from pintgn.errors import PintgnWarning
from pintgn.events.guess import NAMES
from pintgn.events.ids import IdMap
from pintgn.formatting import plural

WORDS = {
    "people": "user customer client buyer purchaser shopper member subscriber visitor viewer reader listener player "
    "student patient person employee rater reviewer voter editor consumer guest passenger cardholder",
    "things": "item product article page movie film song track album book course lecture video post thread question "
    "tag topic subreddit community group channel store shop merchant restaurant business venue place location poi "
    "hotel game app ad campaign url site website domain query document doc category genre brand sku isbn asin "
    "listing job drug disease gene protein recipe repository repo",
    "filling": "id ids no nr num number key code name uuid index idx",
}
"""What columns are called; `filling` says nothing about what they name."""
PEOPLE, THINGS, FILLING = (frozenset(words.split()) for words in WORDS.values())
ACTIVE = frozenset(NAMES["src"].split()) - {"u", "head", "node1"}
PASSIVE = frozenset(NAMES["dst"].split()) - {"i", "v", "tail", "node2", "object"}
ENOUGH = 100
"""Events from which on the ids alone can tell; with fewer anything may be chance."""
FEWEST = 20
"""Nodes of either side, likewise."""


def note_sides(src: np.ndarray, dst: np.ndarray, ids: IdMap, names: tuple[str, str]) -> None:
    """Warn where the same id seems to mean two things, or the direction looks reversed."""
    one, other = (kind_of(name) for name in names)
    different = one != other and {one, other} <= PEOPLE | THINGS and not {one, other} <= PEOPLE
    if different or (pa.types.is_integer(ids.type) and len(src) >= ENOUGH):
        acts, met = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        acts[src] = met[dst] = True
        shared = int((acts & met).sum())
        if shared and (different or (_two_counts(acts, met, ids) and _returned_by_chance(src, dst, len(ids)))):
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
    """What a column names, in one word.

    >>> kind_of("user_id"), kind_of("sourcePageId"), kind_of("items"), kind_of("from")
    ('user', 'page', 'item', 'from')
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
    telling = [word.lower() for word in words if word.lower() not in FILLING] or [""]
    last = re.sub(r"id$", "", telling[-1]) or telling[-1]
    return last[:-1] if last.endswith("s") and last[:-1] in PEOPLE | THINGS else last


def _two_counts(acts: np.ndarray, met: np.ndarray, ids: IdMap) -> bool:
    """Whether sources and destinations are each counted without gaps, from the same start to ends far apart."""
    numbers = ids.decode().to_numpy()
    first, last = zip(*((int(numbers[side].min()), int(numbers[side].max())) for side in (acts, met)), strict=True)
    counts = int(acts.sum()), int(met.sum())
    gaps = [end - start + 1 - count for start, end, count in zip(first, last, counts, strict=True)]
    dense = all(gap <= 0.02 * count for gap, count in zip(gaps, counts, strict=True))
    return dense and first[0] == first[1] and min(counts) >= FEWEST and max(counts) > 1.1 * min(counts)


def _returned_by_chance(src: np.ndarray, dst: np.ndarray, nodes: int) -> bool:
    """Whether links u → v and v → u occur together about as often as if they had nothing to do with each other."""
    pairs = np.unique(src * np.int64(nodes) + dst)
    one, other = pairs // nodes, pairs % nodes
    returned = int(np.isin(other * nodes + one, pairs, assume_unique=True).sum())
    out_degree, in_degree = np.bincount(one, minlength=nodes), np.bincount(other, minlength=nodes)
    expected = float(np.minimum(out_degree[other] * in_degree[one] / len(pairs), 1).sum())
    return returned <= 2 * expected + 10 and (expected < 20 or returned >= expected / 2)
