"""Simulated worlds whose events carry something to be predicted, with the best possible answer known.

    python examples/column_worlds.py cards cards.parquet   # or ring, accounts, funnel
    pintgn train cards.parquet --predict fraud

In Python: `Cards(circles=4).simulate(events=20_000, seed=1)`, and `truth(log)` for the best answer to each event.
"""

from __future__ import annotations

import abc
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pintgn.datasets.worlds import expected_ap, setting, some_times
from pintgn.errors import BadInput, check_count
from pintgn.events.log import EventLog
from pintgn.events.schema import Feature, Schema


@dataclass(frozen=True)
class ColumnWorld(abc.ABC):
    """A world that makes logs with a column to predict, and knows the best answer from the past and its own rules."""

    name: ClassVar[str]
    summary: ClassVar[str]
    predict: ClassVar[str]

    @abc.abstractmethod
    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        """A log of exactly so many events; the same seed gives the same log."""

    @abc.abstractmethod
    def truth(self, log: EventLog, seed: int = 0) -> np.ndarray:
        """The best answer about each event, by what came before it and by this world's rules, of which `seed` is one:
        a probability or a mean (e,), or a probability of each class (e, c). No model is told the rules."""

    def _generator(self, events: int, seed: int, purpose: str) -> np.random.Generator:
        check_count(events, "events", least=1)
        check_count(seed, "seed", least=0)
        return np.random.default_rng([int(seed), *f"{self.name} {purpose}".encode()])

    def _share(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if isinstance(value, str) or not 0 <= value <= 1:
                raise BadInput(f"{self.name}: {name}={value!r}; a share between 0 and 1 is needed.")


@dataclass(frozen=True)
class Ring(ColumnWorld):
    """A fraud ring: payments between two members are usually fraud, all others hardly ever.

    Payer and payee are drawn uniformly; a share of the accounts belongs to the ring, which only fraud that is known
    betrays. Neither end alone says much: most payments of a member are honest.
    """

    name: ClassVar[str] = "ring"
    summary: ClassVar[str] = "payments between members of a hidden ring are fraud"
    predict: ClassVar[str] = "fraud"

    accounts: int = setting(60, "number of accounts")
    members: float = setting(0.3, "share of accounts in the ring")
    inside: float = setting(0.8, "probability of fraud between two members")
    outside: float = setting(0.02, "probability of fraud otherwise")

    def __post_init__(self) -> None:
        check_count(self.accounts, f"{self.name}: accounts", 2)
        self._share("members", "inside", "outside")

    def ring(self, seed: int = 0) -> np.ndarray:  # (n,) bool
        """Who is a member."""
        rng = self._generator(1, seed, "ring")
        members = np.zeros(self.accounts, bool)
        members[rng.permutation(self.accounts)[: round(self.members * self.accounts)]] = True
        return members

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng, ring = self._generator(events, seed, "events"), self.ring(seed)
        src, dst = rng.integers(0, self.accounts, (2, events))
        p = np.where(ring[src] & ring[dst], self.inside, self.outside)
        fraud, amount = rng.random(events) < p, rng.gamma(2, 20, events)
        schema = Schema(features=(Feature("amount"), Feature("fraud")))
        return EventLog(src, dst, some_times(rng, events), features=np.stack([amount, fraud], 1), schema=schema)

    def truth(self, log: EventLog, seed: int = 0) -> np.ndarray:
        ring = self.ring(seed)
        return np.where(ring[log.src] & ring[log.dst], self.inside, self.outside)

    def best_ap(self) -> float:
        """The AP of knowing the ring, in the limit of many events and accounts; no scorer exceeds it on average.

        >>> round(Ring(members=1.0, inside=0.3, outside=0.0).best_ap(), 6)  # nothing tells payments apart
        0.3
        """
        both = (round(self.members * self.accounts) / self.accounts) ** 2
        share, p = np.array([both, 1 - both]), np.array([self.inside, self.outside])
        positive, negative = share * p, share * (1 - p)
        return expected_ap(positive, negative) / float(positive.sum())


@dataclass(frozen=True)
class Accounts(ColumnWorld):
    """Amounts that depend on the pair's past: each is drawn towards the last one of the same pair.

    amount = 100 + memory · (last amount - 100) + noise, so that the best R² of a pair that has met before is memory²,
    while repeating the last amount has 2 · memory - 1.
    """

    name: ClassVar[str] = "accounts"
    summary: ClassVar[str] = "amounts depend on the last one of the same pair"
    predict: ClassVar[str] = "amount"

    payers: int = setting(20, "number of payers")
    payees: int = setting(10, "number of payees")
    memory: float = setting(0.7, "how much of an amount's distance from 100 stays until the pair's next event")
    noise: float = setting(10.0, "standard deviation of what is new in an amount")

    def __post_init__(self) -> None:
        for name in ("payers", "payees"):
            check_count(getattr(self, name), f"{self.name}: {name}", 1)
        self._share("memory")

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng = self._generator(events, seed, "events")
        src = rng.integers(0, self.payers, events)
        dst = self.payers + rng.integers(0, self.payees, events)
        fresh, spread = rng.normal(size=events) * self.noise, self.noise / np.sqrt(max(1 - self.memory**2, 1e-9))
        first, amount = rng.normal(size=events) * spread, np.zeros(events)
        last: dict[tuple[int, int], float] = {}
        for k, pair in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            off = self.memory * last[pair] + fresh[k] if pair in last else first[k]
            last[pair], amount[k] = off, 100 + off
        schema = Schema(features=(Feature("amount"),))
        return EventLog(src, dst, some_times(rng, events), features=amount[:, None], schema=schema)

    def truth(self, log: EventLog, seed: int = 0) -> np.ndarray:
        assert log.features is not None
        said = np.full(len(log), 100.0)
        last: dict[tuple[int, int], float] = {}
        for k, pair in enumerate(zip(log.src.tolist(), log.dst.tolist(), strict=True)):
            said[k] = 100 + self.memory * (last[pair] - 100) if pair in last else 100.0
            last[pair] = float(log.features[k, 0])
        return said


@dataclass(frozen=True)
class Funnel(ColumnWorld):
    """Shoppers view, cart and buy: what one does next with a product depends on what was done last, and on the shopper.

    Some shoppers are decided, and soon buy what they carted; the others look around. Which kind a shopper is, only
    earlier actions tell.
    """

    name: ClassVar[str] = "funnel"
    summary: ClassVar[str] = "the next action depends on the last one with the same product, and on the shopper"
    predict: ClassVar[str] = "action"
    ACTIONS: ClassVar[tuple[str, ...]] = ("view", "cart", "buy")

    shoppers: int = setting(100, "number of shoppers")
    products: int = setting(50, "number of products")
    decided: float = setting(0.4, "share of shoppers who are decided")
    stay: float = setting(0.6, "probability that a shopper goes on with the same product")

    def __post_init__(self) -> None:
        for name in ("shoppers", "products"):
            check_count(getattr(self, name), f"{self.name}: {name}", 1)
        self._share("decided", "stay")

    @staticmethod
    def chances() -> np.ndarray:  # (2, 4, 3)
        """The probability of each action, of those who look around and of the decided: with a product that is new to
        them, and after each action."""
        around = [[0.90, 0.10, 0.00], [0.65, 0.25, 0.10], [0.55, 0.25, 0.20], [0.85, 0.10, 0.05]]
        decided = [[0.55, 0.40, 0.05], [0.15, 0.70, 0.15], [0.10, 0.05, 0.85], [0.60, 0.30, 0.10]]
        return np.array([around, decided])

    def kinds(self, seed: int = 0) -> np.ndarray:  # (shoppers,)
        """Who is decided: 1, and 0 for the others."""
        kinds = np.zeros(self.shoppers, np.int64)
        chosen = self._generator(1, seed, "kinds").permutation(self.shoppers)
        kinds[chosen[: round(self.decided * self.shoppers)]] = 1
        return kinds

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng, kinds, chances = self._generator(events, seed, "events"), self.kinds(seed), self.chances().cumsum(-1)
        src, fresh = rng.integers(0, self.shoppers, events), rng.integers(0, self.products, events)
        stays, drawn = rng.random(events) < self.stay, rng.random(events)
        product, last = np.full(self.shoppers, -1), np.zeros((self.shoppers, self.products), np.int64)
        dst, action = np.zeros(events, np.int64), np.zeros(events, np.int64)
        for k, who in enumerate(src.tolist()):
            if product[who] < 0 or not stays[k]:
                product[who] = fresh[k]
            dst[k] = product[who]
            action[k] = np.searchsorted(chances[kinds[who], last[who, dst[k]]], drawn[k], "right")
            last[who, dst[k]] = action[k] + 1
        schema = Schema(features=(Feature("action", "onehot", self.ACTIONS),))
        features = np.eye(len(self.ACTIONS), dtype=np.float32)[action]
        return EventLog(src, self.shoppers + dst, some_times(rng, events), features=features, schema=schema)

    def truth(self, log: EventLog, seed: int = 0) -> np.ndarray:  # (e, 3)
        assert log.features is not None
        kinds, chances, action = self.kinds(seed), self.chances(), log.features.argmax(1)
        said, last = np.zeros((len(log), len(self.ACTIONS))), np.zeros((self.shoppers, self.products), np.int64)
        for k, (who, what) in enumerate(zip(log.src.tolist(), (log.dst - self.shoppers).tolist(), strict=True)):
            said[k] = chances[kinds[who], last[who, what]]
            last[who, what] = action[k] + 1
        return said

    def best_log_loss(self, log: EventLog, seed: int = 0, first: int = 0) -> float:
        """The log loss that nobody is below on average over the events from a number on: the mean entropy."""
        p = self.truth(log, seed)[first:]
        return float(-(p * np.log(np.where(p > 0, p, 1))).sum(1).mean())


@dataclass(frozen=True)
class Cards(ColumnWorld):
    """Stolen cards pay anywhere; their owners pay in the shops of their circle, and now and then elsewhere.

    There are so many shops that an honest payment is usually a card's first in its shop. Whether a shop belongs to the
    circle, only others tell who pay in the same shops: walks of three steps. Cards and shops are all alike otherwise.
    """

    name: ClassVar[str] = "cards"
    summary: ClassVar[str] = "stolen cards pay outside their owners' circle of shops; only walks tell"
    predict: ClassVar[str] = "fraud"

    cards: int = setting(400, "number of cards")
    shops: int = setting(400, "number of shops")
    circles: int = setting(8, "number of circles of cards and shops")
    stolen: float = setting(0.15, "share of payments that are fraud")
    elsewhere: float = setting(0.03, "share of honest payments that are made anywhere")

    def __post_init__(self) -> None:
        check_count(self.circles, f"{self.name}: circles", 1)
        for name in ("cards", "shops"):
            check_count(getattr(self, name), f"{self.name}: {name}", self.circles)
        self._share("stolen", "elsewhere")

    def simulate(self, events: int = 10_000, seed: int = 0) -> EventLog:
        rng = self._generator(events, seed, "events")
        src, dst = rng.integers(0, self.cards, events), rng.integers(0, self.shops, events)
        fraud = rng.random(events) < self.stolen
        home = ~fraud & (rng.random(events) >= self.elsewhere)
        own = src % self.circles
        in_circle = (self.shops - own + self.circles - 1) // self.circles  # shops of each one's circle
        dst[home] = (own + self.circles * (rng.random(events) * in_circle).astype(np.int64))[home]
        schema = Schema(features=(Feature("fraud"),))
        features = fraud[:, None].astype(np.float32)
        return EventLog(src, self.cards + dst, some_times(rng, events), features=features, schema=schema)

    def truth(self, log: EventLog, seed: int = 0) -> np.ndarray:
        own = log.src % self.circles
        inside = own == (log.dst - self.cards) % self.circles
        share = ((self.shops - own + self.circles - 1) // self.circles) / self.shops  # that a random shop is inside
        fraud = self.stolen * np.where(inside, share, 1 - share)
        strays = self.elsewhere * np.where(inside, share, 1 - share)
        honest = (1 - self.stolen) * np.where(inside, 1 - self.elsewhere + strays, strays)
        return fraud / np.maximum(fraud + honest, 1e-300)


COLUMN_WORLDS: dict[str, type[ColumnWorld]] = {world.name: world for world in (Ring, Accounts, Funnel, Cards)}
"""Every such world by name."""


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in COLUMN_WORLDS:
        sys.exit(f"usage: python {sys.argv[0]} {'|'.join(COLUMN_WORLDS)} FILE.parquet")
    world = COLUMN_WORLDS[sys.argv[1]]()
    world.simulate().save(sys.argv[2])
    print(f"{sys.argv[2]}: {world.summary}. Train on it: pintgn train {sys.argv[2]} --predict {world.predict}")
