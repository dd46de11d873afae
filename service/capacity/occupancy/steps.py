"""How many tokens a running request holds at a random step of the engine.

A request with a prompt of P tokens and an output of O holds P + g tokens at its decode step g = 0..O-1; the step that
ends its prefill is the first of them. Before it, a prompt longer than one step's tokens holds its place for
ceil(P / chunk) - 1 steps more. A draft lets several tokens through at once: then the decode steps are fewer by what
one of them yields on average, and weigh less beside those of prefill.

Requests of a cell spread evenly over its pairs of lengths. How many of them hold so many tokens is then made of
straight and parabolic pieces, which are summed up from where they begin and end: in integers, so that what has begun
ends to the last bit.
"""

from collections.abc import Iterator
from functools import reduce
from operator import add

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.lengths import Running
from service.capacity.units import ceil_div

Weights = NDArray[np.float64]
"""By held tokens from 0 on: at how many steps requests hold so many, on any scale."""

_SCALE = 2**60
"""All requests of a workload, in the integers that cells are summed in."""
_BITS = 62
"""That sums of integers may take."""
_NEGLIGIBLE = 1e-12
"""Of all steps: so few need not be told apart within their cell."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Requests by held tokens from 0 on, all on one scale."""

    decode: Weights
    """How many requests hold so many tokens at one of their decode steps."""
    beginning: Weights
    """How many begin to decode with so many, their prompt."""
    final: Weights
    """How many end with so many, cut at the window: one place longer than the others."""

    def __add__(self, other: "Steps") -> "Steps":
        """Both together, of as many held tokens."""
        return Steps(
            decode=self.decode + other.decode,
            beginning=self.beginning + other.beginning,
            final=self.final + other.final,
        )

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
        return float(self._waiting(running.chunk).sum() / self.beginning.sum())

    def _waiting(self, chunk: int) -> Weights:
        tokens = np.arange(len(self.beginning), dtype=np.int64)
        return np.maximum(ceil_div(tokens, chunk) - 1, 0) * self.beginning

    @property
    def prompt_tokens(self) -> float:
        """Tokens of a prompt, on average."""
        return float((self.beginning * np.arange(len(self.beginning))).sum() / self.beginning.sum())

    @property
    def output_tokens(self) -> float:
        """Tokens of an output, on average, cut at the window."""
        return float(self.decode.sum() / self.beginning.sum())


class Cells(msgspec.Struct, frozen=True):
    """Requests by cells, each spread evenly over its pairs of lengths."""

    bounds: NDArray[np.int64]
    """One row per cell: prompts in (lower, upper], outputs in (lower, upper]."""
    shares: NDArray[np.float64]
    """How many requests of all, on any scale."""

    def within(self, window: int) -> "Cells":
        """The requests that run in a window: prompts that leave room, and of outputs that never end there one each."""
        fitting = self.bounds[:, 0] + 1 < window
        first, last, shortest, longest = self.bounds[fitting].T
        room = np.minimum(last, window - 1)
        shares = self.shares[fitting] * ((room - first) / (last - first))
        ended, endless = np.minimum(longest, window), np.maximum(shortest, window)
        inside, outside = ended > shortest, longest > endless
        parts = (
            (inside, shortest, ended, shares * ((ended - shortest) / (longest - shortest))),
            (outside, endless, endless + 1, shares * ((longest - endless) / (longest - shortest))),
        )
        bounds = [np.stack([first, room, low, high], axis=1)[kept] for kept, low, high, _ in parts]
        return Cells(np.concatenate(bounds), np.concatenate([share[kept] for kept, _, _, share in parts]))


def steps_of_rows(rows: NDArray[np.int64], window: int) -> Steps:
    """Steps of single requests, rows of (prompt, output); the ones whose prompt leaves no room are left out."""
    fitting = rows[rows[:, 0] < window]
    prompts = fitting[:, 0]
    ends = np.minimum(prompts + fitting[:, 1], window)
    size = int(ends.max(initial=0)) + 1
    begun, ended = np.bincount(prompts, minlength=size), np.bincount(ends, minlength=size)
    return counted_in(1.0, begun, np.cumsum(begun - ended))


