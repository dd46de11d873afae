"""Taking the reserve from recorded start-ups: their middle and range, in the ladder, in the plan's id, and by name."""

from typing import Literal

import msgspec
import pytest

from service.capacity.canonical import canonical_question, plan_id
from service.capacity.figures import Figure
from service.capacity.observed_reserve import KeptBack, beside, conditions_of, differing, observed_from
from service.capacity.planner import plan
from service.capacity.question import ObservedReserve, Question
from service.capacity.reserve_rules import Profiled
from service.capacity.units import GIB, Estimate, surely
from service.catalog.resolve import resolve
from service.errors import Refused
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import fixed_catalog

OBSERVED = ObservedReserve(observation="obs_7", on="2026-11-30", start_ups=1, bytes=surely(2 * GIB))


def resolved(observed: ObservedReserve | None = None, **changes: object) -> Question:
    document = {"model": "test/grouped", "gpu": {"key": "card", "version": 1}, "levers": {"max_model_len": 8192}}
    return resolve(strict_json.convert(document | changes, AskedQuestion), fixed_catalog(), observed)


def kept(observation: str, amount: int) -> KeptBack:
    return KeptBack(observation, f"start-up of {observation}", "2026-11-30", amount, 1000, "{}")


def test_one_start_up_is_the_reserve_and_its_name_stands_in_the_ladder() -> None:
    answer = plan(resolved(OBSERVED, reserve="observed"))
    rung = answer.ladder[3]
    assert (rung.value, rung.low, rung.high, rung.certainty) == (2 * GIB, 2 * GIB, 2 * GIB, "measured")
    assert rung.source == "observation obs_7 of 2026-11-30"
    assert answer.ladder[4].value == 57_686_981_017 + GIB
    assert msgspec.to_builtins(answer.inputs.observed_reserve) == {"observation": "obs_7", "start_ups": 1}
    assert "reserve_bytes" not in {one.name for one in answer.assumed}


def test_several_start_ups_are_an_interval_around_their_middle() -> None:
    observed = observed_from([kept("obs_3", 3 * GIB), kept("obs_2", 6 * GIB), kept("obs_1", 2 * GIB)])
    assert observed == ObservedReserve(
        observation="obs_3", on="2026-11-30", start_ups=3, bytes=Estimate(2 * GIB, 3 * GIB, 6 * GIB)
    )
    answer = plan(resolved(observed, reserve="observed"))
    assert answer.ladder[3].source == "the middle of 3 start-ups, the newest observation obs_3 of 2026-11-30"
    assert answer.interval is not None
    assert answer.interval.budget_bytes == Estimate(57_686_981_017 - 3 * GIB, 57_686_981_017, 57_686_981_017 + GIB)


def test_of_an_even_number_the_middle_is_between_two() -> None:
    assert observed_from([kept("a", 10), kept("b", 3)]).bytes == Estimate(3, 6, 10)


def test_other_processes_come_on_top_of_what_was_observed() -> None:
    answer = plan(resolved(OBSERVED, reserve="observed", levers={"other_process_bytes": GIB}))
    assert answer.ladder[3].value == 3 * GIB


def test_what_was_observed_is_a_part_of_the_plan() -> None:
    asked = resolved(OBSERVED, reserve="observed")
    more = msgspec.structs.replace(OBSERVED, bytes=surely(GIB))
    other = msgspec.structs.replace(OBSERVED, observation="obs_8")
    ids = {plan_id(canonical_question(one)) for one in (resolved(), asked, *(
        msgspec.structs.replace(asked, observed_reserve=reserve) for reserve in (more, other)
    ))}  # fmt: skip
    assert len(ids) == 4
    assert b"observed_reserve" not in canonical_question(resolved())


def test_without_start_ups_at_hand_nothing_stands_in_for_them() -> None:
    with pytest.raises(Refused, match="stored by a server") as refused:
        resolved(reserve="observed")
    assert refused.value.faults[0].pointer == "/reserve"


def test_a_reserve_is_not_both_observed_and_given() -> None:
    with pytest.raises(Refused, match=r"levers\.reserve_bytes"):
        resolved(OBSERVED, reserve="observed", levers={"reserve_bytes": GIB})


