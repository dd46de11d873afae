"""What engines keep back, in numbers worked out by hand from the rules that are read in their source."""

from typing import Any

import msgspec
import pytest

from service.capacity.answer import Answer
from service.capacity.defaults import held_back
from service.capacity.errors import NotPlannedYet, UnsupportedCombination
from service.capacity.fraction import shared_by
from service.capacity.planner import plan
from service.capacity.reserve_fit import Started, kept_back, refit, refit_from
from service.capacity.reserve_rules import HeldBack, Overhead, Profiled
from service.capacity.units import exact
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion

GIB, MIB = 2**30, 2**20
CATALOG = Catalog(1, bundled_versions())
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def question(model: str, gpu: str, engine: str, **levers: object) -> Any:  # noqa: ANN401 - a Question
    asked = {"model": model, "gpu": gpu, "engine": engine, "levers": {"max_model_len": 8192} | levers}
    return resolve(strict_json.convert(asked, AskedQuestion), CATALOG)


def answer(model: str, gpu: str, engine: str, **levers: object) -> Answer:
    return plan(question(model, gpu, engine, **levers))


def overhead(found: Answer) -> int:
    (amount,) = [one.value for one in found.ladder[3].operands if one.name == "overhead_bytes"]
    assert isinstance(amount, int)
    return amount


def burst(found: Answer) -> int:
    """The reserve without the constant of its kind."""
    return found.ladder[3].value - overhead(found)


@pytest.mark.parametrize(
    ("engine", "sequences", "expected"),
    [
        # 38.9 B x 1,024 sequences x 128,256 entries: the sorting sampler's dry run, rounded up.
        ("vllm@0.16", None, 5_108_898_202),
        # A quarter of the sequences: 3.57 GiB given back, which is why this pair's logs run from 51.4 to 55 GiB.
        ("vllm@0.16", 256, 1_277_224_551),
        ("vllm@0.19", None, 2_232_680_448),  # 17 x 1,024 x 128,256
        # 17 x 256 x 128,256 is 558,170,112 B: less than one step of 6 x 8,192 x (4,096 + 14,336).
        ("vllm@0.19", 256, 905_969_664),
    ],
)
def test_the_reserve_is_the_larger_of_the_sampler_and_one_step(
    engine: str, sequences: int | None, expected: int
) -> None:
    found = answer(LLAMA, "h100-sxm-80gb", engine, max_num_seqs=sequences)
    assert burst(found) == expected
    assert found.ladder[3].formula.endswith("of contexts and NCCL")


def test_before_chunked_prefill_the_whole_window_is_profiled() -> None:
    # The thread's figures: 9,000 tokens apart, 110,592 B each.
    short, long = (answer(LLAMA, "rtx-3090", "vllm@0.6", max_model_len=tokens) for tokens in (20_000, 29_000))
    assert burst(long) - burst(short) == 9_000 * 110_592
    assert burst(long) == 29_000 * 6 * (4_096 + 14_336)


def test_past_32k_old_releases_profile_a_chunk_and_no_sampler() -> None:
    # 29,000 tokens don't start and 45,000 do: steps are 512 tokens then.
    refused, starts = (answer(LLAMA, "rtx-3090", "vllm@0.6", max_model_len=tokens) for tokens in (29_000, 45_000))
    assert burst(starts) == 512 * 6 * (4_096 + 14_336)
    assert (refused.fits, starts.fits) == (False, True)


