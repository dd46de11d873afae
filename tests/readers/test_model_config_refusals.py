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
from tests.configurations import LLAMA


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
    assert "understood were num_hidden_layers 32, num_attention_heads 32, num_key_value_heads 8" in fault.detail


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


@pytest.mark.parametrize("entries", [1, 31, 33, 42])
def test_a_list_of_layers_with_more_or_fewer_than_there_are_is_refused(entries: int) -> None:
    (fault,) = faults({**LLAMA, "model_type": "qwen3", "layer_types": ["full_attention"] * entries})
    assert fault == Fault("/layer_types", f"layer_types has {entries} items for 32 layers")
    drafting = {**LLAMA, "model_type": "exaone4", "num_nextn_predict_layers": 2}
    assert [fault.pointer for fault in faults({**drafting, "layer_types": ["full_attention"] * entries})] == [
        "/layer_types"
    ]
    routed = {**LLAMA, "model_type": "glm4_moe", "num_experts": 8, "moe_intermediate_size": 256}
    (fault,) = faults({**routed, "mlp_layer_types": ["sparse"] * entries})
    assert fault == Fault("/mlp_layer_types", f"mlp_layer_types has {entries} items for 32 layers")


def test_counting_draft_layers_for_a_list_does_not_make_them_known() -> None:
    config = {**LLAMA, "model_type": "qwen3", "num_nextn_predict_layers": 1}
    assert [fault.pointer for fault in faults({**config, "layer_types": ["full_attention"] * 33})] == [
        "/num_nextn_predict_layers"
    ]


def test_gemma_4_without_its_window_is_refused() -> None:
    (fault,) = faults({**LLAMA, "model_type": "gemma4_text", "sliding_window": None, "global_head_dim": 256})
    assert fault.pointer == "/sliding_window"


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
        "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}},
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


@pytest.mark.parametrize(
    "name",
    [
        "memory_eps",
        "memory_token_id",
        "kv_dropout",
        "attn_window_dropout",
        "latent_version",
        "extra_layer_eps",
        "state_loss_coef",
        "rope_theta_heads",
        "bos_token_id_cache",
        "bos_token_id\n",
        "vision_config\n",
        "mup_tokens",
        "summary_tokens",
    ],
)
def test_no_pattern_makes_a_name_about_memory_harmless(name: str) -> None:
    (fault,) = faults({**LLAMA, name: 2})
    assert fault.pointer == f"/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "image_token_id",
        "eoa_token_index",
        "layer_norm_epsilon",
        "rms_norm_eps",
        "router_aux_loss_coef",
        "resid_dropout",
        "hidden_dropout_prob",
        "rope_theta",
        "transformers_version",
        "initializer_range",
        "mup_width_multiplier",
    ],
)
def test_ordinary_fields_that_concern_no_cache_are_passed_over(name: str) -> None:
    assert read_model({**LLAMA, name: 2}) == read_model(LLAMA)


COHERE2 = {
    "model_type": "cohere2",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "vocab_size": 256000,
}
COMMAND_R7B = {
    "cache_implementation": "hybrid",
    "layer_switch": 4,
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "rotary_pct": 1.0,
    "sliding_window_pattern": 4,
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": True,
    "use_qk_norm": False,
}
STARCODER2 = {**LLAMA, "model_type": "starcoder2", "num_key_value_heads": 2}
QWEN_1M = {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}


@pytest.mark.parametrize(
    ("config", "harmless"),
    [
        (LLAMA, {"is_llama_config": True, "rope_interleaved": False}),
        (COHERE2, COMMAND_R7B),
        (
            STARCODER2,
            {
                "attention_softmax_in_fp32": True,
                "mlp_type": "default",
                "norm_type": "layer_norm",
                "scale_attention_softmax_in_fp32": True,
                "scale_attn_weights": True,
            },
        ),
        ({**LLAMA, "model_type": "qwen2"}, {"dual_chunk_attention_config": QWEN_1M}),
        (
            {**LLAMA, "model_type": "qwen3"},
            {"dual_chunk_attention_config": {**QWEN_1M, "sparse_attention_enabled": True}},
        ),
        (
            {**LLAMA, "model_type": "llama4_text", "num_experts": 8, "num_experts_per_tok": 1},
            {"cache_implementation": "hybrid"},
        ),
    ],
)
def test_fields_of_public_models_that_concern_neither_cache_nor_weights_are_passed_over(
    config: Mapping[str, Any], harmless: Mapping[str, Any]
) -> None:
    assert read_model({**config, **harmless}) == read_model(config)


