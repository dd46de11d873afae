"""Requests of which only the prompts and the outputs are known, each by themselves.

Which prompt had which output decides how much is held: with long prompts before long outputs more than with any other
pairing (comonotone), with long prompts before short outputs less (antimonotone). What is held is then larger, or
smaller, at every quantile, as a request's steps at or above any length are supermodular in its two lengths and the
mean output stays. In between lies independence, which is a guess.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.capacity.occupancy.steps import Cells, Weights
from service.capacity.workload import Marginal

_POINTS = 16
"""Requests that stand for a stretch of both lengths that rise or fall together."""

Piece = tuple[int, int, float]
"""Lengths in (lower, upper], and the share of requests that spread evenly over them."""


def pieces_of(marginal: Marginal, window: int) -> list[Piece]:
    """Place requests in their bins so that their measured sum comes out, shorter ones first.

    In every bin one share of them spreads evenly and the rest is as short, or as long, as the bin allows: where the sum
    is lower, or higher, than that of an even spread. An open bin ends at the window.
    """
    bins = [(b.lower, max(window, b.lower + 1) if b.upper is None else b.upper, b.count) for b in marginal.bins]
    requests = sum(count for _, _, count in bins)
    if marginal.tokens is None:
        return [(lower, upper, count / requests) for lower, upper, count in bins]
    twice_even = sum(count * (lower + 1 + upper) for lower, upper, count in bins)
    is_short = 2 * marginal.tokens <= twice_even
    end = sum(count * (lower + 1 if is_short else upper) for lower, upper, count in bins)
    even = 1.0 if 2 * end == twice_even else (2 * marginal.tokens - 2 * end) / (twice_even - 2 * end)
    even = min(max(even, 0.0), 1.0)
    found: list[Piece] = []
    for lower, upper, count in bins:
        share = count / requests
        spread, at_end = (lower, upper, share * even), (lower, lower + 1) if is_short else (upper - 1, upper)
        pair = [(*at_end, share * (1 - even)), spread]
        found += pair if is_short else pair[::-1]
    return [piece for piece in found if piece[2] > 0]


def independent(prompts: Sequence[Piece], outputs: Sequence[Piece]) -> Cells:
    """Every prompt with every output."""
    bounds = [(*prompt[:2], *output[:2]) for prompt in prompts for output in outputs]
    shares = np.outer([share for *_, share in prompts], [share for *_, share in outputs]).ravel()
    return Cells(np.array(bounds, dtype=np.int64), shares)


def together(prompts: Sequence[Piece], outputs: Sequence[Piece]) -> Cells:
    """Sort both and pair them one by one; outputs in falling order make the opposite pairing."""
    ends = [np.concatenate([[0.0], np.cumsum([share for *_, share in side])]) for side in (prompts, outputs)]
    cuts = np.unique(np.concatenate([side / side[-1] for side in ends]))
    inside = (np.arange(_POINTS) + 0.5) / _POINTS
    at = (cuts[:-1, None] + inside * np.diff(cuts)[:, None]).ravel()
    found = [_quantiles(side, end / end[-1], at) for side, end in zip((prompts, outputs), ends, strict=True)]
    bounds = np.stack([found[0] - 1, found[0], found[1] - 1, found[1]], axis=1)
    return Cells(bounds, np.repeat(np.diff(cuts) / _POINTS, _POINTS))


def falling(pieces: Sequence[Piece]) -> list[Piece]:
    """The same lengths from the longest to the shortest: read back to front, with its ends changed."""
    return [(upper, lower, share) for lower, upper, share in reversed(pieces)]


def _quantiles(pieces: Sequence[Piece], ends: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.int64]:
    number = np.minimum(np.searchsorted(ends, at, side="right") - 1, len(pieces) - 1)
    first = np.array([piece[0] for piece in pieces], dtype=np.int64)[number]
    last = np.array([piece[1] for piece in pieces], dtype=np.int64)[number]
    width = ends[number + 1] - ends[number]
    part = np.clip((at - ends[number]) / np.where(width > 0, width, 1), 0, 1)
    # Falling pieces go from upper down to lower: the length whose place in its bin the part names, either way.
    rising = last >= first
    up = first + np.ceil(part * (last - first)).astype(np.int64)
    down = first - np.floor(part * (first - last)).astype(np.int64)
    return np.where(rising, np.maximum(up, first + 1), np.maximum(down, last + 1))


def with_mean(weights: Weights, mean: float) -> Weights:
    """Stretch what is held until its mean is as measured: every length by the same factor."""
    tokens = np.arange(len(weights), dtype=np.float64)
    stretched = tokens * (mean * weights.sum() / (weights * tokens).sum())
    whole = np.floor(stretched).astype(np.int64)
    above = stretched - whole
    size = int(whole[-1]) + 2
    parts = (np.bincount(whole, weights * (1 - above), size), np.bincount(whole + 1, weights * above, size))
    return np.asarray(parts[0] + parts[1], dtype=np.float64)


def widest(least: Weights, most: Weights, mean: float) -> Weights:
    """Of all that may be held between two distributions, with a mean: the one that varies most.

    The shorter part as in the one, the longer part as in the other, parted where the mean comes out.
    """
    low, high = _cumulative(least, most)
    tokens = np.arange(len(low))

    def parted(share: float) -> Weights:
        both = np.minimum(low, share) + np.maximum(high, share) - share
        return np.diff(both, prepend=0.0)

    begin, end = 0.0, 1.0
    for _ in range(60):
        middle = (begin + end) / 2
        if float((parted(middle) * tokens).sum()) > mean:
            begin = middle
        else:
            end = middle
    return parted(end)


def narrowest(least: Weights, most: Weights, mean: float) -> Weights:
    """Of all that may be held between two distributions, with a mean: the one that varies least.

    The longer one's distribution up to some length and the shorter one's from there on, where the mean comes out.
    """
    low, high = _cumulative(least, most)
    # The mean is the sum of what lies above each length; a step further along swaps one of those.
    lengths = (1 - low).sum() + np.concatenate([[0.0], np.cumsum(low - high)])
    at = int(np.searchsorted(lengths, mean, side="right")) - 1
    at = min(max(at, 0), len(low) - 1)
    gap = lengths[at + 1] - lengths[at]
    part = min(max((mean - lengths[at]) / gap, 0.0), 1.0) if gap > 0 else 0.0
    both = np.concatenate([high[:at], low[at:]])
    both[at] = low[at] + part * (high[at] - low[at])
    return np.diff(both, prepend=0.0)


def _cumulative(least: Weights, most: Weights) -> tuple[Weights, Weights]:
    size = max(len(least), len(most))
    low, high = (
        np.pad(np.cumsum(side) / side.sum(), (0, size - len(side)), constant_values=1.0) for side in (least, most)
    )
    # Rounding and the points that stand for stretches may cross the two by a hair.
    return np.maximum(low, high), np.minimum(low, high)
