"""Which number format a config.json's quantisation puts each group of weights in."""

import random
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from service.capacity.model import WeightPart
from service.errors import NotPlannedYet, Refused
from service.readers.model_config import read_model
from service.readers.model_config.fields import Fields
from service.readers.model_config.left_out import left_out_of
from tests import configurations

LLAMA: Mapping[str, Any] = {**configurations.LLAMA, "torch_dtype": "bfloat16"}
DEEPSEEK: Mapping[str, Any] = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 1,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "kv_lora_rank": 512,
    "max_position_embeddings": 4096,
    "moe_intermediate_size": 512,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_attention_heads": 16,
    "num_hidden_layers": 4,
    "q_lora_rank": 256,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 32000,
}


def parts(config: Mapping[str, Any], quantisation: Mapping[str, Any] | None, **given: int) -> dict[str, WeightPart]:
    model = read_model({**config, "quantization_config": quantisation}, **given)
    assert model.weights is not None
    return {part.name: part for part in model.weights.value}


def compressed(bits: int, kind: str, group: int | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    own: dict[str, Any] = {
        name: more.pop(name) for name in ("strategy", "symmetric", "block_structure") if name in more
    }
    weights = {"num_bits": bits, "type": kind, "group_size": group, **own}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, **more}


@pytest.mark.parametrize(
    ("quantisation", "dtype"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4_g32"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8"}, "fp8"),
        (compressed(8, "float"), "fp8"),
        (compressed(8, "int"), "int8"),
        (compressed(4, "int", 128), "int4"),
        (compressed(4, "int", 32), "int4_g32"),
        (compressed(4, "float", 16), "nvfp4"),
        (compressed(4, "float", 32, format="mxfp4-pack-quantized"), "mxfp4"),
    ],
)
def test_layers_are_in_the_format_and_embeddings_head_and_norms_are_not(
    quantisation: dict[str, Any], dtype: str
) -> None:
    found = parts(LLAMA, {**quantisation, "ignore": ["lm_head"]})
    assert (found["layers"].dtype, found["key and value projections"].dtype) == (dtype, dtype)
    for name in ("embeddings", "head", "norms and routers"):
        assert (found[name].dtype, found[name].follows_weight_dtype) == ("bf16", False)


@pytest.mark.parametrize(
    ("quantisation", "bits"),
    [
        # A 16-bit scale and a zero point for each group, whether or not the zero points are used.
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + Fraction(20, 128)),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, 4 + Fraction(20, 64)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True}, 4 + Fraction(20, 64)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, 4 + Fraction(20, 32)),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 8 + Fraction(24, 128)),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, 4 + Fraction(20, 128)),
        # One for each row of 4,096.
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4 + Fraction(20, 4096)),
        ({"quant_method": "fbgemm_fp8"}, 8 + Fraction(32, 4096)),
        (compressed(8, "float", strategy="channel"), 8 + Fraction(16, 4096)),
        (compressed(8, "int"), 8 + Fraction(16, 4096)),
        # Zero points only where integers aren't symmetric.
        (compressed(4, "int", 128), 4 + Fraction(16, 128)),
        (compressed(4, "int", 32), 4 + Fraction(16, 32)),
        (compressed(4, "int", 128, symmetric=False), 4 + Fraction(20, 128)),
        (compressed(4, "float", 16), 4 + Fraction(8, 16)),
        (compressed(4, "float", 32), 4 + Fraction(8, 32)),
        # Blocks, and one scale for a whole matrix.
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + Fraction(32, 128 * 128)),
        ({"quant_method": "fp8", "weight_block_size": [32, 32]}, 8 + Fraction(32, 32 * 32)),
        ({"quant_method": "fp8"}, Fraction(8)),
        (compressed(8, "float", strategy="block", block_structure=[128, 128]), 8 + Fraction(16, 128 * 128)),
        (compressed(8, "float", strategy="tensor"), Fraction(8)),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 64}, 4 + Fraction(16, 64)),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Fraction(8)),
        # 64 numbers share a 32-bit scale, or an 8-bit one of which 256 share a 32-bit one.
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": False},
            4 + Fraction(32, 64),
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            4 + Fraction(8, 64) + Fraction(32, 64 * 256),
        ),
    ],
)
def test_a_number_takes_its_own_bits_and_its_share_of_the_scales_that_are_stated(
    quantisation: dict[str, Any], bits: Fraction
) -> None:
    found = parts(LLAMA, quantisation)
    assert found["layers"].loaded_width("auto") == bits
    assert found["embeddings"].loaded_width("auto") == 16
    weights = read_model({**LLAMA, "quantization_config": quantisation}).weights
    assert weights is not None
    assert weights.confidence == "medium"