@pytest.mark.parametrize(
    ("config", "other"),
    [
        *((COHERE2, {"layer_switch": value}) for value in (2, 0, 4.0, True)),
        (COHERE2, {"order_of_interleaved_layers": "global_attn_first"}),
        (COHERE2, {"position_embedding_type": "learned"}),
        *(
            (COHERE2, {name: value})
            for name in ("use_embedding_sharing", "use_gated_activation", "use_parallel_block")
            for value in (False, 1, [True])
        ),
        (COHERE2, {"use_qk_norm": True}),
        (STARCODER2, {"mlp_type": "gated"}),
        (STARCODER2, {"norm_type": "rms_norm"}),
        (LLAMA, {"mlp_type": "default"}),
        (LLAMA, {"dual_chunk_attention_config": QWEN_1M}),
        (LLAMA, {"layer_switch": 4}),
    ],
)
def test_other_values_of_such_fields_and_other_models_with_them_are_refused(
    config: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    (fault,) = faults({**config, **other})
    assert fault.pointer == f"/{next(iter(other))}"


def test_an_unknown_field_of_dual_chunk_attention_is_refused() -> None:
    (fault,) = faults({**LLAMA, "model_type": "qwen2", "dual_chunk_attention_config": {**QWEN_1M, "kept_chunks": 2}})
    assert fault.pointer == "/dual_chunk_attention_config/kept_chunks"


def test_a_field_that_may_only_have_some_values_is_told_them() -> None:
    for value in (False, 1, {"x": 1}):
        (fault,) = faults({**COHERE2, "use_parallel_block": value})
        assert fault.detail.startswith("use_parallel_block isn't known for cohere2 unless it is true; understood were")
    (fault,) = faults({**COHERE2, "position_embedding_type": "learned"})
    assert fault.detail.startswith("position_embedding_type isn't known for cohere2 unless it is 'rope' or 'rope_gptj'")


def test_a_second_text_configuration_is_refused() -> None:
    (fault,) = faults({"model_type": "llava", "text_config": LLAMA, "llm_config": LLAMA})
    assert fault == Fault(
        "/llm_config", "llm_config stands beside text_config: only one text configuration can be read"
    )
    (fault,) = faults({"thinker_config": {"text_config": LLAMA, "language_config": LLAMA}})
    assert fault.pointer == "/thinker_config/language_config"


@pytest.mark.parametrize("extra", [{"kv_compression_ratio": 4}, {"quantization_config": {"quant_method": "fp8"}}])
def test_an_unknown_field_between_two_nested_configurations_is_refused(extra: Mapping[str, Any]) -> None:
    (fault,) = faults({"model_type": "qwen2_5_omni", "thinker_config": {"text_config": LLAMA, **extra}})
    assert fault.pointer == f"/thinker_config/{next(iter(extra))}"


WITHOUT_KV_HEADS = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}


