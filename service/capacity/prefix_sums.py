"""Sums of a per-length cost over ranges and rectangles of lengths, exact at any size.

With c(t) the cost of holding t tokens: F(n) = c(0) + .. + c(n), S(n) = F(0) + .. + F(n), T(n) = S(0) + .. + S(n).
The cost of one request is a difference of F; of a range of requests a difference of S; of a rectangle of (prompt,
output) pairs four values of T.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ThirdOrder(Protocol):
    """Anything whose T(n) is known."""

    def third_order(self, n: int) -> int:
        """T(n), zero below zero."""
        ...


_MOST = 2**63
_CHUNK = 256
"""Lengths that are summed anew at every question: few enough that their weighted sums stay within 64 bits."""


class _Sums(ABC):
    """F, S and T of a cost that is known up to some length, and the same from there on."""

    def __init__(self, end: int, after_end: int) -> None:
        self._end = end
        self._after_end = after_end
        self._known: dict[int, tuple[int, int, int]] = {}

    def first_order(self, low: int, high: int) -> int:
        """Sum of F over low..high."""
        return self._sums(high)[1] - self._sums(low - 1)[1]

    def third_order(self, n: int) -> int:
        """T(n), zero below zero."""
        return self._sums(n)[2]

    def _sums(self, n: int) -> tuple[int, int, int]:
        """F, S and T of n."""
        if n < 0:
            return 0, 0, 0
        if n not in self._known:
            sums = self._inside(min(n, self._end))
            beyond = n - self._end
            self._known[n] = sums if beyond <= 0 else _joined(sums, _constant(self._after_end, beyond), beyond)
        return self._known[n]

    @abstractmethod
    def _inside(self, n: int) -> tuple[int, int, int]:
        """The same of a length up to the end."""


class Binomials(_Sums):
    """Sums of 1 for every length (order 0) or of the length itself (order 1), up to `end` and no more after it."""

    def __init__(self, order: int, end: int) -> None:
        """Remember which: both have closed forms."""
        super().__init__(end, 0)
        self._order = order

    def _inside(self, n: int) -> tuple[int, int, int]:
        order = self._order
        return comb(n + 1, order + 1), comb(n + 2, order + 2), comb(n + 3, order + 3)


class PrefixSums(_Sums):
    """Prefix sums of a cost given for 0..end tokens.

    F, S and T are kept in 64 bits where they fit; else as integers of any size at the ends of chunks, and summed within
    one when asked for. Past the end, lengths cost what the end costs (`over`), or, with `frozen_after_end`, nothing
    more is added (steps that never run).
    """

    def __init__(self, cost: NDArray[np.int64], *, frozen_after_end: bool = False) -> None:
        """Cumulate a cost vector."""
        super().__init__(len(cost) - 1, 0 if frozen_after_end else int(cost[-1]))
        self._cost = cost
        self._whole: tuple[NDArray[np.int64], ...] | None = None
        if int(cost.max()) * comb(self._end + 3, 3) < _MOST:
            first = np.cumsum(cost)
            second = np.cumsum(first)
            self._whole = (first, second, np.cumsum(second))

    @cached_property
    def _before(self) -> list[tuple[int, int, int]]:
        """F, S and T before each chunk."""
        before = [(0, 0, 0)]
        whole = self._cost[: len(self._cost) // _CHUNK * _CHUNK].reshape(-1, _CHUNK)
        for own in zip(*((whole * weights).sum(axis=1).tolist() for weights in _WEIGHTS), strict=True):
            before.append(_joined(before[-1], own, _CHUNK))
        return before

    @cached_property
    def _first(self) -> NDArray[np.int64] | None:
        """F alone, where it fits in 64 bits."""
        if self._whole is not None:
            return self._whole[0]
        return np.cumsum(self._cost) if int(self._cost.max()) * len(self._cost) < _MOST else None

    def over(self, low: int, high: int) -> int:
        """Sum of the cost over lengths low..high."""
        if self._first is None:
            return self._sums(high)[0] - self._sums(low - 1)[0]
        inside = int(self._first[min(high, self._end)]) + max(high - self._end, 0) * self._after_end
        if low <= 0:
            return inside
        return inside - int(self._first[min(low - 1, self._end)]) - max(low - 1 - self._end, 0) * self._after_end

    def _inside(self, n: int) -> tuple[int, int, int]:
        if self._whole is not None:
            first, second, third = (int(sums[n]) for sums in self._whole)
            return first, second, third
        chunk, rest = divmod(n + 1, _CHUNK)
        tail = self._cost[chunk * _CHUNK : chunk * _CHUNK + rest]
        own = tuple(int((tail * weights[_CHUNK - rest :]).sum()) for weights in _WEIGHTS)
        return _joined(self._before[chunk], own, rest)


def _weights() -> tuple[NDArray[np.int64], ...]:
    """How often each of a chunk's costs is counted by F, S and T at the chunk's end."""
    left = np.arange(_CHUNK, 0, -1, dtype=np.int64)
    return np.ones_like(left), left, left * (left + 1) // 2


_WEIGHTS = _weights()


def _constant(cost: int, lengths: int) -> tuple[int, int, int]:
    """F, S and T of so many lengths of one cost alone."""
    ones = lengths
    twos = lengths * (lengths + 1) // 2
    return cost * ones, cost * twos, cost * twos * (lengths + 2) // 3


def _joined(before: tuple[int, int, int], own: tuple[int, ...], lengths: int) -> tuple[int, int, int]:
    """F, S and T behind so many more lengths, from those before and those of the new lengths alone."""
    first, second, third = before
    return (
        first + own[0],
        second + first * lengths + own[1],
        third + second * lengths + first * (lengths * (lengths + 1) // 2) + own[2],
    )


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
