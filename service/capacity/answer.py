"""The shape of an answer (wire contract, version 1).

Keys are always present with one type; what doesn't apply is null. `users.at_risk`, `levers` and `second_ceiling` are
part of the contract and null until this planner computes them.
"""

from typing import Literal

import msgspec

from service.capacity.rungs import Rung
from service.capacity.units import Estimate

Verdict = Literal["fits", "likely", "unlikely", "does_not_fit"]
Binding = Literal["weights", "reserve", "kv_cache", "max_num_seqs"]


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """Running requests of the whole deployment."""

    worst_case: int
    """Every user fills the window: what can be guaranteed."""
    paged: int | None
    """Users hold only the blocks that they filled: the mean fit. Null without a workload."""
    at_risk: None
    admitted: int
    """What memory holds on the question's basis, lowered by `max_num_seqs`; targets compare with it."""
    recommended_max_num_seqs: None


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
    binding: Binding
    inverse: Inverse | None
    """Null for an answer that fits."""
    levers: None
    second_ceiling: None
    caveats: tuple[Caveat, ...]
    assumed: tuple[Assumed, ...]
    inputs: Inputs
