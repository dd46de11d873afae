"""Checkpoints that start-up logs name: their weights against published sizes and against what engines printed."""

from fractions import Fraction

import pytest

from service.capacity.model import Model, WeightPart
from service.catalog.bundled import bundled_catalog

_GIB = 2**30


def model(key: str) -> Model:
    return bundled_catalog().models.pinned(key, None).spec


def parts(key: str) -> tuple[WeightPart, ...]:
    found = model(key).weights
    assert found is not None
    return found.value


def on_one_rank(key: str, ranks: int, *, drafting: bool = False) -> float:
    """GiB of one rank of tensor parallel, towers included."""
    loaded = [part for part in parts(key) if drafting or part.needed != "drafting"]
    return float(
        sum(
            (Fraction(one.loaded_bytes("auto"), min(ranks, one.most_shards or ranks)) for one in loaded),
            Fraction(0),
        )
        / _GIB
    )


@pytest.mark.parametrize(
    ("key", "ranks", "printed"),
    [
        ("RedHatAI/Qwen3-14B-FP8-dynamic", 1, 15.3388),
        ("cpatonn/Qwen3-Coder-30B-A3B-Instruct-GPTQ-4bit", 1, 15.6117),
        ("unsloth/Llama-3.2-3B-Instruct", 1, 6.02),
        ("unsloth/phi-4-bnb-4bit", 1, 8.49),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 1, 29.301),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", 2, 13.9476),
        ("Qwen/Qwen2.5-VL-72B-Instruct", 4, 34.43),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 1, 5.2),
        ("Qwen/Qwen3.8-27B-FP8", 2, 14.28),
        ("unsloth/Qwen3.8-27B-NVFP4", 2, 10.64),
        ("google/gemma-4-26B-A4B", 1, 48.5),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 1, 44.76),
    ],
)
def test_weights_come_within_two_percent_of_what_vllm_printed(key: str, ranks: int, printed: float) -> None:
    # Beside the weights that figure has rotary tables, and tensors rounded up to 2 MiB.
    assert on_one_rank(key, ranks) == pytest.approx(printed, rel=0.02)


def test_a_draft_layer_is_loaded_where_the_log_drafts() -> None:
    assert on_one_rank("Sehyo/Qwen3.5-122B-A10B-NVFP4", 1, drafting=True) == pytest.approx(75.17, rel=0.02)


@pytest.mark.parametrize(
    ("key", "published"),
    [
        ("RedHatAI/Qwen3-8B-FP8-dynamic", 8_192_136_192),
        ("RedHatAI/gemma-3-12b-it-FP8-dynamic", 12_189_561_456),
        ("RedHatAI/gemma-3-27b-it-FP8-dynamic", 27_436_247_664),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", 70_560_423_936),
        ("Qwen/Qwen3-8B-FP8", 8_191_159_296),
        ("Qwen/Qwen3-32B-FP8", 32_764_027_904),
        ("Qwen/Qwen3.6-35B-A3B-FP8", 35_953_925_552),
        ("Qwen/Qwen2.5-VL-72B-Instruct", 73_410_777_344),
        ("deepseek-ai/deepseek-coder-6.7b-instruct", 6_740_512_768),
    ],
)
def test_the_published_total_is_every_part_with_its_scales(key: str, published: int) -> None:
    assert sum(part.parameters for part in parts(key)) == published


def test_an_8_bit_checkpoint_has_the_bytes_that_another_reader_of_its_files_counted() -> None:
    assert on_one_rank("RedHatAI/Qwen3-8B-FP8-dynamic", 1) == pytest.approx(8.790292739868164, abs=1e-9)


@pytest.mark.parametrize(
    ("key", "published"),
    [
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", 18_683_860_336),
        ("Inferact/Qwen3.8-27B-NVFP4", 17_631_212_272),
    ],
)
def test_the_total_of_a_4_bit_checkpoint_counts_two_numbers_as_one(key: str, published: int) -> None:
    drafts_apart = key.startswith("nvidia/")
    counted = [part for part in parts(key) if not (drafts_apart and part.needed == "drafting")]
    packed = sum(part.parameters for part in counted if part.dtype == "nvfp4")
    assert sum(part.parameters for part in counted) - packed // 2 == published


@pytest.mark.parametrize(
    ("key", "base"),
    [
        ("RedHatAI/Qwen3-14B-FP8-dynamic", "Qwen/Qwen3-14B"),
        ("RedHatAI/gemma-3-12b-it-FP8-dynamic", "google/gemma-3-12b-it"),
        ("unsloth/phi-4-bnb-4bit", "microsoft/phi-4"),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", "Qwen/Qwen3.6-35B-A3B"),
        ("unsloth/Qwen3.8-27B-NVFP4", "Qwen/Qwen3.8-27B"),
        ("Intel/gemma-4-31B-it-int4-AutoRound", "google/gemma-4-31B-it"),
        ("lukealonso/GLM-5.1-NVFP4-MTP", "zai-org/GLM-5.1"),
    ],
)
def test_a_quantised_copy_has_the_shapes_of_its_original(key: str, base: str) -> None:
    copy, original = model(key), model(base)
    assert copy.caches.value == original.caches.value
    assert copy.parameters is not None
    assert original.parameters is not None
    assert copy.parameters.value == original.parameters.value
    assert sum(part.parameters for part in parts(key) if part.name != "quantisation scales") == sum(
        part.parameters for part in parts(base)
    )
    assert copy.caches.confidence == "medium"


def test_a_recipe_that_nobody_published_is_of_low_confidence() -> None:
    weights = model("lukealonso/GLM-5.1-NVFP4-MTP").weights
    assert weights is not None
    assert weights.confidence == "low"


def test_what_is_kept_in_16_bits_does_not_follow_the_lever() -> None:
    kept = {part.name for part in parts("Qwen/Qwen3.6-35B-A3B-FP8") if not part.follows_weight_dtype}
    assert kept == {
        "embeddings",
        "gates of states",
        "norms and routers",
        "head",
        "joining projections of draft layers",
        "vision tower",
        "quantisation scales",
    }