@pytest.mark.parametrize(
    ("quantisation", "said", "bits"),
    [
        ({"quant_method": "awq", "bits": 4}, "no group size is stated: 128 taken", 4 + Fraction(20, 128)),
        ({"quant_method": "gptq", "bits": 4}, "no group size is stated: 128 taken", 4 + Fraction(20, 128)),
        (
            {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"},
            "no group size is stated: 128 taken",
            4 + Fraction(16, 128),
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            "whether scales are quantised too isn't stated: taken as not",
            4 + Fraction(32, 64),
        ),
    ],
)
def test_scales_that_are_not_stated_make_the_weights_an_assumption(
    quantisation: dict[str, Any], said: str, bits: Fraction
) -> None:
    weights = read_model({**LLAMA, "quantization_config": quantisation}).weights
    assert weights is not None
    assert weights.confidence == "low"
    assert weights.source.endswith(said)
    assert parts(LLAMA, quantisation)["layers"].loaded_width("auto") == bits


@pytest.mark.parametrize(
    ("quantisation", "pointer"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": "128"}, "group_size"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "bits"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size"),
    ],
)
def test_a_width_that_cannot_be_is_refused(quantisation: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Refused) as refused:
        parts(LLAMA, quantisation)
    assert refused.value.faults[0].pointer == f"/quantization_config/{pointer}"


QWEN3_8B: Mapping[str, Any] = {
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}


def test_an_fp8_checkpoint_with_a_scale_for_each_row_has_its_published_size() -> None:
    # RedHatAI/Qwen3-8B-FP8-dynamic: 8.790292739868164 GiB of tensors.
    found = parts(QWEN3_8B, compressed(8, "float", strategy="channel", ignore=["lm_head"]))
    assert sum(part.loaded_bytes("auto") for part in found.values()) / 2**30 == pytest.approx(8.7902927, rel=1e-4)


def test_scales_that_a_total_counts_are_not_counted_again() -> None:
    # DeepSeek-V3's published total beyond decoder and draft is the scales of its blocks, less those of cut-off edges.
    quantisation = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    plain = parts(LLAMA, quantisation)
    scales = sum(part.parameters for part in plain.values() if part.dtype == "fp8") // 128**2
    assert parts(LLAMA, quantisation, parameters=8_030_261_248 + scales) == plain
    more = parts(LLAMA, quantisation, parameters=8_030_261_248 + 2 * scales)
    assert more["rest (towers, draft layers, scales)"].parameters == 2 * scales


def test_the_size_of_the_files_decides_over_any_width() -> None:
    found = parts(LLAMA, {"quant_method": "gptq", "bits": 4}, weight_bytes=5_000_000_000)
    assert [(part.name, part.loaded_bytes("auto")) for part in found.values()] == [("checkpoint", 5_000_000_000)]