@pytest.mark.parametrize(
    ("model_type", "config_class", "heads"),
    [
        ("mistral", "MistralConfig", 8),
        ("mixtral", "MixtralConfig", 8),
        ("qwen2_vl", "Qwen2VLTextConfig", 8),
        ("qwen3_moe", "Qwen3MoeConfig", 4),
        ("glm4_moe", "Glm4MoeConfig", 8),
        ("gpt_oss", "GptOssConfig", 8),
        ("gemma2", "Gemma2Config", 4),
        ("gemma3_text", "Gemma3TextConfig", 4),
        ("llama4_text", "Llama4TextConfig", 8),
        ("starcoder2", "Starcoder2Config", 2),
        ("smollm3", "SmolLM3Config", 4),
        ("internlm3", "InternLM3Config", 2),
    ],
)
def test_kv_heads_left_out_are_the_class_default_and_named_as_one(
    model_type: str, config_class: str, heads: int
) -> None:
    sparse = {"num_experts": 8} if model_type in ("mixtral", "qwen3_moe", "glm4_moe", "gpt_oss", "llama4_text") else {}
    model = read_model({**WITHOUT_KV_HEADS, "model_type": model_type, **sparse})
    assert {getattr(cache, "kv_heads") for cache in model.caches.value} == {heads}  # noqa: B009
    assert model.caches.confidence == "medium"
    assert f"class defaults of {config_class}: " in model.caches.source
    assert f"num_key_value_heads {heads}" in model.caches.source


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "gemma", "exaone", "exaone4", "qwen2_moe", "minimax_m1"])
def test_kv_heads_are_required_where_the_class_has_no_grouped_default(model_type: str) -> None:
    (fault,) = faults({**WITHOUT_KV_HEADS, "model_type": model_type, "num_experts": 8})
    assert fault == Fault("/num_key_value_heads", "num_key_value_heads is missing, and no default for it is known here")


def test_kv_heads_that_are_null_are_not_taken_for_a_class_default() -> None:
    (fault,) = faults({**LLAMA, "model_type": "mistral", "num_key_value_heads": None})
    assert fault == Fault(
        "/num_key_value_heads", "num_key_value_heads is null, and MistralConfig has a number of its own for it"
    )


def test_a_configuration_of_nothing_is_told_that_it_names_no_architecture() -> None:
    (fault,) = faults({})
    assert fault == Fault("/model_type", "the configuration names no architecture; nothing of it was understood")


@pytest.mark.parametrize(
    "name", ["Llama\u202eForCausalLM", "Llama\u0000", "Llama\nForCausalLM", "\u2066Llama", "\x1b[2J"]
)
def test_architectures_that_cannot_be_shown_are_refused(name: str) -> None:
    (fault,) = faults({**LLAMA, "architectures": ["LlamaForCausalLM", name]})
    assert fault == Fault("/architectures/1", "an architecture has to be printable text of at most 200 characters")
    (fault,) = faults({"model_type": name})
    assert fault.detail.startswith("model_type has to be printable text")


def test_query_heads_that_cannot_be_shared_out_in_the_groups_of_a_block_are_refused() -> None:
    blocks = [{"attention": {"n_heads_in_group": 8}}, {"attention": {"n_heads_in_group": 5}}]
    (fault,) = faults({**LLAMA, "model_type": "nemotron-nas", "num_hidden_layers": 2, "block_configs": blocks})
    assert fault == Fault(
        "/block_configs/1/attention/n_heads_in_group", "32 query heads can't be shared out in groups of 5"
    )


def test_a_convolution_of_one_tap_keeps_no_state_and_is_refused() -> None:
    kinds = ["conv", "full_attention"] * 16
    (fault,) = faults({**LLAMA, "model_type": "lfm2", "layer_types": kinds, "conv_L_cache": 1})
    assert fault == Fault("/conv_L_cache", "conv_L_cache has to lie between 2 and 1,024, not 1")


def test_a_model_whose_layers_keep_nothing_is_refused() -> None:
    blocks = [{"attention": {"no_op": True}}] * 2
    (fault,) = faults({**LLAMA, "model_type": "nemotron-nas", "num_hidden_layers": 2, "block_configs": blocks})
    assert fault == Fault("/num_hidden_layers", "no layer of this model keeps a cache")


