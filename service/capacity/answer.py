"""The shape of an answer (wire contract, version 1).

Keys are always present with one type; what doesn't apply is null. `users.at_risk`, `interval`, `levers` and
`second_ceiling` are part of the contract and null until this planner computes them.
"""

from typing import Literal

import msgspec

from service.capacity.rungs import Rung

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


class KvCache(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's cache on its tightest rank."""

    bytes_per_token: int
    fixed_bytes_per_user: int
    block_size: int
    blocks: int
    max_concurrency: float
    """All blocks over the blocks of one full window, not rounded down: the figure that engines print."""
    groups: tuple[()]
    """Empty: the generic engine has no cache groups."""


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
    """The exact catalog version that was used."""

    key: str
    version: int
    digest: str


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the answer depends on beside the question's own values."""

    model: Input
    gpu: Input
    engine: Input
    workload: None
    """Workloads are given inline."""
    planner: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How many users fit, and why."""

    plan: str | None = None
    plan_url: str | None = None
    fits: bool
    verdict: Literal["fits", "likely", "unlikely", "does_not_fit"]
    summary: str
    gpus: int
    pools: int
    users: Users
    interval: None
    kv_cache: KvCache
    ladder: tuple[Rung, ...]
    workload: WorkloadSummary | None
    binding: Binding
    levers: None
    second_ceiling: None
    caveats: tuple[Caveat, ...]
    assumed: tuple[Assumed, ...]
    inputs: Inputs