def test_tensor_parallel_divides_the_feed_forward_of_a_step_and_nothing_of_the_sampler() -> None:
    alone, four = (answer(LLAMA, "h100-sxm-80gb", "vllm@0.16", tensor_parallel=ranks) for ranks in (1, 4))
    assert burst(alone) == burst(four)
    alone, four = (
        answer(LLAMA, "h100-sxm-80gb", "vllm@0.16", tensor_parallel=ranks, max_num_seqs=1) for ranks in (1, 4)
    )
    assert burst(alone) == 6 * 8_192 * (4_096 + 14_336)
    assert burst(four) == 6 * 8_192 * (4_096 + 14_336 // 4)


def test_a_towers_largest_image_is_profiled_where_it_takes_more() -> None:
    with_tower = answer("Qwen/Qwen3.5-4B", "rtx-4090", "vllm@0.23")
    text_only = answer("Qwen/Qwen3.5-4B", "rtx-4090", "vllm@0.23", language_model_only=True)
    assert burst(text_only) == 17 * 256 * 248_320  # the sampler
    assert burst(with_tower) > 2 * burst(text_only) - 2**27
    assert "of a tower's largest input" in with_tower.ladder[3].formula


def test_without_cuda_graphs_a_release_that_counts_them_keeps_less() -> None:
    counted, eager = (answer(LLAMA, "l4", "vllm@0.22", enforce_eager=eager) for eager in (False, True))
    assert counted.ladder[3].formula.endswith("of contexts, NCCL and CUDA graphs")
    assert eager.ladder[3].formula.endswith("of contexts and NCCL")
    assert counted.ladder[3].value - eager.ladder[3].value == pytest.approx(0.6 * GIB, abs=1)
    outside, same = (answer(LLAMA, "l4", "vllm@0.19", enforce_eager=eager) for eager in (False, True))
    assert outside.ladder[3].value == same.ladder[3].value


def test_a_model_whose_vocabulary_nobody_knows_needs_its_reserve_given() -> None:
    asked = question(LLAMA, "h100-sxm-80gb", "vllm@0.19")
    spec = msgspec.structs.replace(asked.model.spec, vocab_size=None)
    unknown = msgspec.structs.replace(asked, model=msgspec.structs.replace(asked.model, spec=spec))
    with pytest.raises(NotPlannedYet, match=r"because the vocabulary of .* isn't: give reserve_bytes"):
        plan(unknown)


def test_a_reserve_that_the_caller_gives_is_taken_as_it_is() -> None:
    found = answer(LLAMA, "h100-sxm-80gb", "vllm@0.19", reserve_bytes=2 * GIB)
    assert (found.ladder[3].low, found.ladder[3].value, found.ladder[3].high) == (2 * GIB, 2 * GIB, 2 * GIB)


def test_the_engine_sees_what_cuda_shows_and_not_what_the_driver_reports() -> None:
    engine = answer(LLAMA, "h100-sxm-80gb", "vllm@0.19").ladder[0]
    generic = answer(LLAMA, "h100-sxm-80gb", "generic").ladder[0]
    assert generic.value == 81_559 * MIB
    assert 79.10 * GIB <= engine.value <= 79.19 * GIB


def rule() -> HeldBack:
    found = CATALOG.engines.pinned("sglang", None).spec.reserve_rule
    assert isinstance(found, HeldBack)
    return found


@pytest.mark.parametrize(
    ("memory", "copies", "fraction"), [(81_920, 1, 0.836), (184_320, 1, 0.858), (184_320, 8, 0.758)]
)
def test_sglang_leaves_free_what_its_rule_says(memory: int, copies: int, fraction: float) -> None:
    # 512 + 1.5 x chunk + 128 a rank + 2 x batch; of 8 copies that share experts 4.5 x batch each. Chunk and batch are
    # 8,192 and 256 below 160 GiB, 16,384 and 512 from there on.
    chunk = 8_192 if memory < 160 * 1024 else 16_384
    levers = question(
        "Qwen/Qwen3-30B-A3B", "h100-sxm-80gb", "sglang", data_parallel=copies, expert_parallel=copies > 1,
        max_num_batched_tokens=chunk,
    ).levers  # fmt: skip
    held = held_back(rule(), memory * MIB, "a card", levers, draft_model=False)
    assert round((memory - held) / memory, 3) == exact(fraction)


def test_sglangs_default_fraction_is_that_of_the_card() -> None:
    # 81,559 MiB: (81,559 - 512 - 12,288 - 128 - 512) / 81,559 = 0.8352.
    found = answer(LLAMA, "h100-sxm-80gb", "sglang")
    assert {one.name: one.value for one in found.assumed}["gpu_memory_utilization"] == "0.835"


def test_the_fraction_is_one_of_the_total_of_what_is_free_or_of_what_is_left() -> None:
    # 100 of memory, 50 that isn't cache, 0.9: 40 of the total, 45 of what is left.
    nine_tenths = exact(0.9)
    assert shared_by("total", 100, 30, 20).left(nine_tenths) == 40
    assert shared_by("left", 100, 30, 20).left(nine_tenths) == 45
    assert shared_by("free", 100, 30, 20).left(nine_tenths) == 42  # 0.9 x (100 - 20) - 30


@pytest.mark.parametrize("engine", ["vllm@0.19", "sglang", "tensorrt-llm"])
def test_the_smallest_fraction_is_tight_whatever_it_is_one_of(engine: str) -> None:
    asked = {"tensor_parallel": 2, "gpu_memory_utilization": 0.01}
    refused = answer("meta-llama/Llama-3.1-70B-Instruct", "h100-sxm-80gb", engine, **asked)
    assert refused.inverse is not None
    smallest = refused.inverse.gpu_memory_utilization
    assert smallest is not None
    assert answer(
        "meta-llama/Llama-3.1-70B-Instruct", "h100-sxm-80gb", engine, **asked | {"gpu_memory_utilization": smallest}
    ).fits
    less = round(smallest - 1e-9, 9)
    assert not answer(
        "meta-llama/Llama-3.1-70B-Instruct", "h100-sxm-80gb", engine, **asked | {"gpu_memory_utilization": less}
    ).fits


def test_what_was_kept_back_is_what_neither_weights_nor_cache_took() -> None:
    asked = question(LLAMA, "h100-sxm-80gb", "vllm@0.12", gpu_memory_utilization=0.9)
    visible = answer(LLAMA, "h100-sxm-80gb", "vllm@0.12").ladder[0].value
    started = Started(asked, weights=15 * GIB, kv=50 * GIB)
    assert kept_back(started) == visible * 9 // 10 - 65 * GIB


def kept_by_three() -> tuple[Profiled, list[Started]]:
    """A rule, and three start-ups that kept 100, 200 and 600 MiB beside the sampler's 38.9 x 1,024 x 128,256 B."""
    asked = question(LLAMA, "h100-sxm-80gb", "vllm@0.12", gpu_memory_utilization=0.9)
    profiled = asked.engine.spec.reserve_rule
    assert isinstance(profiled, Profiled)
    usable = answer(LLAMA, "h100-sxm-80gb", "vllm@0.12").ladder[1].value
    kv = [usable - 15 * GIB - 5_108_898_202 - extra * MIB for extra in (100, 200, 600)]
    return profiled, [Started(asked, 15 * GIB, one) for one in kv]


def changed(before: Profiled, after: Any) -> tuple[Overhead, Overhead]:  # noqa: ANN401 - a rule
    (found,) = [(old, new) for old, new in zip(before.overheads, after.overheads, strict=True) if old != new]
    return found


def test_fitting_takes_the_middle_and_leaves_other_kinds_alone() -> None:
    profiled, started = kept_by_three()
    kept = [(one.question, kept_back(one)) for one in started]
    _, new = changed(profiled, refit_from(profiled, kept, "three start-ups"))
    # A margin of half a GiB over the root of three at both ends.
    margin = int(512 * MIB / 3**0.5)
    assert (new.best, new.logs, new.source) == (200 * MIB, 3, "three start-ups")
    assert new.low == pytest.approx(100 * MIB - margin, rel=0.001)
    assert new.high == pytest.approx(600 * MIB + margin, rel=0.001)


def test_fitting_again_counts_the_start_ups_from_before() -> None:
    profiled, started = kept_by_three()
    old, new = changed(profiled, refit(profiled, started, "three start-ups"))
    assert new.logs == old.logs + 3
    assert new.best == (old.best * old.logs + 200 * MIB * 3) // (old.logs + 3)
    assert new.low <= old.low
    assert new.high >= max(old.high, 600 * MIB)
    assert new.source == f"three start-ups; before that: {old.source}"


def test_a_verdict_is_likely_where_only_the_low_end_fails_and_unlikely_where_only_the_high_end_holds() -> None:
    found = answer(LLAMA, "h100-sxm-80gb", "vllm@0.19", max_model_len=1024)
    assert found.interval is not None
    users = found.interval.users_worst_case
    assert users.low < users.best < users.high

    def verdict(wanted: int) -> tuple[str, bool]:
        asked = {
            "model": LLAMA, "gpu": "h100-sxm-80gb", "engine": "vllm@0.19", "levers": {"max_model_len": 1024},
            "targets": {"users": wanted},
        }  # fmt: skip
        one = plan(resolve(strict_json.convert(asked, AskedQuestion), CATALOG))
        return one.verdict, one.fits

    assert verdict(users.low) == ("fits", True)
    assert verdict(users.best) == ("likely", True)
    assert verdict(users.high) == ("unlikely", False)
    assert verdict(users.high + 1) == ("does_not_fit", False)


def test_a_flat_reserve_has_no_interval() -> None:
    found = answer(LLAMA, "h100-sxm-80gb", "generic")
    assert found.interval is None
    assert all(rung.low == rung.value == rung.high for rung in found.ladder)


def test_a_size_set_by_hand_is_no_longer_in_doubt() -> None:
    found = answer(LLAMA, "h100-sxm-80gb", "vllm@0.19", kv_cache_memory_bytes=20 * GIB)
    assert found.interval is None
    assert found.ladder[4].value == 20 * GIB


def test_the_inverse_follows_a_reserve_that_depends_on_the_window() -> None:
    # 29,000 tokens don't fit on a 3090; the largest that does is past 32,768, where steps are 512 tokens.
    asked = {"max_model_len": 29_000, "gpu_memory_utilization": 0.9}
    refused = answer(LLAMA, "rtx-3090", "vllm@0.6", **asked)
    assert refused.inverse is not None
    largest = refused.inverse.max_model_len
    assert largest is not None
    assert largest > 32_768
    assert answer(LLAMA, "rtx-3090", "vllm@0.6", **asked | {"max_model_len": largest}).fits
    assert not answer(LLAMA, "rtx-3090", "vllm@0.6", **asked | {"max_model_len": largest + 1}).fits
    # With less memory no window of that length fits: then the largest is one that is profiled whole.
    less = {"max_model_len": 29_000, "gpu_memory_utilization": 0.75}
    tight = answer(LLAMA, "rtx-3090", "vllm@0.6", **less)
    assert tight.inverse is not None
    window = tight.inverse.max_model_len
    assert window is not None
    assert window < 32_768
    assert answer(LLAMA, "rtx-3090", "vllm@0.6", **less | {"max_model_len": window}).fits
    assert not answer(LLAMA, "rtx-3090", "vllm@0.6", **less | {"max_model_len": window + 1}).fits


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (
            "vllm@0.16",
            {
                "gpu_memory_utilization": ("0.9", "a share of all memory that a process sees of the card"),
                "max_num_seqs": ("1024", "by device memory: 1,024 from 70 GiB on"),
                "max_num_batched_tokens": ("8192", "server default by device memory"),
                "block_size": ("16", "default block size"),
                "visible_memory": ("85018877624", "what CUDA or ROCm shows a process, not what the driver reports"),
                "reserve_bytes": (None, "by the rule of vllm@0.16, from "),
                "cuda_graphs": ("outside of the budget", "after the cache is sized"),
                "kv_cache_dtype": ("bf16", "auto: the model's dtype is bfloat16"),
            },
        ),
        (
            "vllm@0.33",
            {
                "gpu_memory_utilization": ("0.92", "a share of all memory that a process sees of the card"),
                "max_num_seqs": ("1024", "by device memory: 1,024 from 70 GiB on"),
                "max_num_batched_tokens": ("8192", "16,384 from 160 GiB on"),
                "block_size": ("16", "default block size"),
                "visible_memory": ("85018877624", "what CUDA or ROCm shows a process"),
                "reserve_bytes": (None, "measured on 2 start-ups"),
                "cuda_graphs": ("644245094 of the reserve", "inside the budget from 0.20 on"),
                "kv_cache_dtype": ("bf16", "auto: the model's dtype is bfloat16"),
            },
        ),
        (
            "sglang",
            {
                "gpu_memory_utilization": ("0.835", "a share of what is free before the model is loaded"),
                "max_num_batched_tokens": ("8192", "chunked_prefill_size by device memory"),
                "block_size": ("1", "pages of one token"),
                "visible_memory": ("85018877624", "what CUDA or ROCm shows a process"),
                "reserve_bytes": (None, "what is gone before the model is loaded"),
                "cuda_graphs": ("outside of the budget", "gives nothing of it back"),
                "kv_cache_dtype": ("bf16", "auto: the model's dtype is bfloat16"),
            },
        ),
        (
            "tensorrt-llm",
            {
                "gpu_memory_utilization": (
                    "0.9",
                    "what is left once the model is loaded and has run its largest batch",
                ),
                "max_num_seqs": ("2048", "max_batch_size of 2,048"),
                "max_num_batched_tokens": ("8192", "max_num_tokens of 8,192"),
                "block_size": ("32", "tokens_per_block of 32"),
                "visible_memory": ("85018877624", "what CUDA or ROCm shows a process"),
                "reserve_bytes": (None, "public measurements of users held at once"),
                "kv_cache_dtype": ("bf16", "auto: the model's dtype is bfloat16"),
            },
        ),
    ],
)
def test_every_default_of_an_engine_is_listed_with_its_reason(
    engine: str, expected: dict[str, tuple[str | None, str]]
) -> None:
    planned = answer(LLAMA, "h100-sxm-80gb", engine)
    reserve = str(planned.ladder[3].value)  # fitted, so that it is whatever the ladder says
    found = {one.name: one for one in planned.assumed}
    assert found.keys() == expected.keys()
    for name, (value, reason) in expected.items():
        assert found[name].value == (value or reserve)
        assert reason in found[name].reason


