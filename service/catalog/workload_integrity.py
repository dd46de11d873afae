"""What has to hold for every named workload, bundled or written later: functions that list the faults of one."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from service.capacity.named_workload import NamedWorkload
from service.capacity.workload import Joint
from service.catalog.integrity import figure_faults, key_faults

_KEY = re.compile(r"[a-z0-9][a-z0-9._-]*")
_CODE = re.compile(r"[a-z]+(_[a-z]+)*")
_LICENCE = re.compile(r"[A-Za-z0-9.-]+")

_NARROW, _WIDEST = 16, 1.28
"""Three bins per octave, in whole tokens: 25 to 32 is the widest of them, and below 16 a bin may be an octave.
With 1-2-5 buckets the mean held comes out up to 24 % high, with three per octave up to 2 %."""

_OFF = 0.02
"""How far the mean of the bins, each count in the middle of its own, may lie from the mean of the requests."""

_FEW = 1000
"""Requests below which fewer than ten lie beyond a risk of 1 %."""


def workload_faults(key: str, spec: NamedWorkload) -> list[str]:
    """List what is wrong with a named workload: its key, sources, attribution, edges, counts, means or caveats."""
    return [
        *key_faults(key, _KEY, "small letters, digits, dots, dashes and underscores"),
        *figure_faults(spec),
        *_naming_faults(spec),
        *_lengths_faults(spec),
        *_caveat_faults(spec),
    ]


def _naming_faults(spec: NamedWorkload) -> Iterator[str]:
    """A licence that asks for attribution asks whom to name, under which licence, and what was changed."""
    for name in ("about", "attribution"):
        text = getattr(spec, name)
        if not text.strip() or "\n" in text:
            yield f"{name}: is one line that isn't empty"
    if not _LICENCE.fullmatch(spec.licence):
        yield f"licence: {spec.licence!r} is no name of SPDX"
    if spec.licence not in spec.attribution or "Changed: " not in spec.attribution:
        yield f"attribution: names the licence, {spec.licence}, and says after 'Changed: ' what was changed"


def _lengths_faults(spec: NamedWorkload) -> Iterator[str]:
    lengths = spec.lengths.value
    edge_faults = [*_edge_faults("prompt", lengths.prompt_edges), *_edge_faults("output", lengths.output_edges)]
    yield from edge_faults
    count_faults = [*_count_faults(lengths)]
    yield from count_faults
    requests = sum(count for _, _, count in lengths.counts)
    if requests != spec.requests.value:
        yield f"lengths: the counts add up to {requests} requests, and there are {spec.requests.value}"
    if edge_faults or count_faults:
        return
    for side, mean in (("prompt", spec.mean_prompt_tokens.value), ("output", spec.mean_output_tokens.value)):
        in_bins = _mean_of_bins(lengths, side)
        if abs(in_bins - mean) > _OFF * mean:
            yield f"mean_{side}_tokens: {mean} is not within {_OFF:.0%} of the {in_bins:.1f} of the bins"


def _edge_faults(side: str, edges: tuple[int | None, ...]) -> Iterator[str]:
    """Requests that are all known leave no bin open."""
    closed = [edge for edge in edges if edge is not None]
    if len(closed) < len(edges) or closed[:1] != [0] or sorted(set(closed)) != closed:
        yield f"lengths: {side}_edges begin at 0 and rise, and the last is one too"
        return
    for lower, upper in pairwise(closed):
        if lower >= _NARROW and upper > _WIDEST * lower:
            yield f"lengths: {side}_edges: from {lower} to {upper} is wider than a third of an octave"


def _count_faults(lengths: Joint) -> Iterator[str]:
    """The normal form: sorted, each cell once, none empty; the digest of the entry is one of these bytes."""
    if not lengths.counts:
        yield "lengths: there is no request"
    cells = [(i, j) for i, j, _ in lengths.counts]
    if sorted(set(cells)) != cells:
        yield "lengths: counts are sorted by bins, each pair of bins once"
    if any(count < 1 for _, _, count in lengths.counts):
        yield "lengths: a count is at least 1; empty bins are left out"
    sizes = (len(lengths.prompt_edges) - 1, len(lengths.output_edges) - 1)
    if any(not 0 <= index < size for cell in cells for index, size in zip(cell, sizes, strict=True)):
        yield f"lengths: counts are of bins 0 to {sizes[0] - 1} and 0 to {sizes[1] - 1}"


def _mean_of_bins(lengths: Joint, side: str) -> float:
    edges = lengths.prompt_edges if side == "prompt" else lengths.output_edges
    counts: Counter[int] = Counter()
    for i, j, count in lengths.counts:
        counts[i if side == "prompt" else j] += count
    tokens = sum(count * ((edges[at] or 0) + 1 + (edges[at + 1] or 0)) for at, count in counts.items())
    return tokens / (2 * counts.total())


def _caveat_faults(spec: NamedWorkload) -> Iterator[str]:
    codes = [one.code for one in spec.caveats]
    if len(set(codes)) < len(codes):
        yield "caveats: each code comes once"
    for one in spec.caveats:
        if not _CODE.fullmatch(one.code) or not one.text.strip() or "\n" in one.text:
            yield f"caveats: {one.code!r} is a code of small letters and underscores, with a text of one line"
    if spec.requests.value < _FEW and "few_rows" not in codes:
        yield f"caveats: {spec.requests.value} requests are few, which few_rows says"
