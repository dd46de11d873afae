"""From a workload as written to its normal form: bins sorted and merged, edges checked."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from service.capacity.errors import Fault, Refused
from service.capacity.workload import Bin, Found, Joint, Marginal, Marginals, Mean, Rows, Total, Workload
from service.readers.metrics.evidence import can_be_held, checked, placed
from service.readers.metrics.reading import read_prometheus
from service.readers.question import (
    MOST,
    AskedBin,
    AskedJoint,
    AskedMarginal,
    AskedMarginals,
    AskedMean,
    AskedPrometheus,
    AskedRows,
    AskedTotal,
    AskedWorkload,
)


def normal_form(asked: AskedWorkload) -> Workload:
    """Bring a workload into the form that is hashed and planned. Raises `Refused` for bins that mean nothing."""
    match asked:
        case AskedMean():
            return Mean(tokens=asked.tokens)
        case AskedTotal():
            return Total(bins=_bins(asked.bins, "/workload/bins"))
        case AskedJoint():
            return Joint(
                prompt_edges=_checked_edges("prompt_edges", asked.prompt_edges),
                output_edges=_checked_edges("output_edges", asked.output_edges),
                counts=_cells(asked),
            )
        case AskedRows():
            return Rows(rows=asked.rows, ordered=asked.ordered)
        case AskedMarginals():
            return _marginals(asked)
        case AskedPrometheus():
            return read_prometheus(asked)


def _marginals(asked: AskedMarginals) -> Marginals:
    prompt, prompt_found = _marginal("prompts", asked.prompt, "/workload/prompt")
    output, output_found = _marginal("outputs", asked.output, "/workload/output")
    if asked.mean_held_tokens is not None and not can_be_held(asked.mean_held_tokens, prompt, output):
        detail = f"{asked.mean_held_tokens:,.1f} is more than the longest prompt and the longest output together"
        raise Refused(Fault("/workload/mean_held_tokens", detail))
    found = (*prompt_found, *output_found)
    marginals = Marginals(prompt=prompt, output=output, mean_held_tokens=asked.mean_held_tokens, found=found)
    pointers = ("/workload/prompt/bins", "/workload/output/bins")
    return checked(marginals, pointers, "give the last bin its upper edge, the longest request that was possible")


def _marginal(words: str, asked: AskedMarginal, pointer: str) -> tuple[Marginal, list[Found]]:
    bins = _bins(asked.bins, f"{pointer}/bins")
    tokens, found = placed(f"{pointer}/tokens", f"tokens of the {words}", bins, asked.tokens)
    return Marginal(bins=bins, tokens=tokens), found


def _bins(asked: Iterable[AskedBin], pointer: str) -> tuple[Bin, ...]:
    counts: Counter[int] = Counter()
    beyond: int | None = None
    for part in asked:
        if part.upper is None:
            beyond = (beyond or 0) + part.count
        else:
            counts[part.upper] += part.count
    uppers = sorted(counts)
    closed = [Bin(lower, upper, counts[upper]) for lower, upper in zip([0, *uppers], uppers, strict=False)]
    if beyond is not None:
        closed.append(Bin(uppers[-1] if uppers else 0, None, beyond))
    bins = tuple(part for part in closed if part.count)
    _check_requests(pointer, sum(part.count for part in bins))
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
