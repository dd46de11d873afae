"""The bars that predictions from model, card, flags and release alone have to reach."""

from collections.abc import Callable, Sequence
from statistics import median

import msgspec
import pytest

from service.capacity.planner import plan
from service.capacity.question import Question
from service.capacity.reserve_rules import Profiled
from service.capacity.weights import as_loaded
from service.catalog.bundled import bundled_versions
from tests.accuracy import fitting
from tests.accuracy.deployments import Cell, cells_by_difference, deployments
from tests.accuracy.end_to_end import (
    Outcome,
    Shares,
    cell_error,
    failures,
    filled_error,
    outcome,
    outcomes,
    refused,
    shares,
    without,
)
from tests.accuracy.end_to_end_report import by_card, by_release
from tests.accuracy.fitting import fitted
from tests.accuracy.kept import asked, catalog, observed
from tests.collected import collected, entries


def test_every_engine_start_up_of_the_collections_is_predicted_once_or_left_out_with_a_reason() -> None:
    found = [name for one in deployments().deployments for name in one.ids]
    found += [name for left in deployments().left_out for name in left.ids]
    assert len(found) == len(set(found))
    assert all(left.reason for left in deployments().left_out)
    # 77 in one collection, 8 of them by TensorRT-LLM and one by SGLang, which stand apart.
    assert sum(name.startswith("log-") for name in found) == 68


@collected
def test_what_was_printed_is_what_the_collection_has() -> None:
    logs = {case["id"]: case for case in entries("start_up_logs", under="cases")}
    for one in deployments().deployments:
        for name in one.ids:
            if name not in logs:
                continue
            case, measured = logs[name], logs[name]["measured"]
            if one.printed.kv_gib is not None:
                assert float(one.printed.kv_gib) == measured["available_kv_gib"], name
            if one.weights_gib is not None:
                assert float(one.weights_gib) == measured["weights_gib"], name
            if case["tensor_parallel"] is not None:
                assert (one.levers.tensor_parallel or 1) == case["tensor_parallel"], name
            if case["gpu_memory_utilization"] is not None:
                assert one.levers.gpu_memory_utilization == case["gpu_memory_utilization"], name
            if case["max_model_len"] is not None:
                assert one.levers.max_model_len == case["max_model_len"], name


def reaches(found: Shares, points: float = 0.0) -> bool:
    """Whether the bars are reached, each with so many points to spare.

    A median of at most 3 %, 85 % within 10 % or 0.3 GiB, and intervals that hold 90 % and are at most 12 % or 0.4 GiB
    wide to each side.
    """
    close = found.median <= 0.03 + points and found.close >= 0.85 - points
    held = found.covered >= 0.90 - points and (found.width <= 0.12 + points or found.kv_width <= 0.4)
    return close and held


def test_predictions_reach_the_bars() -> None:
    assert reaches(shares(outcomes()))


@pytest.mark.parametrize("group", [by_card, by_release])
def test_predictions_without_the_groups_own_start_ups_reach_the_bars_but_for_3_points(
    group: Callable[[Question], str],
) -> None:
    assert reaches(shares(without(group)), 0.03)