def test_a_context_past_anything_real_is_refused() -> None:
    assert read_model({**LLAMA, "max_position_embeddings": 10_485_760}).max_position_embeddings.value == 10_485_760
    assert read_model({**LLAMA, "max_position_embeddings": 2**26}).max_position_embeddings.value == 67_108_864
    (fault,) = faults({**LLAMA, "max_position_embeddings": 2**26 + 1})
    assert fault == Fault(
        "/max_position_embeddings", "max_position_embeddings has to lie between 1 and 67,108,864, not 67,108,865"
    )
    (fault,) = faults({**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 10_000}})
    assert fault == Fault("/rope_scaling/factor", "a context of more than 67,108,864 tokens isn't taken for real")


def test_the_order_of_fields_changes_nothing() -> None:
    chance = random.Random(11)
    for config in _samples():
        expected = read_model(config)
        for _ in range(20):
            assert read_model(_shuffled(config, chance)) == expected


def _shuffled(value: Any, chance: random.Random) -> Any:  # noqa: ANN401
    if not isinstance(value, dict):
        return value
    names = chance.sample(sorted(value), k=len(value))
    return {name: _shuffled(value[name], chance) for name in names}


def test_an_empty_name_under_architectures_is_none() -> None:
    assert read_model({**LLAMA, "architectures": [""]}).architecture == "llama"


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
GROUP = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "symmetric": True}}
FOUR_BITS = {"num_bits": 4, "type": "int", "group_size": 128}
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUP}, "ignore": ["lm_head"]}
KIMI = {
    **{name: value for name, value in LLAMA.items() if name != "num_key_value_heads"},
    "model_type": "kimi_linear",
    "num_hidden_layers": 2,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_experts": 8,
    "moe_intermediate_size": 512,
    "linear_attn_config": {
        "kda_layers": [1],
        "full_attn_layers": [2],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
}
NAS = {
    **{name: value for name, value in LLAMA.items() if name != "num_key_value_heads"},
    "model_type": "nemotron-nas",
    "num_hidden_layers": 2,
    "block_configs": [{"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 2.5}}, {"attention": {"no_op": True}}],
}


def objects_in(value: Any, pointer: str = "") -> list[str]:  # noqa: ANN401
    """Pointers to every object of a configuration."""
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in objects_in(item, f"{pointer}/{index}")]
    if not isinstance(value, dict):
        return []
    return [pointer, *(found for name, item in value.items() for found in objects_in(item, f"{pointer}/{name}"))]


def with_field(config: Mapping[str, Any], pointer: str, name: str, value: object) -> dict[str, Any]:
    """The configuration with one field more in one of its objects."""
    changed: dict[str, Any] = json.loads(json.dumps(config))
    place = changed
    for part in pointer.split("/")[1:]:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[name] = value
    return changed


NESTED_OBJECTS: list[Mapping[str, Any]] = [
    {**LLAMA, "rope_scaling": YARN},
    {**LLAMA, "rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": YARN}},
    {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    {**LLAMA, "quantization_config": {**COMPRESSED, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}},
    {
        **LLAMA,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "FP8",
            "kv_cache_quant_algo": "FP8",
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
            "config_groups": {
                "group_0": {**GROUP, "input_activations": {"num_bits": 8, "type": "float"}, "output_activations": None}
            },
        },
    },
    {"model_type": "llava", "text_config": LLAMA, "quantization_config": COMPRESSED},
    KIMI,
    NAS,
]


@pytest.mark.parametrize("name", ["kv_compression_ratio", "memory_slots", "window"])
@pytest.mark.parametrize(
    ("config", "pointer"), [(config, pointer) for config in NESTED_OBJECTS for pointer in objects_in(config)]
)
def test_an_unknown_field_of_any_object_is_refused_with_what_was_understood(
    config: Mapping[str, Any], pointer: str, name: str
) -> None:
    read_model(config)
    (fault,) = faults(with_field(config, pointer, name, 4))
    assert fault.pointer == f"{pointer}/{name}"
    assert f"{name} isn't known for " in fault.detail or pointer.endswith("/config_groups")
    assert "understood were num_hidden_layers " in fault.detail or pointer.endswith("/config_groups")


def test_every_unknown_field_of_every_object_is_listed() -> None:
    config = {**LLAMA, "rope_scaling": {**YARN, "a_window": 1}, "quantization_config": {**COMPRESSED, "a_cache": 1}}
    found = faults({**config, "a_ratio": 1})
    assert {fault.pointer for fault in found} == {"/a_ratio", "/rope_scaling/a_window", "/quantization_config/a_cache"}


@pytest.mark.parametrize("name", ["hidden_act", "attention_dropout", "rope_theta", "bos_token_id", "model_max_length"])
@pytest.mark.parametrize("nested", [{"kv_compression_ratio": 4}, [{"kv_compression_ratio": 4}]])
def test_a_name_that_is_harmless_as_a_value_is_not_as_an_object(name: str, nested: object) -> None:
    (fault,) = faults({**LLAMA, name: nested})
    assert fault.pointer == f"/{name}"


@pytest.mark.parametrize("name", ["id2label", "label2id", "task_specific_params", "vision_config", "audio_config"])
def test_objects_of_what_is_not_the_text_decoder_may_hold_anything(name: str) -> None:
    assert read_model({**LLAMA, name: {"kv_compression_ratio": 4}}).caches == read_model(LLAMA).caches


def test_a_rope_of_each_kind_of_layer_lengthens_the_context_like_one_of_all() -> None:
    by_kind = {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    model = read_model({**LLAMA, "rope_parameters": by_kind})
    assert model.max_position_embeddings.value == 4 * 8192
    assert model.max_position_embeddings.source == "yarn RoPE scaling of the config.json: 8192 x 4"
    (fault,) = faults({**LLAMA, "rope_parameters": {"full_attention": {"rope_type": "spiral"}}})
    assert fault.pointer == "/rope_parameters/full_attention/rope_type"


def test_what_is_said_twice_in_objects_is_refused() -> None:
    (fault,) = faults({**LLAMA, "rope_scaling": YARN, "rope_parameters": {"rope_type": "default"}})
    assert fault.pointer == "/rope_parameters"
    (fault,) = faults({**LLAMA, "rope_scaling": {**YARN, "type": "default"}})
    assert fault == Fault("/rope_scaling/type", "type says 'default' and rope_type says 'yarn'")
    assert read_model({**LLAMA, "rope_scaling": {"rope_type": "default", "type": "mrope"}}) == read_model(LLAMA)
    nested = {"model_type": "llava", "text_config": {**LLAMA, "quantization_config": COMPRESSED}}
    (fault,) = faults({**nested, "quantization_config": {"quant_method": "fp8"}})
    assert fault.pointer == "/quantization_config"


@pytest.mark.parametrize(
    ("quantised", "pointer"),
    [
        ({**COMPRESSED, "sparsity_config": {"format": "sparse-24-bitmask"}}, "/sparsity_config/format"),
        ({**COMPRESSED, "transform_config": {"config_groups": {"R1": {}}}}, "/transform_config"),
        (
            {**COMPRESSED, "config_groups": {"group_0": {**GROUP, "targets": ["re:.*mlp.*"]}}},
            "/config_groups/group_0/targets",
        ),
        ({**COMPRESSED, "config_groups": {"group_0": {**GROUP, "targets": []}}}, "/config_groups/group_0/targets"),
        ({**COMPRESSED, "config_groups": {"group_0": {**GROUP, "targets": None}}}, "/config_groups/group_0/targets"),
        ({**COMPRESSED, "format": "dense"}, "/format"),
        ({**COMPRESSED, "format": "fakequant", "quantization_status": "frozen"}, "/format"),
        ({**COMPRESSED, "format": "marlin-24"}, "/format"),
        ({**COMPRESSED, "config_groups": {"group_0": {**GROUP, "format": "dense"}}}, "/config_groups/group_0/format"),
        (
            {**COMPRESSED, "format": "int-quantized", "config_groups": {"group_0": {**GROUP, "weights": FOUR_BITS}}},
            "/format",
        ),
        ({**COMPRESSED, "quantization_status": "calibration"}, "/quantization_status"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True}, "/load_in_4bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": False}, "/load_in_4bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "_load_in_8bit": True}, "/load_in_4bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "_load_in_4bit": False}, "/load_in_4bit"),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_has_fp16_weight": True},
            "/llm_int8_has_fp16_weight",
        ),
        (
            {"quant_algo": "FP8", "config_groups": {"group_0": {**GROUP, "targets": []}}},
            "/config_groups/group_0/targets",
        ),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}}, "/dynamic"),
        ({"quant_method": "auto-round", "bits": 4, "extra_config": {"lm_head": {"bits": 16}}}, "/extra_config"),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}, "/data_type"),
    ],
)
def test_a_quantisation_that_keeps_weights_in_another_way_is_refused(
    quantised: Mapping[str, Any], pointer: str
) -> None:
    (fault,) = faults({**LLAMA, "quantization_config": quantised})
    assert fault.pointer == f"/quantization_config{pointer}"


