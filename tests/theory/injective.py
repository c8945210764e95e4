"""Injective sums of multisets (paper, Prop. 8), in exact fractions.

The paper's proof writes a multiset of (symbol, time) pairs as one number: every pair has a slot of digits of its own
and the count goes there, sum_i f(x_i, e_i) alpha^(-beta t_i) with f = base^(-k psi). Here the number is an exact
fraction, and `decode` reads the multiset back, which is the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any

from pintgn.errors import BadInput, check_count

Item = tuple[Hashable, Any]
"""A symbol, standing for (x, e), and a time."""


class TemporalCode:
    """The injective function of Prop. 8 on multisets of fewer than `most` pairs (symbol, time).

    Args:
        times: the bounded set of times, in any order.
        most: N of the proposition: multisets have fewer pairs than this.
        base: alpha; the paper uses 10 and says that any base would do.

    Symbols need not be listed: each new one gets the next number, as psi enumerates a countable set.

    >>> code = TemporalCode(times=[1, 2], most=10)
    >>> code.encode([("a", 1), ("a", 2), ("b", 2), ("b", 2)]) == Fraction("0.11002")
    True
    >>> code.decode(Fraction("0.11002")) == {("a", 1): 1, ("a", 2): 1, ("b", 2): 2}
    True
    """

    def __init__(self, times: Iterable[Any], most: int, base: int = 10):
        check_count(most, "most", least=2)
        check_count(base, "base", least=2)
        self.times = sorted(set(times))
        if not self.times:
            raise BadInput("the code needs at least one time.")
        self.most, self.base = most, base
        self.symbols: list[Hashable] = []
        self._rank = {t: i for i, t in enumerate(self.times, 1)}
        self._number: dict[Hashable, int] = {}

    @property
    def beta(self) -> int:
        """Digits of a slot: counts below N fit."""
        beta = 1
        while self.base**beta < self.most:
            beta += 1
        return beta

    @property
    def k(self) -> int:
        """Digits of all slots of one symbol."""
        return self.beta * (len(self.times) + 1)

    def psi(self, symbol: Hashable) -> int:
        """The symbol's number, given on first sight."""
        if symbol not in self._number:
            self._number[symbol] = len(self.symbols)
            self.symbols.append(symbol)
        return self._number[symbol]

    def last_digit(self, symbol: Hashable, t: Any) -> int:
        """The last decimal digit of the slot of (symbol, t)."""
        if t not in self._rank:
            raise BadInput(f"time {t!r} is not among the {len(self.times)} times of this code.")
        return self.k * self.psi(symbol) + self.beta * self._rank[t]

    def weight(self, symbol: Hashable, t: Any) -> Fraction:
        """f(x, e) alpha^(-beta t): what one pair adds."""
        return Fraction(1, self.base ** self.last_digit(symbol, t))

    def encode(self, multiset: Iterable[Item]) -> Fraction:
        """The sum, exactly."""
        items = list(multiset)
        if len(items) >= self.most:
            raise BadInput(f"{len(items)} pairs; this code is for fewer than {self.most}.")
        return sum((self.weight(symbol, t) for symbol, t in items), Fraction(0))

    def decode(self, value: Fraction) -> Counter[Item]:
        """The multiset that has this sum."""
        found: Counter[Item] = Counter()
        size = self.base**self.beta
        for number, symbol in enumerate(self.symbols):
            for rank, t in enumerate(self.times, 1):
                digits = value * self.base ** (self.k * number + self.beta * rank)
                if count := digits.numerator // digits.denominator % size:
                    found[symbol, t] = count
        return found
