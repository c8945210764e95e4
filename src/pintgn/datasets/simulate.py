"""Simulated worlds: seeded logs of any length with known ground truth.

    log = simulate("twins", events=50_000, seed=1)

A world is a frozen set of settings that can make a log, name a wrong destination for every event (its stated
negatives), score any destination as well as the past allows (`truth`), and say what average precision (AP) that
scorer reaches (`best_ap`). AP here is over all positives and negatives together, one negative for each positive,
ties in any random order. docs/datasets.md derives each figure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pintgn.datasets.worlds import (
    World,
    any_other,
    expected_ap,
    generator,
    rank_in_order,
    setting,
    some_times,
)
from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema, TimeUnit

PIECE = 50_000
"""Events whose truth is computed at a time."""

__all__ = ["WORLDS", "Repeat", "Shop", "Twins", "World", "make_world", "simulate"]


@dataclass(frozen=True)
class Repeat(World):
    """Repeat and recency: sources mostly return to destinations that they met recently.

    Every event has a source drawn uniformly. With probability `repeat` it goes where one of the source's own last
    `window` events went, the j-th last with weight 1/j; otherwise (also when there is no j-th last event) to any
    other node, drawn uniformly. Times are distinct.
    """

    name: ClassVar[str] = "repeat"
    summary: ClassVar[str] = "sources mostly return to those they met lately"
    against: ClassVar[str] = "any node but the source, drawn uniformly"

    nodes: int = setting(1000, "number of nodes")
    repeat: float = setting(0.8, "probability that an event repeats a recent one of its source")
    window: int = setting(10, "how many own events a source remembers")

    def __post_init__(self) -> None:
        self._at_least(2, "nodes")
        self._at_least(1, "window")
        self._share("repeat")

    def ids(self) -> IdMap:
        return IdMap(size=self.nodes)

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng = generator(self, events, seed)
        src = rng.integers(0, self.nodes, events)
        dst = any_other(rng, src, self.nodes)
        lag = 1 + np.searchsorted(np.cumsum(self._weights()), rng.random(events), "right")
        lag[rng.random(events) >= self.repeat] = events  # a fresh event has no model in the past
        order = np.argsort(src, kind="stable")
        copied = np.arange(events)
        row = np.flatnonzero(lag[order] <= rank_in_order(src[order]))
        copied[order[row]] = order[row - lag[order[row]]]
        while True:  # a copy of a copy goes where the original went: double the jumps until all have arrived
            further = copied[copied]
            if np.array_equal(further, copied):
                break
            copied = further
        return EventLog(src, dst[copied], some_times(rng, events), ids=self.ids())

    def negatives(self, log: EventLog, seed: int = 0) -> np.ndarray:
        return any_other(generator(self, len(log), seed, "negatives"), log.src, self.nodes)

    def truth(self, log: EventLog, dst: Any = None, first: int = 0) -> np.ndarray:
        wanted = self.candidates(log, dst, first)
        chance = np.empty(len(wanted))
        for rows, recent, weights in self._windows(log, first):
            fresh = 1 - weights.sum(1)
            chance[rows] = np.where(recent == wanted[rows, None], weights, 0).sum(1) + fresh / (self.nodes - 1)
        return chance

    def best_ap(self, log: EventLog, first: int = 0) -> float:
        """Exact: the expected AP of ranking by `truth`, over which destination comes true and which is drawn."""
        count = len(self.candidates(log, None, first))
        positive: list[np.ndarray] = []
        negative: list[np.ndarray] = []
        for _, recent, weights in self._windows(log, first):
            same = recent[:, :, None] == recent[:, None, :]
            met = (recent >= 0) & ~np.tril(same, -1).any(2)  # each recent partner once, however often met
            fresh = (1 - weights.sum(1)) / (self.nodes - 1)
            chance = (same * weights[:, None, :]).sum(2) + fresh[:, None]
            others = self.nodes - 1 - met.sum(1)
            positive += [chance[met], fresh * others]
            negative += [np.full(met.sum(), 1 / (self.nodes - 1)), others / (self.nodes - 1)]
        return expected_ap(np.concatenate(positive) / count, np.concatenate(negative) / count)

    def _weights(self) -> np.ndarray:
        weights = 1 / np.arange(1, self.window + 1)
        return weights / weights.sum()

    def _windows(self, log: EventLog, first: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """In chunks: rows, where the source's last events went (-1 none), and the chance to copy each."""
        order = np.argsort(log.src, kind="stable")
        sorted_row = np.empty(len(log), np.int64)
        sorted_row[order] = np.arange(len(log))
        rank = np.empty(len(log), np.int64)
        rank[order] = rank_in_order(log.src[order])
        lags = np.arange(1, self.window + 1)
        for start in range(first, len(log), PIECE):
            rows = np.arange(start, min(start + PIECE, len(log)))
            there = lags <= rank[rows, None]
            recent = log.dst[order[np.where(there, sorted_row[rows, None] - lags, 0)]]
            yield rows - first, np.where(there, recent, -1), there * self.repeat * self._weights()