@pytest.mark.parametrize(
    "quantised",
    [
        {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True},
        {"quant_method": "awq", "w_bit": 4, "q_group_size": 128, "version": "gemm", "zero_point": True},
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "desc_act": True,
            "sym": True,
            "checkpoint_format": "gptq",
            "meta": {"quantizer": ["gptqmodel:1.4"]},
        },
        {"quant_method": "auto-round", "bits": 4, "group_size": 128, "iters": 200, "data_type": "int", "sym": True},
    ],
)
def test_fields_that_quantisers_write_are_known(quantised: Mapping[str, Any]) -> None:
    weights = read_model({**LLAMA, "quantization_config": quantised}).weights
    assert weights is not None
    assert {part.dtype for part in weights.value} == {"bf16", "int4"}


@pytest.mark.parametrize(
    ("stated", "dtype"),
    [
        ({"format": "float-quantized", "quantization_status": "compressed"}, "fp8"),
        # A public FP8 checkpoint of Llama-3.1-8B says both, and its matrices lie in files as F8_E4M3.
        ({"format": "naive-quantized", "quantization_status": "frozen"}, "fp8"),
        ({"format": "pack-quantized", "config_groups": {"group_0": {**GROUP, "weights": FOUR_BITS}}}, "int4"),
    ],
)
def test_weights_that_lie_in_files_in_their_bits_are_read(stated: Mapping[str, Any], dtype: str) -> None:
    weights = read_model({**LLAMA, "quantization_config": {**COMPRESSED, **stated}}).weights
    assert weights is not None
    assert {part.dtype for part in weights.value} == {"bf16", dtype}


