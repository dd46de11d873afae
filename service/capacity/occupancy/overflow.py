"""The chance of an overflow, by cells where that can't change a count, else block by block.

Cells see no more of a distribution than what varies slower than they do. That there is nothing else has to be shown: of
the sum of N requests, that the N-th power of what one of them has of faster waves is next to nothing.
"""

from functools import cached_property
from math import log, pi

from service.capacity.halving import last_that_holds
from service.capacity.occupancy.bounds import by_moments, guaranteed
from service.capacity.occupancy.holding import Holding
from service.capacity.occupancy.lattice import smoothed, whole
from service.capacity.occupancy.sums import CLOSE, Sums, largest_mean

_SMOOTH = -25.0
"""Less than e^-25 of a sum in the upper half of the cells' frequencies and beyond: its tail by cells is right."""
_SURE = 1e-7
"""Tails by cells are right to this, or aren't taken."""
_MARGIN = 10 * _SURE
"""So far from the risk a tail by cells lies on the same side as the exact one."""
_LEAST_RISK = 1e-4


class Overflow:
    """Requests that hold alike in one pool, for budgets of up to `most` blocks."""

    def __init__(self, holding: Holding, most: int) -> None:
        """Remember what one of them holds."""
        self.holding = holding
        self._most = most
        self._by_budget: dict[int, tuple[Sums, float] | None] = {}
        self._by_sum: dict[tuple[int, int], Sums] = {}

    @cached_property
    def _blocks(self) -> Sums:
        return Sums(whole(self.holding, self._most))

    def _cells(self, budget: int) -> tuple[Sums, float] | None:
        """Sums by cells, which are laid out to end at the budget, and what they don't see of one request (a logarithm).

        Null where there are as few whole blocks.
        """
        if budget not in self._by_budget:
            lattice = smoothed(self.holding, budget)
            sums = None if lattice is None else Sums(lattice)
            self._by_budget[budget] = None
            if sums is not None and sums.is_stable:
                self._by_budget[budget] = sums, log(self.holding.most_wave(pi / (2 * sums.step)))
        return self._by_budget[budget]

    def _smooth(self, requests: int, budget: int) -> Sums | None:
        """Sums by cells where they see all of so many requests; else null."""
        known = self._cells(budget)
        if known is None:
            return None
        cells, finer = known
        if max(cells.reach(requests), requests * finer) > _SMOOTH:
            return None
        return cells if cells.doubt(requests, budget) <= _SURE else None

    def _sums(self, requests: int, budget: int) -> Sums:
        """What the sum of so many is read from."""
        if (requests, budget) not in self._by_sum:
            self._by_sum[requests, budget] = self._smooth(requests, budget) or self._blocks
        return self._by_sum[requests, budget]

    def tail(self, requests: int, budget: int) -> float:
        """The chance that so many requests together hold more than `budget` blocks."""
        if len(self.holding.blocks) == 1:
            return float(requests * int(self.holding.blocks[0]) > budget)
        return self._sums(requests, budget).tail(requests, budget) if requests else 0.0

    def users(self, budget: int, risk: float) -> int:
        """The most requests whose chance of an overflow stays below a risk."""
        if len(self.holding.blocks) == 1:
            return budget // int(self.holding.blocks[0])
        guess = by_moments(self.holding, budget, risk)
        cells = self._sums(guess, budget) if guess and risk >= _LEAST_RISK else self._blocks
        if not cells.is_exact:
            users = cells.largest(budget, risk, guess)
            if users and all(self._is_clear(number, budget, risk) for number in (users, users + 1)):
                return users
            guess = users
        users = self._blocks.largest(budget, risk, guess)
        # Cells that keep no more than the mean err on the side of fewer: never below what is proven.
        return users if self._blocks.counts_units else max(users, guaranteed(self.holding, budget, risk, users))

    def _is_clear(self, requests: int, budget: int, risk: float) -> bool:
        """Whether no closer look can move a count by cells to the other side of the risk."""
        cells = self._sums(requests, budget)
        return not cells.is_exact and abs(cells.tail(requests, budget) - risk) > _MARGIN

    def holds(self, requests: int, budget: int, risk: float) -> bool:
        """Whether so many requests stay below a risk."""
        if len(self.holding.blocks) == 1:
            return requests * int(self.holding.blocks[0]) <= budget
        if risk >= _LEAST_RISK and self._is_clear(requests, budget, risk):
            return self.tail(requests, budget) <= risk
        return self._blocks.tail(requests, budget) <= risk - CLOSE

    def least_blocks(self, requests: int, risk: float) -> int:
        """The fewest blocks in which so many requests stay below a risk; `most` if it takes more."""
        return 1 + last_that_holds(lambda blocks: self._blocks.tail(requests, blocks) > risk - CLOSE, -1, self._most)

    @property
    def is_by_blocks(self) -> bool:
        """Whether anything was counted block by block so far."""
        return "_blocks" in vars(self) and self._blocks.counts_units

    def in_flight(self, budget: int, risk: float, users: int) -> float:
        """The largest mean of a Poisson number of requests whose chance of an overflow stays below a risk."""
        if budget == 0:
            return 0.0
        sums = self._sums(max(users, 1), budget)
        return largest_mean(lambda mean: sums.poisson_tail(mean, budget), risk, max(0.9 * users, 1e-3))
