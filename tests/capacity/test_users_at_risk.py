"""Users at a risk as whole answers say them: targets, brackets, the inverse, sessions, and where to cap admission."""

import re
from fractions import Fraction
from math import comb
from typing import Any

import pytest

from service.capacity.answer import Answer
from service.capacity.errors import Refused, UnsupportedCombination
from tests.collected import collected
from tests.questions import answered, at_risk
from tests.traces import recorded

ONES: dict[str, Any] = {"kind": "rows", "rows": [[256, 1]]}
"""Every request holds 16 blocks of 16 tokens while it runs its one step."""
EVEN: dict[str, Any] = {"kind": "rows", "rows": [[16, 1], [48, 1]]}
"""Half of the steps hold one block and half hold three."""
TOTAL: dict[str, Any] = {"kind": "total", "bins": [{"upper": 1000, "count": 9}, {"upper": 4000, "count": 1}]}


def with_blocks(blocks: int, workload: dict[str, Any], **changes: Any) -> Answer:  # noqa: ANN401 - of any type
    """Llama 3.1 8B takes 131,072 B per token: so many blocks of 16 tokens, by hand."""
    levers = {"kv_cache_memory_bytes": blocks * 16 * 131_072, "reserve_bytes": 0, "max_model_len": 64}
    return answered(levers | changes.pop("levers", {}), workload=workload, **changes)


def test_a_target_of_users_at_risk_is_met_up_to_the_count_and_no_further() -> None:
    users = at_risk(answered(workload="azure_conv_2023"))
    for target, verdict in ((users, "fits"), (users + 1, "does_not_fit")):
        answer = answered(workload="azure_conv_2023", targets={"users": target})
        assert (answer.verdict, answer.fits) == (verdict, verdict == "fits")


def test_between_the_ends_of_a_memory_in_doubt_a_target_is_likely_or_unlikely() -> None:
    ruled: dict[str, Any] = {"engine": "vllm@0.33", "workload": "azure_conv_2023"}
    # Otherwise the scheduler's own cap is in the way: 256 sequences.
    many = {"max_num_seqs": 4096}
    interval = answered(many, **ruled).interval
    assert interval is not None
    users = interval.users_at_risk
    assert users is not None
    assert users.low < users.best < users.high
    for target, verdict in (
        (users.low, "fits"),
        (users.low + 1, "likely"),
        (users.best, "likely"),
        (users.best + 1, "unlikely"),
        (users.high, "unlikely"),
        (users.high + 1, "does_not_fit"),
    ):
        answer = answered(many, targets={"users": target}, **ruled)
        assert answer.verdict == verdict, target


def test_of_total_lengths_a_target_is_met_for_certain_only_at_the_low_end_of_the_bracket() -> None:
    answer = answered(workload=TOTAL)
    assert answer.occupancy is not None
    bracket = answer.occupancy.bracket
    assert bracket is not None
    assert bracket.low < bracket.high == at_risk(answer)
    for target, verdict in ((bracket.low, "fits"), (bracket.low + 1, "likely"), (bracket.high + 1, "does_not_fit")):
        assert answered(workload=TOTAL, targets={"users": target}).verdict == verdict


@pytest.mark.parametrize("workload", ["azure_conv_2023", EVEN, {"kind": "rows", "rows": [[300, 700], [5000, 20]]}])
def test_the_inverse_at_risk_is_tight(workload: Any) -> None:  # noqa: ANN401 - a key or a document
    users = at_risk(answered(workload=workload)) * 6 // 5
    answer = answered(workload=workload, targets={"users": users})
    assert answer.inverse is not None
    window, share = answer.inverse.max_model_len, answer.inverse.gpu_memory_utilization
    if window is not None:
        for tokens, fits in ((window, True), (window + 1, False)):
            question = answered({"max_model_len": tokens}, workload=workload, targets={"users": users})
            assert question.fits is fits, tokens
    if share is not None:
        # One block of 16 tokens less of 85 GB: 2.5e-5 of them.
        for fraction, fits in ((share, True), (share - 3e-5, False)):
            question = answered({"gpu_memory_utilization": fraction}, workload=workload, targets={"users": users})
            assert question.fits is fits, fraction
    assert window is not None or share is not None


