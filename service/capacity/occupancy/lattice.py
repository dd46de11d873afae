"""What one request holds, laid out in cells of one size, for the transform that sums many of them.

A lattice of single units is the thing itself. A coarser one is as good where the sum of many is smooth on its scale:
each amount is split over four cells so that mean, variance and skew stay (Lagrange), and what reads a budget off the
sum counts the half cell at its end (Euler and Maclaurin). What is left over falls with the fourth power of the cell.
"""

from math import sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.occupancy.holding import Holding

MOST_UNITS = 2**20
"""Units that are counted one by one; of larger pools only the mean stays, in as many cells.

N requests then move by sqrt(N) / 2 cells (one standard deviation): up to N = 6,000 less than a third of one request.
"""
_FEWEST_CELLS = 2**12
_CELLS_PER_DEVIATION = 5
"""Of one request: then tails are right to 1e-8 or so, as many are summed."""


class Lattice(msgspec.Struct, frozen=True, kw_only=True):
    """Shares by cell, from none on."""

    shares: NDArray[np.float64]
    """Some may be negative, where three moments stay."""
    unit: int
    """Blocks that all amounts are multiples of."""
    step: float
    """Units of a cell."""
    is_smoothed: bool
    """Whether amounts are split so that three moments stay."""

    def cells(self, budget: int) -> int:
        """The last cell within so many blocks: a sum fits if it is below the next whole unit, half a unit away."""
        return int((budget // self.unit + 0.5) / self.step - 0.5 + 1e-9)


def whole(holding: Holding, most: int) -> Lattice:
    """Lay it out unit by unit, for budgets of up to `most` blocks; of too many units, so that the mean stays."""
    unit, units = holding.unit, most // holding.unit
    amounts, shares = _kept(holding, most, unit)
    if units <= MOST_UNITS:
        found = np.bincount(amounts, shares, units + 1).astype(np.float64)
        return Lattice(shares=found, unit=unit, step=1.0, is_smoothed=False)
    step = (units + 0.5) / (MOST_UNITS + 0.5)
    at = amounts / step
    below = np.floor(at).astype(np.int64)
    size = MOST_UNITS + 2
    split = np.bincount(below, shares * (below + 1 - at), size) + np.bincount(below + 1, shares * (at - below), size)
    return Lattice(shares=split[: MOST_UNITS + 1].astype(np.float64), unit=unit, step=step, is_smoothed=False)


def smoothed(holding: Holding, most: int) -> Lattice | None:
    """Lay it out in far fewer cells with three moments; null where whole units are as few."""
    unit, units = holding.unit, most // holding.unit
    deviation = sqrt(holding.variance) / unit
    if deviation <= 0:
        return None
    cells = max(_FEWEST_CELLS, 1 << int(_CELLS_PER_DEVIATION * units / deviation).bit_length())
    if cells * 2 > units or cells > MOST_UNITS:
        return None
    step = (units + 0.5) / (cells + 0.5)
    amounts, shares = _kept(holding, most, unit)
    at = amounts / step
    first = np.maximum(np.floor(at).astype(np.int64), 1)
    part = at - first
    size = cells + 4
    found = np.zeros(size)
    for cell, weight in (
        (-1, -part * (part - 1) * (part - 2) / 6),
        (0, (part + 1) * (part - 1) * (part - 2) / 2),
        (1, -(part + 1) * part * (part - 2) / 2),
        (2, (part + 1) * part * (part - 1) / 6),
    ):
        found += np.bincount(first + cell, shares * weight, size)
    return Lattice(shares=found[: cells + 1], unit=unit, step=step, is_smoothed=True)


def _kept(holding: Holding, most: int, unit: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Amounts within the budget: sums that pass it can't come back, so what is above is overflow for good."""
    number = int(np.searchsorted(holding.blocks, most, side="right"))
    return holding.blocks[:number] // unit, holding.shares[:number]
