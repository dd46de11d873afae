"""What is known of request lengths, and what a running request holds because of it.

A request with a prompt of P tokens and an output of O runs O decode steps; at step g = 0..O-1 it holds P + g
tokens (the step that samples token g + 1 has P + g slots written; the last sampled token is never written).
Seen at a random step, a request therefore weighs as many steps as it runs: by renewal-reward the mean of any cost c
is `sum over requests, steps of c(P + g) / sum of O`. All sums here are exact integers or fractions; `occupancy` has
the same steps as a distribution. What an engine adds to O steps (`Running`): a prompt longer than `chunk` holds its
place for ceil(P / chunk) - 1 steps before the one that ends its prefill, and a decode step yields `accepted` tokens.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from operator import mul
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.errors import Fault, Refused
from service.capacity.prefix_sums import PrefixSums, pairs_beyond
from service.capacity.units import ceil_div, exact, six_digits
from service.capacity.workload import Joint, Mean, Paired, Rows, Total, table_of

Tokens = NDArray[np.int64]

LONGEST_WINDOW = 2**24
"""Tokens up to which a window is weighed length by length; the longest that models have is 10,485,760."""
_SLICE = 2**20
"""Lengths that are priced at a time: what their cost takes on the way is small beside the result."""

Cost = Callable[[Tokens], NDArray[np.int64]]
"""Blocks that one request takes, for each of these numbers of held tokens."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs requests, as far as it changes what they hold."""

    window: int
    """Tokens that a request gets at most."""
    chunk: int | None = None
    """Tokens of one step; null: a prompt is prefilled in one step."""
    accepted: float = 1.0
    """Tokens that a decode step yields on average, a draft's that were accepted included."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a running request holds on average, and what became of the requests that the window cuts."""

    requests: int
    blocks: Fraction
    """Mean blocks held: weighted by decode steps (`rows`, `joint`), or by requests (`mean`, `total`)."""
    tokens: Fraction
    rejected_share: Fraction
    """Share of requests whose prompt leaves no room in the window for one output token."""
    truncated_share: Fraction
    """Share of requests that are held as cut at the window."""
    length_weighted_blocks: Fraction | None
    """`total` only: mean blocks with each request weighted by its length, the other end of what is possible."""
    confidence: Literal["high", "medium", "low"]

    @cached_property
    def shown(self) -> tuple[float, float, float, float]:
        """Tokens, blocks, and the shares rejected and truncated, as an answer rounds them: once for all answers."""
        tokens, blocks, rejected, truncated = map(
            six_digits, (self.tokens, self.blocks, self.rejected_share, self.truncated_share)
        )
        return tokens, blocks, rejected, truncated


def held(workload: Paired, *, running: Running, cost: Cost) -> Held:
    """Work out what a running request of this workload holds on average.

    `cost` gives the blocks that a request takes while it holds so many tokens.

    Raises `Refused` when no request fits, a mean passes the window, or the window is longer than can be weighed.
    """
    window = running.window
    if not isinstance(workload, Mean):
        check_window(window)
    match workload:
        case Mean():
            return _held_mean(workload, window, cost)
        case Total():
            return _held_total(workload, window, cost)
        case Joint():
            return _held_joint(workload, running, cost)
        case Rows():
            return _held_rows(workload, running, cost)


def check_window(window: int) -> None:
    """Refuse a window that is too long to weigh lengths in."""
    if window > LONGEST_WINDOW:
        detail = f"lengths are weighed in windows of up to {LONGEST_WINDOW:,} tokens; this one has {window:,}"
        raise Refused(Fault("/workload", detail))


def _held_mean(workload: Mean, window: int, cost: Cost) -> Held:
    if workload.tokens > window:
        raise Refused(
            Fault("/workload/tokens", f"a mean of {workload.tokens:,} tokens passes the window of {window:,}")
        )
    return Held(
        requests=1,
        blocks=Fraction(int(cost(np.array([workload.tokens]))[0])),
        tokens=Fraction(workload.tokens),
        rejected_share=Fraction(0),
        truncated_share=Fraction(0),
        length_weighted_blocks=None,
        confidence="low",
    )


def _held_total(workload: Total, window: int, cost: Cost) -> Held:
    lengths = _tokens_up_to(window)
    blocks = _costs(cost, lengths)
    counts = [part.count for part in workload.bins]
    bounds = np.array([(part.lower, closed(part.upper, part.lower, window)) for part in workload.bins], dtype=np.int64)
    lower, upper = bounds.T
    spread = _Spread(counts, (upper - lower).tolist())
    # Lengths past the window count as filling it: sums go on with their last value from there on.
    sums = PrefixSums(np.stack([blocks, lengths, lengths * blocks]), goes_on=True).over(lower + 1, upper)
    blocks_held, tokens_held, weighted = map(spread.total, sums)
    beyond = np.maximum(upper - np.maximum(lower, window), 0).tolist()
    requests = sum(counts)
    return Held(
        requests=requests,
        blocks=blocks_held / requests,
        tokens=tokens_held / requests,
        rejected_share=Fraction(0),
        truncated_share=spread.total(beyond) / requests,
        length_weighted_blocks=weighted / tokens_held,
        confidence="low",
    )