def test_the_smallest_share_is_that_of_the_fewest_blocks() -> None:
    # 100 users of 16 blocks each take 1,600: 1,600 x 16 x 131,072 B and 14.96 GiB of weights and 3 GiB of reserve.
    answer = answered({"gpu_memory_utilization": 0.2}, workload=ONES, targets={"users": 1000})
    assert answer.inverse is not None
    share = answer.inverse.gpu_memory_utilization
    assert share is not None
    needed = 16_000 * 16 * 131_072
    kv = next(
        rung.value
        for rung in answered({"gpu_memory_utilization": share}, workload=ONES).ladder
        if rung.name == "kv_budget"
    )
    # The share has nine digits: one of them is 86 B.
    assert 0 <= kv - needed < 90


@collected
def test_a_prefix_that_all_share_counts_once() -> None:
    rows = [[prompt + 2000, output] for prompt, output in recorded("azure_conv_2023").tolist()]
    question: dict[str, Any] = {"workload": {"kind": "rows", "rows": rows}}
    # 440,137 tokens are 27,508 blocks; 2,000 tokens are 125 of them. The window keeps all of the trace.
    apart = answered({"max_model_len": 32_768}, **question)
    together = answered({"max_model_len": 32_768, "shared_prefix_tokens": 2000}, **question)
    assert (at_risk(apart), at_risk(together)) == (129, 329)
    assert together.occupancy is not None
    assert together.occupancy.shared_blocks.value == 125
    assert together.occupancy.overflow.value == pytest.approx(0.0086, abs=5e-5)
    assert together.users.worst_case == apart.users.worst_case


def test_what_means_nothing_is_refused() -> None:
    refusals: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
        ({"speculative_tokens": 2, "accepted_tokens": 3.5}, {"workload": ONES}, "yields 3 at most"),
        ({"accepted_tokens": 1.5}, {"workload": ONES}, "yields 1 at most"),
        ({"shared_prefix_tokens": 16, "enable_prefix_caching": False}, {"workload": ONES}, "prefix caching only"),
        ({}, {"sessions": {"active_share": 0.5}}, "of a workload: give one"),
        ({}, {"targets": {"users": 1, "basis": "at_risk"}}, "needs a workload"),
    )
    for levers, changes, detail in refusals:
        with pytest.raises((Refused, UnsupportedCombination), match=re.escape(detail)):
            answered(levers, **changes)


def test_people_and_warm_conversations_are_as_counted_by_hand() -> None:
    # 1,000 blocks of which 50 users hold 16 each leave 200; a whole conversation of 257 tokens takes 17: 11 of them.
    sessions = {"think_seconds": 45, "turn_seconds": 15}
    levers = {"max_model_len": 512, "max_num_seqs": 50}
    answer = with_blocks(1000, ONES, levers=levers, sessions=sessions)
    assert answer.users.admitted == 50
    assert answer.sessions is not None
    assert answer.sessions.people.value == 200  # each runs a quarter of its time
    assert answer.sessions.warm_sessions is not None
    assert answer.sessions.warm_sessions.value == (1000 - 50 * 16) // 17 == 11
    by_share = with_blocks(1000, ONES, levers=levers, sessions={"active_share": 0.3})
    assert by_share.sessions is not None
    assert by_share.sessions.people.value == 166  # 50 / 0.3 = 166.7
    codes = {caveat.code for caveat in answer.caveats}
    assert {"prefix_cache_is_evictable", "hit_rate_falls_at_the_cap"} <= codes
    # Two copies: twice the people and twice the warm conversations.
    double = with_blocks(1000, ONES, levers=levers | {"data_parallel": 2}, sessions=sessions)
    assert double.sessions is not None
    assert double.sessions.warm_sessions is not None
    assert (double.sessions.people.value, double.sessions.warm_sessions.value) == (400, 22)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"tau": 0.0}, "at a risk of 0.01", id="no drift, and no skew term: the exact count"),
        pytest.param({"tau": 0.2}, "with drift", id="drift"),
        pytest.param({"tau": 0.2, "levers": {"max_num_seqs": 3}}, "max_num_seqs", id="the scheduler"),
    ],
)
def test_the_recommended_cap_is_the_least_count_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    levers = changes.pop("levers", {})
    answer = answered(levers, workload="servegen_m_small", **changes)
    assert answer.occupancy is not None
    occupancy = answer.occupancy
    counts = {"at a risk of 0.01": occupancy.users.value, "with drift": occupancy.with_drift.value} | levers
    assert counts[reason] == min(counts.values())
    assert answer.users.recommended_max_num_seqs == occupancy.recommended.value == counts[reason]
    assert occupancy.recommended.formula.endswith(f": {reason}")


