"""How likely so many requests, each at a random step of its own, together hold no more than there is.

With X the blocks of one request, P(X1 + .. + XN <= B) is read off the N-th power of X's generating function on a
circle of radius e^-r (damped, so that what wraps around is below e^-24 of it): one FFT of X, and each N is one power
and a sum over the few frequencies that are left of it. Sums that pass B can't come back, so X above B is overflow for
good and is left out. Exact but for rounding where blocks are counted one by one; see `Sums.is_exact`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from service.capacity.occupancy.holding import Holding

MOST_CELLS = 2**21
"""Blocks that are counted one by one; larger budgets are counted in as many cells."""
_DAMPING = 24.0
"""What wraps around is weighed by e^-24 = 4e-11, and rounding is raised by e^12 at most."""
_NEGLIGIBLE = -45.0
"""Frequencies whose N-th power is below e^-45 of the largest say nothing in 53 bits."""
_MANY = 8
"""Where more than one in so many frequencies is left, what reads a budget off all of them is worth keeping."""
_STEP = 1.05
"""By what a first guess at a mean is raised or lowered until it lies on the other side."""
CLOSE = 1e-9
"""A tail so close to the risk counts as above it: fewer users, and the same number on every machine."""


class Sums:
    """The sum of independent copies of what one request holds, for budgets of up to `most` blocks."""

    def __init__(self, holding: Holding, most: int, most_cells: int = MOST_CELLS) -> None:
        """Transform what one request holds, once for all budgets and numbers of requests."""
        self._unit = max(int(np.gcd.reduce(holding.blocks)), 1)
        units = most // self._unit
        self.is_exact = units <= most_cells
        """Whether every block counts; else amounts lie on a coarser lattice, split so that their mean stays.

        N of them then move by sqrt(N) / 2 cells (one standard deviation): up to N = 10,000 less than one request does.
        """
        cells = units if self.is_exact else most_cells
        # A sum fits if it is below the next whole unit: half a unit lies between the two.
        self._step = 1.0 if self.is_exact else (units + 0.5) / (cells + 0.5)
        self._size = 1 << (2 * (cells + 1) - 1).bit_length()
        self._rate = _DAMPING / self._size
        damped = self._on_lattice(holding, most, cells) * np.exp(-self._rate * np.arange(cells + 1))
        self._spectrum = np.fft.rfft(damped, self._size)
        self._level = np.log(np.maximum(np.abs(self._spectrum), np.finfo(float).tiny))
        self._readers: dict[int, NDArray[np.complex128]] = {}

    def _on_lattice(self, holding: Holding, most: int, cells: int) -> NDArray[np.float64]:
        kept = holding.blocks <= most
        units, shares = holding.blocks[kept] // self._unit, holding.shares[kept]
        if self.is_exact:
            return np.bincount(units, shares, cells + 1).astype(np.float64)
        at = units / self._step
        below = np.floor(at).astype(np.int64)
        above = at - below
        split = np.bincount(below, shares * (1 - above), cells + 2) + np.bincount(below + 1, shares * above, cells + 2)
        return np.asarray(split[: cells + 1], dtype=np.float64)

    def _cells_of(self, budget: int) -> int:
        units = budget // self._unit
        return units if self.is_exact else int((units + 0.5) / self._step - 0.5)

    def tail(self, requests: int, budget: int) -> float:
        """The chance that so many requests together hold more than `budget` blocks."""
        if requests == 0:
            return 0.0
        used = np.flatnonzero(self._level > self._level[0] + _NEGLIGIBLE / requests)
        return self._outside(_power(self._spectrum[used], requests), used, budget)

    def poisson_tail(self, mean: float, budget: int) -> float:
        """The same of as many requests as a Poisson number of this mean: arrivals that nobody holds back."""
        real = self._spectrum.real
        used = np.flatnonzero(real > real[0] + _NEGLIGIBLE / mean)
        return self._outside(np.exp(mean * (self._spectrum[used] - 1)), used, budget)

    def _outside(self, power: NDArray[np.complex128], used: NDArray[np.int64], budget: int) -> float:
        """One less the sum of the first coefficients of a power series given by its values on the circle."""
        cells = self._cells_of(budget)
        if len(used) * _MANY < len(self._spectrum):
            reader = self._reader(used, cells)
        else:
            if cells not in self._readers:
                self._readers[cells] = self._reader(np.arange(len(self._spectrum)), cells)
            reader = self._readers[cells][used]
        inside = float((power.real * reader.real - power.imag * reader.imag).sum())
        return min(max(1.0 - inside, 0.0), 1.0)

    def _reader(self, used: NDArray[np.int64], cells: int) -> NDArray[np.complex128]:
        """What sums the coefficients up to `cells` from the values at some frequencies: a geometric series of each."""
        turn = np.exp(self._rate + 2j * np.pi / self._size * used)
        last = np.exp(self._rate * (cells + 1) + 2j * np.pi / self._size * (used * (cells + 1) % self._size))
        # Every frequency but the first and the last stands for its mirror image too.
        twice = np.where((used == 0) | (used == self._size // 2), 1.0, 2.0)
        return np.asarray(twice / self._size * (last - 1) / (turn - 1))

    def largest(self, budget: int, risk: float, guess: int) -> int:
        """The most requests whose tail stays below a risk; the tail never falls with their number."""
        return largest_number(lambda requests: self.tail(requests, budget) <= risk - CLOSE, guess)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Raise all to a whole power, by squaring: faster than by logarithms, and rounded less."""
    power = None
    while True:
        if exponent & 1:
            power = base if power is None else power * base
        exponent >>= 1
        if not exponent:
            assert power is not None
            return power
        base = base * base


def largest_number(holds: Callable[[int], bool], guess: int) -> int:
    """The last number of which something holds that holds up to some number and never again; `guess` is a start."""
    low, step = max(guess, 0), 1
    while low > 0 and not holds(low):
        low, step = max(low - step, 0), step * 2
    high, step = low + 1, 1
    while holds(high):
        low, high, step = high, high + step * 2, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def largest_mean(tail: Callable[[float], float], risk: float, guess: float) -> float:
    """The largest Poisson mean whose tail stays below a risk, to 9 digits (regula falsi, with halved ends).

    `guess` is a start above zero. The tail rises with the mean, from none of it.
    """
    aim = risk - CLOSE
    low, high, at_low, at_high = 0.0, guess, -aim, tail(guess) - aim
    while at_high <= 0:
        low, at_low = high, at_high
        high *= _STEP
        at_high = tail(high) - aim
    below = high / _STEP
    while below > low and (at_below := tail(below) - aim) > 0:
        high, at_high, below = below, at_below, below / _STEP
    if below > low:
        low, at_low = below, at_below
    side = 0
    while high - low > 1e-9 * high:
        middle = high - at_high * (high - low) / (at_high - at_low)
        at_middle = tail(middle) - aim
        if at_middle > 0:
            high, at_high, at_low, side = middle, at_middle, at_low / 2 if side > 0 else at_low, 1
        else:
            low, at_low, at_high, side = middle, at_middle, at_high / 2 if side < 0 else at_high, -1
        if at_middle == 0:
            break
    return low
