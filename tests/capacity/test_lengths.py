"""What requests hold, against hand-counted cases and a brute-force sum over every step."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.capacity.errors import Refused
from service.capacity.lengths import Cost, Held, Running, held
from service.capacity.workload import Bin, Joint, Mean, Paired, Rows, Total
from tests.questions import answered


def blocks_of(size: int) -> Cost:
    """The cost of full attention: whole blocks of so many tokens."""
    return lambda tokens: -(-tokens // size)


def rows_of(*rows: tuple[int, int]) -> Rows:
    return Rows(rows=rows)


@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        pytest.param([(100, 50)], Fraction(249, 2), id="constant: P + (O - 1) / 2"),
        pytest.param([(10, 1), (10, 100)], Fraction(5960, 101), id="long outputs run longer"),
        pytest.param([(1000, 1), (10, 199)], Fraction(22691, 200), id="negative dependence"),
    ],
)
def test_tokens_held_are_weighted_by_decode_steps(rows: list[tuple[int, int]], mean: Fraction) -> None:
    assert held(rows_of(*rows), running=Running(window=10_000), cost=blocks_of(1)).tokens == mean


def test_two_short_requests_hold_blocks_as_counted_by_hand() -> None:
    # (1, 1) holds 1; (1, 3) holds 1, 2, 3: four steps, seven tokens; in blocks of 2: 1 + 1 + 1 + 2.
    result = held(rows_of((1, 1), (1, 3)), running=Running(window=100), cost=blocks_of(2))
    assert (result.tokens, result.blocks) == (Fraction(7, 4), Fraction(5, 4))


def test_a_prompt_that_leaves_no_room_for_an_output_token_is_rejected() -> None:
    result = held(rows_of((99, 5), (100, 5), (200, 5), (10, 1)), running=Running(window=100), cost=blocks_of(16))
    assert result.rejected_share == Fraction(1, 2)
    # (99, 5) is cut after its first step, at which it holds 99 tokens in 7 blocks; (10, 1) holds 10 in one.
    assert result.truncated_share == Fraction(1, 4)
    assert (result.tokens, result.blocks) == (Fraction(109, 2), Fraction(4))


def test_a_workload_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(Refused, match="no prompt leaves room"):
        held(rows_of((100, 5)), running=Running(window=100), cost=blocks_of(16))
    one_cell = Joint(prompt_edges=(100, 200), output_edges=(0, 10), counts=((0, 0, 5),))
    with pytest.raises(Refused, match="no prompt leaves room"):
        held(one_cell, running=Running(window=100), cost=blocks_of(16))


def test_a_total_bin_spreads_its_count_over_its_integers() -> None:
    # 1 to 48 tokens in blocks of 16: a third each of 1, 2 and 3 blocks.
    result = held(Total(bins=(Bin(0, 48, 5),)), running=Running(window=8192), cost=blocks_of(16))
    assert (result.blocks, result.tokens, result.requests) == (Fraction(2), Fraction(49, 2), 5)


def test_lengths_past_the_window_count_as_filling_it() -> None:
    result = held(Total(bins=(Bin(90, 110, 20), Bin(110, None, 10))), running=Running(window=100), cost=blocks_of(10))
    # 91..100 ten blocks each, 101..110 and the open bin fill the window: ten blocks.
    assert result.blocks == 10
    assert result.truncated_share == Fraction(20, 30)


def test_an_open_bin_ends_at_the_window() -> None:
    open_bin = held(Total(bins=(Bin(50, None, 3),)), running=Running(window=100), cost=blocks_of(16))
    closed = held(Total(bins=(Bin(50, 100, 3),)), running=Running(window=100), cost=blocks_of(16))
    assert open_bin == closed


def test_total_lengths_come_with_both_ends_of_the_bracket() -> None:
    # Half at 16 tokens (1 block), half at 1,600 (100 blocks): by request 50.5 blocks, by length 99.0198.
    bins = [
        {"upper": 15, "count": 0},
        {"upper": 16, "count": 1},
        {"upper": 1599, "count": 0},
        {"upper": 1600, "count": 1},
    ]
    answer = answered(workload={"kind": "total", "bins": bins})
    assert answer.workload is not None
    assert answer.workload.users_paged is not None
    # 27,507 blocks // 50.5 = 544; // (16 x 1 + 1600 x 100) / 1616 = 277.
    assert (answer.workload.users_paged.low, answer.workload.users_paged.high) == (277, 544)
    assert answer.users.paged == 544
    assert answer.workload.confidence == "low"
    assert "total_lengths_only" in {caveat.code for caveat in answer.caveats}


def test_a_joint_histogram_of_one_integer_per_bin_is_the_rows_it_came_from() -> None:
    joint = Joint(prompt_edges=(9, 10), output_edges=(0, 1, 99, 100), counts=((0, 0, 1), (0, 2, 1)))
    by_rows = held(rows_of((10, 1), (10, 100)), running=Running(window=8192), cost=blocks_of(16))
    by_cells = held(joint, running=Running(window=8192), cost=blocks_of(16))
    assert (by_cells.blocks, by_cells.tokens) == (by_rows.blocks, by_rows.tokens)


edges = st.lists(st.integers(0, 30), min_size=2, max_size=5, unique=True).map(sorted)


@st.composite
def joints(draw: st.DrawFn) -> Joint:
    prompts: list[int | None] = [*draw(edges)]
    outputs: list[int | None] = [*draw(edges)]
    for axis in (prompts, outputs):
        if draw(st.booleans()):
            axis[-1] = None
    cell = st.tuples(st.integers(0, len(prompts) - 2), st.integers(0, len(outputs) - 2), st.integers(1, 9))
    counts = draw(st.lists(cell, min_size=1, max_size=4))
    return Joint(prompt_edges=tuple(prompts), output_edges=tuple(outputs), counts=tuple(counts))


def step_by_step(pairs: list[tuple[int, int, Fraction]], window: int, block_size: int) -> tuple[Fraction, ...] | None:
    """Walk every step of every (prompt, output, weight): the definition itself."""
    steps = blocks = tokens = rejected = truncated = Fraction(0)
    requests = sum((weight for _, _, weight in pairs), Fraction(0))
    for prompt, output, weight in pairs:
        if prompt >= window:
            rejected += weight
            continue
        truncated += weight * (prompt + output > window)
        for holds in range(prompt, min(prompt + output, window)):
            steps += weight
            tokens += weight * holds
            blocks += weight * -(-holds // block_size)
    if not steps:
        return None
    return blocks / steps, tokens / steps, rejected / requests, truncated / requests


def compared(workload: Paired, pairs: list[tuple[int, int, Fraction]], window: int, block_size: int) -> None:
    expected = step_by_step(pairs, window, block_size)
    if expected is None:
        with pytest.raises(Refused):
            held(workload, running=Running(window=window), cost=blocks_of(block_size))
        return
    result: Held = held(workload, running=Running(window=window), cost=blocks_of(block_size))
    assert (result.blocks, result.tokens, result.rejected_share, result.truncated_share) == expected


@given(joints(), st.integers(1, 35), st.sampled_from([1, 2, 3, 16]))
def test_a_joint_histogram_is_summed_exactly(joint: Joint, window: int, block_size: int) -> None:
    pairs = []
    for i, j, count in joint.counts:
        prompts = range(*bounds(joint.prompt_edges, i, window))
        outputs = range(*bounds(joint.output_edges, j, window))
        weight = Fraction(count, len(prompts) * len(outputs))
        pairs += [(prompt + 1, output + 1, weight) for prompt in prompts for output in outputs]
    compared(joint, pairs, window, block_size)


def bounds(edges: tuple[int | None, ...], index: int, window: int) -> tuple[int, int]:
    lower, upper = edges[index], edges[index + 1]
    assert lower is not None
    return lower, max(window, lower + 1) if upper is None else upper


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=20),
    st.integers(1, 70),
    st.sampled_from([1, 2, 3, 16]),
)
def test_rows_are_summed_exactly(rows: list[tuple[int, int]], window: int, block_size: int) -> None:
    compared(rows_of(*rows), [(*row, Fraction(1)) for row in rows], window, block_size)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=6), st.integers(1, 80))
def test_total_bins_are_averaged_exactly(parts: list[tuple[int, int]], window: int) -> None:
    uppers = sorted({upper for upper, _ in parts})
    counts = dict(parts)
    bins = tuple(Bin(low, high, counts[high]) for low, high in zip([0, *uppers], uppers, strict=False))
    lengths = [
        (min(length, window), Fraction(part.count, uppers[index] - part.lower))
        for index, part in enumerate(bins)
        for length in range(part.lower + 1, uppers[index] + 1)
    ]
    result = held(Total(bins=bins), running=Running(window=window), cost=blocks_of(4))
    requests = sum(counts[upper] for upper in uppers)
    assert result.blocks == sum(weight * -(-length // 4) for length, weight in lengths) / requests
    by_length = sum(weight * length for length, weight in lengths)
    assert result.length_weighted_blocks == sum(w * n * -(-n // 4) for n, w in lengths) / by_length


@given(st.integers(1, 8192), st.integers(0, 64))
def test_more_tokens_never_take_fewer_blocks(tokens: int, more: int) -> None:
    def blocks(count: int) -> Fraction:
        return held(Mean(tokens=count), running=Running(window=10_000), cost=blocks_of(16)).blocks

    assert blocks(tokens) <= blocks(tokens + more) <= blocks(tokens) + blocks(max(more, 1))


def test_sums_stay_exact_where_64_bits_would_not_hold_them() -> None:
    # One cell over a whole window of 2^18 tokens: its sums pass 2^63. For a prompt p with room r = window - p, outputs
    # of 1..r run in full and the longer ones run r steps.
    window = 2**18
    joint = Joint(prompt_edges=(0, window - 1), output_edges=(0, window), counts=((0, 0, 1),))
    steps = tokens = 0
    for room in range(1, window):
        prompt = window - room
        cut = window - room
        steps += room * (room + 1) // 2 + cut * room
        in_full = prompt * room * (room + 1) // 2 + (room - 1) * room * (room + 1) // 6
        tokens += in_full + cut * (prompt * room + room * (room - 1) // 2)
    result = held(joint, running=Running(window=window), cost=blocks_of(16))
    assert tokens > 2**63
    assert result.tokens == Fraction(tokens, steps)


def test_the_sums_of_a_window_of_ten_million_tokens_are_exact() -> None:
    # One request of 1 token in and up to 10,485,760 out, evenly spread, cut at the window of as many tokens:
    # with N = window - 1 steps at most, sum of steps = N(N + 1) / 2 + N, of held tokens by hand below.
    window = 10_485_760
    joint = Joint(prompt_edges=(0, 1), output_edges=(0, window), counts=((0, 0, 1),))
    found = held(joint, running=Running(window=window), cost=lambda tokens: -(-tokens // 16))
    longest = window - 1
    steps = longest * (longest + 1) // 2 + longest
    # A request of O outputs holds 1 + 2 + .. + O tokens: O(O + 1) / 2; summed over O: N(N + 1)(N + 2) / 6.
    tokens = longest * (longest + 1) * (longest + 2) // 6 + longest * (longest + 1) // 2
    assert found.tokens == Fraction(tokens, steps)
    assert found.tokens / 16 < found.blocks < found.tokens / 16 + 1


def test_a_window_longer_than_can_be_weighed_is_refused() -> None:
    with pytest.raises(Refused, match="windows of up to 16,777,216 tokens"):
        held(Rows(rows=((1, 1),)), running=Running(window=2**24 + 1), cost=lambda tokens: tokens)