def steps_of_cells(cells: Cells, window: int) -> Steps:
    """Steps of requests that are known by the cells of a joint histogram; prompts that leave no room are left out."""
    return reduce(add, (counted_in(divided.unit, *summed(divided)) for divided in divisions(cells, window)))


class Divided(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of cells, in whole units for each pair of lengths."""

    unit: float
    bounds: NDArray[np.int64]
    per_pair: NDArray[np.int64]
    rest: NDArray[np.int64]
    """So many lie in the middle of each cell."""
    size: int
    """Held tokens that are told apart, from 0 on."""


def divisions(cells: Cells, window: int) -> Iterator[Divided]:
    """Divide the requests that run in a window over their pairs; all of it together is the cells.

    A share is divided over its pairs in integers, and what is left over divided again on a finer scale, until so little
    is left that it may lie in the middle of its cell.
    """
    inside = cells.within(window)
    shares = (inside.shares / inside.shares.sum() * _SCALE).astype(np.int64)
    first, last, shortest, longest = inside.bounds.T
    pairs = (last - first) * (longest - shortest)
    # Sums of what is left over are below a unit for each pair.
    finer = _BITS - int(pairs.sum()).bit_length()
    negligible = _NEGLIGIBLE * float((shares * (shortest + 1.0)).sum())
    size = int(min(window, (last + longest).max() + 1))
    unit, rest, is_last = 1.0, shares, False
    while not is_last:
        per_pair, rest = np.divmod(rest, pairs)
        is_last = float((rest * longest.astype(np.float64)).sum()) * unit <= negligible
        middle = rest if is_last else np.zeros_like(rest)
        yield Divided(unit=unit, bounds=inside.bounds, per_pair=per_pair, rest=middle, size=size)
        rest, unit = rest << finer, unit / 2**finer


def summed(divided: Divided) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Beginning and holding requests by tokens."""
    (first, last, shortest, longest), size = divided.bounds.T, divided.size
    per_pair, rest = divided.per_pair, divided.rest
    prompts, outputs = last - first, longest - shortest
    middle = (first + last + 1) // 2
    middle_end = middle + (shortest + longest + 1) // 2
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
    return beginning, np.cumsum(beginning - np.cumsum(np.cumsum(ended.at)))


def counted_in(unit: float, begun: NDArray[np.int64], held: NDArray[np.int64]) -> Steps:
    """Requests that begin and that hold, in whole units of so many."""
    ends = np.append(begun, 0) - np.diff(held, prepend=0, append=0)
    decode, beginning, final = (unit * part.astype(np.float64) for part in (held, begun, ends))
    return Steps(decode=decode, beginning=beginning, final=final)


def lengths_of_bins(bounds: NDArray[np.int64], shares: NDArray[np.float64], window: int) -> Weights:
    """How many requests have each total length, of bins (lower, upper]; longer ones count as filling the window."""
    lower, upper = bounds.T
    per_length = shares / (upper - lower)
    ends = np.minimum(upper, window)
    widths = np.maximum(ends - lower, 0)
    places = np.repeat(lower + 1 - (np.cumsum(widths) - widths), widths) + np.arange(widths.sum())
    lengths = np.bincount(places, np.repeat(per_length, widths), int(ends.max()) + 1)
    lengths[-1] += float((per_length * (upper - np.maximum(lower, window)))[upper > window].sum())
    return np.asarray(lengths, dtype=np.float64)


class _Impulses:
    """Differences of amounts by held tokens, up to where nobody looks any more."""

    def __init__(self, size: int) -> None:
        self.at = np.zeros(size, dtype=np.int64)

    def add(self, positions: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        inside = positions < len(self.at)
        np.add.at(self.at, positions[inside], amounts[inside])