def test_what_the_checkpoint_lists_stays_as_it_is_layer_by_layer() -> None:
    listed = [f"model.layers.{layer}.self_attn.{name}_proj" for layer in range(32) for name in "qkvo"]
    listed += [f"model.layers.{layer}.mlp.{name}_proj" for layer in (0, 31) for name in ("gate", "up", "down")]
    found = parts(LLAMA, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": listed})
    assert found["key and value projections"].dtype == "bf16"
    assert found["attention"].dtype == "bf16"
    assert found["dense feed-forward in fp8"].parameters == 30 * 3 * 4_096 * 14_336
    assert found["dense feed-forward in bf16"].parameters == 2 * 3 * 4_096 * 14_336


@pytest.mark.parametrize(
    "quantisation",
    [
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        compressed(
            4,
            "int",
            32,
            ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
        ),
        {"quant_method": "mxfp4"},
    ],
)
def test_checkpoints_of_deepseeks_kind_quantise_routed_experts_only(quantisation: dict[str, Any]) -> None:
    found = parts(DEEPSEEK, quantisation)
    assert found["experts"].dtype in ("nvfp4", "int4_g32", "mxfp4")
    assert {part.dtype for name, part in found.items() if name != "experts"} == {"bf16"}


def test_routers_that_are_listed_do_not_take_the_dense_layers_with_them() -> None:
    found = parts(DEEPSEEK, {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.mlp.gate", "lm_head"]})
    assert found["layers"].dtype == "fp8"


def test_a_32_bit_checkpoint_is_loaded_in_16_bits() -> None:
    assert parts({**LLAMA, "torch_dtype": "float32"}, None)["layers"].dtype == "bf16"
    assert parts({**LLAMA, "torch_dtype": "float16"}, None)["layers"].dtype == "fp16"


@pytest.mark.parametrize("method", ["gguf", "aqlm", "bitnet", None])
def test_an_unknown_quantisation_is_refused_by_name(method: str | None) -> None:
    with pytest.raises(Refused, match="isn't a quantisation that is known here") as refused:
        parts(LLAMA, {"quant_method": method})
    assert refused.value.faults[0].pointer == "/quantization_config/quant_method"


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        (compressed(8, "float", kv_cache_scheme={"num_bits": 8, "type": "float"}), "fp8"),
    ],
)
def test_the_checkpoints_own_cache_format_is_read(scheme: dict[str, Any], dtype: str) -> None:
    model = read_model({**LLAMA, "quantization_config": scheme})
    assert model.kv_cache_scheme is not None
    assert model.kv_cache_scheme.value == dtype


def test_a_cache_format_that_is_not_planned_is_refused() -> None:
    with pytest.raises(NotPlannedYet, match="8 bits of type int"):
        parts(LLAMA, compressed(8, "int", kv_cache_scheme={"num_bits": 8, "type": "int"}))


EVERY = [*range(32)]
ATTENTION, FEED_FORWARD = 4_096 * (4_096 + 1_024 + 1_024 + 4_096), 3 * 4_096 * 14_336
"""Parameters of one layer of Llama-3.1-8B: queries, keys, values and output; gate, up and down."""


def plain_layers(ignored: Sequence[str], method: str = "compressed-tensors") -> tuple[int, int]:
    """Parameters of attention and of feed-forward that stay in 16 bits."""
    own: Mapping[str, Any] = {
        "compressed-tensors": compressed(8, "int", ignore=ignored),
        "awq": {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ignored},
        "modelopt": {"quant_algo": "FP8", "exclude_modules": ignored},
    }
    model = read_model({**LLAMA, "quantization_config": own[method]})
    assert model.weights is not None
    plain = [part for part in model.weights.value if part.dtype == "bf16"]
    attention = sum(part.parameters for part in plain if part.name.startswith(("attention", "key and value")))
    dense = sum(part.parameters for part in plain if part.name.startswith("dense"))
    together = sum(part.parameters for part in plain if part.name == "layers")
    return (32 * ATTENTION, 32 * FEED_FORWARD) if together else (attention, dense)


@pytest.mark.parametrize(
    ("method", "ignored", "attention", "feed_forward"),
    [
        *(
            ("compressed-tensors", ignored, EVERY, EVERY)
            for ignored in (
                ["re:.*"],
                ["re:.*.*"],
                ["*"],
                ["model"],
                ["model.layers"],
                ["re:model.layers.*"],
                [r"re:model\.layers\..*"],
                [r"re:^model\.layers\.\d+\..*$"],
                ["re:(lm_head|.*mlp.*|.*self_attn.*)"],
                ["re:.*(mlp|self_attn).*"],
                ["re:.*(mlp)?.*"],
                ["re:.*_proj$"],
                ["Linear"],
            )
        ),
        ("awq", ["model"], EVERY, EVERY),
        ("awq", ["lm_head", "model.layers"], EVERY, EVERY),
        ("modelopt", ["model.layers.*"], EVERY, EVERY),
        ("modelopt", ["model.layers.1.*", "lm_head"], [1], [1]),
        ("modelopt", ["model.layers.1*"], [1, *range(10, 20)], [1, *range(10, 20)]),
        ("modelopt", ["*mlp.gate.*", "*lm_head*"], [], []),
        ("compressed-tensors", ["re:.*norm.*|.*mlp.*"], [], EVERY),
        ("compressed-tensors", [r"re:.*layers\.1[0-9]\.mlp.*"], [], range(10, 20)),
        ("compressed-tensors", [r"re:.*layers\.[12]?\d\.mlp.*"], [], range(30)),
        ("compressed-tensors", [r"re:.*layers\.(0|1|3[01])\.mlp.*"], [], [0, 1, 30, 31]),
        ("compressed-tensors", [r"re:.*layers\.\d{2}\.mlp.*"], [], range(10, 32)),
        ("compressed-tensors", [r"re:.*layers\.1\..*"], [1], [1]),
        ("compressed-tensors", [r"re:.*layers\.3.*"], [3, 30, 31], [3, 30, 31]),
        ("compressed-tensors", [r"re:.*layers\.[^.]+\.self_attn.*"], EVERY, []),
        ("compressed-tensors", ["re:.*gate_proj.*"], [], EVERY),
        ("compressed-tensors", ["re:.*mlp.gate.*"], [], EVERY),
        ("compressed-tensors", ["re:.*mlp.gate$", "re:.*gate$", "gate", "lm_head", "re:visual.*"], [], []),
    ],
)
def test_a_list_of_what_is_left_out_is_read_layer_by_layer(
    method: str, ignored: Sequence[str], attention: Sequence[int], feed_forward: Sequence[int]
) -> None:
    expected = (len(attention) * ATTENTION, len(feed_forward) * FEED_FORWARD)
    assert plain_layers(ignored, method) == expected


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "LlamaDecoderLayer",
        "block_7",
        "re:^(?!.*mlp).*$",
        "re:(?i).*mlp.*",
        "re:.*[^m]lp.*",
        r"re:(.*mlp)\1",
        "re:(",
        "re:*",
        "re:.*mlp.*)",
        "re:a{9,99}",
        "re:" + "[0-9]" * 3 + "mlp",
        "re:" + "(" * 400,
        "re:" + "x" * 501,
    ],
)
def test_an_entry_that_cannot_be_read_does_not_count_as_nothing(entry: str) -> None:
    with pytest.raises(Refused, match="nobody can tell which modules") as refused:
        plain_layers(["lm_head", "lm_head", "re:.*norm.*", entry])
    assert refused.value.faults[0].pointer == "/quantization_config/ignore/3"