def test_a_group_needs_no_modules_where_the_algorithm_says_what_all_are_kept_in() -> None:
    group = {name: value for name, value in GROUP.items() if name != "targets"}
    weights = read_model({**LLAMA, "quantization_config": {"quant_algo": "FP8", "config_groups": {"g": group}}}).weights
    assert weights is not None
    assert {part.dtype for part in weights.value} == {"bf16", "fp8"}


def test_a_block_more_than_there_are_layers_is_refused() -> None:
    (fault,) = faults({**NAS, "block_configs": [*NAS["block_configs"], {"attention": {"no_op": True}}]})
    assert fault == Fault("/block_configs", "block_configs has 3 entries for 2 layers")


def test_names_that_disagree_are_left_out_of_what_was_understood() -> None:
    config = {"model_type": "zebra", "num_hidden_layers": 24, "num_layers": 12, "hidden_size": 512}
    assert faults(config)[0].detail.endswith("understood were hidden_size 512")


NAMED = {**LLAMA, "architectures": ["LlamaForCausalLM"]}
KIMI_CODE = {
    "AutoConfig": "configuration_kimi.KimiLinearConfig",
    "AutoModel": "modeling_kimi.KimiLinearModel",
    "AutoModelForCausalLM": "moonshotai/Kimi-Linear--modeling_kimi.KimiLinearForCausalLM",
    "AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None],
}


