"""Users at a risk where questions ask for what can't be, or contradict themselves."""

from typing import Any

import numpy as np
import pytest

from service.capacity.answer import Answer
from service.capacity.errors import Refused
from service.capacity.occupancy.bounds import guaranteed
from service.capacity.occupancy.holding import Holding
from service.capacity.occupancy.overflow import Overflow
from tests.questions import answered, at_risk

MARGINALS: dict[str, Any] = {
    "kind": "marginals",
    "prompt": {"bins": [{"upper": 100, "count": 90}, {"upper": 8000, "count": 10}]},
    "output": {"bins": [{"upper": 10, "count": 50}, {"upper": 2000, "count": 50}]},
}


def codes(answer: Answer) -> set[str]:
    return {caveat.code for caveat in answer.caveats}


@pytest.mark.parametrize("users", [1_000_000, 1_000_000_000, 2**53 - 1])
def test_no_target_takes_more_memory_to_look_at_than_the_card_has(users: int) -> None:
    answer = answered(workload="azure_code_2023", targets={"users": users})
    assert (answer.verdict, answer.inverse is None) == ("does_not_fit", False)
    assert answer.inverse is not None
    reasons = {reason.name: reason.reason for reason in answer.inverse.reasons}
    assert "it would take" in reasons["gpu_memory_utilization"]


@pytest.mark.parametrize("window", [3, 60, 500, 711])
def test_marginals_of_which_a_pairing_never_gets_into_the_window_are_answered(window: int) -> None:
    workload = {
        "kind": "marginals",
        "prompt": {"bins": [{"upper": 22_721, "count": 63}]},
        "output": {"bins": [{"upper": 500, "count": 63}]},
    }
    assert at_risk(answered({"max_model_len": window}, workload=workload)) > 0


@pytest.mark.parametrize("mean", [None, 900.0])
def test_the_inverse_of_marginals_looks_only_at_windows_that_they_have(mean: float | None) -> None:
    workload = MARGINALS if mean is None else MARGINALS | {"mean_held_tokens": mean}
    answer = answered(workload=workload, targets={"users": 1000})
    assert answer.verdict == "does_not_fit"
    assert answer.inverse is not None
    window = answer.inverse.max_model_len
    if window is not None:
        again = answered({"max_model_len": window}, workload=workload, targets={"users": 1000})
        assert again.users.admitted >= 1000


def test_less_than_any_pairing_holds_is_not_counted_on_and_said() -> None:
    # All prompts have 1,000 tokens and all outputs 10: a request holds 1,000 to 1,009, 1,004.5 on average.
    workload = {
        "kind": "marginals",
        "prompt": {"bins": [{"upper": 999, "count": 0}, {"upper": 1000, "count": 10}]},
        "output": {"bins": [{"upper": 9, "count": 0}, {"upper": 10, "count": 10}]},
    }
    known, measured = answered(workload=workload), answered(workload=workload | {"mean_held_tokens": 300.0})
    assert at_risk(measured) == pytest.approx(at_risk(known), abs=2)
    assert "mean_held_contradicts_lengths" in codes(measured)
    assert "mean_held_contradicts_lengths" not in codes(answered(workload=workload | {"mean_held_tokens": 1004.5}))
    assert at_risk(answered(workload=workload | {"mean_held_tokens": 1e-300})) == at_risk(measured)


def test_requests_that_all_hold_the_same_fill_a_pool_of_any_size_to_the_last_block() -> None:
    # Three of 4,194,304 blocks each: no lattice, and no chance.
    overflow = Overflow(Holding(np.array([3]), np.array([1.0])), 4_194_304)
    assert overflow.users(4_194_304, 0.01) == 1_398_101
    assert (overflow.tail(1_398_101, 4_194_304), overflow.tail(1_398_102, 4_194_304)) == (0.0, 1.0)


def test_a_pool_of_too_many_blocks_holds_no_fewer_than_is_proven() -> None:
    holding, blocks = Holding(np.array([3, 4, 5, 9]), np.array([0.25, 0.25, 0.25, 0.25])), 4_194_304
    overflow = Overflow(holding, blocks)
    users = overflow.users(blocks, 0.01)
    assert users >= guaranteed(holding, blocks, 0.01, users) > 0.99 * blocks / holding.mean
    assert not overflow.is_by_blocks


@pytest.mark.parametrize("prefix", [2000, 8192, 20_000])
def test_a_prefix_that_prompts_are_too_short_for_is_refused(prefix: int) -> None:
    with pytest.raises(Refused, match="can't begin with them"):
        answered({"shared_prefix_tokens": prefix}, workload="azure_conv_2023")


def test_a_few_prompts_that_lack_the_prefix_are_named() -> None:
    workload = {"kind": "rows", "rows": [[1000, 10]] * 98 + [[100, 10]] * 2}
    assert "some_prompts_lack_the_prefix" in codes(answered({"shared_prefix_tokens": 500}, workload=workload))


def test_admission_is_never_capped_below_what_the_worst_case_holds() -> None:
    # Eight tokens short of the window each: the drift of lengths that can't grow leaves fewer, and the window all.
    answer = answered({"max_model_len": 2048}, workload={"kind": "rows", "rows": [[2000, 1]]})
    assert answer.users.recommended_max_num_seqs == answer.users.worst_case
    assert answer.occupancy is not None
    assert answer.occupancy.with_drift.value < answer.users.worst_case
    assert "in the worst case" in answer.occupancy.recommended.formula


def test_a_proven_bound_rises_with_the_risk() -> None:
    found = []
    for risk in (0.001, 0.1, 0.3, 0.49, 0.5):
        occupancy = answered(workload="azure_conv_2023", risk=risk).occupancy
        assert occupancy is not None
        found.append(occupancy.guaranteed.value)
    assert found == sorted(found)