def test_patterns_that_stand_for_too_many_names_are_refused() -> None:
    many = [f"re:.*layers.[0-9][0-9].{letter}{other}_mlp" for letter in "abcdefgh" for other in "abcdefgh"]
    with pytest.raises(Refused, match="stand for too many names"):
        plain_layers(many)


PIECES = (
    *("", ".*", "model", r"\.", ".", "layers", r"\d+", "[0-5]", "1?[0-9]", "(0|17)", "self_attn", "mlp", "_proj"),
    *("[kv]_proj", "(gate|up)_proj", "lm_head", "norm|", "|.*", "down_proj$", "q_proj", "o_proj"),
)
MODULES = {
    **dict.fromkeys(("self_attn.q_proj", "self_attn.o_proj"), "attention"),
    **dict.fromkeys(("self_attn.k_proj", "self_attn.v_proj"), "keys and values"),
    **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), "dense"),
}


def test_whatever_module_a_pattern_is_of_counts_as_left_out() -> None:
    chance, read = random.Random(0), 0
    for _ in range(4_000):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 7)))
        try:
            found = left_out_of(Fields({"ignore": [f"re:{pattern}"]}, "", {}, ""))
        except Refused:
            continue
        read += 1
        layers_of = {str(role): layers for role, layers in found.items()}
        matches = re.compile(pattern).match
        for layer in range(20):
            for module, role in MODULES.items():
                if matches(f"model.layers.{layer}.{module}"):
                    layers = layers_of.get(role, frozenset())
                    assert layers is None or layer in layers, (pattern, layer, module)
    assert read > 1_000


def test_a_regular_expression_of_the_checkpoint_is_never_run() -> None:
    evil = "re:" + "(a+)+" * 40 + "self_attn" + "!" * 200
    found = parts(LLAMA, {"quant_method": "fp8", "ignore": [evil] * 1_000})
    assert found["key and value projections"].dtype == "bf16"