@pytest.mark.parametrize(
    "name",
    [
        "MyInventedForCausalLM",
        "Qwen2ForCausalLM",
        "LlavaForConditionalGeneration",
        "MyLlamaForCausalLM",
        "Llama2ForCausalLM",
        "LlamaForInventedCaching",
        "Llama",
        "llamaForCausalLM",
        "LLAMAForCausalLM",
        "LlamaForCausalLM ",
        " LlamaForCausalLM",
        "LlamaForCausalLMEagle3",
        "Ll\u0430maForCausalLM",
    ],
)
def test_a_known_model_type_under_a_name_that_is_not_its_own_is_refused(name: str) -> None:
    first, *others = faults({**LLAMA, "architectures": [name], "spiral_cache_factor": 3})
    assert first.pointer == "/architectures/0"
    assert first.detail.startswith(f"'{name}' isn't an architecture of llama that is known here; understood were ")
    assert "num_hidden_layers 32, num_attention_heads 32, num_key_value_heads 8" in first.detail
    assert others == [Fault("/spiral_cache_factor", "spiral_cache_factor isn't known")]


@pytest.mark.parametrize("name", ["Llama\u200bForCausalLM", "Llama\u2060ForCausalLM", "x" * 201])
def test_a_name_that_cannot_be_told_from_another_is_refused(name: str) -> None:
    (fault,) = faults({**LLAMA, "architectures": [name]})
    assert fault == Fault("/architectures/0", "an architecture has to be printable text of at most 200 characters")


def test_every_name_of_an_architecture_has_to_be_known() -> None:
    names = ["LlamaForCausalLM", "OneForCausalLM", "LlamaModel", "TwoForCausalLM"]
    assert [fault.pointer for fault in faults({**LLAMA, "architectures": names})] == [
        "/architectures/1",
        "/architectures/3",
    ]


@pytest.mark.parametrize(
    "name",
    ["LlamaForCausalLM", "LlamaModel", "LlamaForSequenceClassification", "LlamaForTokenClassification"],
)
def test_a_known_decoder_under_another_head_is_read_like_it(name: str) -> None:
    model = read_model({**LLAMA, "architectures": [name]})
    assert model.architecture == name
    assert model.caches == read_model(LLAMA).caches


def test_a_known_architecture_of_an_unknown_model_type_is_refused() -> None:
    (fault,) = faults({**NAMED, "model_type": "my_invented"})
    assert fault.pointer == "/model_type"
    assert fault.detail.startswith("'my_invented' isn't an architecture that is known here; understood were ")


@pytest.mark.parametrize("name", ["Llama", "llama ", "LLAMA", "ll\u0430ma"])
def test_a_model_type_that_only_looks_like_a_known_one_is_refused(name: str) -> None:
    assert faults({**NAMED, "model_type": name})[0].pointer == "/model_type"


def test_an_architecture_alone_is_read_where_its_configurations_name_no_model_type() -> None:
    config = {name: value for name, value in NAMED.items() if name != "model_type"}
    assert read_model(config) == read_model(NAMED)
    assert (
        faults({**config, "architectures": ["LlamaForCausalLM", "HelixForCausalLM"]})[0].pointer == "/architectures/1"
    )


def test_code_of_the_repository_is_known_by_its_classes() -> None:
    expected = read_model(KIMI)
    assert read_model({**KIMI, "auto_map": KIMI_CODE}) == expected
    for auto, name in {
        "AutoConfig": "configuration_kimi.KimiSpiralConfig",
        "AutoModel": "modeling_kimi.DeepseekV3Model",
        "AutoModelForCausalLM": "modeling_kimi.KimiLinearForSpirals",
    }.items():
        first, *_ = faults({**KIMI, "auto_map": {**KIMI_CODE, auto: name}})
        assert first.pointer == f"/auto_map/{auto}"
        assert first.detail.startswith(f"'{name}' isn't code of kimi_linear that is known here; understood were ")


