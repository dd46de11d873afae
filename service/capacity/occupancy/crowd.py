"""How many requests of one workload run together in one pool, and what happens at that number."""

from functools import lru_cache
from math import ceil, floor, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.errors import Fault, Refused
from service.capacity.lengths import Running
from service.capacity.occupancy.bounds import deviations, guaranteed, with_drift
from service.capacity.occupancy.drift import USUAL, measured_tau
from service.capacity.occupancy.holding import Holding, holding_of
from service.capacity.occupancy.overflow import Overflow
from service.capacity.occupancy.spread import spread_of
from service.capacity.occupancy.steps import Weights
from service.capacity.pool import Pool
from service.capacity.units import Estimate
from service.capacity.workload import Rows, Workload, table_of

RISKS = (0.05, 0.01, 0.001)
"""Risks that every answer counts users at, beside the caller's own."""
_FEW = 0.05
"""Of prompts shorter than a shared prefix: more of them, and it isn't shared."""
_FURTHER = 3
"""Points of the risk curve beyond the counts."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What wandering lengths leave."""

    tau: float
    users: int
    is_measured: bool
    """Whether tau comes from the workload's own rows, in their order."""


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a workload in one pool. All counts are of the one pool."""

    blocks: int
    """That requests can have for themselves, most likely."""
    mean: float
    """Blocks that a request holds at a random step."""
    deviation: float
    final: float
    """Blocks that it holds at its end, on average."""
    beyond: float
    """Share of steps at which one request alone holds more than there is."""
    at: tuple[tuple[float, int], ...]
    """(Risk, users), from the highest risk to the lowest; the caller's is among them."""
    users: Estimate
    """At the caller's risk: at the low end of memory and of what is known of lengths, most likely, at the high end."""
    bracket: tuple[int, int] | None
    """Between what the users lie because lengths aren't known together, at the most likely memory."""
    tail: float
    """The chance of an overflow at that many users."""
    next_tail: float
    """The same with one more."""
    curve: tuple[tuple[int, float], ...]
    """(Users, chance of an overflow), from fewer than run at the lowest risk up to the mean fit."""
    guaranteed: int
    drift: Drift
    open_loop: float
    """Requests in flight on average where arrivals come at random, at the caller's risk."""
    prompt_tokens: float | None
    output_tokens: float | None
    most_tokens: float | None
    """That a request may hold on average, wherever in its cell of a joint histogram it lies."""
    prefill_steps: float
    contradicted: tuple[float, float] | None
    """Between what the mean held lies by the lengths, where it was measured outside of it."""
    lacking_prefix: float
    """Share of requests whose prompt is shorter than the prefix that all are said to share."""
    is_by_blocks: bool
    """Whether blocks were counted one by one: cells would not have told the count for certain."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a crowd depends on beside its workload."""

    pool: Pool
    """Its blocks apart: `Pool.priced`."""
    running: Running
    blocks: Estimate
    """That requests can have for themselves."""
    risk: float
    tau: float | None
    """Null: measured, or the usual one."""


@lru_cache(maxsize=256)
def crowd_of(workload: Workload, setting: Setting) -> Crowd | None:
    """Count a workload's requests in a pool; null where only their mean is known.

    Kept, as fleets ask again and again with the same lengths: the same arguments, the same crowd.
    """
    spread = spread_of(workload, setting.running)
    if spread is None:
        return None
    prefix = setting.pool.shared_prefix
    lacking = spread.shorter_prompts(prefix) if prefix else 0.0
    if prefix >= setting.running.window or lacking > _FEW:
        detail = (
            f"{lacking:.2%} of the prompts are shorter than {prefix:,} tokens and can't begin with them: give lengths"
            " that include the prefix, or a shorter one"
        )
        raise Refused(Fault("/levers/shared_prefix_tokens", detail))
    size = max(len(weights) for weights in (spread.likely, spread.most, spread.least, spread.final))
    costs = setting.pool.held_costs(np.arange(size, dtype=np.int64))
    likely = _holding(spread.likely, costs)
    low, best, high = msgspec.structs.astuple(setting.blocks)
    overflow = Overflow(likely, high)
    at = tuple((risk, overflow.users(best, risk)) for risk in sorted({*RISKS, setting.risk}, reverse=True))
    own = dict(at)[setting.risk]
    ends = [overflow.users(blocks, setting.risk) if blocks != best else own for blocks in (low, high)]
    bracket = None
    if spread.most is not spread.likely:
        fewest, low_users = _at_end(spread.most, costs, setting, low)
        most, high_users = ends[1], own
        if spread.least is not spread.likely:
            most, high_users = _at_end(spread.least, costs, setting, high)
        ends, bracket = [fewest, most], (min(low_users, own), max(high_users, own))
    return Crowd(
        blocks=best,
        mean=likely.mean,
        deviation=likely.variance**0.5,
        final=float((spread.final * costs[: len(spread.final)]).sum() / spread.final.sum()),
        beyond=likely.beyond(best),
        at=at,
        users=Estimate(min(ends[0], own), own, max(ends[1], own)),
        bracket=bracket,
        tail=overflow.tail(own, best),
        next_tail=overflow.tail(own + 1, best),
        curve=_curve(overflow, at, best),
        guaranteed=guaranteed(likely, best, setting.risk, own),
        drift=_drift(workload, costs, setting, likely, own),
        open_loop=overflow.in_flight(best, setting.risk, own),
        prompt_tokens=spread.prompt_tokens,
        output_tokens=spread.output_tokens,
        most_tokens=spread.most_tokens,
        prefill_steps=spread.prefill_steps,
        contradicted=spread.contradicted,
        lacking_prefix=lacking,
        is_by_blocks=overflow.is_by_blocks,
    )