def test_the_highest_and_lowest_risk_are_answered() -> None:
    low, high = (answered(workload="azure_conv_2023", risk=risk) for risk in (1e-7, 0.5))
    assert at_risk(low, 1e-7) < at_risk(low, 0.001) < at_risk(high, 0.05) < at_risk(high, 0.5)
    assert high.occupancy is not None
    # At even chances it is the mean fit, give or take the skew.
    assert abs(at_risk(high, 0.5) - high.occupancy.mean_fit.value) <= 1
    assert high.occupancy.guaranteed.value <= at_risk(high, 0.5)


@pytest.mark.parametrize("blocks", [4, 5, 8, 100, 1000])
def test_pools_of_a_few_blocks_are_counted_exactly(blocks: int) -> None:
    # Every request holds one block or three: N of them N + 2 K, K binomial.
    def overflows(number: int) -> float:
        return float(Fraction(sum(comb(number, k) for k in range(number + 1) if number + 2 * k > blocks), 2**number))

    expected = max(n for n in range(blocks + 1) if overflows(n) <= 0.01)
    answer = with_blocks(blocks, EVEN)
    assert at_risk(answer) == expected
    assert answer.occupancy is not None
    assert answer.occupancy.overflow.value == pytest.approx(overflows(expected), rel=1e-5, abs=1e-9)
    assert answer.occupancy.overflow_with_one_more.value == pytest.approx(overflows(expected + 1), rel=1e-5)


def test_a_pool_without_a_block_holds_nobody_and_says_so() -> None:
    answer = answered({"gpu_memory_utilization": 0.19}, workload=EVEN)
    assert not answer.fits
    assert answer.users.at_risk is not None
    assert {one.users for one in answer.users.at_risk} == {0}
    assert answer.users.recommended_max_num_seqs is None


def test_a_giant_that_never_fits_is_a_caveat() -> None:
    # 512 blocks are one full window of 8,192; the giants take up to that of 300.
    workload = {"kind": "rows", "rows": [[16, 1]] * 50 + [[8000, 1]]}
    answer = with_blocks(300, workload, levers={"max_model_len": 8192})
    assert at_risk(answer, 0.01) == 0
    assert answer.occupancy is not None
    assert answer.occupancy.never_fits.value == pytest.approx(1 / 51, rel=1e-5)
    assert "some_requests_never_fit" in {caveat.code for caveat in answer.caveats}


def test_copies_multiply_users_and_stages_hold_what_the_fullest_does() -> None:
    one = answered(workload="azure_conv_2023")
    four = answered({"data_parallel": 4}, workload="azure_conv_2023")
    assert at_risk(four) == 4 * at_risk(one)
    assert four.users.recommended_max_num_seqs == one.users.recommended_max_num_seqs
    # 20 of 32 layers on one stage: a block is dearer there, and it keeps the embeddings, so it holds fewest.
    uneven = answered({"pipeline_parallel": 2, "pipeline_layers": [20, 12]}, workload="azure_conv_2023")
    even = answered({"pipeline_parallel": 2}, workload="azure_conv_2023")
    assert at_risk(one) < at_risk(uneven) < at_risk(even)
    assert uneven.occupancy is not None
    assert at_risk(uneven) == uneven.occupancy.users.value


def test_rows_in_their_order_say_how_their_mean_wanders() -> None:
    # Long runs of short requests, then of long ones: windows differ by far more than chance makes them.
    rows = ([[100, 10]] * 400 + [[1000, 10]] * 400) * 5
    wandering, shuffled = (
        with_blocks(300, {"kind": "rows", "rows": rows, "ordered": ordered}, levers={"max_model_len": 2048})
        for ordered in (True, False)
    )
    assert wandering.occupancy is not None
    assert shuffled.occupancy is not None
    taus = [
        next(operand for operand in answer.with_drift.operands if operand.name == "tau")
        for answer in (wandering.occupancy, shuffled.occupancy)
    ]
    assert (taus[0].certainty, taus[1].certainty, taus[1].value) == ("measured", "assumed", 0.08)
    assert taus[0].value > 0.5
    assert wandering.occupancy.with_drift.value < shuffled.occupancy.with_drift.value
    assert wandering.occupancy.users.value == shuffled.occupancy.users.value
