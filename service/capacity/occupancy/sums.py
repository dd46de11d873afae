"""How likely so many requests, each at a random step of its own, together hold no more than there is.

With X the blocks of one request, P(X1 + .. + XN <= B) is read off the N-th power of X's generating function on a
circle of radius e^-r (damped, so that what wraps around is below e^-24 of it): one FFT of X, and each N is one power
and a sum over the few frequencies that are left of it.
"""

from collections.abc import Callable
from functools import lru_cache
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from service.capacity.halving import last_that_holds
from service.capacity.occupancy.lattice import Lattice

_DAMPING = 24.0
"""What wraps around is weighed by e^-24 = 4e-11, and rounding is raised by e^12 at most."""
_NEGLIGIBLE = -38.0
"""Values below e^-38 change no tail by more than 1e-11: they are read with weights of e^12 at most, that fall."""
_ROUNDING = 1e-12
_SPLIT = 3 / 128
_DIGITS = 1e-7
"""To what share a mean is found: one digit more than is shown."""
_STEP = 1.05
"""By what a first guess at a mean is raised or lowered until it lies on the other side."""
CLOSE = 1e-9
"""A tail so close to the risk counts as above it: fewer users, and the same number on every machine."""


class Sums:
    """The sum of independent copies of what one request holds."""

    def __init__(self, lattice: Lattice) -> None:
        """Transform what one request holds, once for all budgets and numbers of requests."""
        self._lattice = lattice
        cells = len(lattice.shares)
        self._size = 1 << (2 * cells - 1).bit_length()
        self._rate = _DAMPING / self._size
        self._spectrum = np.fft.rfft(lattice.shares * _damping(self._rate, cells), self._size)
        # From each frequency on, the largest there is, so that what may be left out is found by halving.
        amounts = np.maximum.accumulate(np.abs(self._spectrum)[::-1])
        self._levels = np.log(np.maximum(amounts, np.finfo(float).tiny))
        self._known: dict[tuple[int, int], float] = {}
        self._readers: dict[int, NDArray[np.complex128]] = {}

    def tail(self, requests: int, budget: int) -> float:
        """The chance that so many requests together hold more than `budget` blocks."""
        if requests == 0:
            return 0.0
        if (requests, budget) not in self._known:
            used = self._used(_NEGLIGIBLE / requests)
            self._known[requests, budget] = self._outside(_power(self._spectrum[:used], requests), budget)
        return self._known[requests, budget]

    def poisson_tail(self, mean: float, budget: int) -> float:
        """The same of as many requests as a Poisson number of this mean: arrivals that nobody holds back."""
        # Every value has the chance in it that nobody is there, which is no overflow: apart, the others fall to zero.
        nobody = exp(-mean)
        used = self._used(log(float(np.logaddexp(0, mean + _NEGLIGIBLE)) / mean))
        values = np.exp(mean * (self._spectrum[:used] - 1)) - np.complex128(nobody)
        return self._outside(values, budget, nobody)

    @property
    def step(self) -> float:
        """Units of a cell."""
        return self._lattice.step

    def reach(self, requests: int) -> float:
        """What is left of the sum in the upper half of all frequencies: of a smooth one, nothing (a logarithm)."""
        return requests * float(self._levels[len(self._levels) // 2])

    def doubt(self, requests: int, budget: int) -> float:
        """By how much a tail may be off because amounts were split over cells; of whole units, by nothing.

        A wave of t per cell is off by 3 / 128 t^4 at most in between them (Lagrange), the sum's N times as much.
        """
        if not self._lattice.is_smoothed:
            return 0.0
        waves = self._spectrum[: self._used(_NEGLIGIBLE / requests)]
        off = _SPLIT * (2 * np.pi / self._size * np.arange(len(waves))) ** 4
        reader = self._reader(self._lattice.cells(budget), len(waves))
        return float(requests * (np.abs(waves) ** (requests - 1) * off * np.abs(reader)).sum())

    @property
    def is_exact(self) -> bool:
        """Whether amounts lie on the lattice as they are, or by their mean at least, and not smoothed."""
        return not self._lattice.is_smoothed

    @property
    def counts_units(self) -> bool:
        """Whether every unit of blocks is a cell of its own."""
        return self._lattice.step == 1

    @property
    def is_stable(self) -> bool:
        """Whether no frequency passes the lowest one: else powers grow without end, of shares that may be negative."""
        return float(self._levels[-1]) <= log(abs(self._spectrum[0])) + _ROUNDING

    def _used(self, level: float) -> int:
        """How many frequencies there are, from the lowest on, until all are below a level (a logarithm)."""
        return max(1, len(self._levels) - int(np.searchsorted(self._levels, level, side="right")))

    def _outside(self, power: NDArray[np.complex128], budget: int, inside: float = 0.0) -> float:
        """One less the sum of the first coefficients of a power series given by its values on the circle."""
        reader = self._reader(self._lattice.cells(budget), len(power))
        return min(max(1.0 - inside - float((power * reader).real.sum()), 0.0), 1.0)

    def _reader(self, cells: int, used: int) -> NDArray[np.complex128]:
        """What sums the coefficients up to `cells` from the values at some frequencies: a geometric series of each."""
        known = self._readers.get(cells)
        if known is None or len(known) < used:
            roots = _roots(self._size)
            turn = exp(self._rate) * roots[:used]
            last = exp(self._rate * cells) * roots[np.arange(used) * cells % self._size]
            known = (last * turn - 1) / (turn - 1)
            if self._lattice.is_smoothed:
                # The sum's density falls or rises over the half cell at the end: its slope there, of cell and unit.
                known += (1 - 1 / self._lattice.step**2) / 24 * last * (turn - 1)
            # Every frequency but the first and the last stands for its mirror image too.
            known *= 2 / self._size
            known[0] /= 2
            if used == len(self._spectrum):
                known[-1] /= 2
            self._readers[cells] = known
        return known[:used]

    def largest(self, budget: int, risk: float, guess: int) -> int:
        """The most requests whose tail stays below a risk; the tail never falls with their number."""
        return largest_number(lambda requests: self.tail(requests, budget) <= risk - CLOSE, guess)


@lru_cache(maxsize=4)
def _roots(size: int) -> NDArray[np.complex128]:
    """The roots of unity of a size: pools of about as many blocks share them."""
    return np.asarray(np.exp(2j * np.pi / size * np.arange(size)))


@lru_cache(maxsize=4)
def _damping(rate: float, cells: int) -> NDArray[np.float64]:
    return np.asarray(np.exp(-rate * np.arange(cells)))


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
    return last_that_holds(holds, low, high)


def largest_mean(tail: Callable[[float], float], risk: float, guess: float) -> float:
    """The largest Poisson mean whose tail stays below a risk, to 7 digits (regula falsi, with halved ends).

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
    while high - low > _DIGITS * high:
        middle = high - at_high * (high - low) / (at_high - at_low)
        at_middle = tail(middle) - aim
        if at_middle > 0:
            high, at_high, at_low, side = middle, at_middle, at_low / 2 if side > 0 else at_low, 1
        else:
            low, at_low, at_high, side = middle, at_middle, at_high / 2 if side < 0 else at_high, -1
        if at_middle == 0:
            break
    return low