@pytest.mark.parametrize(
    ("code", "pointer"),
    [
        (5, "/auto_map"),
        ([], "/auto_map"),
        ({f"AutoModelFor{index}": "a.LlamaModel" for index in range(65)}, "/auto_map"),
        ({"AutoModel": 5}, "/auto_map/AutoModel"),
        ({"AutoModel": ["a.LlamaModel"]}, "/auto_map/AutoModel"),
        ({"AutoModel": None}, "/auto_map/AutoModel"),
        ({"AutoModel": "a.Llama\u200bModel"}, "/auto_map/AutoModel"),
        ({"AutoModel": "a.LlamaConfig"}, "/auto_map/AutoModel"),
        ({"AutoCache": "a.LlamaCache"}, "/auto_map/AutoCache"),
        ({"automodel": "a.LlamaModel"}, "/auto_map/automodel"),
        ({"kv_compression_ratio": 4}, "/auto_map/kv_compression_ratio"),
    ],
)
def test_code_that_nobody_can_name_is_refused(code: object, pointer: str) -> None:
    assert faults({**NAMED, "auto_map": code})[0].pointer == pointer


def test_names_around_a_text_decoder_have_to_be_known_too() -> None:
    nested = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": NAMED}
    assert read_model(nested).caches == read_model(LLAMA).caches
    changes: list[tuple[Mapping[str, Any], str]] = [
        ({"model_type": "my_llava"}, "/model_type"),
        ({"model_type": "qwen3_vl"}, "/model_type"),
        ({"model_type": "llava\u200b"}, "/model_type"),
        ({"architectures": ["MyLlavaForConditionalGeneration"]}, "/architectures/0"),
        ({"auto_map": {"AutoModel": "modeling_spiral.SpiralModel"}}, "/auto_map/AutoModel"),
        (
            {"text_config": {**LLAMA, "architectures": ["LlavaForConditionalGeneration"]}},
            "/text_config/architectures/0",
        ),
        ({"text_config": {**LLAMA, "auto_map": {"AutoModel": "a.SpiralModel"}}}, "/text_config/auto_map/AutoModel"),
        ({"text_config": {**LLAMA, "model_type": "llava"}}, "/text_config/model_type"),
    ]
    for change, pointer in changes:
        first, *_ = faults({**nested, **change})
        assert first.pointer == pointer
        assert "understood were num_hidden_layers 32" in first.detail


def test_a_model_around_a_text_decoder_without_one_is_refused() -> None:
    (fault,) = faults({**LLAMA, "model_type": "llava"})
    assert fault.pointer == "/model_type"
    assert fault.detail.startswith("the text configuration of this model type is missing; understood were ")


@pytest.mark.parametrize("names", ["LlamaForCausalLM", {"0": "LlamaForCausalLM"}, 5, True, ["LlamaForCausalLM"] * 65])
def test_architectures_that_are_no_short_list_are_refused(names: object) -> None:
    (fault,) = faults({**LLAMA, "architectures": names})
    assert fault == Fault("/architectures", "architectures has to be a list of at most 64 items")


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters", "quantization_config"])
@pytest.mark.parametrize("value", [[], ["a"], 5, "fp8", True, [{"quant_method": "fp8"}]])
def test_what_has_to_be_an_object_and_is_none_is_refused(place: str, value: object) -> None:
    (fault,) = faults({**LLAMA, place: value})
    assert fault.pointer == f"/{place}"


def test_a_hundred_thousand_unknown_fields_are_refused_by_the_first_twenty() -> None:
    many = {f"field_{index:06}": index for index in range(100_000)}
    for place in ("", "rope_scaling", "quantization_config"):
        inside = {"quant_method": "fp8", **many} if place == "quantization_config" else many
        found = faults({**LLAMA, place: inside} if place else {**LLAMA, **many})
        assert [fault.pointer for fault in found] == [
            f"{'/' if place else ''}{place}/field_{index:06}" for index in range(20)
        ]
