"""How many tokens a running request holds at a random step of the engine.

A request with a prompt of P tokens and an output of O holds P + g tokens at its decode step g = 0..O-1; the step that
ends its prefill is the first of them. Before it, a prompt longer than one step's tokens holds its place for
ceil(P / chunk) - 1 steps more. A draft lets several tokens through at once: then the decode steps are fewer by what
one of them yields on average, and weigh less beside those of prefill.

Requests of a cell spread evenly over its pairs of lengths. How many of them hold so many tokens is then made of
straight and parabolic pieces, which are summed up from where they begin and end: in integers, so that what has begun
ends to the last bit.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.lengths import Running
from service.capacity.units import ceil_div

Weights = NDArray[np.float64]
"""By held tokens from 0 on: at how many steps requests hold so many, on any scale."""

SCALE = 2**60
"""All requests of a workload, in the integers that cells are summed in."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Requests by held tokens from 0 on, all on one scale."""

    decode: NDArray[np.int64]
    """How many requests hold so many tokens at one of their decode steps."""
    beginning: NDArray[np.int64]
    """How many begin to decode with so many, their prompt."""

    def weights(self, running: Running) -> Weights:
        """At how many steps requests hold so many tokens, prefill included."""
        weights = self.decode / running.accepted
        if running.chunk is not None and len(weights) > running.chunk:
            weights += self._waiting(running.chunk)
        return weights

    def prefill_steps(self, running: Running) -> float:
        """Steps that a request waits before the one that ends its prefill, on average."""
        if running.chunk is None or len(self.beginning) <= running.chunk:
            return 0.0
        return float(self._waiting(running.chunk).sum() / self.beginning.astype(np.float64).sum())

    def _waiting(self, chunk: int) -> Weights:
        tokens = np.arange(len(self.beginning), dtype=np.int64)
        return np.maximum(ceil_div(tokens, chunk) - 1, 0) * self.beginning.astype(np.float64)

    @property
    def final(self) -> Weights:
        """How many requests end with so many tokens, cut at the window: one place longer than the others."""
        still = np.concatenate([[0], self.decode, [0]])
        return (np.append(self.beginning, 0) - np.diff(still)).astype(np.float64)

    @property
    def prompt_tokens(self) -> float:
        """Tokens of a prompt, on average."""
        begun = self.beginning.astype(np.float64)
        return float((begun * np.arange(len(begun))).sum() / begun.sum())

    @property
    def output_tokens(self) -> float:
        """Tokens of an output, on average, cut at the window."""
        return float(self.decode.astype(np.float64).sum() / self.beginning.astype(np.float64).sum())


class Cells(msgspec.Struct, frozen=True):
    """Requests by cells, each spread evenly over its pairs of lengths."""

    bounds: NDArray[np.int64]
    """One row per cell: prompts in (lower, upper], outputs in (lower, upper]."""
    shares: NDArray[np.int64]
    """How many of all requests, which are `SCALE`."""


def steps_of_rows(rows: NDArray[np.int64], window: int) -> Steps:
    """Steps of single requests, rows of (prompt, output); the ones whose prompt leaves no room are left out."""
    fitting = rows[rows[:, 0] < window]
    prompts = fitting[:, 0]
    ends = np.minimum(prompts + fitting[:, 1], window)
    size = int(ends.max(initial=0)) + 1
    begun, ended = np.bincount(prompts, minlength=size), np.bincount(ends, minlength=size)
    return Steps(decode=np.cumsum(begun - ended), beginning=begun)


