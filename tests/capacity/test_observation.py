"""A start-up beside its prediction: every figure, the rung that is off most, and the reserve that was kept back.

The question is of 85,520,809,984 B x 0.9 = 76,968,728,985 B, 16,060,522,496 B of weights and a flat 3 GiB of reserve:
57,686,981,017 B of cache, 27,507 blocks of 16 tokens x 131,072 B, 53.7246 windows of 8,192 tokens.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from service.capacity.observation import compare, observed_reserve
from service.capacity.observed import ComparedFigure, Comparison, Observed
from service.capacity.planner import plan
from service.capacity.question import ObservedReserve, Question
from service.capacity.units import GIB, Estimate, surely
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import ENGINE, FIXED, version

NOTHING: Mapping[str, object] = MappingProxyType({})
USABLE = 76_968_728_985
WEIGHTS = 16_060_522_496
KV = 57_686_981_017


def question(other: Mapping[str, object] = NOTHING, **changes: Any) -> Question:  # noqa: ANN401 - any part of a question
    catalog = Catalog(1, [*FIXED, version("engines", "other@1", ENGINE | dict(other))])
    document = {
        "model": "test/grouped",
        "gpu": {"key": "card", "version": 1},
        "engine": "other@1" if other else "generic",
        "levers": {"max_model_len": 8192},
    } | changes
    return resolve(strict_json.convert(document, AskedQuestion), catalog)


def beside(asked: Question, **seen: Any) -> Comparison:  # noqa: ANN401 - any part of what was observed
    return compare(asked, plan(asked), Observed(**({"outcome": "ready"} | seen)))


def figures(comparison: Comparison) -> dict[str, ComparedFigure]:
    return {one.name: one for one in comparison.figures}


def test_what_neither_weights_nor_cache_took_was_kept_back() -> None:
    found = beside(question(), weights=surely(16_100_000_000), kv_budget=surely(58_000_000_000))
    reserve = figures(found)["reserve"]
    assert reserve.predicted == 3 * GIB
    assert reserve.observed == USABLE - 16_100_000_000 - 58_000_000_000
    assert reserve.difference == 2_868_728_985 - 3_221_225_472
    assert figures(found)["weights"].difference == 39_477_504
    assert figures(found)["kv_budget"].difference == 313_018_983
    assert (found.off_most, found.off_by_bytes) == ("reserve", -352_496_487)


def test_the_memory_that_the_engine_saw_counts_before_the_catalogs() -> None:
    saw = 85_000_000_000
    kept = observed_reserve(
        question(),
        Observed(outcome="ready", reported_capacity=surely(saw), weights=surely(WEIGHTS), kv_budget=surely(KV)),
    )
    assert kept == surely(76_500_000_000 - WEIGHTS - KV)


def test_a_reserve_is_as_unsure_as_the_digits_that_it_is_computed_from() -> None:
    weights, kv = Estimate(WEIGHTS - 5, WEIGHTS, WEIGHTS + 7), Estimate(KV - 11, KV, KV + 13)
    kept = observed_reserve(question(), Observed(outcome="ready", weights=weights, kv_budget=kv))
    assert kept == Estimate(3 * GIB - 20, 3 * GIB, 3 * GIB + 16)


@pytest.mark.parametrize(
    ("fraction_of", "kept"),
    [
        # 0.9 of what is free before the model is loaded: weights and cache are 0.9 of memory less what is gone.
        ("free", 85_520_809_984 - (WEIGHTS + 40_000_000_000) * 10 // 9),
        # 0.9 of what is left when the model is loaded and has run.
        ("left", 85_520_809_984 - WEIGHTS - 40_000_000_000 * 10 // 9),
    ],
)
def test_a_fraction_of_something_else_leaves_another_reserve(fraction_of: str, kept: int) -> None:
    asked = question({"fraction_of": fraction_of})
    seen = Observed(outcome="ready", weights=surely(WEIGHTS), kv_budget=surely(40_000_000_000))
    assert observed_reserve(asked, seen) == surely(kept)


def test_a_cache_that_was_set_by_hand_tells_no_reserve() -> None:
    asked = question(levers={"max_model_len": 8192, "kv_cache_memory_bytes": 10 * GIB})
    found = beside(asked, weights=surely(WEIGHTS), kv_budget=surely(10 * GIB))
    assert "reserve" not in figures(found)
    assert figures(found)["kv_budget"].within_rounding


def test_without_the_weights_or_the_cache_nothing_is_said_of_the_reserve() -> None:
    assert set(figures(beside(question(), kv_budget=surely(KV)))) == {"kv_budget"}
    assert set(figures(beside(question(), weights=surely(WEIGHTS)))) == {"weights"}


def test_all_as_predicted_is_said() -> None:
    found = beside(question(), weights=surely(WEIGHTS), kv_budget=surely(KV), max_concurrency=53.72)
    assert all(one.within_rounding for one in found.figures)
    assert (found.off_most, found.off_by_bytes, found.verdict_held) == (None, None, True)
    assert found.summary.startswith("It started, as predicted. KV cache: 53.73 GiB where 53.73 GiB was predicted")
    assert found.summary.endswith("Every figure of memory is as predicted, as far as it was printed.")


def test_what_was_printed_is_as_predicted_where_its_digits_allow_it() -> None:
    # 14.96 GiB stand for 16,057,930,579 to 16,068,667,999 B; 14.97 for more than the weights.
    assert figures(beside(question(), weights=Estimate(16_057_930_579, 16_063_299_287, 16_068_667_999)))[
        "weights"
    ].within_rounding
    found = beside(question(), weights=Estimate(16_068_667_996, 16_074_036_705, 16_079_405_414))
    assert not figures(found)["weights"].within_rounding
    assert found.off_by_bytes == 13_514_209


def test_cache_over_concurrency_is_what_a_window_takes() -> None:
    # Half the users in the same cache: each takes twice as much, and the budget is as predicted.
    found = beside(question(), kv_budget=surely(KV), max_concurrency=26.86)
    window = figures(found)["bytes_per_window"]
    assert window.predicted == GIB
    assert window.observed == int(KV / 26.86)
    assert not window.within_rounding
    assert found.off_most == "bytes_per_window"
    # All 53.7246 windows together.
    assert found.off_by_bytes == pytest.approx(53.7246 * (KV / 26.86 - GIB), rel=1e-6)


def test_the_rest_of_a_block_is_no_difference_of_the_window() -> None:
    # 57,686,981,017 B are 27,507.28 blocks of 2,097,152 B: the printed concurrency is of whole ones.
    assert figures(beside(question(), kv_budget=surely(KV), max_concurrency=53.72))["bytes_per_window"].within_rounding


def test_what_a_refusal_needs_is_what_a_window_takes() -> None:
    found = beside(question(), outcome="failed", failure="window_too_long", bytes_per_window=surely(GIB + 1))
    assert figures(found)["bytes_per_window"].difference == 1


def test_a_concurrency_of_nothing_tells_no_window() -> None:
    assert set(figures(beside(question(), kv_budget=surely(KV), max_concurrency=0.0))) == {
        "kv_budget",
        "max_concurrency",
    }


def test_concurrency_is_compared_in_hundredths() -> None:
    assert figures(beside(question(), max_concurrency=53.72))["max_concurrency"].within_rounding
    found = figures(beside(question(), max_concurrency=53.73))["max_concurrency"]
    assert (found.difference, found.within_rounding, found.within_interval) == (0.0054, False, False)


def test_an_interval_holds_what_lies_in_it() -> None:
    # Reserves of 2 to 5 GiB: the cache is 51.73 to 54.73 GiB, where 3 GiB leave 53.73.
    reserve = ObservedReserve(
        observation="obs_1", on="2026-01-01", start_ups=3, bytes=Estimate(2 * GIB, 3 * GIB, 5 * GIB)
    )
    asked = msgspec.structs.replace(question(), observed_reserve=reserve)
    for kv, users, held in ((KV + GIB, 54.72, True), (KV + GIB + 1, 54.74, False), (KV - 2 * GIB, 51.72, True)):
        found = figures(beside(asked, kv_budget=surely(kv), max_concurrency=users))
        assert (found["kv_budget"].low, found["kv_budget"].high) == (KV - 2 * GIB, KV + GIB)
        assert found["kv_budget"].within_interval is held
        assert found["max_concurrency"].within_interval is held


def test_tokens_and_blocks_are_compared_where_the_layers_form_one_group() -> None:
    levers = {"max_model_len": 8192, "reserve_bytes": 3 * GIB}
    one = beside(question(engine="ruled@1", levers=levers), printed_tokens=440_112, blocks=27_507)
    # One of them is the null block, which isn't counted in users and is in what is printed.
    assert figures(one)["blocks"].within_rounding
    assert figures(one)["printed_tokens"].within_rounding
    several = question(model="test/windows", engine="ruled@1", levers=levers)
    assert not beside(several, printed_tokens=440_112, blocks=27_507).figures
    assert not beside(question(), printed_tokens=440_112, blocks=27_507).figures  # an engine without groups


@pytest.mark.parametrize(
    ("outcome", "failure", "window", "held", "words"),
    [
        ("ready", None, 8192, True, "It started, as predicted."),
        ("failed", "window_too_long", 8192, False, "It failed to start (window_too_long), though it was predicted to."),
        ("failed", "out_of_memory", 131_072, True, "It failed to start (out_of_memory), as predicted."),
        ("failed", None, 131_072, True, "It failed to start, as predicted."),
        ("ready", None, 131_072, False, "It started, though no full window was predicted to fit."),
        ("unfinished", None, 8192, None, "Whether it started isn't known."),
        (
            "failed",
            "device_not_free",
            8192,
            None,
            "It failed to start (device_not_free): other processes hold memory that the plan counts on.",
        ),
    ],
)
def test_a_start_is_held_against_whether_one_window_fits(
    outcome: str,
    failure: str | None,
    window: int,
    held: bool | None,  # noqa: FBT001 - a case's value
    words: str,
) -> None:
    # 45 GiB of reserve leave 11.73 GiB: eleven short windows, and not the 16 GiB of a long one.
    asked = question(levers={"max_model_len": window, "reserve_bytes": 45 * GIB})
    found = beside(asked, outcome=outcome, failure=failure)
    assert (found.verdict_held, found.summary) == (held, words)


def test_a_target_that_is_not_met_is_no_failed_start() -> None:
    asked = question(targets={"users": 1000})
    assert not plan(asked).fits
    assert beside(asked).predicted_to_start
    assert not beside(question(targets={"users": 1}, levers={"reserve_bytes": 60 * GIB})).predicted_to_start


def test_where_only_the_concurrency_tells_of_the_cache_the_rung_that_explains_it_is_named() -> None:
    # 40 windows of 8,192 tokens x 131,072 B are 40 GiB; 17,919,056,025 B of 76,968,728,985 are left for the reserve.
    found = beside(question(), weights=surely(16_100_000_000), max_concurrency=40.0)
    kept = 76_968_728_985 - 16_100_000_000 - 40 * GIB
    assert (found.off_most, found.off_by_bytes) == ("reserve", kept - 3 * GIB)
    assert found.summary.endswith(
        "Concurrency: 40.00 where 53.72 was predicted. Furthest off is the reserve: 16.69 GiB where 3.00 GiB was"
        " predicted (+13.69 GiB), as the concurrency tells."
    )
    # What was computed for that isn't shown as if it had been printed.
    assert list(figures(found)) == ["weights", "max_concurrency"]
    # Without the weights the reserve isn't known either: the cache is what is off.
    assert beside(question(), max_concurrency=40.0).off_most == "kv_budget"
    # 53.72 is what was predicted, as far as it is printed.
    assert beside(question(), weights=surely(WEIGHTS), max_concurrency=53.72).off_most is None


def test_the_cache_is_what_is_off_only_where_nothing_above_it_is_known() -> None:
    # Weights of 500 B more and a reserve of 200 B more make 700 B less of it.
    both = beside(question(), weights=surely(WEIGHTS + 500), kv_budget=surely(KV - 700))
    assert (both.off_most, both.off_by_bytes) == ("weights", 500)
    alone = beside(question(), kv_budget=surely(KV - 500))
    assert (alone.off_most, alone.off_by_bytes) == ("kv_budget", -500)
