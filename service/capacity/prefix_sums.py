"""Sums of per-length costs over ranges and rectangles of lengths, exact at any size, many at a time.

With c(t) the cost of holding t tokens: F(n) = c(0) + .. + c(n), S(n) = F(0) + .. + F(n), T(n) = S(0) + .. + S(n).
The cost of one request is a difference of F; of a range of requests a difference of S; of a rectangle of (prompt,
output) pairs four values of T.

They are kept in 64 bits. Where that may be too few they wrap around, and what they come to is right in its last 64
bits; then the same sums in floats, which are off by far less than 2^63, say how often they did.
"""

from collections.abc import Callable
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Amounts = NDArray[Any]
"""Whole numbers in 64 bits, or floats."""
_MOST = 2**63
_TURN = 2.0**64


class PrefixSums:
    """Prefix sums of costs, each a row, for 0..end tokens; after the end nothing is added, or the last goes on."""

    def __init__(self, costs: Integers, *, goes_on: bool = False) -> None:
        """Remember the costs."""
        self._costs = costs
        self._goes_on = goes_on
        self._bits = _Orders(costs, goes_on=goes_on)

    def over(self, low: Integers, high: Integers) -> list[list[int]]:
        """Sum of each cost over lengths low..high, low being 1 or more."""
        return self._exact(lambda sums: sums.over(low, high), int(high.max(initial=0)))

    def over_pairs(self, cells: Integers) -> list[list[int]]:
        """Sum of each cost over all steps of all (P, O) pairs of each cell: at P..P + O - 1 tokens.

        Rows of `cells` are the first and last P, which lie within the end, and the first and last O.
        """
        longest = int((cells[:, 1] + cells[:, 3]).max(initial=0))
        return self._exact(lambda sums: sums.over_pairs(cells), longest)

    @cached_property
    def _floats(self) -> "_Orders":
        return _Orders(self._costs.astype(np.float64), goes_on=self._goes_on)

    def _exact(self, amounts: Callable[["_Orders"], Amounts], longest: int) -> list[list[int]]:
        """Sums that reach up to a length, which may lie far beyond the end."""
        bits = amounts(self._bits)
        rows: list[list[int]] = bits.tolist()
        if int(self._costs.max()) * comb(max(longest, self._costs.shape[1]) + 2, 3) < _MOST:
            return rows
        turns = np.rint((amounts(self._floats) - bits) / _TURN)
        if not turns.any():
            return rows
        return [
            [bits + (int(turn) << 64) for bits, turn in zip(*row, strict=True)]
            for row in zip(rows, turns.tolist(), strict=True)
        ]


class _Orders:
    """F, S and T of costs of one kind of number."""

    def __init__(self, costs: Amounts, *, goes_on: bool) -> None:
        self._end = costs.shape[1] - 1
        self._after_end = costs[:, -1:] * int(goes_on)
        self._orders = [costs]

    def _order(self, order: int) -> Amounts:
        while len(self._orders) <= order:
            summed: Amounts = np.cumsum(self._orders[-1], axis=1)
            self._orders.append(summed)
        return self._orders[order]

    def _at(self, order: int, n: Integers) -> Amounts:
        """F, S or T of any n; past the end as at it, and zero below zero."""
        found: Amounts = self._order(order)[:, np.clip(n, 0, self._end)] * (n >= 0)
        return found

    def over(self, low: Integers, high: Integers) -> Amounts:
        n = np.concatenate([high, low - 1])
        beyond = np.maximum(n - self._end, 0).astype(self._after_end.dtype)
        return _signed(self._at(1, n) + beyond * self._after_end, (1, -1))

    def over_pairs(self, cells: Integers) -> Amounts:
        first, last, shortest, longest = cells.T
        n = np.concatenate([last + longest - 1, first + longest - 2, last + shortest - 2, first + shortest - 3])
        beyond = np.maximum(n - self._end, 0).astype(self._after_end.dtype)
        more = beyond * self._order(2)[:, -1:] + triangular(beyond) * self._order(1)[:, -1:]
        pairs = _signed(self._at(3, n) + more, (1, -1, -1, 1))
        # F(P + O - 1) has the steps before the first one in it, F(P - 1), for each of the outputs.
        before = _signed(self._at(2, np.concatenate([last - 1, first - 2])), (1, -1))
        steps: Amounts = pairs - before * (longest - shortest + 1)
        return steps


def _signed(amounts: Amounts, signs: tuple[int, ...]) -> Amounts:
    """Add up and take away what stands one after the other."""
    found: Amounts = (amounts.reshape(len(amounts), len(signs), -1) * np.array(signs)[:, None]).sum(axis=1)
    return found


def triangular(n: Amounts) -> Amounts:
    """1 + .. + n, of which one factor is halved before they are multiplied; zero below zero."""
    n = np.maximum(n, 0)
    even = n % 2 == 0
    return np.where(even, n // 2, n) * np.where(even, n + 1, (n + 1) // 2)


def pairs_beyond(cells: Integers, window: int) -> list[int]:
    """How many of the (P, O) pairs of each cell end beyond the window; cells of fewer than 2^63 pairs."""
    first, last, shortest, longest = cells.T
    ends = np.concatenate([last + longest, first + longest - 1, last + shortest - 1, first + shortest - 2])
    counts: list[int] = _signed(triangular(ends - window)[None], (1, -1, -1, 1))[0].tolist()
    return counts