@pytest.mark.parametrize("engine", ["vllm@0.16", "vllm@0.33", "sglang", "tensorrt-llm"])
def test_what_is_asked_for_is_not_assumed(engine: str) -> None:
    asked = answer(
        LLAMA,
        "h100-sxm-80gb",
        engine,
        gpu_memory_utilization=0.77,
        max_num_seqs=99,
        max_num_batched_tokens=999,
        block_size=64,
        reserve_bytes=GIB,
        kv_cache_dtype="fp8",
        enforce_eager=True,
    )
    assert {one.name for one in asked.assumed} == {"visible_memory"}


def test_a_fraction_that_leaves_nothing_is_refused_with_what_to_give() -> None:
    # 512 + 1.5 x 65,536 + ... MiB are more than the 81,559 of the card.
    with pytest.raises(UnsupportedCombination, match=r"gives a fraction of -0\.219: give gpu_memory_utilization"):
        answer(LLAMA, "h100-sxm-80gb", "sglang", max_num_batched_tokens=65_536)
    given = answer(LLAMA, "h100-sxm-80gb", "sglang", max_num_batched_tokens=65_536, gpu_memory_utilization=0.8)
    assert given.fits


def test_nothing_is_given_back_where_a_burst_is_smaller_than_its_constant() -> None:
    # One token and one sequence; the constant of 0.8 to 0.10 at TP 1 is a little below zero.
    found = answer(LLAMA, "h100-sxm-80gb", "vllm@0.9", max_num_seqs=1, max_num_batched_tokens=1)
    assert overhead(found) < 0
    assert (found.ladder[3].low, found.ladder[3].value) == (0, 0)
    assert found.ladder[3].formula.endswith("of contexts and NCCL, at least 0")


