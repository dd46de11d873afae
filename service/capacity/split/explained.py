"""Pools, splits and fleets as an answer says them: each number with its formula, operands, source and certainty."""

from functools import partial

from service.capacity.figures import Certainty
from service.capacity.occupancy.drift import USUAL
from service.capacity.question import Question
from service.capacity.rungs import Number, Operand, number
from service.capacity.split.answer import Candidate, Fleet, SizedPool, Split
from service.capacity.split.halves import Half, Halves, Traffic
from service.capacity.split.pair import Pair
from service.capacity.split.verdict import TOLD_BY, nothing_of
from service.capacity.units import rounded

FLEETS = (2, 5, 10, 20, 50, 100)
"""Pools of the fleets that are shown."""
_WORKLOAD = "the workload"
_number = partial(number, source=_WORKLOAD, certainty="measured")


def mixed_pool(traffic: Traffic) -> SizedPool:
    """Describe the pool of all requests."""
    half = Half(question=traffic.question, counted=traffic.mixed, of_requests=1.0, in_flight=1.0, of_kv=1.0)
    return _pool(half, "all", "all requests")


def _part(traffic: Traffic, half: Half | None, name: str, at: int) -> SizedPool | None:
    """Describe a pool of short, or of long requests; null where there are none."""
    if half is None:
        return None
    return _pool(
        half, name, f"requests of {'more than' if name == 'long' else 'up to'} {at:,} {TOLD_BY[traffic.route_by]}"
    )


def _pool(half: Half, name: str, of: str) -> SizedPool:
    question, count = half.question, half.counted
    levers, risk = question.levers, question.risk
    window, gpus, cap = levers.max_model_len, gpus_of(question), levers.max_num_seqs
    admitted = count.admitted(cap)
    blocks = Operand("blocks", count.blocks, "blocks", "the pool, without null and shared blocks", "exact")
    users = Operand("users", count.users, "users", _WORKLOAD, "measured")
    capped = (
        [] if cap is None else [Operand("max_num_seqs", cap, "users", "the lever, or the engine's default", "exact")]
    )
    runs = Operand("admitted", admitted, "users", "this pool", "measured")
    at_most = "" if cap is None else f", and no more than the {cap:,} of max_num_seqs"
    return SizedPool(
        max_model_len=window,
        share_of_requests=_number(rounded(half.of_requests), "share", f"{of}, over all that the window lets in"),
        share_in_flight=_number(
            rounded(half.in_flight),
            "share",
            f"steps of {of}, over those of all: E[O; {name}] / E[O] where nothing waits for its prefill",
        ),
        share_of_kv=_number(rounded(half.of_kv), "share", f"blocks held by {of}, over those of all, at all steps"),
        kv_budget_bytes=count.rank.budget.kv,
        mean_held_blocks=_number(rounded(count.mean), "blocks", "blocks held, averaged over all steps of its requests"),
        users=_number(
            count.users,
            "users",
            f"the largest N with P(X1 + .. + XN > {count.blocks:,} blocks) <= {risk:g}",
            blocks,
            Operand("risk", risk, "share of steps", "the question", "exact"),
        ),
        users_between=count.between(),
        worst_case=_number(
            count.worst_case,
            "users",
            f"blocks // those of a window of {window:,} tokens, on the stage where that is least",
            Operand(
                "blocks_per_window", count.rank.pool.cost(window), "blocks", "the stage that holds fewest", "exact"
            ),
            source="the pool",
            certainty="exact",
        ),
        admitted=_number(
            admitted, "users", f"users{at_most}" if count.starts else "none: the engine doesn't start", users, *capped
        ),
        users_per_gpu=_number(
            rounded(admitted / gpus),
            "users",
            f"{admitted:,} admitted / {gpus:,} GPUs of a pool",
            runs,
            Operand("gpus", gpus, "GPUs", "tensor_parallel x pipeline_parallel", "exact"),
        ),
        recommended_max_num_seqs=_number(
            min(admitted, count.drifting),
            "users",
            "the least of what is admitted and the largest N with N mean + z sqrt(N var + (N tau mean)^2) <= blocks",
            runs,
            Operand("with_drift", count.drifting, "users", "mean and deviation of blocks held, and tau", "assumed"),
            certainty="assumed",
        ),
    )


