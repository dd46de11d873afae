"""The figures of the reference tables: what a reader of the README can compute by hand."""

import pytest

from service.capacity.cache import FullAttention, Storage
from service.capacity.dtypes import bytes_of, width
from service.capacity.units import ceil_div, shown_gib, shown_kib
from tests.questions import answered

LLAMA_8B = FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128)
LLAMA_70B = FullAttention(layers=80, kv_heads=8, key_dim=128, value_dim=128)
# Share, reserve and block size are the engine's defaults in the reference example, and what stands on them is assumed.
MEASURED_SHARE_AND_RESERVE_ASSUMED = (
    "measured", "assumed", "exact", "assumed", "assumed", "exact", "assumed", "assumed",
)  # fmt: skip
MEAN_2300: dict[str, object] = {"kind": "mean", "tokens": 2300}


def bytes_per_token(cache: FullAttention) -> int:
    (footprint,) = cache.footprints(Storage(dtype="bf16", model_dtype="bf16"))
    return footprint.layers * footprint.record_bytes


def rungs(workload: dict[str, object]) -> dict[int, tuple[int, str]]:
    return {rung.step: (rung.value, rung.shown) for rung in answered(workload=workload).ladder}


def test_llama_8b_takes_128_kib_per_token() -> None:
    assert bytes_per_token(LLAMA_8B) == 131_072
    assert shown_kib(131_072) == "128 KiB"


def test_llama_8b_takes_1_gib_for_8192_tokens_and_0_28_gib_for_2300() -> None:
    assert shown_gib(8192 * bytes_per_token(LLAMA_8B)) == "1.00 GiB"
    assert shown_gib(2300 * bytes_per_token(LLAMA_8B)) == "0.28 GiB"


def test_llama_70b_takes_320_kib_per_token_two_and_a_half_times_the_8b() -> None:
    assert bytes_per_token(LLAMA_70B) == 327_680
    assert shown_kib(327_680) == "320 KiB"
    assert 2 * bytes_per_token(LLAMA_70B) == 5 * bytes_per_token(LLAMA_8B)


def test_counting_query_heads_is_four_times_too_much() -> None:
    as_multi_head = FullAttention(layers=32, kv_heads=32, key_dim=128, value_dim=128)
    assert bytes_per_token(as_multi_head) == 4 * 131_072


def test_deepseek_v2s_own_multi_head_form_takes_4915200_bytes_per_token() -> None:
    # 60 layers, 128 heads, keys of 192 (128 + 64 rotary) and values of 128.
    assert bytes_per_token(FullAttention(layers=60, kv_heads=128, key_dim=192, value_dim=128)) == 4_915_200


def test_500_tokens_take_32_blocks_of_16() -> None:
    assert ceil_div(500, 16) == 32


def test_the_eight_steps_of_the_reference_example() -> None:
    assert rungs(MEAN_2300) == {
        1: (85_520_809_984, "79.65 GiB"),
        2: (76_968_728_985, "71.68 GiB"),
        3: (16_060_522_496, "14.96 GiB"),
        4: (3_221_225_472, "3.00 GiB"),
        5: (57_686_981_017, "53.73 GiB"),
        6: (131_072, "128 KiB"),
        7: (1_073_741_824, "1.00 GiB"),
        8: (53, "53 worst case, 191 paged"),
    }


def test_the_reference_budget_makes_27507_blocks_and_512_of_them_are_a_window() -> None:
    cache = answered().kv_cache
    assert cache.blocks == 27_507
    assert cache.max_concurrency == 53.7246
    assert "27,507 blocks // 512 of a full window = 53 worst case" in answered().ladder[7].formula


def test_191_users_hold_144_blocks_each() -> None:
    answer = answered(workload=MEAN_2300)
    assert answer.users.paged == 191
    assert answer.workload is not None
    assert answer.workload.mean_held_blocks == 144