def test_what_was_not_asked_for_is_not_used() -> None:
    assert resolved(OBSERVED).observed_reserve is None
    assert plan(resolved(OBSERVED)).ladder[3].value == 3 * GIB


@pytest.mark.parametrize(
    "lever",
    [
        {"max_num_seqs": 256},
        {"max_num_batched_tokens": 4096},
        {"enforce_eager": True},
        {"pipeline_parallel": 2},
        {"weight_dtype": "fp8"},
        {"data_parallel": 2},
        {"language_model_only": True},
    ],
    ids=str,
)
def test_a_start_up_under_other_conditions_is_another(lever: dict[str, object]) -> None:
    one, other = conditions_of(resolved()), conditions_of(resolved(levers=lever))
    (name,) = lever
    assert one != other
    assert differing(other, one).startswith(f"{name} ")


@pytest.mark.parametrize(
    "lever", [{"max_model_len": 100}, {"gpu_memory_utilization": 0.5}, {"reserve_bytes": 7}, {"kv_cache_dtype": "fp8"}]
)
def test_a_window_or_a_share_changes_no_reserve(lever: dict[str, object]) -> None:
    assert conditions_of(resolved()) == conditions_of(resolved(levers=lever))


def test_another_checkpoint_that_drafts_is_another_condition() -> None:
    levers = {"speculative_tokens": 3}
    own, other = resolved(levers=levers), resolved(levers=levers, draft_model="test/half")
    assert conditions_of(own) != conditions_of(other)


@pytest.mark.parametrize(("up_to", "same"), [(0, True), (32_768, False)])
def test_a_window_is_a_condition_where_whole_windows_are_profiled(up_to: int, same: bool) -> None:  # noqa: FBT001 - a case's value
    rule = Profiled(
        sampler_bytes=Figure(1.0, "made up", "high"),
        fused_sampler_bytes=None,
        channel_bytes=Figure(6, "made up", "high"),
        whole_windows_up_to=up_to,
        chunk=2048,
        towers=(),
        graph_bytes=None,
        delta_net_spread=None,
        overheads=(),
    )

    def conditions(window: int) -> str:
        asked = resolved(levers={"max_model_len": window})
        spec = msgspec.structs.replace(asked.engine.spec, reserve_rule=rule)
        engine = msgspec.structs.replace(asked.engine, spec=spec)
        return conditions_of(msgspec.structs.replace(asked, engine=engine))

    assert (conditions(4096) == conditions(8192)) is same


def test_a_difference_is_said_in_the_words_of_the_levers() -> None:
    other = conditions_of(resolved(levers={"max_num_seqs": 256, "enforce_eager": True}))
    assert (
        differing(other, conditions_of(resolved())) == "enforce_eager true and not false, max_num_seqs 256 and not null"
    )


@pytest.mark.parametrize(
    ("fraction_of", "weights", "amount"),
    [
        ("total", 1000, 500),
        ("total", 1100, 400),  # the cache is what is left of the fraction
        ("total", 900, 600),
        ("left", 1100, 400),
        ("free", 1100, 375),  # 0.8 of what isn't kept back holds weights and cache: 100 B of weights are 125 B of it
        ("free", 1001, 499),  # 1.25 B, rounded so that the cache isn't larger than it was
    ],
)
def test_a_correction_of_the_weights_leaves_the_cache_that_was_seen(
    fraction_of: Literal["total", "free", "left"], weights: int, amount: int
) -> None:
    asked = resolved(levers={"gpu_memory_utilization": 0.8})
    spec = msgspec.structs.replace(asked.engine.spec, fraction_of=fraction_of)
    engine = msgspec.structs.replace(asked.engine, spec=spec)
    question = msgspec.structs.replace(asked, engine=engine)
    assert beside(kept("obs_1", 500), question, weights).bytes == amount


def test_where_the_planned_weights_were_not_kept_the_reserve_stays() -> None:
    before = msgspec.structs.replace(kept("obs_1", 500), weights=None)
    assert beside(before, resolved(), 7).bytes == 500
