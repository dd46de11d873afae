"""What is known of request lengths, and what a running request holds because of it.

A request with a prompt of P tokens and an output of O runs O decode steps; at step g = 0..O-1 it holds P + g
tokens (the step that samples token g + 1 has P + g slots written; the last sampled token is never written).
Seen at a random step, a request therefore weighs as many steps as it runs: by renewal-reward the mean of any cost c
is `sum over requests, steps of c(P + g) / sum of O`. All sums here are exact integers or fractions; `occupancy` has
the same steps as a distribution. What an engine adds to O steps (`Running`): a prompt longer than `chunk` holds its
place for ceil(P / chunk) - 1 steps before the one that ends its prefill, and a decode step yields `accepted` tokens.
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
from service.capacity.units import ceil_div, exact
from service.capacity.workload import Joint, Mean, Paired, Rows, Total

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
    per_length = {
        name: PrefixSums(amounts)
        for name, amounts in (("blocks", blocks), ("tokens", lengths), ("weighted", lengths * blocks))
    }
    # By the width of the bin, so that few fractions are added, of histograms whose bins are mostly alike.
    sums: dict[str, dict[int, int]] = {name: defaultdict(int) for name in (*per_length, "truncated")}
    requests = 0
    for part in workload.bins:
        upper = closed(part.upper, part.lower, window)
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


def _held_rows(workload: Rows, running: Running, cost: Cost) -> Held:
    window = running.window
    rows = np.array(workload.rows, dtype=np.int64)
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
    amounts = {"steps": np.ones_like(held_tokens), "blocks": _costs(cost, held_tokens), "tokens": held_tokens}
    costs = {name: PrefixSums(amount, frozen_after_end=True) for name, amount in amounts.items()}
    waits = _prefill_steps(held_tokens, running)
    waiting = {name: PrefixSums(waits * amount) for name, amount in amounts.items()} if waits.any() else {}
    past_window = Ramp(window)
    names = (*costs, *(f"waiting {name}" for name in waiting), "rejected", "truncated")
    sums: dict[str, dict[int, int]] = {name: defaultdict(int) for name in names}
    requests = 0
    for i, j, count in workload.counts:
        prompt_low, prompt_high = edges_of(workload.prompt_edges, i, window)
        output_low, output_high = edges_of(workload.output_edges, j, window)
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
        for name, cumulated in waiting.items():
            sums[f"waiting {name}"][pairs] += count * outputs * cumulated.over(prompt_low + 1, last_fitting)
        sums["truncated"][pairs] += count * over_pairs(past_window, cell)
    total = {name: _sum_of_fractions(parts.items()) for name, parts in sums.items()}
    if not total["steps"]:
        raise nothing_fits(window)
    for name in costs:
        total[name] = total[name] / exact(running.accepted) + total.get(f"waiting {name}", 0)
    return Held(
        requests=requests,
        blocks=total["blocks"] / total["steps"],
        tokens=total["tokens"] / total["steps"],
        rejected_share=total["rejected"] / requests,
        truncated_share=total["truncated"] / requests,
        length_weighted_blocks=None,
        confidence="medium",
    )


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


def edges_of(edges: tuple[int | None, ...], index: int, window: int) -> tuple[int, int]:
    """A bin of a joint histogram: more than the one and at most the other; an open one ends at the window."""
    lower = edges[index]
    assert lower is not None  # only the last edge may be open
    return lower, closed(edges[index + 1], lower, window)


def _sum_of_fractions(parts: Iterable[tuple[int, int]]) -> Fraction:
    return sum((Fraction(numerator, denominator) for denominator, numerator in parts), Fraction(0))


def nothing_fits(window: int) -> Refused:
    """Build the refusal of lengths of which no request runs a step."""
    return Refused(Fault("/workload", f"no prompt leaves room for one output token in the window of {window:,} tokens"))
