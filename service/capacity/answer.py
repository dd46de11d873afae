"""The shape of an answer (wire contract, version 1).

Keys are always present with one type; what doesn't apply is null. `levers` and `second_ceiling` are part of the
contract and null until this planner computes them.
"""

from typing import Literal

import msgspec

from service.capacity.rungs import Number, Rung
from service.capacity.units import Estimate

Verdict = Literal["fits", "likely", "unlikely", "does_not_fit"]
Binding = Literal["weights", "reserve", "kv_cache", "max_num_seqs"]


class AtRisk(msgspec.Struct, frozen=True, kw_only=True):
    """Users that run with at most so much chance that the cache overflows."""

    risk: float
    """Share of steps at which they would need more blocks than there are. Not the share of requests."""
    users: int


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """Running requests of the whole deployment."""

    worst_case: int
    """Every user fills the window: what can be guaranteed."""
    paged: int | None
    """Users hold only the blocks that they filled: the mean fit. Null without a workload."""
    at_risk: tuple[AtRisk, ...] | None
    """From the highest risk to the lowest, the question's own among them. Null without a workload, or with its mean
    only."""
    admitted: int
    """What memory holds on the question's basis, lowered by `max_num_seqs`; targets compare with it."""
    recommended_max_num_seqs: int | None
    """Where to cap admission, per pool as the flag is: see `occupancy.recommended`. Null where `at_risk` is, and where
    nobody runs."""

    def at(self, risk: float) -> int | None:
        """The users at one of the risks; null where none are counted."""
        return next((one.users for one in self.at_risk or () if one.risk == risk), None)


class UsersRange(msgspec.Struct, frozen=True):
    """A low and a high end."""

    low: int
    high: int


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Between what the answer lies, because memory and reserve of a real engine are never known exactly."""

    budget_bytes: Estimate
    """The KV budget of one GPU, on the tightest rank."""
    tokens: Estimate
    """Tokens of full windows that one pool holds, concurrency times the window: of the stage that holds fewest, which
    at one end may be another than at the other."""
    users_worst_case: Estimate
    users_at_risk: Estimate | None
    """At the question's risk; with `total` lengths and marginals the ends are those of the lengths too."""


class CacheGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Layers whose blocks the engine gives out together, on the tightest rank."""

    kinds: tuple[str, ...]
    layers: int
    block_size: int | None
    """Tokens of one of its blocks; null for states and rings, which take as many blocks whatever the length."""
    blocks_per_window: int
    """Blocks that one user takes of it who fills the window."""
    used_bytes_per_block: int
    """Bytes of one block that hold records; the rest is padding."""


class KvCache(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's cache on its tightest rank."""

    dtype: str
    """The number format that keys and values are kept in."""
    bytes_per_token: int
    """What every further token takes, padding apart."""
    fixed_bytes_per_user: int
    """What a user takes whatever the length: states, and windows once they are full; padding apart."""
    block_size: int
    block_bytes: int
    blocks: int
    null_blocks: int
    """Blocks that the engine never gives out; users are counted without them."""
    max_concurrency: float
    """All blocks over the blocks of one full window, not rounded down: the figure that engines print."""
    printed_tokens: int | None
    """The number of tokens that this engine release prints at start-up; it isn't a capacity. Null: no such line."""
    padding_bytes_per_window: int
    """Bytes that one user's blocks waste when the window is full: pages padded, and places that no layer fills."""
    groups: tuple[CacheGroup, ...]
    """Empty where the engine has no cache groups."""


class NoValue(msgspec.Struct, frozen=True):
    """Why no value of a lever makes a question fit."""

    name: str
    reason: str


