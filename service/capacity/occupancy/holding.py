"""How many blocks a running request holds at a random step."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Holding:
    """Numbers of blocks, rising, and the share of steps at which a request holds each; the shares add up to one."""

    blocks: NDArray[np.int64]
    shares: NDArray[np.float64]

    @cached_property
    def mean(self) -> float:
        """Blocks held on average."""
        return float((self.shares * self.blocks).sum())

    @cached_property
    def variance(self) -> float:
        """Squared blocks."""
        return float((self.shares * (self.blocks - self.mean) ** 2).sum())

    @cached_property
    def skew(self) -> float:
        """How far the long side outweighs the short one; 0 where all hold the same."""
        variance = self.variance
        if variance <= 0:
            return 0.0
        return float((self.shares * (self.blocks - self.mean) ** 3).sum()) / (variance * sqrt(variance))

    @cached_property
    def unit(self) -> int:
        """Blocks that all amounts are multiples of."""
        return max(int(np.gcd.reduce(self.blocks)), 1)

    @cached_property
    def roughness(self) -> float:
        """By how much shares rise and fall from each unit to the next, all added up: little where they are smooth."""
        next_to = np.diff(self.blocks) == self.unit
        before, after = self.shares[:-1], self.shares[1:]
        changes = np.where(next_to, np.abs(after - before), before + after)
        return float(self.shares[0] + changes.sum() + self.shares[-1])

    def beyond(self, budget: int) -> float:
        """The share of steps at which one request alone holds more than there is."""
        return float(self.shares[self.blocks > budget].sum())


def holding_of(weights: NDArray[np.float64], blocks: NDArray[np.int64]) -> Holding:
    """Put steps that hold the same number of blocks together.

    `weights` and `blocks` are by held tokens; blocks never fall with tokens.
    """
    held = np.flatnonzero(weights)
    weights, blocks = weights[held[0] : held[-1] + 1], blocks[held[0] : held[-1] + 1]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(blocks)) + 1])
    summed = np.add.reduceat(weights, starts)
    kept = summed > 0
    return Holding(blocks[starts][kept], summed[kept] / summed.sum())
