"""What requests hold at a random step, against every step of every pair of lengths and against exact fractions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.capacity.errors import Refused
from service.capacity.lengths import Running, held
from service.capacity.occupancy.spread import cut_shares, spread_of
from service.capacity.occupancy.steps import Cells, Steps, steps_of_cells, steps_of_rows
from service.capacity.workload import Bin, Joint, Marginal, Marginals, Paired, Rows, Total
from tests.crowds import holding

MOST_TOKENS = 2**31 - 1
"""The longest length that a question may write."""

PAIRS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=12)
RUNNING = st.builds(
    Running,
    window=st.integers(2, 80),
    chunk=st.none() | st.integers(1, 20),
    accepted=st.sampled_from([1.0, 1.5, 3.25]),
)


@st.composite
def joints(draw: st.DrawFn, longest: int = 40, *, open_ends: bool = True) -> Joint:
    """Some cells of a joint histogram whose bins reach to about `longest`."""
    edges: list[tuple[int | None, ...]] = []
    for _ in range(2):
        inner = draw(st.lists(st.integers(0, longest), min_size=2, max_size=6, unique=True).map(sorted))
        edges.append((*inner, None) if open_ends and draw(st.booleans()) else tuple(inner))
    places = st.tuples(*(st.integers(0, len(side) - 2) for side in edges))
    cells = draw(st.dictionaries(places, st.integers(1, 10**6), min_size=1, max_size=8))
    counts = tuple((i, j, count) for (i, j), count in sorted(cells.items()))
    return Joint(prompt_edges=edges[0], output_edges=edges[1], counts=counts)


def enumerated(pairs: list[tuple[int, int, float]], running: Running) -> dict[str, Any] | None:
    """Weights, prompts and ends of (prompt, output, requests), step by step; null where none runs a step."""
    window, size = running.window, 2 * running.window + 2
    weights, beginning, final = np.zeros(size), np.zeros(size), np.zeros(size)
    steps = 0.0
    for prompt, output, requests in pairs:
        if prompt >= window:
            continue
        beginning[prompt] += requests
        waits = 0 if running.chunk is None else math.ceil(prompt / running.chunk) - 1
        weights[prompt] += requests * waits
        steps += requests * waits
        for step in range(min(output, window - prompt)):
            weights[prompt + step] += requests / running.accepted
        final[min(prompt + output, window)] += requests
    if not beginning.any():
        return None
    requests = beginning.sum()
    return {"weights": weights, "beginning": beginning, "final": final, "prefill_steps": steps / requests}


def compared(steps: Steps, expected: dict[str, Any], running: Running) -> None:
    scale = expected["beginning"].sum() / steps.beginning.sum()
    for name, found in (
        ("weights", steps.weights(running)),
        ("beginning", steps.beginning),
        ("final", steps.final),
    ):
        known = expected[name]
        assert not known[len(found) :].any()
        assert found * scale == pytest.approx(known[: len(found)], rel=1e-9, abs=1e-9 * known.sum()), name
        assert not found[known[: len(found)] == 0].any(), name
    assert steps.prefill_steps(running) == pytest.approx(expected["prefill_steps"], rel=1e-9)


@given(PAIRS, RUNNING)
def test_rows_hold_what_every_one_of_their_steps_holds(rows: list[tuple[int, int]], running: Running) -> None:
    expected = enumerated([(*row, 1.0) for row in rows], running)
    if expected is not None:
        compared(steps_of_rows(np.array(rows, dtype=np.int64), running.window), expected, running)


@given(joints(open_ends=False), RUNNING)
def test_cells_hold_what_every_step_of_every_pair_holds(joint: Joint, running: Running) -> None:
    pairs: list[tuple[int, int, float]] = []
    bounds, counts = [], []
    for i, j, count in joint.counts:
        (first, last), (shortest, longest) = joint.prompt_edges[i : i + 2], joint.output_edges[j : j + 2]
        assert first is not None
        assert last is not None
        assert shortest is not None
        assert longest is not None
        bounds.append((first, last, shortest, longest))
        counts.append(count)
        inside = [(p, o) for p in range(first + 1, last + 1) for o in range(shortest + 1, longest + 1)]
        pairs += [(p, o, count / len(inside)) for p, o in inside]
    expected = enumerated(pairs, running)
    if expected is not None:
        compared(
            steps_of_cells(Cells(np.array(bounds), np.array(counts, dtype=float)), running.window), expected, running
        )


def exactly_held(workload: Paired, running: Running) -> tuple[float, float] | None:
    """Mean blocks and tokens by exact fractions; null where none runs a step."""
    try:
        found = held(workload, running=running, cost=lambda tokens: -(-tokens // 16))
    except Refused:
        return None
    return float(found.blocks), float(found.tokens)


def compared_means(workload: Paired, running: Running) -> None:
    expected = exactly_held(workload, running)
    if expected is None:
        return
    blocks, tokens = expected
    assert holding(workload, running).mean == pytest.approx(blocks, rel=1e-9)
    assert holding(workload, running, block_size=1).mean == pytest.approx(tokens, rel=1e-9)


WIDE_RUNNING = st.builds(
    Running,
    window=st.integers(2, 9000),
    chunk=st.none() | st.integers(1, 3000),
    accepted=st.sampled_from([1.0, 1.5, 3.25]),
)


@given(
    st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 9000)), min_size=1, max_size=30).map(tuple), WIDE_RUNNING
)
def test_rows_have_the_mean_that_exact_fractions_have(rows: tuple[tuple[int, int], ...], running: Running) -> None:
    compared_means(Rows(rows=rows), running)


@given(joints(longest=9000), WIDE_RUNNING)
def test_a_joint_histogram_has_the_mean_that_exact_fractions_have(joint: Joint, running: Running) -> None:
    compared_means(joint, running)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 9)), min_size=1, max_size=8), st.integers(2, 4000))
def test_total_lengths_have_the_mean_that_exact_fractions_have(parts: list[tuple[int, int]], window: int) -> None:
    uppers = np.cumsum([width for width, _ in parts]).tolist()
    bins = [Bin(upper - width, upper, count) for upper, (width, count) in zip(uppers, parts, strict=True) if count]
    compared_means(Total(bins=(*bins, Bin(uppers[-1], None, 1))), Running(window=window))


@pytest.mark.parametrize("window", [2**13, 2**17, 2**20])
@pytest.mark.parametrize("others", [0, 200_000, 2**31])
def test_a_rare_request_of_an_open_bin_spreads_over_all_of_a_wide_window(window: int, others: int) -> None:
    # One request that may have any two lengths beside many short ones: its share of a pair is far below 2^-60.
    counts = ((0, 0, others), (1, 1, 1)) if others else ((1, 1, 1),)
    joint = Joint(prompt_edges=(0, 100, None), output_edges=(0, 100, None), counts=counts)
    expected = exactly_held(joint, Running(window=window))
    assert expected is not None
    assert holding(joint, Running(window=window)).mean == pytest.approx(expected[0], rel=1e-8)


@pytest.mark.parametrize(
    ("prompts", "outputs"),
    [
        pytest.param((0, MOST_TOKENS), (0, MOST_TOKENS), id="both"),
        pytest.param((0, MOST_TOKENS), (0, 100), id="prompts"),
        pytest.param((0, 100), (0, MOST_TOKENS), id="outputs"),
        pytest.param((8190, MOST_TOKENS), (MOST_TOKENS - 1, MOST_TOKENS), id="one prompt of billions fits"),
    ],
)
def test_cells_as_wide_as_can_be_written_keep_what_fits_the_window(
    prompts: tuple[int, int], outputs: tuple[int, int]
) -> None:
    joint = Joint(prompt_edges=prompts, output_edges=outputs, counts=((0, 0, 1),))
    compared_means(joint, Running(window=8192))


def test_a_request_that_fits_is_not_lost_among_all_that_do_not() -> None:
    # 2^53 requests of prompts past the window, in each of two cells, and one of a prompt that fits.
    many = 2**53
    joint = Joint(
        prompt_edges=(0, 100, 9000, MOST_TOKENS),
        output_edges=(0, 10, 20),
        counts=((2, 0, many), (2, 1, many), (0, 0, 1)),
    )
    compared_means(joint, Running(window=8192))
    spread = spread_of(joint, Running(window=8192))
    assert spread is not None
    # The most that can be held is of what runs: a prompt of 100 and up to 10 outputs.
    assert spread.most_tokens == pytest.approx(104.5)


def test_a_total_bin_as_wide_as_can_be_written_fills_the_window() -> None:
    compared_means(Total(bins=(Bin(0, MOST_TOKENS, 1),)), Running(window=8192))


@pytest.mark.parametrize("longest", [200, MOST_TOKENS])
def test_marginals_say_which_share_the_window_rejects_and_cuts(longest: int) -> None:
    # Half of the prompts lie in 1..100 and half in 101..longest; the outputs are 10. The window is of 150 tokens.
    prompt = Marginal(bins=(Bin(0, 100, 3), Bin(100, longest, 3)), tokens=None)
    output = Marginal(bins=(Bin(9, 10, 6),), tokens=None)
    workload = Marginals(prompt=prompt, output=output, mean_held_tokens=None)
    rejected, truncated = cut_shares(workload, 150)
    # Prompts of 150 and more leave no room; of 141 to 149 some of the ten outputs are cut.
    assert rejected == pytest.approx((longest - 149) / (longest - 100) / 2)
    assert truncated == pytest.approx(9 / (longest - 100) / 2)
