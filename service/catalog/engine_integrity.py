"""What has to hold for every engine release, bundled or written later: functions that list the faults of one."""

import re
from collections.abc import Iterator

from service.capacity.engine import Engine
from service.capacity.reserve_rules import HeldBack, Overhead, Profiled
from service.capacity.units import GIB
from service.catalog.integrity import figure_faults, key_faults

_KEY = re.compile(r"[a-z0-9.-]+(@[A-Za-z0-9.]+)?")

LEAST_OVERHEAD, MOST_OVERHEAD = -4 * GIB, 1024 * GIB
"""No card has a tebibyte, and no burst is counted four gibibytes too large."""


def engine_faults(key: str, spec: Engine) -> list[str]:
    """List what is wrong with an engine release: its key, sources, defaults or rules."""
    return [
        *key_faults(key, _KEY, "name or name@release"),
        # An engine may keep nothing back; then its reserve is 0 and says so.
        *figure_faults(spec, may_be_zero=("reserve_bytes",)),
        *_fraction_faults(spec),
        *_default_faults(spec),
        *_reserve_faults(spec),
        *_padding_faults(spec),
    ]


def _fraction_faults(spec: Engine) -> Iterator[str]:
    by_rule = isinstance(spec.reserve_rule, HeldBack)
    if spec.gpu_memory_utilization is None:
        if not by_rule:
            yield "gpu_memory_utilization: null only where the reserve's rule says it for each card"
    elif spec.gpu_memory_utilization.value > 1:
        yield "gpu_memory_utilization: a share of the reported memory is at most 1, not a percentage"


def _default_faults(spec: Engine) -> Iterator[str]:
    """Tiers are looked up from the first, which has to hold for every card."""
    for name in ("max_num_batched_tokens", "max_num_seqs"):
        default = getattr(spec, name)
        if default is None:
            continue
        starts = [start for start, _ in default.value.tiers]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            yield f"{name}: tiers begin at 0 bytes and rise"
        if any(value < 1 for _, value in default.value.tiers):
            yield f"{name}: a default is at least 1"


def _reserve_faults(spec: Engine) -> Iterator[str]:
    if spec.reserve_bytes is not None and spec.reserve_rule is not None:
        yield "reserve_rule: a flat reserve leaves nothing for a rule to say"
    if spec.reserve_rule is not None:
        for number, overhead in enumerate(spec.reserve_rule.overheads):
            yield from _overhead_faults(f"reserve_rule.overheads.{number}", overhead)
    if isinstance(spec.reserve_rule, Profiled):
        for number, tower in enumerate(spec.reserve_rule.towers):
            if not 0 <= tower.low <= tower.best <= tower.high:
                yield f"reserve_rule.towers.{number}: low, best and high rise from 0"
    for number, loaded in enumerate(spec.as_loaded):
        if not 0 < loaded.low <= loaded.best <= loaded.high:
            yield f"as_loaded.{number}: low, best and high rise from above 0"


def _overhead_faults(path: str, overhead: Overhead) -> Iterator[str]:
    """A constant may come out below nothing, where the burst that it stands beside is counted too large."""
    first, last = overhead.tensor_parallel
    if not overhead.low <= overhead.best <= overhead.high:
        yield f"{path}: low, best and high rise"
    if overhead.low < LEAST_OVERHEAD or overhead.high >= MOST_OVERHEAD:
        yield f"{path}: goes from no less than -4 GiB to less than 1 TiB"
    if not 1 <= first <= last:
        yield f"{path}: tensor_parallel goes from 1 rank or more to as many or more"
    if overhead.logs < 0 or not overhead.source.strip() or "\n" in overhead.source:
        yield f"{path}: says in one line where it is from, and on how many start-ups it was measured"


def _padding_faults(spec: Engine) -> Iterator[str]:
    for dtype, padding in spec.padded_formats.items():
        multiples = (padding.value.hidden, padding.value.width, *padding.value.width_on.values())
        if min(multiples) < 1:
            yield f"padded_formats: {dtype} is padded to multiples of at least 1"
        if not padding.source.strip() or "\n" in padding.source:
            yield f"padded_formats: {dtype} needs a source of one line"
