"""From a workload as written to its normal form: bins sorted and merged, edges checked."""

from collections import Counter
from itertools import pairwise

from service.capacity.errors import Fault, Refused
from service.capacity.workload import Bin, Joint, Mean, Rows, Total, Workload
from service.readers.question import MOST, AskedJoint, AskedMean, AskedRows, AskedTotal, AskedWorkload


def normal_form(asked: AskedWorkload) -> Workload:
    """Bring a workload into the form that is hashed and planned. Raises `Refused` for bins that mean nothing."""
    match asked:
        case AskedMean():
            return Mean(tokens=asked.tokens)
        case AskedTotal():
            return Total(bins=_bins(asked))
        case AskedJoint():
            return Joint(
                prompt_edges=_checked_edges("prompt_edges", asked.prompt_edges),
                output_edges=_checked_edges("output_edges", asked.output_edges),
                counts=_cells(asked),
            )
        case AskedRows():
            return Rows(rows=asked.rows, ordered=asked.ordered)


def _bins(asked: AskedTotal) -> tuple[Bin, ...]:
    counts: Counter[int] = Counter()
    beyond: int | None = None
    for part in asked.bins:
        if part.upper is None:
            beyond = (beyond or 0) + part.count
        else:
            counts[part.upper] += part.count
    uppers = sorted(counts)
    closed = [Bin(lower, upper, counts[upper]) for lower, upper in zip([0, *uppers], uppers, strict=False)]
    if beyond is not None:
        closed.append(Bin(uppers[-1] if uppers else 0, None, beyond))
    bins = tuple(part for part in closed if part.count)
    _check_requests("/workload/bins", sum(part.count for part in bins))
    return bins


def _checked_edges(name: str, edges: tuple[int | None, ...]) -> tuple[int | None, ...]:
    for index, (lower, upper) in enumerate(pairwise(edges)):
        if lower is None:
            raise Refused(Fault(f"/workload/{name}/{index}", "only the last edge may be null, for an open bin"))
        if upper is not None and upper <= lower:
            raise Refused(Fault(f"/workload/{name}/{index + 1}", f"edges must rise: {upper} comes after {lower}"))
    return edges


def _cells(asked: AskedJoint) -> tuple[tuple[int, int, int], ...]:
    sizes = (len(asked.prompt_edges) - 1, len(asked.output_edges) - 1)
    counts: Counter[tuple[int, int]] = Counter()
    for index, (i, j, count) in enumerate(asked.counts):
        for axis, (position, size) in enumerate(zip((i, j), sizes, strict=True)):
            if position >= size:
                detail = f"there is no bin {position}: so many edges make bins 0 to {size - 1}"
                raise Refused(Fault(f"/workload/counts/{index}/{axis}", detail))
        counts[i, j] += count
    cells = tuple((i, j, count) for (i, j), count in sorted(counts.items()) if count)
    _check_requests("/workload/counts", sum(count for _, _, count in cells))
    return cells


def _check_requests(pointer: str, requests: int) -> None:
    if not requests:
        raise Refused(Fault(pointer, "all counts are zero; give at least one request"))
    if requests > MOST:
        raise Refused(Fault(pointer, f"the counts add up to {requests:,} requests; the most is {MOST:,}"))
