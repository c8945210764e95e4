"""Means over seeds and differences on the same seeds, with 95 % intervals, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from scipy.special import stdtrit

from pintgn.formatting import plural

AHEAD, BEHIND, OPEN = "ahead", "behind", "not decided"


@dataclass(frozen=True)
class Interval:
    """The 95 % interval of a mean over seeds: Student's t, because there are few of them. Without bounds for one seed.

    >>> print(Interval.of([93.8, 94.0, 94.2]))
    93.50 to 94.50
    >>> [Interval.of([93.8, 94.0, 94.2]).against(published) for published in (93.4, 93.6, 94.6)]
    ['ahead', 'not decided', 'behind']
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        count = len(values)
        half = float(stdtrit(count - 1, 0.975)) * stdev(values) / math.sqrt(count) if count > 1 else math.inf
        return cls(mean(values) - half, mean(values) + half)

    def against(self, other: float) -> str:
        """Whether the mean is ahead of a figure, or behind it, as surely as the interval says."""
        return AHEAD if self.low > other else BEHIND if self.high < other else OPEN

    def shown(self, digits: int = 2) -> str:
        return f"{self.low:.{digits}f} to {self.high:.{digits}f}" if math.isfinite(self.low) else "one seed"

    def __str__(self) -> str:
        return self.shown()


@dataclass(frozen=True)
class Paired:
    """The mean difference of two rows over the seeds that both have, and its 95 % interval.

    A seed decides hidden nodes and negatives, so rows of one seed answer the same questions, and what only makes a seed
    easy or hard falls out of the difference. The interval is Student's t over the differences: with two to five seeds
    there is too little to resample, so that they are about normal has to be assumed.
    """

    seeds: int
    mean: float = math.nan
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, mine: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
        """
        >>> Paired.of({0: 96.0, 1: 97.0, 2: 95.5}, {0: 95.0, 1: 95.5, 3: 80.0}).seeds
        2
        >>> print(Paired.of({0: 96.0, 1: 97.0, 2: 97.0}, {0: 95.0, 1: 95.5, 2: 95.0}))
        +1.50 (+0.26 to +2.74, 3 seeds)
        """
        differences = [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]
        if not differences:
            return cls(0)
        interval = Interval.of(differences)
        return cls(len(differences), mean(differences), interval.low, interval.high)

    @property
    def closeness(self) -> float:
        """To sort by: what is least ahead comes first, what cannot be compared last."""
        return self.mean if self.seeds else math.inf

    def __str__(self) -> str:
        if not self.seeds:
            return "no common seed"
        interval = f"{self.low:+.2f} to {self.high:+.2f}, " if self.seeds > 1 else ""
        return f"{self.mean:+.2f} ({interval}{plural(self.seeds, 'seed')})"
