"""What a running request of a workload holds in a pool."""

from fractions import Fraction

import msgspec
import numpy as np

from service.capacity.cache.footprint import Tokens
from service.capacity.layout import Group
from service.capacity.lengths import Held, Workload, held
from service.capacity.pool import Pool


def held_in(pool: Pool, workload: Workload, window: int) -> Held:
    """Weigh a workload's lengths by what they cost in a pool.

    Groups whose blocks are as large are weighed together and the others apart, so that sums stay far from the end of
    64 bits; the mean of a sum is the sum of the means.
    """
    found = []
    for share in sorted(set(pool.shares)):
        groups = [group for group, own in zip(pool.groups, pool.shares, strict=True) if own == share]

        def cost(tokens: Tokens, groups: list[Group] = groups) -> Tokens:
            total = np.zeros_like(tokens)
            for group in groups:
                total = total + group.blocks(tokens, pool.terms)
            return total

        found.append((share, held(workload, window=window, cost=cost)))
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