@dataclass(frozen=True)
class Twins(World):
    """Disjoint communities in lockstep: at every time, the same two roles meet in each of them.

    The roles stand in a ring and each meets the two on either side, a random pair at a time, again and again.
    Swapping two communities changes nothing, so members with the same role have isomorphic temporal computation
    trees at all times, and a model without positions (an anonymous MP-TGN, paper Sec. 3) gives every positive exactly
    the score of its negative: AP 0.5. Whoever sees that two nodes were connected before is always right.
    The log may end in the middle of a group of simultaneous events; none of them sees another.
    """

    name: ClassVar[str] = "twins"
    summary: ClassVar[str] = "identical communities in lockstep: at chance without positions, certain with them"
    against: ClassVar[str] = "the same role in another community, drawn uniformly"

    communities: int = setting(20, "number of communities, all alike")
    roles: int = setting(10, "members of each community")

    def __post_init__(self) -> None:
        self._at_least(2, "communities", "roles")

    def ids(self) -> IdMap:
        return IdMap(pa.array([f"c{c}r{r}" for c in range(self.communities) for r in range(self.roles)]))

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng = generator(self, events, seed)
        ticks = -(-events // self.communities)
        one = rng.integers(0, self.roles, ticks)
        other = (one + rng.integers(1, min(3, self.roles), ticks)) % self.roles
        flip = rng.random(ticks) < 0.5
        src, dst = np.where(flip, other, one), np.where(flip, one, other)
        # the order within a group means nothing; shuffled so that it also says nothing
        community = rng.permuted(np.tile(np.arange(self.communities), (ticks, 1)), axis=1).ravel()[:events]
        tick = np.arange(events) // self.communities
        base = community * self.roles
        t = some_times(rng, ticks)
        return EventLog(base + src[tick], base + dst[tick], t[tick], ids=self.ids())

    def negatives(self, log: EventLog, seed: int = 0) -> np.ndarray:
        rng = generator(self, len(log), seed, "negatives")
        community, role = np.divmod(log.dst, self.roles)
        return any_other(rng, community, self.communities) * self.roles + role

    def truth(self, log: EventLog, dst: Any = None, first: int = 0) -> np.ndarray:
        """1 where some path of earlier events joins the two, else 0."""
        wanted = self.candidates(log, dst, first)
        community, role = np.divmod(log.src[first:], self.roles)
        joined = self._joined_at(log)[role, wanted % self.roles] < log.t[first:]
        return ((wanted // self.roles == community) & joined).astype(float)

    def best_ap(self, log: EventLog, first: int = 0) -> float:
        """Exact: 1 once each community hangs together; earlier events of unconnected pairs are a coin toss."""
        known = float(self.truth(log, first=first).mean())
        return expected_ap(np.array([known, 1 - known]), np.array([0.0, 1.0]))

    def _joined_at(self, log: EventLog) -> np.ndarray:
        """Since when (roles, roles) a path joins two roles; the same in every community."""
        joined = np.full((self.roles, self.roles), np.inf)
        np.fill_diagonal(joined, -np.inf)
        component = np.arange(self.roles)
        for row in log.group_starts:
            a, b = component[log.src[row] % self.roles], component[log.dst[row] % self.roles]
            if a != b:
                left, right = component == a, component == b
                joined[np.ix_(left, right)] = joined[np.ix_(right, left)] = log.t[row]
                component[right] = a
                if (component == a).all():
                    break
        return joined


@dataclass(frozen=True)
class Shop(World):
    """Users buy items; tastes drift, and new users keep arriving.

    Every item has a genre and every user, at any time, a taste for one genre. A purchase is of a random item of that
    genre with probability `loyalty`, else of any item. After each purchase the user changes to another genre with
    probability `drift`. A fifth of the users are there from the start, the others arrive evenly over the log with
    a first purchase; between arrivals the buyer is any user present. `label` is the buyer's taste, which models are
    not shown. Times are distinct.
    """

    name: ClassVar[str] = "shop"
    summary: ClassVar[str] = "users buy items of a taste that drifts; new users keep arriving"
    against: ClassVar[str] = "any item, drawn uniformly"

    users: int = setting(1000, "number of users by the end")
    items: int = setting(200, "number of items, as many of each genre")
    genres: int = setting(10, "number of genres")
    loyalty: float = setting(0.9, "probability that a purchase follows the buyer's taste")
    drift: float = setting(0.02, "probability that a purchase changes the buyer's taste")

    def __post_init__(self) -> None:
        self._at_least(1, "users", "items")
        self._at_least(2, "genres")
        self._share("loyalty", "drift")
        if self.items % self.genres:
            raise BadInput(f"shop: items={self.items} is not a multiple of genres={self.genres}.")

    def ids(self) -> IdMap:
        return IdMap(pa.array([f"user{u}" for u in range(self.users)] + [f"item{i}" for i in range(self.items)]))

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng = generator(self, events, seed)
        early = -(-self.users // 5)
        arrival = np.arange(1, self.users - early + 1) * events // (self.users - early + 1)
        present = early + np.searchsorted(arrival, np.arange(events), "right")
        src = rng.integers(0, present)
        src[arrival] = np.arange(early, self.users)  # where several arrive at once, the last one buys
        order = np.argsort(src, kind="stable")
        change = np.where(rng.random(events) < self.drift, rng.integers(1, self.genres, events), 0)[order]
        shift = np.cumsum(change) - change  # drift follows the purchase
        start = np.arange(events) - rank_in_order(src[order])
        taste = np.empty(events, np.int64)
        taste[order] = rng.integers(0, self.genres, self.users)[src[order]] + shift - shift[start]
        taste %= self.genres
        loyal = rng.random(events) < self.loyalty
        item = rng.integers(0, self.items, events)
        item = np.where(loyal, item - item % self.genres + taste, item)
        return EventLog(
            src,
            self.users + item,
            1_704_067_200 + some_times(rng, events),  # the shop opens with the year 2024
            label=taste,
            ids=self.ids(),
            schema=Schema(label="taste", time=TimeUnit("s", "UTC")),
        )

    def negatives(self, log: EventLog, seed: int = 0) -> np.ndarray:
        return self.users + generator(self, len(log), seed, "negatives").integers(0, self.items, len(log))

    def truth(self, log: EventLog, dst: Any = None, first: int = 0) -> np.ndarray:
        """The chance of each item given the buyer's purchases so far: the exact filter over tastes."""
        genre = (self.candidates(log, dst, first) - self.users) % self.genres
        bought = (log.dst - self.users) % self.genres
        order = np.argsort(log.src, kind="stable")
        rank = rank_in_order(log.src[order])
        by_rank = order[np.argsort(rank, kind="stable")]  # everyone's first purchase, everyone's second, …
        stops = np.cumsum(np.bincount(rank, minlength=1))
        belief = np.full((self.users, self.genres), 1 / self.genres)
        score = np.empty(len(genre))
        start = 0
        for stop in stops:
            rows = by_rank[start:stop]
            buyer = log.src[rows]
            asked = rows >= first
            score[rows[asked] - first] = belief[buyer[asked], genre[rows[asked] - first]]
            after = belief[buyer] * ((1 - self.loyalty) / self.genres)
            after[np.arange(len(rows)), bought[rows]] += self.loyalty * belief[buyer, bought[rows]]
            after /= after.sum(1, keepdims=True)
            belief[buyer] = (1 - self.drift) * after + self.drift * (1 - after) / (self.genres - 1)
            start = stop
        per_genre = self.items // self.genres
        return self.loyalty * score / per_genre + (1 - self.loyalty) / self.items

    def best_ap(self, log: EventLog, first: int = 0) -> float:
        """An upper bound: the AP of knowing every taste. Tastes must be guessed from purchases, so `truth` has less."""
        self.candidates(log, None, first)
        inside = self.loyalty + (1 - self.loyalty) / self.genres
        share = 1 / self.genres
        return expected_ap(np.array([inside, 1 - inside]), np.array([share, 1 - share]))


WORLDS: dict[str, type[World]] = {world.name: world for world in (Repeat, Twins, Shop)}
"""Every world by name."""


def make_world(world: str | World, **settings: float) -> World:
    """A world by name with its settings, or a world with some of its settings changed."""
    if isinstance(world, World):
        check_settings(type(world), settings)
        return dataclasses.replace(world, **settings)
    if world not in WORLDS:
        raise UnknownName(f"there is no world {world!r}.{suggest(world, WORLDS)}")
    check_settings(WORLDS[world], settings)
    return WORLDS[world](**settings)


def check_settings(kind: type[World], settings: Mapping[str, Any]) -> None:
    """Refuse settings that a world does not have."""
    for name in settings:
        if name not in kind.settings():
            known = sorted(kind.settings())
            raise UnknownName(
                f"{kind.name} has no setting {name!r}.{suggest(name, known)} Settings: {', '.join(known)}."
            )


def simulate(world: str | World, events: int = 10_000, seed: int = 0, **settings: float) -> EventLog:
    """A log of a simulated world: "repeat", "twins" or "shop" (see `WORLDS` for their settings).

    >>> import pintgn
    >>> pintgn.simulate("shop", events=500, seed=0, users=50)
    EventLog: 500 events, 250 nodes, 2024-01-01 00:01:25+00:00 to 2024-01-01 08:34:40+00:00
    """
    return make_world(world, **settings).simulate(events, seed)
