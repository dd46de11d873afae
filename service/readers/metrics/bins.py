"""From series of histograms to one list of bins: counts by bin, closed, brought to common edges, added up."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from service.capacity.workload import Bin
from service.errors import Fault, Refused
from service.readers.metrics.cumulative import Cumulative

CAP = "/workload/max_model_len"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The bins of one series that hold requests, each by itself, and what all its requests together had."""

    pointer: str
    place: str
    """Where in there it stands, for people; empty where the pointer says it all."""
    bins: tuple[Bin, ...]
    tokens: int | None

    @property
    def requests(self) -> int:
        """All requests that it counted."""
        return sum(part.count for part in self.bins)


def counted(series: Cumulative) -> Counted:
    """Count by bin what a classic histogram counts up to each edge. The first bin begins at 0 tokens."""
    bins: list[Bin] = []
    lower, before = 0, 0
    for edge, count in series.counts:
        upper = None if edge == math.inf else math.floor(edge)  # tokens are whole
        if count > before:
            if upper is not None and upper <= lower and upper > 0:
                detail = f"{series.place}: no length lies between {lower} and {edge:g}, where it counts requests"
                raise Refused(Fault(series.pointer, detail))
            bins.append(from_one(lower, upper, count - before))
        lower, before = lower if upper is None else upper, count
    return Counted(pointer=series.pointer, place=series.place, bins=tuple(bins), tokens=series.tokens)


def from_one(lower: int, upper: int | None, count: int) -> Bin:
    """A bin in which requests without a token count as of one: engines' first bins, of up to 1, hold both."""
    return Bin(0, 1, count) if upper == 0 else Bin(lower, upper, count)


def closed_at(longest: int | None, series: Counted) -> Counted:
    """Close a series' open bin at the longest request that its engine takes. Raises `Refused` for a contradiction."""
    if longest is None or not series.bins or series.bins[-1].upper is not None:
        return series
    last = series.bins[-1]
    if longest <= last.lower:
        detail = f"{last.count:,} requests had more than {last.lower:,} tokens ({series.place or series.pointer})"
        raise Refused(Fault(CAP, f"{longest:,} can't be the longest request: {detail}"))
    return msgspec.structs.replace(series, bins=(*series.bins[:-1], Bin(last.lower, longest, last.count)))


def merged(several: Sequence[Counted]) -> tuple[tuple[Bin, ...], int]:
    """Add up series by bin, and say how many of their edges had to go.

    An edge stays where no bin of any series lies across it: what two series say with different edges is known only of
    the bins that both their bins make up. Nothing is divided by a shape that nobody measured.

    Raises `Refused` where an open bin lies across edges of another series.
    """
    parts = [part for series in several for part in series.bins]
    lowers = sorted(part.lower for part in parts)
    uppers = sorted(_upper(part) for part in parts)
    edges = sorted({*lowers, *uppers})
    kept = [edge for edge in edges if bisect_left(lowers, edge) == bisect_right(uppers, edge)]
    if kept and kept[-1] == math.inf:
        # Each open bin may begin at a last edge of its own, but it must not reach over edges that others have.
        first = min(part.lower for part in parts if part.upper is None)
        if any(first < edge < math.inf for edge in edges):
            raise Refused(_needs_cap(several, first))
    counts: Counter[tuple[float, float]] = Counter()
    for part in parts:
        counts[kept[bisect_right(kept, part.lower) - 1], kept[bisect_left(kept, _upper(part))]] += part.count
    bins = (
        Bin(int(lower), None if upper == math.inf else int(upper), count)
        for (lower, upper), count in sorted(counts.items())
    )
    return tuple(bins), len(edges) - len(kept)


def tokens_of(several: Iterable[Counted]) -> int | None:
    """What all requests together had; null where one series doesn't say."""
    tokens = [series.tokens for series in several if series.bins]
    return None if None in tokens else sum(part for part in tokens if part is not None)


def _upper(part: Bin) -> float:
    return math.inf if part.upper is None else part.upper


def _needs_cap(several: Sequence[Counted], first: int) -> Fault:
    series = next(each for each in several if any(part.upper is None and part.lower == first for part in each.bins))
    detail = (
        f"is needed: {series.place or series.pointer} counts requests of more than {first:,} tokens without an upper"
        " edge, and others have edges above: give max_model_len of the engines, as a list with one for each text where"
        " they differ"
    )
    return Fault(CAP, detail)
