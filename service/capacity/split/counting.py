"""How many requests run in one pool, by the same rules as in an estimate."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.counts import at_best, at_worst, most_likely
from service.capacity.deployment import Deployment, Rank, deploy
from service.capacity.lengths import Running
from service.capacity.occupancy.bounds import with_drift
from service.capacity.occupancy.holding import Holding, holding_of
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
    risk: float
    users: int
    """At the risk, by memory as it most likely is."""
    drifting: int
    """The same most likely, where the mean wanders."""
    worst_case: int
    """That fill the window."""
    starts: bool
    """Whether weights, reserve and one full window fit."""
    steps: float
    """That one request is held, on average over the whole workload: a share of it, for a part."""
    stages: tuple[tuple[Holding, Estimate], ...]
    """What one request holds on each stage, and the blocks that requests can have for themselves there."""

    def between(self) -> Estimate:
        """Users where memory comes to its low end, most likely, and at its high end: counted for what is shown only."""
        ends = []
        for holding, blocks in self.stages:
            overflow = Overflow(holding, blocks.high)
            ends.append([overflow.users(end, self.risk) for end in (blocks.low, blocks.high)])
        return Estimate(min(low for low, _ in ends), self.users, min(high for _, high in ends))

    def admitted(self, cap: int | None) -> int:
        """Users that the scheduler lets run; none, where the engine doesn't start."""
        if not self.starts:
            return 0
        return self.users if cap is None else min(self.users, cap)


def counted(question: Question, steps: Steps, costs: Costs, tau: float) -> Counted:
    """Count requests in a pool of a question's window. `costs` keeps prices between calls."""
    deployment = deploy(question)
    running = running_of(question, deployment.window)
    weights = steps.weights(running)
    ends = (at_worst, most_likely, at_best)
    # A stage without a cache that has no room for its weights and reserve doesn't start, and so nobody is served.
    starts = [all(end(budget.kv) >= 0 for budget in deployment.bare) for end in ends]
    stages, users = [], []
    for rank in deployment.ranks:
        blocks = Estimate(
            *(
                is_there * rank.pool_of(end(rank.budget.kv)).left_to_requests
                for end, is_there in zip(ends, starts, strict=True)
            )
        )
        holding = holding_of(weights, costs_of(rank, len(weights), costs))
        stages.append((holding, blocks))
        users.append(Overflow(holding, blocks.high).users(blocks.best, question.risk))
    fullest = users.index(min(users))
    worst_case = min(rank.pool.usable // rank.pool.cost(deployment.window) for rank in deployment.ranks)
    return Counted(
        deployment=deployment,
        rank=deployment.ranks[fullest],
        running=running,
        blocks=stages[fullest][1].best,
        mean=stages[fullest][0].mean,
        risk=question.risk,
        users=users[fullest],
        drifting=min(with_drift(holding, blocks.best, question.risk, tau) for holding, blocks in stages),
        worst_case=worst_case,
        starts=worst_case > 0 and not deployment.short,
        steps=float(weights.sum()),
        stages=tuple(stages),
    )


def costs_of(rank: Rank, size: int, costs: Costs) -> NDArray[np.int64]:
    """Blocks that a request takes on a rank, by its held tokens up to so many."""
    prices = rank.pool.prices
    if prices not in costs or len(costs[prices]) < size:
        costs[prices] = rank.pool.held_costs(np.arange(size, dtype=np.int64))
    return costs[prices][:size]