@pytest.mark.parametrize("key", ["vllm@0.8", "vllm@0.12", "vllm@0.19", "vllm@0.26"])
def test_what_is_left_out_says_nothing(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever the start-ups that are left out had kept back, the release is fitted alike.
    engine = catalog().engines.pinned(key, None)

    def is_left_out(question: Question) -> bool:
        return question.engine.key == key

    expected = fitted(engine, is_left_out, "left")
    assert expected != fitted(engine, lambda _: False, "left")
    others = tuple(
        msgspec.structs.replace(one, bytes=one.bytes + 2**30) if is_left_out(one.question) else one
        for one in observed()
    )
    monkeypatch.setattr(fitting, "observed", lambda: others)
    assert fitted(engine, is_left_out, "left") == expected


def test_nothing_is_off_by_more_than_twofold_unless_what_is_not_stated_explains_it() -> None:
    def is_off(one: Outcome) -> bool:
        return not 0.5 <= one.predicted / one.printed <= 2 if one.printed > 0 else one.predicted > 0

    assert [one.ids for one in outcomes() if is_off(one) and one.unstated is None] == []
    assert {one.ids[0] for one in outcomes() if is_off(one)} == {"log-047", "log-049", "log-052"}


def close_cells(cells: Sequence[Cell], group: Callable[[Question], str] | None = None) -> int:
    """How many cells are within 0.5 GiB."""
    errors = [cell_error(cell, group) for cell in cells]
    return sum(error is not None and error <= 0.5 for error in errors)


def test_what_an_h200_keeps_back_is_within_half_a_gib_of_its_cells() -> None:
    cells = deployments().cells
    assert len(cells) == 27
    assert close_cells(cells) >= 0.85 * 27
    # In sample: left out, its own start-ups are missed, and the report says by how much.
    assert close_cells(cells, by_card) < 0.85 * 27


@pytest.mark.parametrize("gpu", ["b200-sxm", "mi300x"])
def test_what_other_cards_keep_back_differs_from_an_h200_as_it_is_stated(gpu: str) -> None:
    cells = [cell for cell in cells_by_difference() if cell.gpu == gpu]
    assert len(cells) == 27
    assert close_cells(cells) >= 0.85 * 27


def test_cells_of_other_cards_are_those_of_an_h200_and_what_they_differ_by() -> None:
    found = {
        (cell.gpu, cell.model, cell.engine): (float(cell.low_gib), float(cell.high_gib))
        for cell in cells_by_difference()
        if cell.model in {"deepseek-ai/DeepSeek-R1", "mistralai/Ministral-3-14B-Instruct-2512"}
    }
    # 5.1 on an H200, and 5.8 to 7.5.
    assert found["b200-sxm", "mistralai/Ministral-3-14B-Instruct-2512", "vllm@0.12"] == (5.0, 5.2)
    assert found["mi300x", "mistralai/Ministral-3-14B-Instruct-2512", "vllm@0.12"] == (6.0, 7.6)
    assert found["b200-sxm", "deepseek-ai/DeepSeek-R1", "vllm@0.12"] == (4.0, 5.9)
    assert found["mi300x", "deepseek-ai/DeepSeek-R1", "vllm@0.12"] == (6.7, 10.0)


def test_the_report_tells_stated_releases_from_likely_ones() -> None:
    found = outcomes()
    assert [one.release_is_stated for one in found].count(False) == 26
    assert [one.fitted for one in found].count(False) == 18
    assert len(found) == 57


def test_tensorrt_llm_holds_the_users_that_were_measured() -> None:
    errors = [filled_error(one) for one in deployments().tensorrt_llm]
    assert len(errors) == 48
    assert median(errors) <= 0.02


def test_sglang_keeps_the_cache_that_was_logged() -> None:
    for one in deployments().sglang:
        assert outcome(one, asked(one)).error <= 0.10


def test_a_start_that_failed_is_not_planned_to_fit() -> None:
    assert {one.ids[0] for one in failures() if one.fits} == {"log-047"}
    assert [one.ids for one in failures() if one.fits and one.unstated is None] == []


def test_a_start_that_succeeded_is_not_refused() -> None:
    assert refused() == ()


def test_the_bundled_overheads_are_what_their_start_ups_give() -> None:
    # Nobody sets a constant by hand that start-ups are said to have measured, and none changes when it is fitted again.
    keys = {entry.key for entry in bundled_versions() if entry.kind == "engines"} - {"generic", "sglang"}
    assert len(keys) == 30
    for key in keys:
        engine = catalog().engines.pinned(key, None)
        rule = engine.spec.reserve_rule
        assert rule is not None
        source = next(one.source for one in rule.overheads if one.logs)
        assert fitted(engine, lambda _: False, source) == engine.spec


def test_a_release_without_start_ups_of_a_kind_says_so() -> None:
    rule = catalog().engines.pinned("vllm@0.33", None).spec.reserve_rule
    assert isinstance(rule, Profiled)
    guessed = [one for one in rule.overheads if not one.logs]
    assert guessed
    assert all("no start-up" in one.source or "Instinct" in one.source for one in guessed)


def test_the_interval_comes_from_the_rungs_that_are_in_doubt() -> None:
    one = next(one for one in deployments().deployments if one.ids[0] == "log-019")
    answer = plan(asked(one))
    assert answer.interval is not None
    memory, _, weights, reserve, budget = answer.ladder[:5]
    assert memory.low < memory.value < memory.high
    assert weights.low < weights.value < weights.high
    assert reserve.low < reserve.value < reserve.high
    assert (budget.low, budget.high) == (answer.interval.budget_bytes.low, answer.interval.budget_bytes.high)
    assert "to" in reserve.formula


def test_what_ranks_said_that_they_loaded_lies_where_weights_are_planned() -> None:
    # One is off by 14 %, for a cause that nobody knows: gpt-oss-120b on eight RTX PRO 4500.
    outside = []
    ratios: dict[tuple[tuple[str, ...], int], list[float]] = {}
    for one in deployments().deployments:
        if one.weights_gib is None:
            continue
        question = asked(one)
        rung, printed = plan(question).ladder[2], float(one.weights_gib) * 2**30
        if not rung.low <= printed <= rung.high:
            outside.append(one.ids)
        loaded = as_loaded(question)
        assert loaded is not None
        ratios.setdefault((loaded.cards, loaded.logs), []).append(loaded.best * printed / rung.value)
    assert outside == [("vllm-i10",)]
    # As many start-ups as the entries say, but for that one; 1.003 and 1.04 are the middles.
    nvidia, radeon = ratios[("NVIDIA",), 34], ratios[("RDNA3", "RDNA4"), 7]
    assert (len(nvidia), len(radeon)) == (34 + 1, 7)
    assert median(nvidia) == pytest.approx(1.003, abs=0.002)
    assert median(radeon) == pytest.approx(1.04, abs=0.01)
