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


_CHUNK = 256
"""Lengths that are summed anew at every question: few enough that their weighted sums stay within 64 bits."""


class PrefixSums:
    """Prefix sums of a cost given for 0..end tokens.

    F, S and T are kept as integers of any size at the ends of chunks, and summed within one when asked for. Past the
    end, lengths cost what the end costs (`over`), or, with `frozen_after_end`, nothing more is added (steps that
    never run).
    """

    def __init__(self, cost: NDArray[np.int64], *, frozen_after_end: bool = False) -> None:
        """Cumulate a cost vector chunk by chunk."""
        self._cost = cost
        self._end = len(cost) - 1
        self._after_end = 0 if frozen_after_end else int(cost[-1])
        self._before: list[tuple[int, int, int]] = [(0, 0, 0)]
        whole = cost[: len(cost) // _CHUNK * _CHUNK].reshape(-1, _CHUNK)
        for own in zip(*((whole * weights).sum(axis=1).tolist() for weights in _WEIGHTS), strict=True):
            self._before.append(_joined(self._before[-1], own, _CHUNK))
        self._known: dict[int, tuple[int, int, int]] = {}

    def over(self, low: int, high: int) -> int:
        """Sum of the cost over lengths low..high."""
        return self._sums(high)[0] - self._sums(low - 1)[0]

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
            chunk, rest = divmod(min(n, self._end) + 1, _CHUNK)
            tail = self._cost[chunk * _CHUNK : chunk * _CHUNK + rest]
            own = tuple(int((tail * weights[_CHUNK - rest :]).sum()) for weights in _WEIGHTS)
            sums = _joined(self._before[chunk], own, rest)
            beyond = n - self._end
            self._known[n] = sums if beyond <= 0 else _joined(sums, _constant(self._after_end, beyond), beyond)
        return self._known[n]


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
