"""What a config.json is read to. Expected values stand in the models' own papers, cards and tensor listings."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.capacity.cache import (
    ChunkedLocal,
    FullAttention,
    IndexKeys,
    LatentAttention,
    SharedCache,
    SlidingWindow,
)
from service.capacity.model import Model, WeightPart
from service.errors import NotPlannedYet
from service.readers.model_config import read_model

Config = Mapping[str, Any]

LLAMA: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
DEEPSEEK: Config = {
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "rope_scaling": {"factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}


def parts(model: Model) -> dict[str, WeightPart]:
    assert model.weights is not None
    return {part.name: part for part in model.weights.value}


def parameters(model: Model) -> int | None:
    return None if model.parameters is None else model.parameters.value


def test_llama_3_1_8b_has_8_kv_heads_of_128_in_32_layers_and_8_030_261_248_parameters() -> None:
    model = read_model({**LLAMA, "architectures": ["LlamaForCausalLM"]})
    assert model.architecture == "LlamaForCausalLM"
    assert model.caches.value == (FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128),)
    assert parameters(model) == 8_030_261_248
    assert model.max_position_embeddings.value == 131_072
    assert model.layers is not None
    assert (model.layers.value, model.query_heads.value) == (32, 32)
    assert model.kv_cache_scheme is None
    assert model.draft_caches is None
    assert model.caches.confidence == "high"


def test_the_parts_of_a_model_add_up_to_its_parameters_and_say_how_they_are_spread() -> None:
    found = parts(read_model(LLAMA))
    assert sum(part.parameters for part in found.values()) == 8_030_261_248
    assert found["embeddings"] == WeightPart(
        "embeddings", 128_256 * 4_096, "bf16", follows_weight_dtype=True, stage="first"
    )
    assert found["head"] == WeightPart("head", 128_256 * 4_096, "bf16", follows_weight_dtype=True, stage="last")
    assert found["key and value projections"].parameters == 32 * 4_096 * 8 * 128 * 2
    assert found["key and value projections"].most_shards == 8
    assert found["norms and routers"].parameters == 65 * 4_096
    assert found["norms and routers"].most_shards == 1
    assert found["layers"].follows_weight_dtype


def test_tied_embeddings_are_one_part_at_both_ends() -> None:
    found = parts(read_model({**LLAMA, "tie_word_embeddings": True}))
    assert found["embeddings"].stage == "ends"
    assert "head" not in found


def test_a_class_default_is_used_where_the_field_is_left_out_and_lowers_the_confidence() -> None:
    text = {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }
    model = read_model(
        {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    )
    full, window = sorted(model.caches.value, key=lambda cache: cache.layers)
    assert full == FullAttention(layers=10, kv_heads=16, key_dim=128, value_dim=128, at=((5, 60, 6),))
    assert isinstance(window, SlidingWindow)
    assert (window.layers, window.window) == (52, 1_024)
    assert {layer for first, end, step in window.at for layer in range(first, end, step)} == {
        layer for layer in range(62) if layer % 6 != 5
    }
    assert parameters(model) == 27_009_346_304
    assert model.max_position_embeddings.value == 131_072
    assert model.max_position_embeddings.source == "class default of Gemma3TextConfig"
    assert model.max_position_embeddings.confidence == "medium"


def test_a_window_counts_only_if_it_is_switched_on_and_shorter_than_the_context() -> None:
    qwen2 = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    off = read_model({**qwen2, "use_sliding_window": False})
    assert off.caches.value == (FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128),)
    on = read_model({**qwen2, "use_sliding_window": True})
    assert [(type(cache).__name__, cache.layers) for cache in on.caches.value] == [
        ("FullAttention", 28),
        ("SlidingWindow", 4),
    ]
    mistral = {**LLAMA, "model_type": "mistral", "rope_scaling": None}
    as_long = read_model({**mistral, "sliding_window": 131072})
    assert as_long.caches.value == (FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128),)
    shorter = read_model({**mistral, "sliding_window": 4096})
    assert shorter.caches.value == (SlidingWindow(layers=32, kv_heads=8, key_dim=128, value_dim=128, window=4_096),)


@pytest.mark.parametrize("model_type", ["gemma2", "gemma3_text", "cohere2", "olmo3", "mistral"])
def test_a_window_that_is_written_as_null_is_none_and_not_the_class_default(model_type: str) -> None:
    stated = {**LLAMA, "model_type": model_type, "rope_scaling": None, "head_dim": 128}
    assert read_model({**stated, "sliding_window": None}).caches.value == (
        FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128),
    )
    left_out = read_model(stated)
    assert {cache.window for cache in left_out.caches.value if isinstance(cache, SlidingWindow)} == {4_096}


def test_a_list_may_name_the_draft_layers_behind_the_layers() -> None:
    listed = ["full_attention"] * 8
    config = {**LLAMA, "model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 4096}
    drafting = {**config, "num_nextn_predict_layers": 1}
    expected = read_model({**drafting, "layer_types": listed})
    assert read_model({**drafting, "layer_types": [*listed, "full_attention"]}) == expected


def test_gemma_2_alternates_windows_and_full_attention() -> None:
    model = read_model({**LLAMA, "model_type": "gemma2", "num_hidden_layers": 26, "sliding_window": 4096})
    assert [cache.at for cache in model.caches.value if not isinstance(cache, SharedCache)] == [
        ((0, 25, 2),),
        ((1, 26, 2),),
    ]


def test_llama_4_chunks_three_layers_of_four() -> None:
    text = {
        "model_type": "llama4_text",
        "head_dim": 128,
        "hidden_size": 5120,
        "interleave_moe_layer_step": 2,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "max_position_embeddings": 1048576,
        "num_attention_heads": 40,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "num_local_experts": 128,
        "vocab_size": 202048,
    }
    model = read_model(
        {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "text_config": text}
    )
    kinds = {type(cache): cache for cache in model.caches.value}
    chunked, full = kinds[ChunkedLocal], kinds[FullAttention]
    assert isinstance(chunked, ChunkedLocal)
    assert (chunked.layers, chunked.chunk, full.layers) == (36, 8_192, 12)
    assert parameters(model) == 400_711_848_960


def test_deepseek_v3_2_keeps_one_latent_and_one_index_key_per_layer() -> None:
    model = read_model(DEEPSEEK)
    latent = LatentAttention(layers=61, latent_dim=512, rope_dim=64, sparse=True, heads=128, key_dim=192)
    assert model.caches.value == (latent, IndexKeys(layers=61, key_dim=128, stored="fp8"))
    assert parameters(model) == 671_877_944_064
    assert model.max_position_embeddings.value == 163_840
    assert model.draft_caches is not None
    assert [(type(cache).__name__, cache.layers, cache.at) for cache in model.draft_caches.value] == [
        ("LatentAttention", 1, ((61, 62, 1),)),
        ("IndexKeys", 1, ((61, 62, 1),)),
    ]


def test_the_parts_of_deepseek_are_placed_in_the_layers_that_have_them() -> None:
    found = parts(read_model(DEEPSEEK))
    assert {name: (part.at, part.experts) for name, part in found.items() if part.stage == "layers"} == {
        "experts": (((3, 61, 1),), 256),
        "layers": ((), 0),
        "shared experts": (((3, 61, 1),), 0),
        "dense feed-forward": (((0, 3, 1),), 0),
        "latent projections": ((), 0),
        "norms and routers": ((), 0),
    }
    assert found["shared experts"].parameters == 58 * 3 * 7_168 * 2_048
    assert found["dense feed-forward"].parameters == 3 * 3 * 7_168 * 18_432
    # Queries out of their latent, keys without rotation and values out of theirs, and the output.
    attention = 1_536 * 128 * 192 + 512 * 128 * (128 + 128) + 128 * 128 * 7_168
    assert found["layers"].parameters == 61 * attention
    decoder = sum(part.parameters for part in found.values() if part.needed == "always")
    assert decoder == 671_877_944_064


@pytest.mark.parametrize("layers", [1, 3])
def test_every_draft_layer_is_numbered_behind_the_models(layers: int) -> None:
    drafts = read_model({**DEEPSEEK, "num_nextn_predict_layers": layers}).draft_caches
    assert drafts is not None
    assert [(cache.layers, cache.at) for cache in drafts.value] == [(layers, ((61, 61 + layers, 1),))] * 2


def test_a_figure_names_the_field_that_it_is_of() -> None:
    flat = read_model(LLAMA)
    assert flat.dtype is not None
    assert flat.hidden_size is not None
    assert (flat.dtype.source, flat.hidden_size.source) == (
        "torch_dtype of the config.json",
        "hidden_size of the config.json",
    )
    text = {name: value for name, value in LLAMA.items() if name not in ("torch_dtype", "rope_scaling")}
    nested = read_model({"model_type": "llava", "dtype": "bfloat16", "text_config": text})
    assert nested.dtype is not None
    assert nested.vocab_size is not None
    assert nested.layers is not None
    assert [figure.source for figure in (nested.dtype, nested.vocab_size, nested.layers)] == [
        "dtype of the config.json",
        "text_config.vocab_size of the config.json",
        "text_config.num_hidden_layers of the config.json",
    ]
    assert nested.max_position_embeddings.source == "text_config.max_position_embeddings of the config.json"


def test_the_draft_layer_of_deepseek_is_a_part_that_only_drafting_needs() -> None:
    found = parts(read_model(DEEPSEEK))
    drafts = [part for part in found.values() if part.needed == "drafting"]
    # The published 685,355,329,792 less decoder and the layer's copies of embedding and head.
    assert sum(part.parameters for part in drafts) == 13_477_385_728 - 2 * 129_280 * 7_168
    assert {(part.stage, part.dtype) for part in drafts} == {("last", "fp8")}
    assert (found["experts of draft layers"].experts, found["experts of draft layers"].parameters) == (
        256,
        256 * 3 * 7_168 * 2_048,
    )
    assert found["experts"].parameters == 58 * 256 * 3 * 7_168 * 2_048
    assert (found["experts"].dtype, found["embeddings"].dtype) == ("fp8", "bf16")
    assert found["latent projections"].most_shards == 1


def test_index_keys_are_kept_only_where_a_layer_has_its_own_indexer() -> None:
    types = ["full", "full", "full", *["shared", "shared", "shared", "full"] * 14, "shared", "shared"]
    model = read_model({**DEEPSEEK, "indexer_types": types, "rope_scaling": None})
    latent, keys = model.caches.value
    assert isinstance(latent, LatentAttention)
    assert isinstance(keys, IndexKeys)
    assert latent.at == ((0, 61, 1),)
    assert (keys.layers, keys.at) == (17, ((0, 3, 1), (6, 59, 4)))


def test_yarn_multiplies_the_original_context() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    model = read_model({**LLAMA, "max_position_embeddings": 32768, "rope_scaling": scaling})
    assert model.max_position_embeddings.value == 131_072
    assert model.max_position_embeddings.source == "yarn RoPE scaling of the config.json: 32768 x 4"


def test_a_dynamic_factor_lengthens_the_context_as_engines_derive_it() -> None:
    scaling = {"type": "dynamic", "factor": 2.0}
    config = {**LLAMA, "max_position_embeddings": 32768, "rope_scaling": scaling}
    assert read_model(config).max_position_embeddings.value == 65_536


def test_a_vision_model_with_a_flat_configuration_is_read_like_its_text_decoder() -> None:
    config = {**LLAMA, "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}, "vision_token_id": 5}
    assert read_model(config).caches.value == (FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128),)


def test_a_text_decoder_two_levels_deep_is_found() -> None:
    config = {
        "model_type": "qwen2_5_omni",
        "thinker_config": {"model_type": "qwen2_5_omni_thinker", "text_config": {**LLAMA}},
    }
    assert parameters(read_model(config)) == 8_030_261_248


def test_lfm3_is_refused_because_its_configuration_has_no_layer_pattern() -> None:
    with pytest.raises(NotPlannedYet, match="doesn't say which layers are attention") as refused:
        read_model({"model_type": "lfm3", "hidden_size": 2048})
    assert refused.value.faults[0].pointer == "/model_type"
