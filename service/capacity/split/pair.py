"""What a pool of short requests and one of long ones hold together, on GPUs in the ratio that their traffic needs."""

from math import floor

import msgspec
import numpy as np

LARGEST_FLEET = 1000
"""Pools up to which the smallest fleet that is worth splitting is looked for."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two kinds of pools beside the mixed one that they replace."""

    long_share: float
    """Of requests in flight."""
    mixed: int
    """Users of one mixed pool."""
    short: int
    long: int

    @property
    def users(self) -> float:
        """Users of the pair per pool: 1 / ((1 - q) / short + q / long)."""
        if not self.short or not self.long:
            return 0.0
        return 1 / ((1 - self.long_share) / self.short + self.long_share / self.long)

    @property
    def gain(self) -> float | None:
        """How many more users than in mixed pools, as a share of those; null where these hold none."""
        return self.users / self.mixed - 1 if self.mixed else None

    @property
    def short_pools(self) -> float:
        """The share of the pools that short requests need."""
        return (1 - self.long_share) / self.short * self.users if self.short else 0.0

    def fleet(self, pools: int) -> tuple[int, int]:
        """Of so many pools, two or more, those for short requests that let most run, and how many run."""
        near = floor(self.short_pools * pools)
        found = {short: self._held(short, pools - short) for short in (near, near + 1) if 0 < short < pools}
        short = max(found, key=lambda number: found[number], default=1 if near < 1 else pools - 1)
        return short, floor(self._held(short, pools - short))

    def least_fleet(self) -> int | None:
        """The fewest pools of which a part for long requests lets more run than all of them mixed; null: too many."""
        if not self.users > self.mixed:
            return None
        pools = np.arange(2, LARGEST_FLEET + 1)
        near = np.floor(self.short_pools * pools)
        users = [
            np.floor(
                np.minimum(short * self.short / (1 - self.long_share), (pools - short) * self.long / self.long_share)
            )
            for short in (np.clip(near, 1, pools - 1), np.clip(near + 1, 1, pools - 1))
        ]
        better = np.flatnonzero(np.maximum(*users) > pools * self.mixed)
        return int(pools[better[0]]) if len(better) else None

    def _held(self, short: int, long: int) -> float:
        """Users of so many pools of each kind, where the traffic comes as it does: the fuller kind decides."""
        return min(short * self.short / (1 - self.long_share), long * self.long / self.long_share)
