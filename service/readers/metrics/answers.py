"""Histograms as Prometheus' HTTP API answers them: classic ones by `le`, native ones with their buckets."""

import math
from collections.abc import Sequence

from service.capacity.workload import Bin, Found
from service.errors import Fault, Refused
from service.readers.metrics.bins import Counted, counted, from_one
from service.readers.metrics.cumulative import Cumulative, edge_of
from service.readers.metrics.envelope import NativeHistogram, PrometheusAnswer, PrometheusSeries
from service.readers.metrics.samples import Labels, said
from service.readers.question import MOST

_SLIGHT = 0.01
"""The share of a series' requests by which the estimates of `increase` may contradict each other."""
_ROUNDING = 1e-6


def series_of(answer: PrometheusAnswer | None, pointer: str) -> tuple[PrometheusSeries, ...]:
    """The elements of an answer. Raises `Refused` for an error, and for an answer without elements."""
    if answer is None:
        return ()
    if answer.status == "error":
        said_why = ": ".join(part[:200] for part in (answer.error_type, answer.error) if part)
        raise Refused(Fault(pointer, f"Prometheus answered with an error{': ' if said_why else ''}{said_why}"))
    if answer.data is None or not answer.data.result:
        raise Refused(Fault(f"{pointer}/data/result", "is empty: no series has this name and these labels"))
    return answer.data.result


def value_at(series: PrometheusSeries, pointer: str) -> float:
    """The value of an element. Raises `Refused` for what is no number, NaN and infinity included."""
    if series.value is None:
        raise Refused(Fault(pointer, "has no value: a native histogram tells lengths, not one figure"))
    value = _number(series.value[1], f"{pointer}/value/1")
    if not math.isfinite(value):
        raise Refused(Fault(f"{pointer}/value/1", f"{series.value[1]} is no figure to reckon with"))
    return value


def histograms_of(answer: PrometheusAnswer, pointer: str) -> tuple[list[Counted], list[Found]]:
    """Read each histogram of an answer, and what had to be repaired. Raises `Refused` for a contradiction."""
    elements = [(f"{pointer}/data/result/{index}", series) for index, series in enumerate(series_of(answer, pointer))]
    native = [
        _native(series.histogram[1], f"{at}/histogram/1") for at, series in elements if series.histogram is not None
    ]
    classic: dict[Labels, list[tuple[str, PrometheusSeries]]] = {}
    for at, series in elements:
        if series.histogram is None:
            labels = tuple(sorted((name, value) for name, value in series.metric.items() if name != "le"))
            classic.setdefault(labels, []).append((at, series))
    if native and classic:
        at = next(iter(classic.values()))[0][0]
        raise Refused(Fault(at, "is a bucket of a classic histogram beside native ones: ask for one of the two"))
    found: list[Found] = []
    read = [_classic(labels, parts, pointer, found) for labels, parts in classic.items()]
    return [*native, *read], found


