"""The shape of an answer about a pool for long requests (wire contract, version 1).

Keys are always present with one type; what doesn't apply is null.
"""

from typing import Literal

import msgspec

from service.capacity.answer import Assumed, Caveat, Inputs
from service.capacity.rungs import Number
from service.capacity.split.parting import RouteBy
from service.capacity.units import Estimate

NothingCode = Literal[
    "no_request_is_longer",
    "no_request_is_shorter",
    "long_pool_does_not_start",
    "long_pool_holds_none",
    "short_pool_does_not_start",
    "short_pool_holds_none",
    "max_num_seqs_is_reached",
    "no_gain",
    "gain_is_within_drift",
]


class Nothing(msgspec.Struct, frozen=True):
    """Why a split buys nothing."""

    code: NothingCode
    text: str


class SizedPool(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of the deployment, and how many of its requests run in it: short ones, long ones, or all."""

    max_model_len: int
    share_of_requests: Number
    share_in_flight: Number
    """Of requests that run at a time."""
    share_of_kv: Number
    """Of blocks that are held at a time."""
    kv_budget_bytes: Estimate
    """Of one GPU, on the stage that holds fewest."""
    mean_held_blocks: Number
    users: Number
    """The most whose chance of an overflow stays below the risk."""
    users_between: Estimate
    """The same where memory comes to the low and the high end of what it may be."""
    worst_case: Number
    """Users that fill the window."""
    admitted: Number
    """Users, lowered by `max_num_seqs`; none where the engine doesn't start. Splits are compared by it."""
    users_per_gpu: Number
    recommended_max_num_seqs: Number


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """So many GPUs, divided as lets most requests run."""

    gpus: int
    short_gpus: int
    long_gpus: int
    users: int
    """Of both kinds together, where they come in the shares of the workload."""
    users_mixed: int
    """With all of these GPUs in mixed pools."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """What a split at one length comes to."""

    split_at: int
    """Requests of up to so many tokens are short."""
    route_by: RouteBy
    short: SizedPool | None
    """Null where no request is short."""
    long: SizedPool | None
    """Null where no request is long."""
    users_per_gpu: Number | None
    """Of both pools together. Null where one of them has no requests."""
    gain: Number | None
    """How many more users per GPU than in mixed pools, as a share of those. Null where these hold none."""
    short_gpu_share: Number | None
    """Of all GPUs, for the pool of short requests."""
    long_share_borne: Number | None
    """The share of long requests in flight up to which the same GPUs run as many as mixed pools would."""
    fleets: tuple[Fleet, ...]
    least_fleet: Fleet | None
    """The fewest GPUs that hold more when split than mixed. Null: none of up to 1,000 pools."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A split to compare with others; the same figures as in `split`."""

    split_at: int
    short_max_model_len: int
    long_share_of_requests: float
    long_share_in_flight: float
    long_share_of_kv: float
    short_users: int
    """Of one pool, as all users here: those that are admitted."""
    long_users: int
    users_per_gpu: float
    gain: float | None
    nothing: NothingCode | None
    """Why it buys nothing; null where it buys something."""


class PoolsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a pool of its own for long requests lets more run on the same GPUs."""

    summary: str
    buys_nothing: bool
    nothing: Nothing | None
    """Why; null where it buys something."""
    gpus_per_pool: int
    risk: float
    tau: Number
    """By what share of it the mean of what requests hold wanders: a gain that is no larger counts as none."""
    mixed: SizedPool
    split: Split | None
    """The split that was asked for, or else the best of the candidates. Null: all requests have the same length."""
    best: int | None
    """The candidate with the largest gain. Null: there are none."""
    candidates: tuple[Candidate, ...]
    """Splits at quantiles of the requests and at powers of two, rising; with the one that was asked for, if it divides
    them."""
    caveats: tuple[Caveat, ...]
    assumed: tuple[Assumed, ...]
    inputs: Inputs
