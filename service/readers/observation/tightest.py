"""What a log says of the rank that sets the blocks of all: one amount of each kind, of all that were printed."""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from service.capacity.units import Estimate
from service.readers.start_up_log import StartUpLog
from service.readers.start_up_log.facts import Amounts, Memory
from service.readers.start_up_log.printed import ByteRange, Seen

_Shown = dict[str, tuple[Seen[ByteRange], ...]]


class Tightest(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of the tightest rank, and the lines that say it."""

    memory: Estimate | None
    weights: Estimate | None
    kv_cache: Estimate | None
    seen: _Shown
    notes: tuple[str, ...]


def tightest_of(log: StartUpLog) -> Tightest:
    """Choose the rank with the least KV cache, and its own weights where it printed them."""
    memory = log.memory
    ranks = dict.fromkeys(seen.rank for amounts in _cache_amounts(memory) for seen in amounts) or {None: None}
    caches = {rank: _kv_cache(amounts) for rank, amounts in _by_rank(memory, ranks).items()}
    known = {rank: amount for rank, amount in caches.items() if amount is not None}
    rank = min(known, key=lambda one: known[one].best, default=None)
    told = log.deployment
    own = tuple(seen for seen in memory.weights if seen.rank == rank)
    # Ranks of one stage hold as much as each other, and often only one says how much; other stages hold other layers.
    alike = told.pipeline_parallel is None or told.pipeline_parallel.value == 1
    printed = own or (memory.weights if alike else ())
    weights, notes = _weights(printed, drafts=bool(told.speculative or told.speculative_tokens))
    totals = _distinct(memory.device_total)
    return Tightest(
        memory=min(totals, key=lambda total: total.best, default=None),
        weights=weights,
        kv_cache=known.get(rank),
        seen={
            "reported_capacity": memory.device_total[:1],
            "weights": printed,
            "kv_cache": tuple(seen for amounts in _cache_amounts(memory) for seen in amounts if seen.rank == rank),
        },
        notes=notes,
    )


def _cache_amounts(memory: Memory) -> tuple[Amounts, ...]:
    return (
        memory.available_kv_cache,
        memory.kv_cache,
        memory.key_cache,
        memory.value_cache,
        memory.conv_state,
        memory.ssm_state,
    )


def _by_rank(memory: Memory, ranks: Iterable[str | None]) -> dict[str | None, list[list[Seen[ByteRange]]]]:
    kinds = _cache_amounts(memory)
    found: dict[str | None, list[list[Seen[ByteRange]]]] = {rank: [[] for _ in kinds] for rank in ranks}
    for number, amounts in enumerate(kinds):
        for seen in amounts:
            found[seen.rank][number].append(seen)
    return found


def _kv_cache(kinds: list[list[Seen[ByteRange]]]) -> Estimate | None:
    """What there is for the cache: as printed; else the sum of the pools, which may be printed once more as one."""
    available, whole, *parts = (tuple(amounts) for amounts in kinds)
    if available:
        return _narrowest(available, whole)
    pools = [_estimate(seen.value) for amounts in parts for seen in amounts]
    together = _sum(pools) if pools else None
    alone = [one for one in _distinct(whole) if together is None or not _overlap(one, together)]
    return _sum([*pools, *alone]) if pools or alone else None


def _narrowest(available: Amounts, whole: Amounts) -> Estimate:
    """The least that was printed, in as many digits as it was printed with anywhere."""
    least = min((_estimate(seen.value) for seen in available), key=lambda one: one.best)
    same = [one for one in _distinct((*available, *whole)) if _overlap(one, least)]
    return min(same, key=_width)


def _weights(amounts: Amounts, *, drafts: bool) -> tuple[Estimate | None, tuple[str, ...]]:
    found = _distinct(amounts)
    if len({seen.rank for seen in amounts}) > 1:  # of several ranks, none of which is the tightest that is known
        return max(found, key=lambda one: one.best), ()
    if len(found) <= 1 or drafts:
        return _sum(found) if found else None, ()
    printed = ", ".join(str(seen.value.printed) for seen in amounts[:10])
    return None, (f"The weights are printed as {printed}: none of them is taken for all.",)


def _distinct(amounts: Amounts) -> list[Estimate]:
    """Each amount once, in the digits that say most: releases print one more than once, rounded differently."""
    found: dict[int, Estimate] = {}
    lows: list[int] = []  # of those that are kept, rising; none overlaps another, so their neighbours tell
    for amount in sorted((_estimate(seen.value) for seen in amounts), key=_width):
        place = bisect_left(lows, amount.low)
        if not any(_overlap(amount, found[low]) for low in lows[max(0, place - 1) : place + 1]):
            lows.insert(place, amount.low)
            found[amount.low] = amount
    return list(found.values())


def _overlap(one: Estimate, other: Estimate) -> bool:
    return one.low <= other.high and other.low <= one.high


def _width(amount: Estimate) -> int:
    return amount.high - amount.low


def _sum(amounts: Iterable[Estimate]) -> Estimate:
    parts = list(amounts)
    return Estimate(sum(one.low for one in parts), sum(one.best for one in parts), sum(one.high for one in parts))


def _estimate(printed: ByteRange) -> Estimate:
    return Estimate(printed.low, printed.best, printed.high)
