"""Counts in closed form beside the exact one: a first guess, a proven bound, and what drifting lengths leave."""

from collections.abc import Callable
from math import exp, floor, log, sqrt
from statistics import NormalDist

import numpy as np

from service.capacity.halving import last_that_holds
from service.capacity.occupancy.holding import Holding

_LOOKS = 14
"""Places at which the bound is tried: any of them proves one, more only make it a little better."""
_AROUND = 4.0
"""The best t is within this factor of where a normal sum of as many users would have it, at risks up to `_RARE`."""
_RARE = 0.1


def deviations(risk: float) -> float:
    """How many standard deviations a normal value passes with this chance."""
    return NormalDist().inv_cdf(1 - risk)


def by_moments(holding: Holding, budget: int, risk: float) -> int:
    """The count that mean, variance and skew give (Cornish-Fisher): within a few of the exact one, and no bound.

    N mu + z sd sqrt(N) + sd skew (z^2 - 1) / 6 = B + 1/2, solved for sqrt(N).
    """
    mean, deviation, z = holding.mean, sqrt(holding.variance), deviations(risk)
    left = budget + 0.5 - deviation * holding.skew * (z * z - 1) / 6
    if left <= 0:
        return 0
    root = (-z * deviation + sqrt((z * deviation) ** 2 + 4 * mean * left)) / (2 * mean)
    return int(root * root) if root > 0 else 0


def guaranteed(holding: Holding, budget: int, risk: float, users: int) -> int:
    """A count that is proven not to pass the risk (Chernoff): at least so many, whatever rounding did elsewhere.

    P(S > B) <= exp(N K(t) - t (B + 1)) for every t > 0, with K(t) = log E[exp(t X)]; so N = (t (B + 1) + log risk) /
    K(t) never passes it, and the best t gives the most. `users` is about how many there are.
    """
    largest = float(holding.blocks[-1])

    def bound(at: float) -> float:
        t = exp(at)
        top = t * largest
        cumulant = top + log(float((holding.shares * np.exp(t * holding.blocks - top)).sum()))
        return (t * (budget + 1) + log(risk)) / cumulant

    spare = users * holding.variance
    middle = (budget + 1 - users * holding.mean) / spare if spare > 0 else 0.0
    low, high = log(1e-3 / (budget + 1)), log(50 * -log(risk) / largest + 200 / (budget + 1))
    if middle > 0 and risk <= _RARE:
        low, high = log(middle / _AROUND), log(middle * _AROUND)
    looks = _LOOKS if risk <= _RARE else 2 * _LOOKS
    return max(0, floor(_best(bound, low, high, looks) * (1 - 1e-12)))


def _best(of: Callable[[float], float], low: float, high: float, looks: int) -> float:
    """The highest value of a function with one hill (golden section)."""
    golden = (sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = of(left), of(right)
    for _ in range(looks):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = of(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = of(right)
    return max(at_left, at_right)


def with_drift(holding: Holding, budget: int, risk: float, tau: float) -> int:
    """The count where the mean itself wanders by a share `tau` of it, as recorded traffic does.

    The largest N with N mu + z sqrt(N var + (N tau mu)^2) <= B: deviations that every request has alone and one that
    all have together.
    """
    mean, variance, z = holding.mean, holding.variance, deviations(risk)

    def left(requests: int) -> float:
        return budget - requests * mean - z * sqrt(requests * variance + (requests * tau * mean) ** 2)

    return last_that_holds(lambda requests: left(requests) >= 0, 0, floor(budget / mean) + 1)
