"""What holds of users at a risk whatever the lengths are."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.capacity.lengths import Running
from service.capacity.occupancy.crowd import Crowd, holds, least_blocks
from service.capacity.workload import Bin, Joint, Marginal, Marginals, Rows, Total, Workload
from tests.crowds import WIDE, crowd, plain_pool
from tests.traces import bundled

LENGTHS = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 800)), min_size=1, max_size=40)
BLOCKS = st.integers(0, 4000)
RISKS = st.floats(1e-7, 0.5)


def rows_of(pairs: list[tuple[int, int]]) -> Rows:
    return Rows(rows=tuple(pairs))


def users(workload: Workload, blocks: int, risk: float = 0.01, **changes: Any) -> int:  # noqa: ANN401 - of any type
    return crowd(workload, blocks, risk=risk, **changes).users.best


@given(LENGTHS, BLOCKS, RISKS, st.integers(1, 2000))
def test_longer_prompts_never_leave_more_users(
    rows: list[tuple[int, int]], blocks: int, risk: float, more: int
) -> None:
    longer = [(prompt + more, output) for prompt, output in rows]
    assert users(rows_of(longer), blocks, risk) <= users(rows_of(rows), blocks, risk)


@given(LENGTHS, BLOCKS, st.lists(RISKS, min_size=2, max_size=5).map(sorted))
def test_a_higher_risk_never_leaves_fewer_users(rows: list[tuple[int, int]], blocks: int, risks: list[float]) -> None:
    found = [users(rows_of(rows), blocks, risk) for risk in risks]
    assert found == sorted(found)


@given(LENGTHS, BLOCKS, RISKS)
def test_counts_and_tails_of_one_answer_agree(rows: list[tuple[int, int]], blocks: int, risk: float) -> None:
    found = crowd(rows_of(rows), blocks, risk=risk)
    own = found.users.best
    assert found.guaranteed <= own <= max(blocks, 1)
    assert found.tail <= risk < found.next_tail + 2e-9
    assert dict(found.at)[risk] == own
    assert [number for _, number in found.at] == sorted((number for _, number in found.at), reverse=True)
    assert found.bracket is None
    tails = [tail for _, tail in found.curve]
    assert tails == pytest.approx(sorted(tails), abs=1e-9)


@given(LENGTHS, BLOCKS, st.floats(0, 1), st.floats(0, 1))
def test_the_more_the_mean_wanders_the_fewer_users(
    rows: list[tuple[int, int]], blocks: int, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert crowd(rows_of(rows), blocks, tau=more).drift.users <= crowd(rows_of(rows), blocks, tau=less).drift.users


@given(LENGTHS, BLOCKS, st.randoms(use_true_random=False))
def test_long_prompts_with_long_outputs_leave_fewest_users_and_with_short_ones_most(
    rows: list[tuple[int, int]],
    blocks: int,
    chance: Any,  # noqa: ANN401 - a random.Random
) -> None:
    prompts, outputs = (sorted(side) for side in zip(*rows, strict=True))
    shuffled = outputs[:]
    chance.shuffle(shuffled)
    together, by_chance, apart = (
        users(rows_of(list(zip(prompts, side, strict=True))), blocks) for side in (outputs, shuffled, outputs[::-1])
    )
    assert together <= by_chance <= apart


@given(LENGTHS, BLOCKS, st.randoms(use_true_random=False))
def test_the_bracket_of_marginals_holds_every_pairing_of_their_lengths(
    rows: list[tuple[int, int]],
    blocks: int,
    chance: Any,  # noqa: ANN401 - a random.Random
) -> None:
    prompts, outputs = (list(side) for side in zip(*rows, strict=True))
    chance.shuffle(outputs)
    found = crowd(Marginals(prompt=side_of(prompts), output=side_of(outputs), mean_held_tokens=None), blocks)
    low, high = found.bracket or (found.users.best, found.users.best)
    own = users(rows_of(list(zip(prompts, outputs, strict=True))), blocks)
    assert low <= own <= high
    assert low <= found.users.best <= high


def side_of(lengths: list[int]) -> Marginal:
    """Lengths as a histogram that keeps each of them apart."""
    bins = tuple(Bin(length - 1, length, lengths.count(length)) for length in sorted(set(lengths)))
    return Marginal(bins=bins, tokens=None)


@pytest.mark.parametrize("trace", ["azure_conv_2023", "mooncake_conversation", "servegen_m_large", "azure_code_2023"])
def test_a_measured_mean_held_narrows_the_bracket_of_marginals(trace: str) -> None:
    joint = bundled(trace)
    known = crowd(joint, 27_508)
    prompt, output = (marginal_of(joint, side) for side in (0, 1))
    by_chance = crowd(Marginals(prompt=prompt, output=output, mean_held_tokens=None), 27_508)
    mean = tokens_held(joint)
    measured = crowd(Marginals(prompt=prompt, output=output, mean_held_tokens=mean), 27_508)
    assert by_chance.bracket is not None
    assert measured.bracket is not None
    (low, high), (narrow_low, narrow_high) = by_chance.bracket, measured.bracket
    print(f"{trace}: {known.users.best} users; {low} to {high}, with the mean {narrow_low} to {narrow_high}")
    # Stretches of bins that go together are points: a count may be one off by that.
    assert low - 1 <= narrow_low - 1 <= known.users.best <= narrow_high + 1 <= high + 1
    assert narrow_high - narrow_low < (high - low) / 2


def marginal_of(joint: Joint, side: int) -> Marginal:
    edges = (joint.prompt_edges, joint.output_edges)[side]
    counts: dict[int, int] = {}
    for cell in joint.counts:
        counts[cell[side]] = counts.get(cell[side], 0) + cell[2]
    bins = []
    for i, count in sorted(counts.items()):
        lower = edges[i]
        assert lower is not None
        bins.append(Bin(lower, edges[i + 1], count))
    return Marginal(bins=tuple(bins), tokens=None)


def tokens_held(workload: Workload) -> float:
    return crowd(workload, 1, pool=plain_pool(1)).mean


@given(st.sampled_from(["azure_conv_2023", "servegen_m_small"]), st.integers(2, 9), BLOCKS)
@settings(max_examples=20)
def test_two_identical_histograms_together_are_one(trace: str, times: int, blocks: int) -> None:
    joint = bundled(trace)
    counts = tuple((i, j, times * count) for i, j, count in joint.counts)
    once, more = crowd(joint, blocks), crowd(msgspec.structs.replace(joint, counts=counts), blocks)
    assert [number for _, number in more.at] == [number for _, number in once.at]
    assert close(more) == pytest.approx(close(once), rel=1e-9, abs=1e-9)


def close(found: Crowd) -> list[float]:
    return [found.mean, found.deviation, found.final, found.tail, found.next_tail, found.beyond]


@given(st.permutations([(900, 5), (20, 700), (300, 300), (300, 301), (1, 1)]), BLOCKS)
def test_the_order_of_rows_that_are_not_ordered_says_nothing(rows: list[tuple[int, int]], blocks: int) -> None:
    assert users(rows_of(rows), blocks) == users(rows_of(sorted(rows)), blocks)


@given(LENGTHS, st.integers(1, 60), RISKS)
@settings(max_examples=50)
def test_the_fewest_blocks_for_so_many_users_are_one_more_than_too_few(
    rows: list[tuple[int, int]], number: int, risk: float
) -> None:
    pool = plain_pool()
    blocks = least_blocks(rows_of(rows), pool, WIDE, risk=risk, users=number, most=2**40)
    assert holds(rows_of(rows), pool, WIDE, risk=risk, users=number, blocks=blocks)
    assert not holds(rows_of(rows), pool, WIDE, risk=risk, users=number, blocks=blocks - 1)
    assert users(rows_of(rows), blocks, risk) >= number
    assert users(rows_of(rows), blocks - 1, risk) < number


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 9)), min_size=1, max_size=8), BLOCKS)
def test_total_lengths_come_with_a_bracket_whose_low_end_weighs_them_by_their_length(
    parts: list[tuple[int, int]], blocks: int
) -> None:
    uppers = np.cumsum([width for width, _ in parts]).tolist()
    bins = tuple(Bin(upper - width, upper, count) for upper, (width, count) in zip(uppers, parts, strict=True))
    found = crowd(Total(bins=bins), blocks)
    assert found.bracket is not None
    low, high = found.bracket
    assert low <= found.users.best == high
    # As rows of one output each hold their length once, and the same repeated as often as they are long.
    once = [(length, 1) for part in bins for length in range(part.lower + 1, part.upper + 1)]  # type: ignore[operator]
    if len({count / width for width, count in parts}) == 1:
        assert users(rows_of(once), blocks) == high
        assert users(rows_of([row for row in once for _ in range(row[0])]), blocks) == low


@given(LENGTHS, BLOCKS, st.integers(0, 5), st.integers(1, 4))
def test_a_draft_holds_more_and_what_it_yields_shortens_decoding_alike(
    rows: list[tuple[int, int]], blocks: int, drafted: int, accepted: int
) -> None:
    plain = users(rows_of(rows), blocks)
    assert users(rows_of(rows), blocks, pool=plain_pool(drafted=drafted)) <= plain
    # All decode steps weigh as much less, so without prefill what is held at a random one is the same.
    assert users(rows_of(rows), blocks, running=Running(window=WIDE.window, accepted=accepted)) == plain