def test_a_fraction_of_what_is_free_comes_to_the_value_that_its_formula_says() -> None:
    found = answer(LLAMA, "h100-sxm-80gb", "sglang")
    memory, _, weights, reserve, cache = found.ladder[:5]
    assert cache.value == int((memory.value - reserve.value) * exact(0.835)) - weights.value
    assert cache.formula.startswith(
        f"({memory.value:,} B - {reserve.value:,} B reserve) x 0.835, rounded down, - {weights.value:,} B weights"
    )


def test_of_a_pipeline_the_stage_that_holds_fewest_counts_at_each_end() -> None:
    found = answer("google/gemma-4-31B-it", "rtx-a5000", "vllm@0.12", max_model_len=4096, pipeline_parallel=4)
    assert found.interval is not None
    # Tokens of full windows are at least as many as the users that hold one each, at both ends.
    for end in ("low", "best", "high"):
        tokens, users = getattr(found.interval.tokens, end), getattr(found.interval.users_worst_case, end)
        assert users <= tokens // 4096 <= users + 1


def test_nobody_is_served_where_a_stage_without_a_cache_does_not_start() -> None:
    # The last layers of Gemma 3n keep no cache; the sampler's dry run, which is the last stage's, doesn't fit there.
    found = answer(
        "google/gemma-3n-E4B-it", "mi210", "vllm@0.27", pipeline_parallel=4, gpu_memory_utilization=0.5,
        max_num_seqs=2**40,
    )  # fmt: skip
    assert (found.fits, found.users.worst_case, found.verdict) == (False, 0, "does_not_fit")
