"""Weights as engines load them: what a real one printed for MXFP4, and what is said where nobody knows."""

from fractions import Fraction
from math import floor

import msgspec
import pytest

from service.capacity.answer import Answer
from service.capacity.planner import plan
from service.catalog.bundled import bundled_catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.configurations import LLAMA

SMALL, LARGE = "openai/gpt-oss-20b", "openai/gpt-oss-120b"
AS_LOADED = Fraction("1.003")
"""What vLLM loads on NVIDIA cards over what is counted: rotary tables, and blocks rounded up."""
OUTSIDE = 2 * (2 * 579_133_440)
"""Bytes of embeddings and head of either model."""


def answer(model: object, gpu: str, engine: str, **levers: object) -> Answer:
    levers = {"max_model_len": 8192, "kv_cache_memory_bytes": 10**9} | levers
    question = {"model": model, "gpu": gpu, "engine": engine, "levers": levers}
    return plan(resolve(strict_json.decode(msgspec.json.encode(question), AskedQuestion), bundled_catalog()))


def counted(found: Answer) -> int:
    """The bytes that were counted, without what is loaded beyond them."""
    return floor(found.ladder[2].value / AS_LOADED)


def loaded(found: Answer) -> list[str]:
    return [f"{one.value}: {one.reason}" for one in found.assumed if one.name == "loaded_weights"]


def padding(found: Answer) -> list[tuple[int | float, str]]:
    return [(one.value, one.certainty) for one in found.ladder[2].operands if one.name == "padding of experts"]


@pytest.mark.parametrize("gpu", ["a100-sxm-80gb", "rtx-4090", "rtx-5090"])
def test_gpt_oss_20b_takes_what_vllm_0_12_printed(gpu: str) -> None:
    found = answer(SMALL, gpu, "vllm@0.12")
    # Logs: 13.7025 GiB on an A100, 13.7194 on RTX cards.
    assert 13.70 < found.ladder[2].value / 2**30 < 13.72
    assert found.ladder[2].certainty == "measured"
    assert padding(found) == [(1.09037, "measured")]
    assert loaded(found) == []


def test_gpt_oss_120b_takes_what_an_h100_printed_to_3_thousandths_and_it_is_an_assumption_there() -> None:
    found = answer(LARGE, "h100-sxm-80gb", "vllm@0.10")
    assert found.ladder[2].value / 2**30 == pytest.approx(65.9651, rel=0.003)
    assert found.ladder[2].certainty == "assumed"
    assert loaded(found)[0].startswith("experts of 3,072 x 2,944 on each rank: vllm@0.10: Marlin kernels want")


def test_each_rank_pads_its_own_part_of_an_expert() -> None:
    found = answer(LARGE, "a100-sxm-80gb", "vllm@0.12", tensor_parallel=8)
    # 36 layers x 128 experts x 3 x 3,072 x 384 (2,880 / 8 = 360) in 4.25 bits; their biases are 2 x 360 and 2,880.
    experts = 36 * 128 * (3 * 3_072 * 384 * 17 // 32 + 2 * (2 * 360 + 2_880))
    rest = (OUTSIDE + 2 * (849_346_560 + 106_168_320)) // 8 + 2 * 13_776_192
    assert counted(found) == experts + rest
    assert " x 3,072/2,880 of the hidden size x 384/360 of an expert's width / 8 ranks" in found.ladder[2].formula


def test_whole_experts_are_padded_whole() -> None:
    found = answer(LARGE, "a100-sxm-80gb", "vllm@0.12", tensor_parallel=8, expert_parallel=True)
    experts = 36 * 16 * (3 * 3_072 * 2_944 * 17 // 32 + 2 * (2 * 2_880 + 2_880))
    rest = (OUTSIDE + 2 * (849_346_560 + 106_168_320)) // 8 + 2 * 13_776_192
    assert counted(found) == experts + rest


def test_data_centre_cards_of_blackwell_pad_the_width_to_256() -> None:
    found = answer(SMALL, "b200-sxm", "vllm@0.12")
    assert padding(found) == [(1.13778, "assumed")]  # (3,072 / 2,880) squared


@pytest.mark.parametrize("engine", ["generic", "vllm@0.9"])
def test_an_engine_without_a_rule_loads_the_files_and_says_that_it_is_an_assumption(engine: str) -> None:
    found = answer(SMALL, "a100-sxm-80gb", engine)
    # The checkpoint's published size: 12.816176533699036 GiB.
    assert (found.ladder[2].value if engine == "generic" else counted(found)) == 13_761_264_768
    assert found.ladder[2].certainty == "assumed"
    (said,) = loaded(found)
    assert said == (
        "as in the files: engines pad experts in mxfp4 to multiples of 64 to 256 when they load them (gpt-oss: about"
        f" 0.58 B a parameter instead of 0.53); by how much {engine} does here isn't known"
    )


@pytest.mark.parametrize("engine", ["generic", "vllm@0.20"])
def test_experts_whose_sides_are_multiples_of_256_are_loaded_as_they_are(engine: str) -> None:
    found = answer("deepseek-ai/DeepSeek-V4-Flash", "h200-sxm-141gb", engine, tensor_parallel=8)  # 4,096 x 2,048 / 8
    assert (padding(found), loaded(found)) == ([], [])
    assert found.ladder[2].certainty == ("exact" if engine == "generic" else "measured")


def test_another_format_that_is_asked_for_is_not_padded() -> None:
    found = answer(SMALL, "a100-sxm-80gb", "vllm@0.12", weight_dtype="fp8")
    assert (padding(found), loaded(found)) == ([], [])


@pytest.mark.parametrize(
    ("quantisation", "certainty", "said"),
    [
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 64},
            "exact",
            "int4: 4 bits and 20 of scales for every 64 numbers",
        ),
        (
            {"quant_method": "gptq", "bits": 4},
            "assumed",
            "int4: 4 bits and 20 of scales for every 128 numbers",
        ),
    ],
)
def test_a_width_says_what_it_is_made_of_and_is_as_certain_as_what_was_stated(
    quantisation: dict[str, object], certainty: str, said: str
) -> None:
    found = answer({"config": {**LLAMA, "quantization_config": quantisation}}, "a100-sxm-80gb", "generic")
    (width,) = [one for one in found.ladder[2].operands if one.name == "bits of layers"]
    assert (width.source, width.certainty, found.ladder[2].certainty) == (said, certainty, certainty)
