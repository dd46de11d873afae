"""Where a split may lie: at quantiles of the requests, and at windows that people ask for."""

import numpy as np

from service.capacity.occupancy.steps import Steps, Weights
from service.capacity.split.parting import RouteBy

SHARES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
"""Shares of the requests that stay short."""
_LONG = 2**20
"""Tokens from which on requests are so long that each place takes its time: then every other share has to do."""
_CLOSE = 1e-12


def longest_of(whole: Steps, route_by: RouteBy) -> int:
    """What the longest request has, of what they are told apart by: one that the window cuts has the window."""
    return int(np.flatnonzero(_by_length(whole, route_by))[-1])


def shortest_of(whole: Steps, route_by: RouteBy) -> int:
    """What the shortest request has."""
    return int(np.flatnonzero(_by_length(whole, route_by))[0])


def candidates_of(whole: Steps, route_by: RouteBy) -> tuple[int, ...]:
    """Places to compare, rising: at each of them some requests are short and some are long."""
    requests = np.cumsum(_by_length(whole, route_by))
    longest = longest_of(whole, route_by)
    shares = np.array(SHARES if longest < _LONG else SHARES[::2])
    quantiles = [int(place) for place in np.searchsorted(requests, shares * requests[-1] * (1 - _CLOSE))]
    powers = [2**bits for bits in range(longest.bit_length())] if longest < _LONG else []
    found = {*quantiles, *(power for power in powers if power >= quantiles[0])}
    places = sorted(place for place in found if place < longest)
    if not places and shortest_of(whole, route_by) < longest:
        places = [longest - 1]  # more than half of all are as long as the longest
    return tuple(places)


def _by_length(whole: Steps, route_by: RouteBy) -> Weights:
    return whole.final if route_by == "total" else whole.beginning.astype(np.float64)
