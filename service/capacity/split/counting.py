"""How many requests run in one pool, by the same rules as in an estimate."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.counts import at_best, at_worst, most_likely
from service.capacity.deployment import Deployment, Rank, deploy
from service.capacity.lengths import Running
from service.capacity.occupancy.bounds import with_drift
from service.capacity.occupancy.holding import holding_of
from service.capacity.occupancy.overflow import Overflow
from service.capacity.occupancy.steps import Steps
from service.capacity.pool import Prices
from service.capacity.pool_lengths import running_of
from service.capacity.question import Question
from service.capacity.units import Estimate

Costs = dict[Prices, NDArray[np.int64]]
"""Blocks by held tokens, for each way in which a request costs."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of some lengths in one pool, on the stage that holds fewest."""

    deployment: Deployment
    rank: Rank
    """Its fullest stage."""
    running: Running
    blocks: int
    """That requests can have for themselves there."""
    mean: float
    """Blocks that one holds on average."""
    users: Estimate
    """At the risk, by memory: at its low end, most likely, at its high end."""
    drifting: int
    """The same most likely, where the mean wanders."""
    worst_case: int
    """That fill the window."""
    starts: bool
    """Whether weights, reserve and one full window fit."""
    steps: float
    """That one request is held, on average over the whole workload: a share of it, for a part."""

    def admitted(self, cap: int | None) -> int:
        """Users that the scheduler lets run; none, where the engine doesn't start."""
        if not self.starts:
            return 0
        return self.users.best if cap is None else min(self.users.best, cap)


def counted(question: Question, steps: Steps, costs: Costs, tau: float) -> Counted:
    """Count requests in a pool of a question's window. `costs` keeps prices between calls."""
    deployment = deploy(question)
    running = running_of(question, deployment.window)
    weights = steps.weights(running)
    ends = (at_worst, most_likely, at_best)
    # A stage without a cache that has no room for its weights and reserve doesn't start, and so nobody is served.
    starts = [all(end(budget.kv) >= 0 for budget in deployment.bare) for end in ends]
    found = []
    for rank in deployment.ranks:
        low, best, high = (
            is_there * rank.pool_of(end(rank.budget.kv)).left_to_requests
            for end, is_there in zip(ends, starts, strict=True)
        )
        holding = holding_of(weights, costs_of(rank, len(weights), costs))
        overflow = Overflow(holding, high)
        at = {blocks: overflow.users(blocks, question.risk) for blocks in {low, best, high}}
        drifting = with_drift(holding, best, question.risk, tau)
        found.append((Estimate(at[low], at[best], at[high]), drifting, rank, best, holding.mean))
    users, _, rank, blocks, mean = min(found, key=lambda one: one[0].best)
    worst_case = min(rank.pool.usable // rank.pool.cost(deployment.window) for rank in deployment.ranks)
    return Counted(
        deployment=deployment,
        rank=rank,
        running=running,
        blocks=blocks,
        mean=mean,
        users=Estimate(min(one[0].low for one in found), users.best, min(one[0].high for one in found)),
        drifting=min(one[1] for one in found),
        worst_case=worst_case,
        starts=worst_case > 0 and not deployment.short,
        steps=float(weights.sum()),
    )


def costs_of(rank: Rank, size: int, costs: Costs) -> NDArray[np.int64]:
    """Blocks that a request takes on a rank, by its held tokens up to so many."""
    prices = rank.pool.prices
    if prices not in costs or len(costs[prices]) < size:
        costs[prices] = rank.pool.held_costs(np.arange(size, dtype=np.int64))
    return costs[prices][:size]
