"""What may be held where prompts and outputs, or only their sums, are known by themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.capacity.occupancy.couplings import narrowest, pieces_of, widest, with_mean
from service.capacity.occupancy.steps import Weights
from service.capacity.workload import Bin, Marginal

SHARES = st.lists(st.floats(0.01, 1), min_size=2, max_size=30)


def mean_of(weights: Weights) -> float:
    return float((weights * np.arange(len(weights))).sum() / weights.sum())


def variance_of(weights: Weights) -> float:
    return float((weights * (np.arange(len(weights)) - mean_of(weights)) ** 2).sum() / weights.sum())


def up_to(weights: Weights, size: int) -> Weights:
    """The share that holds so many tokens at most, by tokens."""
    cumulated = np.cumsum(weights) / weights.sum()
    return np.pad(cumulated, (0, size - len(cumulated)), constant_values=1.0)


@given(SHARES, st.integers(1, 20), st.floats(0, 1))
def test_the_widest_and_the_narrowest_between_two_keep_the_mean_and_lie_between(
    shares: list[float], more: int, part: float
) -> None:
    least = np.array(shares)
    most = np.concatenate([np.zeros(more), least])  # all of it longer by so many tokens
    mean = mean_of(least) + part * (mean_of(most) - mean_of(least))
    wide, narrow = widest(least, most, mean), narrowest(least, most, mean)
    low, high = up_to(least, len(most)), up_to(most, len(most))
    for between in (wide, narrow):
        assert mean_of(between) == pytest.approx(mean, rel=1e-9)
        assert (between >= -1e-12).all()
        assert (up_to(between, len(most)) <= low + 1e-9).all()
        assert (up_to(between, len(most)) >= high - 1e-9).all()
    # One that lies between as well, with the same mean: of both a part.
    mixed = np.pad(least, (0, more)) / least.sum() * (1 - part) + most / most.sum() * part
    assert variance_of(narrow) <= variance_of(mixed) + 1e-6
    assert variance_of(mixed) <= variance_of(wide) + 1e-6


@given(SHARES, st.floats(0.1, 10))
def test_what_is_stretched_to_a_measured_mean_has_it(shares: list[float], times: float) -> None:
    weights = np.concatenate([[0.0], shares])
    mean = times * mean_of(weights)
    stretched = with_mean(weights, mean)
    assert mean_of(stretched) == pytest.approx(mean, rel=1e-9)
    assert stretched.sum() == pytest.approx(weights.sum(), rel=1e-9)


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50)), min_size=1, max_size=8), st.floats(0, 1))
def test_a_measured_sum_places_requests_in_their_bins_so_that_it_comes_out(
    parts: list[tuple[int, int]], part: float
) -> None:
    uppers = np.cumsum([width for width, _ in parts]).tolist()
    bins = tuple(Bin(upper - width, upper, count + 1) for upper, (width, count) in zip(uppers, parts, strict=True))
    least = sum(one.count * (one.lower + 1) for one in bins)
    most = sum(one.count * upper for one, upper in zip(bins, uppers, strict=True))
    tokens = least + round(part * (most - least))
    pieces = pieces_of(Marginal(bins=bins, tokens=tokens), window=10_000)
    requests = sum(one.count for one in bins)
    assert sum(share for *_, share in pieces) == pytest.approx(1, rel=1e-12)
    found = sum(share * (lower + 1 + upper) / 2 for lower, upper, share in pieces)
    assert found == pytest.approx(tokens / requests, rel=1e-9)
    # Every bin keeps its requests, and pieces rise.
    for one, upper in zip(bins, uppers, strict=True):
        inside = sum(share for low, high, share in pieces if one.lower <= low and high <= upper)
        assert inside == pytest.approx(one.count / requests, rel=1e-9)
    assert [piece[1] for piece in pieces] == sorted(piece[1] for piece in pieces)
