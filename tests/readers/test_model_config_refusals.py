"""Configurations that can't be read: refused by name, never guessed, never a traceback."""

import json
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from service.capacity.cache import FullAttention
from service.errors import Fault, Refused
from service.readers.model_config import read_model

LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def faults(config: Mapping[str, Any], **given: int) -> tuple[Fault, ...]:
    with pytest.raises(Refused) as refused:
        read_model(config, **given)
    return refused.value.faults


INVENTED: list[Mapping[str, Any]] = [
    {"model_type": "quasar", "hidden_size": 2048, "num_hidden_layers": 24, "memory_slots": 64, "vocab_size": 32000},
    {"architectures": ["HelixForCausalLM"], "n_layer": 12, "n_head": 16, "n_embd": 1024, "spiral_cache_factor": 3},
    {"model_type": "omni", "text_config": {"model_type": "omni_text", "num_hidden_layers": 8, "kv_tree_depth": 4}},
]


@pytest.mark.parametrize(
    ("config", "understood", "unknown"),
    [
        (INVENTED[0], "num_hidden_layers 24, hidden_size 2,048, vocab_size 32,000", "/memory_slots"),
        (INVENTED[1], "num_hidden_layers 12, num_attention_heads 16, hidden_size 1,024", "/spiral_cache_factor"),
        (INVENTED[2], "num_hidden_layers 8", "/text_config/kv_tree_depth"),
    ],
)
def test_an_unknown_architecture_is_refused_with_what_was_understood_and_what_was_not(
    config: Mapping[str, Any], understood: str, unknown: str
) -> None:
    first, *others = faults(config)
    assert "isn't an architecture that is known here" in first.detail
    assert first.detail.endswith(f"understood were {understood}")
    assert [fault.pointer for fault in others] == [unknown]


@pytest.mark.parametrize(
    "extra",
    [
        {"kv_compression_ratio": 4},
        {"num_memory_tokens": 128},
        {"attention_sink_window": 4},
        {"kv_lora_rank": 512},
        {"sliding_window": 1024},
        {"layer_types": ["full_attention"] * 32},
        {"num_kv_shared_layers": 8},
    ],
)
def test_a_known_architecture_with_an_unknown_field_is_refused(extra: Mapping[str, Any]) -> None:
    (fault,) = faults({**LLAMA, **extra})
    assert fault.pointer == f"/{next(iter(extra))}"
    assert "isn't known for llama, and may concern the cache" in fault.detail


def test_an_unknown_field_beside_the_text_decoder_is_refused_as_well() -> None:
    (fault,) = faults({"model_type": "llava", "text_config": LLAMA, "visual_memory_ratio": 2})
    assert fault.pointer == "/visual_memory_ratio"


def test_harmless_and_switched_off_fields_are_passed_over() -> None:
    harmless = {"bos_token_id": 1, "transformers_version": "5", "attention_dropout": 0.0, "rope_theta": 10000.0}
    assert read_model({**LLAMA, **harmless, "kv_compression_ratio": None, "use_memory": False}) == read_model(LLAMA)


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
@pytest.mark.parametrize("value", [0, -1, 10**12, 10**400, "32", 1.5, True, [], {}, float("nan"), float("inf")])
def test_numbers_that_are_none_or_absurd_are_faults_of_their_field(name: str, value: object) -> None:
    (fault,) = faults({**LLAMA, name: value})
    assert fault.pointer == f"/{name}"


@pytest.mark.parametrize(
    "name", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings"]
)
def test_a_missing_field_is_named(name: str) -> None:
    (fault,) = faults({key: value for key, value in LLAMA.items() if key != name})
    assert fault == Fault(f"/{name}", f"{name} is missing, and no default for it is known here")


def test_kv_heads_that_do_not_divide_the_query_heads_are_refused() -> None:
    (fault,) = faults({**LLAMA, "num_key_value_heads": 7})
    assert fault == Fault("/num_key_value_heads", "32 query heads can't be shared out among 7 KV heads")


def test_two_names_of_one_field_may_not_disagree() -> None:
    (fault,) = faults({**LLAMA, "num_layers": 16})
    assert fault == Fault("/num_layers", "num_layers says 16 and num_hidden_layers says 32")