def steps_of_cells(cells: Cells, window: int, longest_prompt: int | None = None) -> Steps:
    """Steps of requests that are known by the cells of a joint histogram; prompts that leave no room are left out.

    So are those of more than `longest_prompt` tokens, where it is given.
    """
    cells = within(cells, window)
    first, last, shortest, longest = cells.bounds.T
    prompts, outputs = last - first, longest - shortest
    per_pair = cells.shares // (prompts * outputs)
    # What the division leaves over goes to the middle of the cell, so that nothing is lost.
    rest = cells.shares - per_pair * (prompts * outputs)
    middle = (first + last + 1) // 2
    middle_end = middle + (shortest + longest + 1) // 2
    size = int(min(window, (last + longest).max(initial=0) + 1))
    if longest_prompt is not None:
        last = np.minimum(last, np.maximum(first, longest_prompt))
        prompts, rest = last - first, np.where(middle <= longest_prompt, rest, 0)
    begun = _Impulses(size)
    begun.add(first + 1, per_pair * outputs)
    begun.add(last + 1, -per_pair * outputs)
    begun.add(middle, rest)
    begun.add(middle + 1, -rest)
    ended = _Impulses(size)
    low = first + shortest + 2
    ended.add(low, per_pair)
    ended.add(low + prompts, -per_pair)
    ended.add(low + outputs, -per_pair)
    ended.add(low + prompts + outputs, per_pair)
    ended.add(middle_end, rest)
    ended.add(middle_end + 1, -2 * rest)
    ended.add(middle_end + 2, rest)
    # Of prompts the first difference, of pairs the second: prompts that have begun are a ramp, and pairs that have
    # ended two. Sums wrap around in 64 bits on the way and come out right, as what they come to fits.
    beginning = np.cumsum(begun.at)
    return Steps(decode=np.cumsum(beginning - np.cumsum(np.cumsum(ended.at))), beginning=beginning)


def within(cells: Cells, window: int) -> Cells:
    """Leave out what is the same for all: prompts without room, and by how much an output passes the window.

    Cells then have no more pairs than the window squared, which is little beside `SCALE`.
    """
    first, last, shortest, longest = cells.bounds.T
    ends = np.minimum(last, window - 1)
    shares = _part(cells.shares, ends - first, last - first)
    up_to = np.clip(longest, shortest, np.maximum(shortest, window))
    found = []
    for low, high, part in (
        (shortest, up_to, _part(shares, up_to - shortest, longest - shortest)),
        # An output of the whole window is cut after any prompt, as a longer one is.
        (
            np.full_like(shortest, window - 1),
            np.full_like(longest, window),
            _part(shares, longest - up_to, longest - shortest),
        ),
    ):
        kept = (ends > first) & (part > 0)
        found.append((np.stack([first, ends, low, high], axis=1)[kept], part[kept]))
    bounds, parts = (np.concatenate(both) for both in zip(*found, strict=True))
    return Cells(bounds, parts)


def _part(shares: NDArray[np.int64], part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.int64]:
    """So much of each share, rounded down: in two steps, as the product may pass 64 bits."""
    each, rest = np.divmod(shares, whole)
    return np.asarray(each * part + rest * part // whole)


def lengths_of_bins(bounds: NDArray[np.int64], shares: NDArray[np.int64], window: int) -> Weights:
    """How many requests have each total length, of bins (lower, upper]; longer ones count as filling the window."""
    lower, upper = bounds.T
    per_length = shares // (upper - lower)
    counts = _Impulses(int(min(upper.max(), window)) + 1)
    counts.add(lower + 1, per_length)
    counts.add(upper + 1, -per_length)
    lengths = np.cumsum(counts.at)
    # What lies beyond the window, and what division left over of bins that end before it.
    beyond = np.maximum(upper - np.maximum(lower, window), 0)
    left_over = shares - per_length * (upper - lower)
    np.add.at(lengths, np.minimum(upper, len(lengths) - 1), per_length * beyond + left_over)
    return lengths.astype(np.float64)


class _Impulses:
    """Differences of amounts by held tokens, up to where nobody looks any more."""

    def __init__(self, size: int) -> None:
        self.at = np.zeros(size, dtype=np.int64)

    def add(self, positions: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        inside = positions < len(self.at)
        np.add.at(self.at, positions[inside], amounts[inside])
