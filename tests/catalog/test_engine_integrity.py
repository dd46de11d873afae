"""Faults of an engine's rules: each rule is shown a release that breaks it."""

from typing import Any

import msgspec
import pytest

from service.capacity.engine import AsLoaded, Engine
from service.capacity.figures import Figure
from service.capacity.reserve_rules import ByMemory, Overhead, Profiled
from service.catalog.bundled import bundled_catalog
from service.catalog.engine_integrity import engine_faults


def release(key: str = "vllm@0.19", **changes: Any) -> Engine:  # noqa: ANN401 - fields of any type
    return msgspec.structs.replace(bundled_catalog().engines.pinned(key, None).spec, **changes)


def default(*tiers: tuple[int, int]) -> Figure[ByMemory]:
    return Figure(ByMemory(tiers=tiers, small_too=()), "written for this test", "high")


def with_overhead(**changes: Any) -> Engine:  # noqa: ANN401 - fields of any type
    rule = release().reserve_rule
    assert isinstance(rule, Profiled)
    one = Overhead(tensor_parallel=(1, 1), low=1, best=2, high=3, logs=0, source="written for this test")
    changed = msgspec.structs.replace(one, **changes)
    return release(reserve_rule=msgspec.structs.replace(rule, overheads=(changed,)))


def test_a_sound_release_has_no_fault() -> None:
    assert engine_faults("vllm@0.19", release()) == []
    assert engine_faults("x", with_overhead(low=-5)) == []
    assert engine_faults("x", with_overhead(low=-4 * 2**30, high=2**40 - 1)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"low": 3}, "reserve_rule.overheads.0: low, best and high rise"),
        ({"high": 1}, "reserve_rule.overheads.0: low, best and high rise"),
        ({"tensor_parallel": (0, 1)}, "goes from 1 rank or more"),
        ({"tensor_parallel": (4, 2)}, "goes from 1 rank or more"),
        ({"source": ""}, "says in one line where it is from"),
        ({"logs": -1}, "on how many start-ups"),
        ({"low": -4 * 2**30 - 1}, "goes from no less than -4 GiB to less than 1 TiB"),
        ({"high": 2**40}, "goes from no less than -4 GiB to less than 1 TiB"),
    ],
)
def test_an_overhead_that_means_nothing_is_a_fault(changes: dict[str, object], said: str) -> None:
    (fault,) = engine_faults("x", with_overhead(**changes))
    assert said in fault


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "max_num_seqs"])
@pytest.mark.parametrize("tiers", [(), ((1, 5),), ((0, 5), (2, 6), (1, 7))])
def test_tiers_begin_at_nothing_and_rise(name: str, tiers: tuple[tuple[int, int], ...]) -> None:
    changes: dict[str, Any] = {name: default(*tiers)}
    assert engine_faults("x", release(**changes)) == [f"{name}: tiers begin at 0 bytes and rise"]


def test_a_default_of_nothing_is_a_fault() -> None:
    assert engine_faults("x", release(max_num_seqs=default((0, 0)))) == ["max_num_seqs: a default is at least 1"]


def test_a_flat_reserve_beside_a_rule_is_a_fault() -> None:
    (fault,) = engine_faults("x", release(reserve_bytes=Figure(1, "written for this test", "high")))
    assert "leaves nothing for a rule to say" in fault


def test_a_fraction_may_be_left_to_a_rule_only() -> None:
    assert engine_faults("sglang", release("sglang")) == []
    assert engine_faults("x", release(gpu_memory_utilization=None)) == [
        "gpu_memory_utilization: null only where the reserve's rule says it for each card"
    ]


def test_weights_as_loaded_rise_from_above_nothing() -> None:
    loaded = AsLoaded(low=1.2, best=1.1, high=1.3, logs=1, source="written for this test")
    assert engine_faults("x", release(as_loaded=(loaded,))) == ["as_loaded.0: low, best and high rise from above 0"]
