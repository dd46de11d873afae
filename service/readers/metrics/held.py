"""What a running request held on average, from how full the cache was and how many requests were running."""

from collections.abc import Iterable, Sequence

import msgspec

from service.capacity.workload import Found
from service.errors import Fault, Refused
from service.readers.metrics.names import CAPACITY_INFO, CAPACITY_TOKENS, RUNNING, USED_SHARE, USED_TOKENS
from service.readers.metrics.pools import Pools
from service.readers.metrics.samples import Labels, Sample


class Gauge(msgspec.Struct, frozen=True):
    """One value of one series at one time, and where it stands."""

    pointer: str
    place: str
    labels: Labels
    value: float

    def fault(self, text: str) -> Fault:
        """A fault of this value."""
        return Fault(self.pointer, f"{self.place}: {text}" if self.place else text)


class Held(msgspec.Struct, frozen=True):
    """Tokens held and requests running, added up over engines and moments."""

    tokens: float = 0.0
    running: float = 0.0
    by_blocks: bool = False
    """Whether a capacity is blocks times their size: so many tokens only where every layer keeps all of them."""
    unknown: tuple[str, ...] = ()
    """Why engines are left out."""

    def and_also(self, other: "Held") -> "Held":
        """Both together."""
        unknown = tuple(dict.fromkeys(self.unknown + other.unknown))
        by_blocks = self.by_blocks or other.by_blocks
        return Held(self.tokens + other.tokens, self.running + other.running, by_blocks, unknown)


def held_in(samples: Sequence[Sample], pointer: str) -> Held:
    """Read what was held at the moment of one scrape of one text."""

    def gauges(names: Iterable[str]) -> list[Gauge]:
        for name in names:
            if found := [sample for sample in samples if sample.name == name]:
                return [Gauge(pointer, f"line {each.line}", each.labels, each.value) for each in found]
        return []

    running = gauges(RUNNING)
    if used := gauges(USED_TOKENS):
        return held_of([(each, each.value) for each in used], running)
    capacities = [*gauges(CAPACITY_TOKENS), *gauges(CAPACITY_INFO)]
    return held(gauges(USED_SHARE), running, capacities)


def held(shares: Sequence[Gauge], running: Sequence[Gauge], capacities: Sequence[Gauge]) -> Held:
    """Multiply each share of a cache by its capacity. Raises `Refused` for a share above 1."""
    pools = Pools((gauge.labels, gauge.value) for gauge in capacities)
    used: list[tuple[Gauge, float]] = []
    unknown: dict[str, None] = {}
    any_by_blocks = False
    for share in shares:
        if not 0 <= share.value <= 1:
            raise Refused(share.fault(f"{share.value:g} is no share of a cache: it goes from 0 to 1"))
        pool = pools.tokens_for(share.labels)
        if isinstance(pool, str):
            unknown[pool] = None
        else:
            capacity, by_blocks = pool
            any_by_blocks = any_by_blocks or by_blocks
            used.append((share, share.value * capacity))
    return held_of(used, running).and_also(Held(by_blocks=any_by_blocks, unknown=tuple(unknown)))


def held_of(used: Sequence[tuple[Gauge, float]], running: Sequence[Gauge]) -> Held:
    """Pair the tokens that engines hold with the requests that they run, by their labels."""
    by_labels: dict[Labels, float] = {}
    for gauge in running:
        if not 0 <= gauge.value < float("inf"):
            raise Refused(gauge.fault(f"{gauge.value:g} is no number of running requests"))
        by_labels[gauge.labels] = gauge.value
    tokens = requests = 0.0
    unknown: tuple[str, ...] = ()
    for gauge, amount in used:
        if not 0 <= amount < float("inf"):
            raise Refused(gauge.fault(f"{gauge.value:g} is no number of tokens"))
        if gauge.labels in by_labels:
            tokens += amount
            requests += by_labels[gauge.labels]
        else:
            unknown = ("no running requests are counted under the same labels",)
    return Held(tokens, requests, unknown=unknown)


def mean_held(found: Held, moments: str) -> tuple[float | None, list[Found]]:
    """Divide what was held by what ran, and say how it was measured, or why it wasn't."""
    if found.running > 0 and found.tokens > 0:
        mean = found.tokens / found.running
        by_blocks = " The cache is taken as blocks x block size: right for models with one kind of cache only."
        left_out = f" Engines were left out of it: {'; '.join(found.unknown)}."
        text = (
            f"A running request held {mean:,.1f} tokens {moments}, in whole blocks; a prefix that requests share counts"
            f" once in it.{by_blocks if found.by_blocks else ''}{left_out if found.unknown else ''}"
        )
        return mean, [Found("mean_held_is_measured", text)]
    if found.unknown:
        text = f"How full the cache was is known, and not what requests held: {'; '.join(found.unknown)}."
        return None, [Found("mean_held_is_unknown", text)]
    return None, []
