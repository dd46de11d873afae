"""What a running request of a workload holds in a pool."""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import msgspec
import numpy as np

from service.capacity.lengths import Held, Running, held
from service.capacity.occupancy.holding import holding_of
from service.capacity.occupancy.spread import cut_shares, spread_of
from service.capacity.pool import Pool
from service.capacity.question import Question
from service.capacity.reserve_rules import Profiled
from service.capacity.workload import Marginals, Workload


class Observed(msgspec.Struct, frozen=True):
    """The mean fit of one pool."""

    blocks: int
    """Blocks that requests can have for themselves."""
    held: Held
    """What one request holds of them on average."""

    @property
    def users(self) -> int:
        """Requests that run when each holds the average."""
        return int(self.blocks // self.held.blocks)


def running_of(question: Question, window: int) -> Running:
    """How a question's engine runs its requests, in a window of so many tokens."""
    levers, rule = question.levers, question.engine.spec.reserve_rule
    # Releases that profile a window in one step prefill it in one.
    is_whole = isinstance(rule, Profiled) and window <= rule.whole_windows_up_to
    return Running(
        window=window,
        chunk=None if is_whole else levers.max_num_batched_tokens,
        accepted=levers.accepted_tokens,
    )


def held_in_each(pools: Iterable[Pool], workload: Workload, running: Running) -> tuple[Held, ...]:
    """Weigh a workload in all pools of a deployment."""
    return tuple(held_in(pool, workload, running) for pool in pools)


def held_in(pool: Pool, workload: Workload, running: Running) -> Held:
    """Weigh a workload's lengths by what they cost in a pool while they decode."""
    return _held(pool.priced, workload, running)


@lru_cache(maxsize=256)
def _held(pool: Pool, workload: Workload, running: Running) -> Held:
    """Do so once for all pools in which a request costs the same: fleets ask again and again with the same lengths.

    Groups whose blocks are as large are weighed together and the others apart, so that sums stay far from the end of
    64 bits; the mean of a sum is the sum of the means.
    """
    if isinstance(workload, Marginals):
        return _held_marginals(pool, workload, running)
    found = []
    for share in sorted(set(pool.shares)):
        alike = [group for group, own in zip(pool.groups, pool.shares, strict=True) if own == share]
        part = msgspec.structs.replace(pool, groups=tuple(alike), shares=(1,) * len(alike))
        found.append((share, held(workload, running=running, cost=part.held_costs)))
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


def _held_marginals(pool: Pool, workload: Marginals, running: Running) -> Held:
    """The same of prompts and outputs paired by chance, to the digits of a float."""
    spread = spread_of(workload, running)
    assert spread is not None
    costs = pool.held_costs(np.arange(len(spread.likely), dtype=np.int64))
    rejected, truncated = cut_shares(workload, running.window)
    return Held(
        requests=sum(part.count for part in workload.prompt.bins),
        blocks=Fraction(holding_of(spread.likely, costs).mean),
        tokens=Fraction(spread.tokens),
        rejected_share=Fraction(rejected),
        truncated_share=Fraction(truncated),
        length_weighted_blocks=None,
        confidence="low" if workload.mean_held_tokens is None else "medium",
    )
