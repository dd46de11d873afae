"""Sums of a per-length cost over ranges and rectangles of lengths, exact at any size.

With c(t) the cost of holding t tokens: F(n) = c(0) + .. + c(n), S(n) = F(0) + .. + F(n), T(n) = S(0) + .. + S(n).
The cost of one request is a difference of F; of a range of requests a difference of S; of a rectangle of (prompt,
output) pairs four values of T.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ThirdOrder(Protocol):
    """Anything whose T(n) is known."""

    def third_order(self, n: int) -> int:
        """T(n), zero below zero."""
        ...


class PrefixSums:
    """Prefix sums of a cost given for 0..end tokens.

    Past the end, lengths cost what the end costs (`over`), or, with `frozen_after_end`, nothing more is added
    (steps that never run).
    """

    def __init__(self, cost: NDArray[np.int64], *, frozen_after_end: bool = False) -> None:
        """Cumulate a cost vector; its third-order sum may pass 64 bits and is kept in two halves."""
        self._end = len(cost) - 1
        self._after_end = 0 if frozen_after_end else int(cost[-1])
        self._first = np.cumsum(cost)
        self._second = np.cumsum(self._first)
        self._third_low = np.cumsum(self._second & 0xFFFFFFFF)
        self._third_high = np.cumsum(self._second >> 32)

    def over(self, low: int, high: int) -> int:
        """Sum of the cost over lengths low..high."""
        return self._f(high) - self._f(low - 1)

    def first_order(self, low: int, high: int) -> int:
        """Sum of F over low..high."""
        return self._s(high) - self._s(low - 1)

    def third_order(self, n: int) -> int:
        """T(n); past the end F grows linearly, so T grows as its second sum."""
        if n < 0:
            return 0
        inside = min(n, self._end)
        beyond = n - inside
        value = (int(self._third_high[inside]) << 32) + int(self._third_low[inside])
        if beyond:
            second, first = int(self._second[-1]), int(self._first[-1])
            value += second * beyond + first * beyond * (beyond + 1) // 2
            value += self._after_end * beyond * (beyond + 1) * (beyond + 2) // 6
        return value

    def _f(self, n: int) -> int:
        if n < 0:
            return 0
        inside = min(n, self._end)
        return int(self._first[inside]) + self._after_end * (n - inside)

    def _s(self, n: int) -> int:
        if n < 0:
            return 0
        inside = min(n, self._end)
        beyond = n - inside
        value = int(self._second[inside])
        if beyond:
            value += int(self._first[-1]) * beyond + self._after_end * beyond * (beyond + 1) // 2
        return value


class Ramp:
    """Counts lengths n with n >= start: F is 1 from `start` on."""

    def __init__(self, start: int) -> None:
        """Remember where the ones begin."""
        self._start = start

    def third_order(self, n: int) -> int:
        """T(n) of a step function that already is an F."""
        inside = max(0, n - self._start + 1)
        return inside * (inside + 1) // 2


def over_pairs(cost: ThirdOrder, cell: tuple[int, int, int, int]) -> int:
    """Sum of F(P + O - 1) over P in first..last and O in shortest..longest, `cell` being those four."""
    first, last, shortest, longest = cell
    return (
        cost.third_order(last + longest - 1)
        - cost.third_order(first + longest - 2)
        - cost.third_order(last + shortest - 2)
        + cost.third_order(first + shortest - 3)
    )
