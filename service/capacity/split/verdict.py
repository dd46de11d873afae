"""When a split buys nothing, and which figure is in the way."""

from service.capacity.split.answer import Nothing, NothingCode
from service.capacity.split.halves import Half, Halves, Traffic
from service.capacity.split.pair import Pair
from service.capacity.units import shown_gib

TOLD_BY = {"total": "tokens, prompt and output together", "prompt": "tokens of prompt"}
"""What a split counts, by what requests are told apart by."""


def nothing_of(traffic: Traffic, halves: Halves) -> Nothing | None:
    """Say why a split buys nothing; null where it buys something."""
    at, told_by = f"{halves.split_at:,}", TOLD_BY[traffic.route_by]
    if halves.long is None:
        return Nothing("no_request_is_longer", f"No request has more than {at} {told_by}.")
    if halves.short is None:
        return Nothing("no_request_is_shorter", f"No request has {at} {told_by}, or fewer.")
    assert halves.pair is not None
    return _of_pools(traffic, halves.short, halves.long, halves.pair) or _of_gain(traffic, halves.short, halves.pair)


def _of_pools(traffic: Traffic, short: Half, long: Half, pair: Pair) -> Nothing | None:
    """Why one of the pools serves nobody."""
    other = f" The short pool would hold {pair.short:,}." if pair.short else ""
    found: dict[NothingCode, str] = {
        "long_pool_does_not_start": "" if long.counted.starts else _does_not_start("long", long) + other,
        "long_pool_holds_none": "" if pair.long else _holds_none(traffic, "long", long) + other,
        "short_pool_does_not_start": "" if short.counted.starts else _does_not_start("short", short),
        "short_pool_holds_none": "" if pair.short else _holds_none(traffic, "short", short),
    }
    return next((Nothing(code, text) for code, text in found.items() if text), None)


def _of_gain(traffic: Traffic, short: Half, pair: Pair) -> Nothing | None:
    """Why two pools that both serve are no better than mixed ones, whose counts are above zero then."""
    gain, cap = pair.gain, traffic.question.levers.max_num_seqs
    if gain is None or gain > traffic.tau:
        return None
    counts = f"{pair.users:,.1f} users a pool on average where mixed pools hold {pair.mixed:,}"
    if gain > 0:
        text = (
            f"Both pools together hold {counts}: {gain:.1%} more. The mean of what requests hold wanders by"
            f" {traffic.tau:.1%}, and the share of long ones by no less: it eats that."
        )
        return Nothing("gain_is_within_drift", text)
    if cap is not None and any(count.users > cap for count in (traffic.mixed, short.counted)):
        text = f"max_num_seqs admits {cap:,} to each pool, whatever it has room for: together {counts}."
        return Nothing("max_num_seqs_is_reached", text)
    return Nothing("no_gain", f"Both pools together hold {counts}.")


def _does_not_start(name: str, half: Half) -> str:
    window = half.question.levers.max_model_len
    kv = half.counted.rank.budget.kv.best
    return (
        f"The {name} pool doesn't start: {shown_gib(kv)} of KV cache have no room for one window of {window:,} tokens."
    )


def _holds_none(traffic: Traffic, name: str, half: Half) -> str:
    return (
        f"The {name} pool holds no request at this risk: at more than {traffic.question.risk:g} of its steps one alone"
        f" would hold more than the {half.counted.blocks:,} blocks. It needs GPUs with more memory, or more of them."
    )