def _holding(weights: Weights, costs: NDArray[np.int64]) -> Holding:
    return holding_of(weights, costs[: len(weights)])


def _at_end(weights: Weights, costs: NDArray[np.int64], setting: Setting, blocks: int) -> tuple[int, int]:
    """Users where lengths come to one end, at one end of memory and at the most likely memory."""
    best = setting.blocks.best
    overflow = Overflow(_holding(weights, costs), max(blocks, best))
    at_best = overflow.users(best, setting.risk)
    return at_best if blocks == best else overflow.users(blocks, setting.risk), at_best


def _curve(overflow: Overflow, at: tuple[tuple[float, int], ...], blocks: int) -> tuple[tuple[int, float], ...]:
    """Points below the counts at the risks, at them, and on to the mean fit."""
    counts = {users for _, users in at}
    few, high = max(1, min(counts) * 19 // 20), max(1, floor(blocks / overflow.holding.mean))
    further = {max(counts) + (high - max(counts)) * step // _FURTHER for step in range(1, _FURTHER + 1)}
    numbers = sorted({few, high} | {users for users in counts | further if few <= users <= high})
    return tuple((users, overflow.tail(users, blocks)) for users in numbers)


def _drift(workload: Workload, costs: NDArray[np.int64], setting: Setting, holding: Holding, users: int) -> Drift:
    measured = None
    if setting.tau is None and isinstance(workload, Rows) and workload.ordered:
        measured = measured_tau(table_of(workload.rows), costs, setting.running, users)
    usual = USUAL if setting.tau is None else setting.tau
    tau = usual if measured is None else measured
    return Drift(
        tau=tau,
        users=with_drift(holding, setting.blocks.best, setting.risk, tau),
        is_measured=measured is not None,
    )


def holds(workload: Workload, pool: Pool, running: Running, *, risk: float, users: int, blocks: int) -> bool:
    """Whether so many users keep below a risk in so many blocks of their own."""
    return Overflow(_held(workload, pool, running), blocks).holds(users, blocks, risk)


def least_blocks(workload: Workload, pool: Pool, running: Running, *, risk: float, users: int, most: int) -> int:
    """The fewest blocks in which so many users keep below a risk.

    Where that is more than `most`, what they hold on average, or one more than `most`.
    """
    holding = _held(workload, pool, running)
    average = ceil(users * holding.mean)
    if average > most or not Overflow(holding, most).holds(users, most, risk):
        return max(average, most + 1)
    enough = ceil(users * holding.mean + deviations(risk) * sqrt(users * holding.variance)) + int(holding.blocks[-1])
    if enough >= most or not Overflow(holding, enough).holds(users, enough, risk):
        enough = most
    return Overflow(holding, enough).least_blocks(users, risk)


def _held(workload: Workload, pool: Pool, running: Running) -> Holding:
    spread = spread_of(workload, running)
    assert spread is not None  # of a mean nobody asks for a risk
    return _holding(spread.likely, pool.held_costs(np.arange(len(spread.likely), dtype=np.int64)))
