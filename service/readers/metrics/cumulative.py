"""Classic histograms as engines expose them: cumulative counts by upper edge, checked."""

import math
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from service.errors import Fault
from service.readers.metrics.samples import Labels, Sample, said
from service.readers.question import MOST


class Cumulative(msgspec.Struct, frozen=True, kw_only=True):
    """One series of a histogram. `counts` are (upper edge, requests of at most so many tokens), rising to infinity."""

    pointer: str
    """Where the caller's document holds it."""
    place: str
    """Where in there it stands, for people."""
    labels: Labels
    counts: tuple[tuple[float, int], ...]
    tokens: int | None
    """What all its requests together had; null: not exposed."""

    @property
    def requests(self) -> int:
        """All requests that it counted."""
        return self.counts[-1][1]


class _Parts(msgspec.Struct):
    """The samples of one series by what they are."""

    buckets: list[Sample] = msgspec.field(default_factory=list)
    sums: list[Sample] = msgspec.field(default_factory=list)
    counts: list[Sample] = msgspec.field(default_factory=list)


def histograms_in(samples: Iterable[Sample], family: str, pointer: str) -> tuple[dict[Labels, Cumulative], list[Fault]]:
    """Read each series of a histogram, keyed by all its labels but `le`, and what is wrong with those left out."""
    series: dict[Labels, _Parts] = {}
    for sample in samples:
        if not sample.name.startswith(f"{family}_"):
            continue
        parts = series.setdefault(tuple(label for label in sample.labels if label[0] != "le"), _Parts())
        match sample.name.removeprefix(family):
            case "_bucket":
                parts.buckets.append(sample)
            case "_sum":
                parts.sums.append(sample)
            case "_count":
                parts.counts.append(sample)
    read: dict[Labels, Cumulative] = {}
    faults: list[Fault] = []
    for labels, parts in series.items():
        try:
            read[labels] = _read(parts, family, labels, pointer)
        except ValueError as error:
            faults.append(Fault(pointer, f"{family}{said(labels)}: {error}"))
    return read, faults


def _read(parts: _Parts, family: str, labels: Labels, pointer: str) -> Cumulative:
    """Check one series as step 2 of ingestion does. Raises `ValueError` that says what is wrong on which line."""
    edges = _by_edge(parts.buckets)
    counts = [(edge, _whole(sample)) for edge, sample in sorted(edges.items())]
    if not counts or counts[-1][0] != math.inf:
        raise ValueError('there is no bucket le="+Inf"')
    for (_, before), (edge, count) in pairwise(counts):
        if count < before:
            raise ValueError(f"line {edges[edge].line}: its counts must not fall, and {count:,} comes after {before:,}")
    total = _only(parts.counts, "_count")
    if total is None:
        raise ValueError("it has no _count: the text may be cut")
    if _whole(total) != counts[-1][1]:
        raise ValueError(
            f"line {total.line}: _count is {_whole(total):,} and the bucket of +Inf counts {counts[-1][1]:,}:"
            " one of the two is wrong"
        )
    tokens = _only(parts.sums, "_sum")
    lines = [sample.line for sample in parts.buckets]
    return Cumulative(
        pointer=pointer,
        place=f"lines {min(lines)} to {max(lines)}, {family}{said(labels)}",
        labels=labels,
        counts=tuple(counts),
        tokens=None if tokens is None else _whole(tokens),
    )


def _by_edge(buckets: list[Sample]) -> dict[float, Sample]:
    edges: dict[float, Sample] = {}
    for sample in buckets:
        written = dict(sample.labels).get("le")
        edge = edge_of(written)
        if edge is None:
            raise ValueError(f"line {sample.line}: le={written!r:.40} is no upper edge of a bucket")
        if edge in edges:
            raise ValueError(_twice(edges[edge], sample))
        edges[edge] = sample
    return edges


def edge_of(written: str | None) -> float | None:
    """The upper edge that a label says; null where it says none. `1` and `1.0` are the same edge."""
    try:
        edge = float(written or "")
    except ValueError:
        return None
    return None if math.isnan(edge) or edge < 0 else edge


def _only(samples: list[Sample], suffix: str) -> Sample | None:
    if len(samples) > 1:
        raise ValueError(f"{suffix}: {_twice(*samples[:2])}")
    return samples[0] if samples else None


def _twice(first: Sample, second: Sample) -> str:
    return f"lines {first.line} and {second.line} are of the same series: give the text of each pod by itself"


def _whole(sample: Sample) -> int:
    if not (0 <= sample.value <= MOST and sample.value == int(sample.value)):  # also for NaN
        raise ValueError(f"line {sample.line}: {sample.value} is no count of requests or tokens")
    return int(sample.value)