def _held_rows(workload: Rows, running: Running, cost: Cost) -> Held:
    window = running.window
    rows = table_of(workload.rows)
    fitting = rows[rows[:, 0] < window]
    if not len(fitting):
        raise nothing_fits(window)
    prompts = fitting[:, 0]
    ends = np.minimum(fitting[:, 0] + fitting[:, 1], window)
    # One cumulative sum answers every row: the cost of steps P..end-1 is F(end - 1) - F(P - 1).
    held_tokens = _tokens_up_to(int(ends.max()))
    costs = {"steps": np.ones_like(held_tokens), "blocks": _costs(cost, held_tokens), "tokens": held_tokens}
    waits = _prefill_steps(prompts, running)
    total = {}
    for name, amounts in costs.items():
        cumulated = np.cumsum(amounts)
        decode = _exact_sum(cumulated[ends - 1] - cumulated[prompts - 1])
        total[name] = decode / exact(running.accepted) + _exact_sum(waits * amounts[prompts])
    return Held(
        requests=len(rows),
        blocks=total["blocks"] / total["steps"],
        tokens=total["tokens"] / total["steps"],
        rejected_share=Fraction(len(rows) - len(fitting), len(rows)),
        truncated_share=Fraction(int((fitting.sum(axis=1) > window).sum()), len(rows)),
        length_weighted_blocks=None,
        confidence="high",
    )


def _held_joint(workload: Joint, running: Running, cost: Cost) -> Held:
    # A cell spreads its count evenly over its (P, O) pairs. Steps that would pass the window don't happen, so
    # costs are cumulated up to window - 1 held tokens and stay there.
    window = running.window
    held_tokens = _tokens_up_to(window - 1)
    counts = [count for _, _, count in workload.counts]
    first, last, shortest, longest = cells_of(workload, window).T
    spread = _Spread(counts, ((last - first) * (longest - shortest)).tolist())
    fitting = np.maximum(np.minimum(last, window - 1), first)
    rejected = ((last - fitting) * (longest - shortest)).tolist()
    cells = np.stack([first + 1, fitting, shortest + 1, longest], axis=1)
    waits = _prefill_steps(held_tokens, running)
    amounts = np.stack([np.ones_like(held_tokens), _costs(cost, held_tokens), held_tokens])
    decode = PrefixSums(amounts).over_pairs(cells)
    steps, blocks, tokens = (spread.total(row) / exact(running.accepted) for row in decode)
    if waits.any():
        waiting = PrefixSums(waits * amounts).over(first + 1, fitting)
        more = list(map(_Spread(counts, (last - first).tolist()).total, waiting))
        steps, blocks, tokens = steps + more[0], blocks + more[1], tokens + more[2]
    if not steps:
        raise nothing_fits(window)
    requests = sum(counts)
    return Held(
        requests=requests,
        blocks=blocks / steps,
        tokens=tokens / steps,
        rejected_share=spread.total(rejected) / requests,
        truncated_share=spread.total(pairs_beyond(cells, window)) / requests,
        length_weighted_blocks=None,
        confidence="medium",
    )


@lru_cache(maxsize=8)
def cells_of(workload: Joint, window: int) -> Tokens:
    """The cells of a joint histogram, one per count: prompts in (lower, upper], outputs in (lower, upper].

    Open bins end at the window; one that begins past it is one token wide. Kept for all that weigh it.
    """
    sides = []
    for edges in (workload.prompt_edges, workload.output_edges):
        closed_edges = [edge for edge in edges if edge is not None]
        if edges[-1] is None:
            closed_edges.append(closed(None, closed_edges[-1], window))
        sides.append(np.array(closed_edges, dtype=np.int64))
    i, j = np.array([cell[:2] for cell in workload.counts], dtype=np.int64).T
    cells = np.stack([sides[0][i], sides[0][i + 1], sides[1][j], sides[1][j + 1]], axis=1)
    cells.flags.writeable = False
    return cells


def _prefill_steps(prompts: Tokens, running: Running) -> Tokens:
    """Steps of each prompt before the one that ends its prefill."""
    if running.chunk is None:
        return np.zeros_like(prompts)
    return np.maximum(ceil_div(prompts, running.chunk) - 1, 0)


def _costs(cost: Cost, lengths: Tokens) -> Tokens:
    """Price all lengths, slice by slice."""
    if len(lengths) <= _SLICE:
        return cost(lengths)
    return np.concatenate([cost(lengths[start : start + _SLICE]) for start in range(0, len(lengths), _SLICE)])


def _exact_sum(parts: Tokens) -> int:
    """Sum in two halves: the sum of many long requests may pass 64 bits."""
    return (int((parts >> 32).sum()) << 32) + int((parts & 0xFFFFFFFF).sum())


def _tokens_up_to(last: int) -> Tokens:
    return np.arange(last + 1, dtype=np.int64)


def closed(upper: int | None, lower: int, window: int) -> int:
    """Close an open bin at the window; one that begins past the window is one token wide."""
    return max(window, lower + 1) if upper is None else upper


class _Spread:
    """Counts that are each spread evenly over so many pieces, on one denominator."""

    def __init__(self, counts: Sequence[int], pieces: Sequence[int]) -> None:
        self._shared = lcm(*set(pieces))
        self._weights = [count * (self._shared // parts) for count, parts in zip(counts, pieces, strict=True)]

    def total(self, amounts: Iterable[int]) -> Fraction:
        """The amounts of single pieces, times the counts that fall on them."""
        return Fraction(sum(map(mul, self._weights, amounts)), self._shared)


def nothing_fits(window: int) -> Refused:
    """Build the refusal of lengths of which no request runs a step."""
    return Refused(Fault("/workload", f"no prompt leaves room for one output token in the window of {window:,} tokens"))