def _classic(
    labels: Labels, parts: Sequence[tuple[str, PrometheusSeries]], pointer: str, found: list[Found]
) -> Counted:
    by_edge: dict[float, float] = {}
    for at, series in parts:
        edge = edge_of(series.metric.get("le"))
        if edge is None:
            raise Refused(Fault(f"{at}/metric/le", "is no upper edge: keep le, as in sum by (le) (increase(...))"))
        if edge in by_edge:
            raise Refused(Fault(at, "is another series of the same labels: sum by (le)"))
        value = _number(series.value[1] if series.value else "", f"{at}/value/1")
        if value < 0 or value > MOST:
            raise Refused(Fault(f"{at}/value/1", f"{value:g} is no count of requests"))
        by_edge[edge] = value
    unknown = [edge for edge, value in by_edge.items() if math.isnan(value)]
    if math.isnan(by_edge.get(math.inf, math.nan)):
        raise Refused(Fault(f"{pointer}/data/result", f'{said(labels)} has no number at le="+Inf"'))
    if unknown:
        text = f"{len(unknown)} of {len(by_edge)} buckets were NaN: their requests count in the next wider ones."
        found.append(Found("buckets_are_not_a_number", text))
    counts = _rising(sorted((edge, value) for edge, value in by_edge.items() if edge not in unknown))
    slight = max(1.0, _SLIGHT * counts[-1][1])
    worst = max(risen - by_edge[edge] for edge, risen in counts)
    if worst > slight:
        detail = f"the counts of {said(labels)} fall by {worst:g} from one edge to the next: they contradict each other"
        raise Refused(Fault(f"{pointer}/data/result", detail))
    if worst > 0:
        text = f"Counts fell from one edge to the next by up to {worst:.3g} and were kept at what came before."
        found.append(Found("counts_were_repaired", text))
    # Rounded as they add up, so that all bins together are off by half a request at most.
    whole = tuple((edge, round(count)) for edge, count in counts)
    place = "" if not labels else said(labels)
    return counted(Cumulative(pointer=f"{pointer}/data/result", place=place, labels=labels, counts=whole, tokens=None))


def _rising(counts: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same with its running maximum: `increase` extrapolates each bucket by itself."""
    highest = 0.0
    rising: list[tuple[float, float]] = []
    for edge, count in counts:
        highest = max(highest, count)
        rising.append((edge, highest))
    return rising


def _native(histogram: NativeHistogram, pointer: str) -> Counted:
    exact: list[tuple[int, int | None, float]] = []
    for index, (rule, left, right, count) in enumerate(histogram.buckets):
        at = f"{pointer}/buckets/{index}"
        number = _number(count, f"{at}/3")
        if not 0 <= number <= MOST:
            raise Refused(Fault(f"{at}/3", f"{count} is no count of requests"))
        if number:
            lower, upper = _whole_edges(rule, _number(left, f"{at}/1"), _number(right, f"{at}/2"))
            if lower is None or (upper is not None and upper <= lower and upper != 0):
                raise Refused(Fault(at, f"no length lies between {left} and {right}, where it counts {count} requests"))
            exact.append((lower, upper, number))
    exact.sort(key=lambda part: part[0])
    total, buckets = _number(histogram.count, f"{pointer}/count"), math.fsum(number for _, _, number in exact)
    if not abs(total - buckets) <= max(_ROUNDING * buckets, _ROUNDING):  # also for NaN
        detail = f"is {histogram.count}, and its buckets count {buckets:g}: one of the two is wrong"
        raise Refused(Fault(f"{pointer}/count", detail))
    bins: list[Bin] = []
    so_far = 0.0
    for lower, upper, number in exact:
        whole = round(so_far + number) - round(so_far)
        so_far += number
        if whole:
            bins.append(from_one(lower, upper, whole))
    tokens = _number(histogram.sum, f"{pointer}/sum")
    known = 0 <= tokens <= MOST
    return Counted(pointer=pointer, place="", bins=tuple(bins), tokens=round(tokens) if known else None)


def _whole_edges(rule: int, left: float, right: float) -> tuple[int | None, int | None]:
    """The whole lengths of a bucket as (lower, upper]; no lower where there are none, no upper up to infinity.

    Rule 0 is without its left edge, 1 without its right, 2 without both, 3 with both.
    """
    if not right >= 0 or math.isnan(left) or left == math.inf:
        return None, None
    with_left, with_right = rule in {1, 3}, rule in {0, 3}
    last = math.floor if with_right else (lambda edge: math.ceil(edge) - 1)
    upper = None if right == math.inf else last(right)
    if left < 0:
        return 0, upper
    lower = math.ceil(left) - 1 if with_left else math.floor(left)
    return max(lower, 0), upper


def _number(text: str, pointer: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused(Fault(pointer, f"{text[:40]!r} is not a number")) from None