def test_the_size_of_the_files_is_one_part_beside_what_is_not_always_loaded() -> None:
    config = {**DEEPSEEK, "num_nextn_predict_layers": 1}
    found = parts(config, None, weight_bytes=10**9)
    apart = sum(part.parameters * 2 for part in found.values() if part.needed == "drafting")
    assert found["checkpoint"].bytes == 10**9 - apart
    assert apart > 0


def test_a_total_below_the_decoders_own_is_refused() -> None:
    with pytest.raises(Refused, match="the text decoder alone has 8,030,261,248"):
        parts(LLAMA, None, parameters=7_000_000_000)


def test_a_total_of_packed_4_bit_numbers_may_be_below_the_decoders_own() -> None:
    found = parts(LLAMA, {"quant_method": "awq", "bits": 4, "group_size": 128}, parameters=1_983_000_000)
    assert sum(part.parameters for part in found.values()) == 8_030_261_248


def test_what_a_total_has_more_is_named_for_what_is_known_of_it() -> None:
    found = parts(LLAMA, None, parameters=8_030_261_248 + 1_000)
    assert found["rest (towers, draft layers, scales)"].parameters == 1_000
    weights = read_model(LLAMA, parameters=8_030_261_248 + 1_000).weights
    assert weights is not None
    assert (weights.source, weights.confidence) == (
        "parameters counted from the shapes; the other 1,000 of the total given by the caller, taken for bf16",
        "low",
    )


def test_a_total_that_is_counted_to_the_unit_is_of_high_confidence() -> None:
    weights = read_model(LLAMA, parameters=8_030_261_248).weights
    assert weights is not None
    assert (weights.source, weights.confidence) == ("parameters counted from the shapes", "high")


def test_a_total_of_more_than_twice_the_decoder_is_refused() -> None:
    assert parts(LLAMA, None, parameters=2 * 8_030_261_248)
    with pytest.raises(Refused) as refused:
        parts(LLAMA, None, parameters=2 * 8_030_261_248 + 1)
    assert refused.value.faults[0].detail == (
        "16,060,522,497 parameters were given, 8,030,261,249 more than the text decoder has:"
        " that is more than its own 8,030,261,248"
    )


def test_the_source_of_a_size_says_what_was_taken_off_it() -> None:
    plain = read_model(LLAMA, weight_bytes=16_060_522_496).weights
    assert plain is not None
    assert (plain.source, plain.confidence) == ("16,060,522,496 B of files as given by the caller", "high")
    drafting = read_model({**DEEPSEEK, "num_nextn_predict_layers": 1}, weight_bytes=10**9).weights
    assert drafting is not None
    # One draft layer of 16-bit numbers: 8 experts of 3 x 1,024 x 512; attention of 256 x 16 x 192 + 512 x 16 x 256
    # + 16 x 128 x 1,024 + 1,024 x (256 + 512 + 64); a shared expert; 2 x 1,024 x 1,024 that join token and state;
    # a router of 1,024 x 8 + 8; 5 norms of 1,024 and two of 256 and 512.
    assert drafting.source == (
        "1,000,000,000 B of files as given by the caller,"
        " less 19,033,616 B of draft layers and 25,165,824 B of experts of draft layers listed apart"
    )


def test_a_lora_adapter_of_llama_8b_has_2621440_elements_for_each_unit_of_its_rank() -> None:
    lora = read_model(LLAMA).lora
    assert lora is not None
    # 32 layers: 7 sides of 4,096 copied; queries' 4,096 twice and 14,336 three times divided; keys' and values' 1,024.
    widths = lora.value
    assert (widths.whole, widths.divided, widths.keys_and_values, widths.kv_heads) == (917_504, 1_638_400, 65_536, 8)
    assert widths.whole + widths.divided + widths.keys_and_values == 2_621_440


def test_experts_and_dense_layers_are_placed_in_their_own_layers() -> None:
    config = {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 6,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "intermediate_size": 1024,
        "moe_intermediate_size": 128,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "mlp_only_layers": [0, 3],
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
    }
    found = parts(config, None)
    assert (found["experts"].experts, found["experts"].at) == (16, ((1, 3, 1), (4, 6, 1)))
    assert found["experts"].parameters == 4 * 16 * 3 * 512 * 128
    assert (found["dense feed-forward"].at, found["dense feed-forward"].parameters) == (
        ((0, 4, 3),),
        2 * 3 * 512 * 1024,
    )
    assert found["layers"].at == ()