@pytest.mark.parametrize(
    ("levers", "worst_case", "paged"),
    [
        pytest.param({"kv_heads": 32}, 13, 47, id="multi-head: a quarter"),
        pytest.param({}, 53, 191, id="grouped-query attention"),
        pytest.param({"kv_cache_dtype": "fp8"}, 107, 382, id="fp8 cache: exactly twice the blocks per byte"),
    ],
)
def test_levers_stack(levers: dict[str, object], worst_case: int, paged: int) -> None:
    users = answered(levers=levers, workload=MEAN_2300).users
    assert (users.worst_case, users.paged) == (worst_case, paged)


def test_fp8_weights_raise_the_budget_to_61_20_gib() -> None:
    assert answered(levers={"weight_dtype": "fp8"}).ladder[4].shown == "61.20 GiB"


def test_128k_leaves_3_users_of_16_gib() -> None:
    answer = answered(levers={"max_model_len": 131_072})
    assert answer.users.worst_case == 3
    assert answer.ladder[6].shown == "16.00 GiB"


def test_passing_the_query_heads_as_kv_heads_is_named() -> None:
    assert "kv_heads_are_query_heads" in {caveat.code for caveat in answered(levers={"kv_heads": 32}).caveats}
    assert "kv_heads_are_query_heads" not in {caveat.code for caveat in answered(levers={"kv_heads": 4}).caveats}


def test_the_formula_of_a_mean_gives_the_count_that_it_claims() -> None:
    # (185, 36), (194, 97), (236, 134) run 267 steps and hold 4,580 blocks over them: 39,539 blocks are 2,305 users, and
    # by the rounded mean of 17.1536 they would be 2,304.
    answer = answered(
        model="Qwen/Qwen3-0.6B",
        levers={"max_model_len": 4096},
        workload={"kind": "rows", "rows": [[185, 36], [194, 97], [236, 134]]},
    )
    assert "39,539 blocks // (4,580 / 267) held on average = 2,305 paged" in answer.ladder[7].formula
    assert 39_539 * 267 // 4_580 == answer.users.paged == 2_305


def test_what_stands_on_an_assumption_is_assumed() -> None:
    by_default = {rung.step: rung.certainty for rung in answered().ladder}
    assert by_default == dict(zip(range(1, 9), MEASURED_SHARE_AND_RESERVE_ASSUMED, strict=True))
    stated = answered(
        levers={"gpu_memory_utilization": 0.91, "reserve_bytes": 2**31, "max_model_len": 8192, "block_size": 32}
    )
    assert [rung.certainty for rung in stated.ladder] == [
        "measured", "measured", "exact", "exact", "measured", "exact", "exact", "measured",
    ]  # fmt: skip


def test_every_number_of_the_ladder_explains_itself() -> None:
    for rung in answered(workload=MEAN_2300).ladder:
        assert rung.formula
        assert rung.source
        assert rung.unit
        assert all(operand.source and operand.unit for operand in rung.operands)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0.00 GiB"),
        (5_368_710, "0.01 GiB"),
        (5_368_709, "0.00 GiB"),
        (-(2**30), "-1.00 GiB"),
        (-1, "0.00 GiB"),
        (1024 * 2**30, "1,024.00 GiB"),
    ],
)
def test_gib_are_rounded_half_up_to_two_decimals(amount: int, shown: str) -> None:
    assert shown_gib(amount) == shown


@pytest.mark.parametrize(("amount", "shown"), [(69_120, "67.5 KiB"), (2_621_440, "2,560 KiB"), (100, "0.1 KiB")])
def test_kib_per_token_have_no_trailing_zeros(amount: int, shown: str) -> None:
    assert shown_kib(amount) == shown


@pytest.mark.parametrize(("dtype", "expected"), [("bf16", 20), ("fp16", 20), ("fp32", 40), ("fp8", 10), ("int8", 10)])
def test_ten_elements_take(dtype: str, expected: int) -> None:
    assert bytes_of(10, width(dtype)) == expected


def test_bytes_of_packed_weights_are_rounded_up_to_a_whole_one() -> None:
    # 32 numbers of 4 bits and an exponent of 8 are 17 bytes; one number is 4.25 bits.
    assert (bytes_of(32, width("mxfp4")), bytes_of(1, width("mxfp4"))) == (17, 1)