def test_longcat_without_its_latent_rank_is_refused() -> None:
    config = {
        "architectures": ["LongcatCausalLM"],
        "model_type": "longcat",
        "vocab_size": 163840,
        "hidden_size": 8192,
        "num_layers": 38,
        "num_hidden_layers": 76,
        "num_attention_heads": 64,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 983040,
    }
    (fault,) = faults(config)
    assert fault.pointer == "/kv_lora_rank"


def test_lfm_without_a_layer_pattern_is_refused() -> None:
    (fault,) = faults({**LLAMA, "model_type": "lfm2"})
    assert fault.pointer == "/layer_types"


@pytest.mark.parametrize(
    "config", [{}, {"model_type": 5}, {"architectures": [{}]}, {"text_config": []}, {"model_type": ""}]
)
def test_what_is_no_configuration_at_all_is_refused(config: Mapping[str, Any]) -> None:
    assert faults(config)


@pytest.mark.parametrize("given", [{"parameters": 0}, {"weight_bytes": -1}, {"parameters": 10**18}])
def test_absurd_totals_are_refused(given: dict[str, int]) -> None:
    assert faults(LLAMA, **given)


def test_a_cache_past_anything_real_is_refused() -> None:
    config = {**LLAMA, "num_hidden_layers": 2_048, "num_attention_heads": 65_536, "num_key_value_heads": 65_536}
    (fault,) = faults({**config, "head_dim": 65_536})
    assert "bytes per token" in fault.detail


def test_random_values_anywhere_are_read_or_refused() -> None:
    chance = random.Random(7)
    junk = [None, -1, 0, 1, 3, 10**30, 1.5, "x", "full_attention", [], [1, 2], ["full_attention"], {}, {"a": 1}, True]
    for config in _samples():
        for _ in range(400):
            changed = json.loads(json.dumps(config))
            target = changed.get("text_config", changed) if chance.random() < 0.8 else changed
            for name in chance.sample(sorted(target), k=min(2, len(target))):
                target[name] = chance.choice(junk)
            with suppress(Refused):
                read_model(changed)


def _samples() -> list[dict[str, Any]]:
    latent = {
        "kv_lora_rank": 64,
        "q_lora_rank": 64,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
        "n_routed_experts": 8,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
        "index_head_dim": 32,
        "index_n_heads": 4,
        "indexer_types": ["full"] * 32,
    }
    hybrid = {
        "layer_types": [*["linear_attention"] * 3, "full_attention"] * 8,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "moe_intermediate_size": 128,
        "mamba_ssm_dtype": "float32",
    }
    quantised = {
        "quant_method": "compressed-tensors",
        "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int"}}},
    }
    scaling = {"rope_type": "yarn", "factor": 4.0}
    return [
        {**LLAMA, "quantization_config": quantised, "rope_scaling": scaling},
        {**LLAMA, "model_type": "deepseek_v32", **latent, "quantization_config": {"quant_method": "fp8"}},
        {"model_type": "qwen3_5_moe", "text_config": {**LLAMA, "model_type": "qwen3_5_moe_text", **hybrid}},
        {**LLAMA, "model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 6},
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("is_encoder_decoder", True),
        ("add_cross_attention", True),
        ("cross_attention_hidden_size", 1024),
        ("pruned_heads", {"0": [1]}),
        ("mup_sliding_window", 4096),
        ("init_std_cache_layers", 2),
        ("kv_cache_version", 2),
    ],
)
def test_a_field_that_may_concern_the_cache_is_never_harmless(name: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        read_model({**LLAMA, name: value})
    assert f"/{name}" in {fault.pointer for fault in refused.value.faults}


def test_kv_heads_left_out_are_not_taken_for_multi_head_where_the_class_says_otherwise() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert read_model(config).caches.value == (FullAttention(layers=32, kv_heads=32, key_dim=128, value_dim=128),)
    with pytest.raises(Refused) as refused:
        read_model({**config, "model_type": "qwen3"})
    assert refused.value.faults[0].pointer == "/num_key_value_heads"


def test_the_order_of_towers_changes_nothing() -> None:
    towers = {"vision_config": {"depth": 1}, "audio_config": {"depth": 1}}
    both = [read_model({**LLAMA, **dict(order)}) for order in (towers.items(), reversed(towers.items()))]
    assert both[0] == both[1]
    assert both[0].notes == "Not counted in the weights: what audio_config describes, what vision_config describes."
    assert both[0].weights is not None
    assert both[0].weights.confidence == "low"
