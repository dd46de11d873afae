"""What a running request of a workload holds in a pool."""

from collections.abc import Iterable
from fractions import Fraction

import msgspec

from service.capacity.lengths import Held, held
from service.capacity.pool import Pool, Prices
from service.capacity.workload import Workload


class Observed(msgspec.Struct, frozen=True):
    """The mean fit of one pool."""

    blocks: int
    """Blocks that requests can have."""
    held: Held
    """What one request holds of them on average."""

    @property
    def users(self) -> int:
        """Requests that run when each holds the average."""
        return int(self.blocks // self.held.blocks)


def held_in_each(pools: Iterable[Pool], workload: Workload, window: int) -> tuple[Held, ...]:
    """Weigh a workload in all pools of a deployment, once for those in which a request costs the same."""
    known: dict[Prices, Held] = {}
    found = []
    for pool in pools:
        prices = pool.prices
        if prices not in known:
            known[prices] = held_in(pool, workload, window)
        found.append(known[prices])
    return tuple(found)


def held_in(pool: Pool, workload: Workload, window: int) -> Held:
    """Weigh a workload's lengths by what they cost in a pool while they decode.

    Groups whose blocks are as large are weighed together and the others apart, so that sums stay far from the end of
    64 bits; the mean of a sum is the sum of the means.
    """
    found = []
    for share in sorted(set(pool.shares)):
        alike = [group for group, own in zip(pool.groups, pool.shares, strict=True) if own == share]
        part = msgspec.structs.replace(pool, groups=tuple(alike), shares=(1,) * len(alike))
        found.append((share, held(workload, window=window, cost=part.held_costs)))
    first = found[0][1]
    weighted = [(share, part.length_weighted_blocks) for share, part in found]
    return msgspec.structs.replace(
        first,
        blocks=sum((share * part.blocks for share, part in found), Fraction(0)),
        length_weighted_blocks=(
            None
            if first.length_weighted_blocks is None
            else sum((share * blocks for share, blocks in weighted if blocks is not None), Fraction(0))
        ),
    )
