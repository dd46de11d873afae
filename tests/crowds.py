"""Users at a risk in plain blocks of full attention, for tests that need no deployment."""

import numpy as np

from service.capacity.cache import FullAttention, Storage, Terms
from service.capacity.layout import separate
from service.capacity.lengths import Running
from service.capacity.occupancy.crowd import Crowd, Setting, crowd_of
from service.capacity.occupancy.holding import Holding, holding_of
from service.capacity.occupancy.spread import spread_of
from service.capacity.occupancy.steps import Weights
from service.capacity.pool import Pool, pool_of
from service.capacity.units import Estimate
from service.capacity.workload import Workload

WIDE = Running(window=2**21)
"""A window that cuts nothing of what these tests ask with."""


def plain_pool(block_size: int = 16, *, shared_prefix: int = 0, drafted: int = 0) -> Pool:
    """A pool of full attention alone, in which a request holds its tokens in blocks of so many."""
    attention = FullAttention(layers=1, kv_heads=1, key_dim=1, value_dim=1)
    layout = separate(attention.footprints(Storage(dtype="fp8", model_dtype="bf16")), block_size)
    return pool_of(
        layout,
        rules=None,
        budget_bytes=0,
        terms=Terms(),
        stage=range(1),
        shared_prefix=shared_prefix,
        drafted=drafted,
    )


def crowd(
    workload: Workload,
    blocks: int,
    *,
    risk: float = 0.01,
    running: Running = WIDE,
    tau: float | None = None,
    pool: Pool | None = None,
) -> Crowd:
    """Count a workload's requests in so many blocks."""
    setting = Setting(
        pool=(pool or plain_pool()).priced,
        running=running,
        blocks=Estimate(blocks, blocks, blocks),
        risk=risk,
        tau=tau,
    )
    found = crowd_of(workload, setting)
    assert found is not None
    return found


def holding(workload: Workload, running: Running = WIDE, block_size: int = 16) -> Holding:
    """How many blocks a running request of a workload holds."""
    spread = spread_of(workload, running)
    assert spread is not None
    return held_blocks(spread.likely, block_size)


def held_blocks(weights: Weights, block_size: int = 16) -> Holding:
    """Weights by held tokens, in blocks."""
    return holding_of(weights, -(-np.arange(len(weights), dtype=np.int64) // block_size))