class Inverse(msgspec.Struct, frozen=True, kw_only=True):
    """The nearest change of one lever that makes a question fit which doesn't. Null: no value does, for its reason.

    A target at the workload's mean is counted, in each window, with what that window rejects and cuts. Only where a
    joint histogram has an open bin, which ends at the window, may a window larger than the one named fit again.
    """

    max_model_len: int | None
    """The largest window that does, exact to the token."""
    gpu_memory_utilization: float | None
    """The smallest share that does, exact to the block (and to a billionth)."""
    reasons: tuple[NoValue, ...]
    """One for each lever above that is null."""


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the lengths came to."""

    kind: str
    requests: int
    mean_held_tokens: float
    mean_held_blocks: float
    rejected_share: float
    truncated_share: float
    confidence: Literal["high", "medium", "low"]
    users_paged: UsersRange | None
    """`total` lengths only: `high` counts each request once, `low` weighs each by its length."""


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the risk curve of one pool."""

    users: int
    overflow: float
    """Share of steps at which that many users would need more blocks than there are."""


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """How full one pool gets with users of this workload, at the question's risk."""

    method: Literal["blocks", "cells"]
    """Whether sums were counted block by block, or in cells of several blocks, where these can't change a count."""
    prefill_steps: Number
    """Steps that a request holds its whole prompt before the one that ends its prefill, on average."""
    drafted_tokens: Number
    """Tokens that a draft writes beyond a request's own."""
    shared_blocks: Number
    """Blocks of the prefix that all running requests hold once."""
    mean_held_blocks: Number
    mean_held_tokens_at_most: Number | None
    """No requests with these counts hold more on average at their decode steps, wherever in their bins they lie. Null
    but for a joint histogram."""
    held_deviation: Number
    """The standard deviation of the same."""
    users: Number
    """The most whose chance of an overflow stays below the risk."""
    overflow: Number
    """That chance, at that many users."""
    overflow_with_one_more: Number
    never_fits: Number
    """Share of steps at which a single request would hold more than the whole pool."""
    guaranteed: Number
    """A proven lower bound of the users."""
    with_drift: Number
    """Users where the mean of what they hold wanders."""
    mean_fit: Number
    """Blocks over their mean: the throughput ceiling, where about half of all steps overflow."""
    open_loop: Number
    """Requests in flight on average where they arrive at random and nobody holds them back."""
    preemptions_per_request: Number | None
    """An order of magnitude. Null where outputs aren't known."""
    recommended: Number
    """The least of the users, those with drift, and the scheduler's cap."""
    curve: tuple[Overflow, ...]
    """How the chance of an overflow rises with the users, up to the mean fit."""
    bracket: UsersRange | None
    """Between what the users lie because prompts and outputs aren't known together; null where they are."""


class People(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations in place of running requests, of the whole deployment."""

    people: Number
    """That the admitted users serve."""
    warm_sessions: Number | None
    """Idle conversations whose prefix stays in blocks that nobody needs, while so many users run. Null where only a
    mean of lengths is known."""


class Caveat(msgspec.Struct, frozen=True):
    """Something that the reader should know, under a stable code."""

    code: str
    text: str


class Assumed(msgspec.Struct, frozen=True):
    """A default that the answer stands on."""

    name: str
    value: str
    reason: str


class Input(msgspec.Struct, frozen=True):
    """The exact catalog version that was used, or what was given inline."""

    key: str
    version: int | None
    """Null for what was given inline."""
    digest: str


class InputReserve(msgspec.Struct, frozen=True):
    """The observation that the reserve was taken from, the newest of so many start-ups."""

    observation: str
    start_ups: int


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the answer depends on beside the question's own values."""

    model: Input
    gpu: Input
    engine: Input
    draft_model: Input | None
    """Null without another checkpoint that drafts."""
    workload: Input | None
    """Null without a workload, and for one that was given inline."""
    observed_reserve: InputReserve | None
    """Null unless the question asks for the observed reserve."""
    planner: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How many users fit, and why."""

    plan: str | None = None
    plan_url: str | None = None
    fits: bool
    verdict: Verdict
    """`fits` holds at the low end of the interval too, `likely` most likely, `unlikely` only at the high end."""
    summary: str
    gpus: int
    pools: int
    users: Users
    interval: Interval | None
    """Null where nothing about the memory is in doubt, as with a flat reserve."""
    kv_cache: KvCache
    ladder: tuple[Rung, ...]
    workload: WorkloadSummary | None
    occupancy: Occupancy | None
    """Null where `users.at_risk` is."""
    sessions: People | None
    """Null unless the question says how people use what runs."""
    binding: Binding
    inverse: Inverse | None
    """Null for an answer that fits."""
    levers: None
    second_ceiling: None
    caveats: tuple[Caveat, ...]
    assumed: tuple[Assumed, ...]
    inputs: Inputs
