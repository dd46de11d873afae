"""What is known of request lengths, and what a running request holds because of it.

A request with a prompt of P tokens and an output of O runs O decode steps; at step g = 0..O-1 it holds P + g
tokens (the step that samples token g + 1 has P + g slots written; the last sampled token is never written).
Seen at a random decode step, a request therefore weighs as many steps as it runs: by renewal-reward the mean of
any cost c is `sum over requests, steps of c(P + g) / sum of O`. All sums here are exact integers or fractions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.errors import Fault, Refused
from service.capacity.prefix_sums import PrefixSums, Ramp, over_pairs
from service.capacity.workload import Joint, Mean, Rows, Total, Workload

Tokens = NDArray[np.int64]

LONGEST_WINDOW = 2**24
"""Tokens up to which a window is weighed length by length; the longest that models have is 10,485,760."""
_SLICE = 2**20
"""Lengths that are priced at a time: what their cost takes on the way is small beside the result."""

Cost = Callable[[Tokens], NDArray[np.int64]]
"""Blocks that one request takes, for each of these numbers of held tokens."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
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


def held(workload: Workload, *, window: int, cost: Cost) -> Held:
    """Work out what a running request of this workload holds in a window of so many tokens.

    `cost` gives the blocks that a request takes while it holds so many tokens.

    Raises `Refused` when no request fits, a mean passes the window, or the window is longer than can be weighed.
    """
    if window > LONGEST_WINDOW and not isinstance(workload, Mean):
        detail = f"lengths are weighed in windows of up to {LONGEST_WINDOW:,} tokens; this one has {window:,}"
        raise Refused(Fault("/workload", detail))
    match workload:
        case Mean():
            return _held_mean(workload, window, cost)
        case Total():
            return _held_total(workload, window, cost)
        case Joint():
            return _held_joint(workload, window, cost)
        case Rows():
            return _held_rows(workload, window, cost)


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
    per_length = {
        name: PrefixSums(amounts)
        for name, amounts in (("blocks", blocks), ("tokens", lengths), ("weighted", lengths * blocks))
    }
    # By the width of the bin, so that few fractions are added, of histograms whose bins are mostly alike.
    sums: dict[str, dict[int, int]] = {name: defaultdict(int) for name in (*per_length, "truncated")}
    requests = 0
    for part in workload.bins:
        upper = _closed(part.upper, part.lower, window)
        width = upper - part.lower
        # Lengths past the window count as filling it: PrefixSums holds its last value from there on.
        for name, cumulated in per_length.items():
            sums[name][width] += part.count * cumulated.over(part.lower + 1, upper)
        sums["truncated"][width] += part.count * max(0, upper - max(part.lower, window))
        requests += part.count
    total = {name: _sum_of_fractions(parts.items()) for name, parts in sums.items()}
    return Held(
        requests=requests,
        blocks=total["blocks"] / requests,
        tokens=total["tokens"] / requests,
        rejected_share=Fraction(0),
        truncated_share=total["truncated"] / requests,
        length_weighted_blocks=total["weighted"] / total["tokens"],
        confidence="low",
    )


def _held_rows(workload: Rows, window: int, cost: Cost) -> Held:
    rows = np.array(workload.rows, dtype=np.int64)
    fitting = rows[rows[:, 0] < window]
    if not len(fitting):
        raise _nothing_fits(window)
    prompts = fitting[:, 0]
    ends = np.minimum(fitting[:, 0] + fitting[:, 1], window)
    # One cumulative sum answers every row: the cost of steps P..end-1 is F(end - 1) - F(P - 1).
    held_tokens = _tokens_up_to(int(ends.max()))
    steps = int((ends - prompts).sum())
    blocks = np.cumsum(_costs(cost, held_tokens))
    tokens = np.cumsum(held_tokens)
    return Held(
        requests=len(rows),
        blocks=Fraction(_exact_sum(blocks[ends - 1] - blocks[prompts - 1]), steps),
        tokens=Fraction(_exact_sum(tokens[ends - 1] - tokens[prompts - 1]), steps),
        rejected_share=Fraction(len(rows) - len(fitting), len(rows)),
        truncated_share=Fraction(int((fitting.sum(axis=1) > window).sum()), len(rows)),
        length_weighted_blocks=None,
        confidence="high",
    )


def _held_joint(workload: Joint, window: int, cost: Cost) -> Held:
    # A cell spreads its count evenly over its (P, O) pairs. Steps that would pass the window don't happen, so
    # costs are cumulated up to window - 1 held tokens and stay there.
    held_tokens = _tokens_up_to(window - 1)
    costs = {
        "steps": PrefixSums(np.ones_like(held_tokens), frozen_after_end=True),
        "blocks": PrefixSums(_costs(cost, held_tokens), frozen_after_end=True),
        "tokens": PrefixSums(held_tokens, frozen_after_end=True),
    }
    past_window = Ramp(window)
    sums: dict[str, dict[int, int]] = {name: defaultdict(int) for name in (*costs, "rejected", "truncated")}
    requests = 0
    for i, j, count in workload.counts:
        prompt_low, prompt_high = _edges(workload.prompt_edges, i, window)
        output_low, output_high = _edges(workload.output_edges, j, window)
        outputs = output_high - output_low
        pairs = (prompt_high - prompt_low) * outputs
        requests += count
        last_fitting = min(prompt_high, window - 1)
        rejected = prompt_high - max(last_fitting, prompt_low)
        sums["rejected"][pairs] += count * rejected * outputs
        if last_fitting <= prompt_low:
            continue
        cell = (prompt_low + 1, last_fitting, output_low + 1, output_high)
        for name, cumulated in costs.items():
            before_first_step = outputs * cumulated.first_order(prompt_low, last_fitting - 1)
            sums[name][pairs] += count * (over_pairs(cumulated, cell) - before_first_step)
        sums["truncated"][pairs] += count * over_pairs(past_window, cell)
    total = {name: _sum_of_fractions(parts.items()) for name, parts in sums.items()}
    if not total["steps"]:
        raise _nothing_fits(window)
    return Held(
        requests=requests,
        blocks=total["blocks"] / total["steps"],
        tokens=total["tokens"] / total["steps"],
        rejected_share=total["rejected"] / requests,
        truncated_share=total["truncated"] / requests,
        length_weighted_blocks=None,
        confidence="medium",
    )


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


def _closed(upper: int | None, lower: int, window: int) -> int:
    """Close an open bin at the window; one that begins past the window is one token wide."""
    return max(window, lower + 1) if upper is None else upper


def _edges(edges: tuple[int | None, ...], index: int, window: int) -> tuple[int, int]:
    lower = edges[index]
    assert lower is not None  # only the last edge may be open
    return lower, _closed(edges[index + 1], lower, window)


def _sum_of_fractions(parts: Iterable[tuple[int, int]]) -> Fraction:
    return sum((Fraction(numerator, denominator) for denominator, numerator in parts), Fraction(0))


def _nothing_fits(window: int) -> Refused:
    return Refused(Fault("/workload", f"no prompt leaves room for one output token in the window of {window:,} tokens"))
