"""Short and long requests told apart, against a walk over every pair of lengths."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.capacity.occupancy.steps import Steps
from service.capacity.split.parting import RouteBy, parts_of, short_window, steps_of
from service.capacity.split.places import candidates_of
from service.capacity.workload import Joint, Rows
from tests.questions import answered

ROUTES: tuple[RouteBy, ...] = ("total", "prompt")

edges = st.lists(st.integers(0, 30), min_size=2, max_size=5, unique=True).map(sorted)


@st.composite
def joints(draw: st.DrawFn) -> Joint:
    prompts: list[int | None] = [*draw(edges)]
    outputs: list[int | None] = [*draw(edges)]
    for axis in (prompts, outputs):
        if draw(st.booleans()):
            axis[-1] = None
    cell = st.tuples(st.integers(0, len(prompts) - 2), st.integers(0, len(outputs) - 2))
    counts = draw(st.dictionaries(cell, st.integers(1, 9), min_size=1, max_size=4))
    return Joint(
        prompt_edges=tuple(prompts),
        output_edges=tuple(outputs),
        counts=tuple((i, j, count) for (i, j), count in sorted(counts.items())),
    )


def pairs_of(joint: Joint, window: int) -> list[tuple[int, int, Fraction]]:
    """Every (prompt, output) with its share of the requests; an open bin ends at the window."""
    requests = sum(count for *_, count in joint.counts)
    found = []
    for i, j, count in joint.counts:
        sides = []
        for axis, bin_ in ((joint.prompt_edges, i), (joint.output_edges, j)):
            lower, upper = axis[bin_], axis[bin_ + 1]
            assert lower is not None
            sides.append(range(lower + 1, (max(window, lower + 1) if upper is None else upper) + 1))
        share = Fraction(count, requests * len(sides[0]) * len(sides[1]))
        found += [(prompt, output, share) for prompt in sides[0] for output in sides[1]]
    return found


def walked(pairs: list[tuple[int, int, Fraction]], window: int) -> tuple[list[float], list[float]]:
    """At how many steps so many tokens are held, and with how many requests begin."""
    held, begun = [Fraction(0)] * (window + 1), [Fraction(0)] * (window + 1)
    for prompt, output, share in pairs:
        if prompt < window:
            begun[prompt] += share
            for tokens in range(prompt, min(prompt + output, window)):
                held[tokens] += share
    return [float(one) for one in held], [float(one) for one in begun]


def scaled(steps: Steps, window: int, scale: float) -> tuple[list[float], list[float]]:
    missing = (0, window + 1 - len(steps.decode))
    decode, beginning = (list(np.pad(part, missing) / scale) for part in (steps.decode, steps.beginning))
    return decode, beginning


@pytest.mark.parametrize("route_by", ROUTES)
@given(joint=joints(), window=st.integers(5, 60), at=st.integers(1, 59))
def test_both_parts_of_a_histogram_hold_what_a_walk_over_all_pairs_holds(
    joint: Joint, window: int, at: int, route_by: RouteBy
) -> None:
    assume(at < window)
    pairs = pairs_of(joint, window)
    fitting = sum(share for prompt, _, share in pairs if prompt < window)
    assume(fitting)
    whole = steps_of(joint, window)
    short, long = parts_of(joint, at=at, window=window, route_by=route_by)
    scale = float(whole.beginning.sum()) / float(fitting)

    def is_short(pair: tuple[int, int, Fraction]) -> bool:
        return (pair[0] if route_by == "prompt" else pair[0] + pair[1]) <= at

    for part, of in ((short, filter(is_short, pairs)), (long, (pair for pair in pairs if not is_short(pair)))):
        for found, expected in zip(scaled(part, window, scale), walked(list(of), window), strict=True):
            assert found == pytest.approx(expected, abs=1e-12)
        assert part.decode.min() >= 0
        assert part.beginning.min() >= 0
    assert short.decode + long.decode == pytest.approx(whole.decode, rel=1e-12)


@pytest.mark.parametrize("route_by", ROUTES)
@given(
    rows=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=12),
    window=st.integers(5, 60),
    at=st.integers(1, 59),
)
def test_both_parts_of_rows_are_the_rows_themselves(
    rows: list[tuple[int, int]], window: int, at: int, route_by: RouteBy
) -> None:
    assume(at < window)
    lengths = Rows(rows=tuple(rows))
    short, long = parts_of(lengths, at=at, window=window, route_by=route_by)
    for part, is_short in ((short, True), (long, False)):
        of = [(p, o, Fraction(1)) for p, o in rows if ((p if route_by == "prompt" else p + o) <= at) is is_short]
        assert scaled(part, window, 1) == walked(of, window)


@pytest.mark.parametrize("route_by", ROUTES)
@given(joint=joints(), window=st.integers(5, 60), at=st.integers(1, 59))
def test_no_short_request_is_cut_by_the_window_of_its_pool(
    joint: Joint, window: int, at: int, route_by: RouteBy
) -> None:
    assume(at < window)
    shorter = short_window(joint, at=at, window=window, route_by=route_by)
    assert shorter <= window
    for prompt, output, _ in pairs_of(joint, window):
        if prompt < window and (prompt if route_by == "prompt" else prompt + output) <= at:
            assert min(prompt + output, window) <= shorter


def test_cells_that_reach_far_beyond_the_window_count_by_what_of_them_lies_inside() -> None:
    """A pair of a cell of 2^62 pairs is less than the smallest share; the exact mean knows no such limit."""
    far = 2**31 - 1
    lengths = {"kind": "joint", "prompt_edges": [0, far], "output_edges": [0, far], "counts": [[0, 0, 5]]}
    answer = answered(workload=lengths)
    assert answer.occupancy is not None
    assert answer.workload is not None
    assert answer.occupancy.mean_held_blocks.value == answer.workload.mean_held_blocks
    assert answer.users.at(0.01) == answered(workload=lengths | {"prompt_edges": [0, 2**26]}).users.at(0.01)


def test_a_window_of_prompts_leaves_room_for_the_longest_output_after_a_short_one() -> None:
    lengths = Rows(rows=((10, 5), (100, 30), (100, 80), (900, 999)))
    assert short_window(lengths, at=100, window=8192, route_by="prompt") == 180
    assert short_window(lengths, at=100, window=150, route_by="prompt") == 150
    assert short_window(lengths, at=100, window=8192, route_by="total") == 100


def test_places_to_split_are_quantiles_and_powers_of_two_below_the_longest_request() -> None:
    whole = steps_of(Rows(rows=tuple((10 * number, 1) for number in range(1, 101))), 8192)
    # Totals are 11, 21, .. 1,001: the median 501, then 751, 901, 951, 981, 991; 99.5 % are the longest itself.
    assert candidates_of(whole, "total") == (501, 512, 751, 901, 951, 981, 991)
    assert candidates_of(whole, "prompt") == (500, 512, 750, 900, 950, 980, 990)


def test_where_most_requests_are_the_longest_the_others_are_told_apart_and_equal_ones_are_not() -> None:
    assert candidates_of(steps_of(Rows(rows=((5, 5), (50, 50), (50, 50))), 8192), "total") == (99,)
    assert candidates_of(steps_of(Rows(rows=((50, 50), (50, 50))), 8192), "total") == ()
    assert candidates_of(steps_of(Rows(rows=((40, 60), (50, 50))), 8192), "total") == ()
