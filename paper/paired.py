"""One row minus another on the same seeds, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev

from scipy.special import stdtrit

from pintgn.formatting import plural


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
        count = len(differences)
        if count < 2:
            return cls(count, *differences)
        middle, half = mean(differences), float(stdtrit(count - 1, 0.975)) * stdev(differences) / math.sqrt(count)
        return cls(count, middle, middle - half, middle + half)

    @property
    def closeness(self) -> float:
        """To sort by: what is least ahead comes first, what cannot be compared last."""
        return self.mean if self.seeds else math.inf

    def __str__(self) -> str:
        if not self.seeds:
            return "no common seed"
        interval = f"{self.low:+.2f} to {self.high:+.2f}, " if self.seeds > 1 else ""
        return f"{self.mean:+.2f} ({interval}{plural(self.seeds, 'seed')})"