def split_of(traffic: Traffic, halves: Halves) -> Split:
    """Describe a split."""
    pair, at, gpus = halves.pair, halves.split_at, gpus_of(traffic.question)
    figures = _of_pair(pair, gpus)
    return Split(
        split_at=at,
        route_by=traffic.route_by,
        short=_part(traffic, halves.short, "short", at),
        long=_part(traffic, halves.long, "long", at),
        users_per_gpu=figures.get("users_per_gpu"),
        gain=figures.get("gain"),
        short_gpu_share=figures.get("short_gpu_share"),
        long_share_borne=figures.get("long_share_borne"),
        fleets=() if pair is None or not pair.users else tuple(_fleet(pair, pools, gpus) for pools in FLEETS),
        least_fleet=None if pair is None or (least := pair.least_fleet()) is None else _fleet(pair, least, gpus),
    )


def _of_pair(pair: Pair | None, gpus: int) -> dict[str, Number]:
    """What two pools come to; what one of them keeps from being said is left out."""
    if pair is None:
        return {}
    q = Operand("long_share_in_flight", rounded(pair.long_share), "share", _WORKLOAD, "measured")
    mixed, short, long = (
        Operand(f"{name}_users_per_gpu", rounded(users / gpus), "users", f"the {name} pool", "measured")
        for name, users in (("mixed", pair.mixed), ("short", pair.short), ("long", pair.long))
    )
    together = Operand("users_per_gpu", rounded(pair.users / gpus), "users", "both pools", "measured")
    formula = "1 / ((1 - q) / short + q / long)" if pair.users else "none: one of the pools holds none"
    found = {"users_per_gpu": _of_both(pair.users / gpus, "users", formula, q, short, long)}
    if pair.gain is not None:
        found["gain"] = _of_both(pair.gain, "share", "users per GPU of both pools / those mixed - 1", together, mixed)
    if pair.users:
        formula = "(1 - q) / short, over (1 - q) / short + q / long"
        found["short_gpu_share"] = _of_both(pair.short_pools, "share of GPUs", formula, q, short, long)
    if pair.users and pair.gain is not None:
        formula = "q x users of both pools / users mixed: with more, the long pool is full before mixed ones would be"
        borne = min(pair.long_share * (1 + pair.gain), 1.0)
        found["long_share_borne"] = _of_both(borne, "share", formula, q, together, mixed)
    return found


def _of_both(value: float, unit: str, formula: str, *operands: Operand) -> Number:
    return _number(rounded(value), unit, formula, *operands, source="both pools, and their shares of what runs")


def _fleet(pair: Pair, pools: int, gpus: int) -> Fleet:
    short, users = pair.fleet(pools)
    return Fleet(
        gpus=pools * gpus,
        short_gpus=short * gpus,
        long_gpus=(pools - short) * gpus,
        users=users,
        users_mixed=pools * pair.mixed,
    )


def candidate_of(traffic: Traffic, halves: Halves) -> Candidate:
    """A line of the table, of a split that has both parts."""
    pair, short, long = halves.pair, halves.short, halves.long
    assert pair is not None
    assert short is not None
    assert long is not None
    nothing = nothing_of(traffic, halves)
    return Candidate(
        split_at=halves.split_at,
        short_max_model_len=short.question.levers.max_model_len,
        long_share_of_requests=rounded(long.of_requests),
        long_share_in_flight=rounded(long.in_flight),
        long_share_of_kv=rounded(long.of_kv),
        short_users=pair.short,
        long_users=pair.long,
        users_per_gpu=rounded(pair.users / gpus_of(traffic.question)),
        gain=None if pair.gain is None else rounded(pair.gain),
        nothing=None if nothing is None else nothing.code,
    )


def tau_of(question: Question, tau: float, *, is_measured: bool) -> Number:
    """Say where the drift comes from."""
    said: tuple[str, Certainty] = ("the rows in their order: the variance of window means beyond chance", "measured")
    if question.tau is not None:
        said = ("the question", "exact")
    elif not is_measured:
        said = (f"recorded traffic, which wandered by 0.07 to 0.10: {USUAL:g} is assumed", "assumed")
    return _number(
        rounded(tau), "share of the mean", "by what share the mean held wanders", source=said[0], certainty=said[1]
    )


def gpus_of(question: Question) -> int:
    """GPUs of one pool: copies by data parallel have pools of their own."""
    return question.levers.tensor_parallel * question.levers.pipeline_parallel
