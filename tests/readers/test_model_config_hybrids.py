"""What the config.json of a model that mixes kinds of layers, or compresses its cache, is read to."""

from collections.abc import Mapping
from typing import Any

from service.capacity.cache import (
    CompressedLatent,
    ConvolutionHistory,
    FullAttention,
    GatedDeltaNet,
    KimiDeltaAttention,
    LatentAttention,
    LatentWindow,
    LightningAttention,
    Mamba1,
    Mamba2,
    RowRing,
    SharedCache,
    ShortConvolution,
    SlidingWindow,
    Storage,
)
from service.capacity.model import Model, WeightPart
from service.readers.model_config import read_model

Config = Mapping[str, Any]

QWEN3_5_TEXT: Config = {
    "model_type": "qwen3_5_moe_text",
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 512,
    "mtp_num_hidden_layers": 1,
    "num_attention_heads": 16,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 248320,
}
QWEN3_5: Config = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "text_config": QWEN3_5_TEXT,
    "tie_word_embeddings": False,
    "vision_config": {"depth": 27},
}
V4: Config = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "expert_dtype": "fp4",
    "hc_mult": 4,
    "head_dim": 512,
    "hidden_size": 4096,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "max_position_embeddings": 1048576,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 64,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 43,
    "num_hash_layers": 3,
    "num_key_value_heads": 1,
    "num_nextn_predict_layers": 1,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "sliding_window": 128,
    "tie_word_embeddings": False,
    "vocab_size": 129280,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
}


def parts(model: Model) -> dict[str, WeightPart]:
    assert model.weights is not None
    return {part.name: part for part in model.weights.value}


def parameters(model: Model) -> int | None:
    return None if model.parameters is None else model.parameters.value


def test_qwen3_5_mixes_delta_nets_in_fp32_with_full_attention() -> None:
    model = read_model(QWEN3_5)
    state, full = model.caches.value
    assert isinstance(state, GatedDeltaNet)
    assert (state.layers, state.key_heads, state.value_heads, state.key_dim, state.value_dim) == (30, 16, 32, 128, 128)
    assert (state.conv_kernel, state.state_dtype) == (4, "fp32")
    assert full == FullAttention(layers=10, kv_heads=2, key_dim=256, value_dim=256, at=((3, 40, 4),))
    assert parameters(model) == 34_660_610_688
    assert model.draft_caches is not None
    assert model.draft_caches.value == (
        FullAttention(layers=1, kv_heads=2, key_dim=256, value_dim=256, at=((40, 41, 1),)),
    )


def test_what_the_callers_total_has_beyond_the_decoder_and_drafts_is_the_tower() -> None:
    # The published total of Qwen3.5-35B-A3B.
    found = parts(read_model(QWEN3_5, parameters=35_951_822_704))
    tower = found["towers and scales"]
    drafts = sum(part.parameters for part in found.values() if part.needed == "drafting")
    assert tower.needed == "multimodal"
    assert tower.parameters + drafts == 1_291_212_016


def test_deepseek_v4_keeps_windows_and_compressed_vectors() -> None:
    model = read_model(V4)
    window, by_four, by_128 = model.caches.value
    assert window == LatentWindow(layers=43, latent_dim=512, window=128, block=64, at=((0, 43, 1),))
    assert by_four == CompressedLatent(
        layers=21,
        latent_dim=512,
        tokens_per_vector=4,
        index_dim=128,
        rows=8,
        row_width=2_048,
        index_row_width=512,
        row_block=4,
        at=((2, 43, 2),),
    )
    assert by_128 == CompressedLatent(
        layers=20, latent_dim=512, tokens_per_vector=128, rows=128, row_width=1_024, row_block=8, at=((3, 42, 2),)
    )
    assert parameters(model) == 284_332_240_471
    assert parts(model)["experts"].dtype == "mxfp4"
    assert parts(model)["layers"].dtype == "fp8"
    assert model.draft_caches is not None
    assert model.draft_caches.value == (
        LatentWindow(layers=1, latent_dim=512, window=128, block=64, at=((43, 44, 1),)),
    )


def test_deepseek_v4_1_keeps_compressed_vectors_at_the_source_layers_alone() -> None:
    left_out = ("compress_ratios", "num_hash_layers", "expert_dtype", "architectures", "quantization_config")
    text = {name: value for name, value in V4.items() if name not in left_out}
    text |= {
        "model_type": "deepseek_v41_text",
        "num_hidden_layers": 40,
        "num_nextn_predict_layers": 3,
        "compress_ratios": [0, 0, *[2] * 18, *[1] * 20],
        "kv_source_layer_ids": [2, 8, 14, 20],
    }
    model = read_model({"model_type": "deepseek_v41", "text_config": text}, parameters=10**12)
    window, by_two, ring, by_one = model.caches.value
    assert window == LatentWindow(layers=40, latent_dim=512, window=128, block=32, microscaled=True, at=((0, 40, 1),))
    assert isinstance(by_two, CompressedLatent)
    assert isinstance(by_one, CompressedLatent)
    assert (by_two.layers, by_two.tokens_per_vector, by_two.index_dim, by_two.rows) == (3, 2, 128, None)
    assert (by_one.layers, by_one.tokens_per_vector, by_one.at) == (1, 1, ((20, 21, 1),))
    assert ring == RowRing(layers=3, row_bytes=4_096, waiting=2, least_rows=8, power_of_two=True, at=((2, 15, 6),))
    # Its parameters can't be counted yet: the caller's total stands in.
    assert parameters(model) == 10**12
    assert parts(model)["all weights"].parameters == 10**12


def test_kimi_linear_numbers_its_layers_from_one() -> None:
    config = {
        "model_type": "kimi_linear",
        "hidden_size": 2304,
        "num_hidden_layers": 27,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 163840,
        "intermediate_size": 9216,
        "moe_intermediate_size": 1024,
        "num_experts": 256,
        "num_experts_per_token": 8,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "mla_use_nope": True,
        "max_position_embeddings": 1048576,
        "tie_word_embeddings": False,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    }
    model = read_model(config)
    state, latent = model.caches.value
    assert isinstance(state, KimiDeltaAttention)
    assert (state.layers, state.heads, state.head_dim, state.conv_kernel, state.state_dtype) == (20, 32, 128, 4, "fp32")
    assert isinstance(latent, LatentAttention)
    assert (latent.layers, latent.latent_dim, latent.rope_dim, latent.sparse) == (7, 512, 64, False)
    assert latent.at == ((3, 24, 4), (26, 27, 1))
    assert parameters(model) == 49_122_681_728


def test_nemotron_h_is_read_from_its_letters_and_from_its_list() -> None:
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "conv_kernel": 4,
        "head_dim": 128,
        "hidden_size": 2688,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "intermediate_size": 1856,
        "mamba_head_dim": 64,
        "mamba_num_heads": 64,
        "mamba_ssm_cache_dtype": "float32",
        "max_position_embeddings": 262144,
        "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712,
        "n_groups": 8,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_attention_heads": 32,
        "num_experts_per_tok": 6,
        "num_hidden_layers": 52,
        "num_key_value_heads": 2,
        "ssm_state_size": 128,
        "tie_word_embeddings": False,
        "use_conv_bias": True,
        "vocab_size": 131072,
    }
    model = read_model(config)
    state, full = model.caches.value
    assert isinstance(state, Mamba2)
    assert (state.layers, state.heads, state.head_dim, state.groups, state.state_dim) == (23, 64, 64, 8, 128)
    assert state.state_dtype == "fp32"
    assert isinstance(full, FullAttention)
    assert (full.layers, full.kv_heads, full.key_dim) == (6, 2, 128)
    assert parameters(model) == 31_577_937_344
    names = {"M": "mamba", "E": "moe", "*": "attention"}
    listed = {
        name: value for name, value in config.items() if name not in ("hybrid_override_pattern", "num_hidden_layers")
    }
    listed["layers_block_type"] = [names[letter] for letter in str(config["hybrid_override_pattern"])]
    assert read_model(listed) == model


def test_jamba_has_one_attention_layer_in_eight_and_mamba_1_in_the_others() -> None:
    config = {
        "model_type": "jamba",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 65536,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "mamba_dt_rank": "auto",
        "tie_word_embeddings": False,
        "max_position_embeddings": 262144,
    }
    model = read_model(config)
    kinds = {type(cache): cache for cache in model.caches.value}
    full, state = kinds[FullAttention], kinds[Mamba1]
    assert isinstance(full, FullAttention)
    assert isinstance(state, Mamba1)
    assert (full.layers, full.at) == (4, ((4, 29, 8),))
    assert (state.layers, state.inner_dim, state.state_dim, state.conv_kernel) == (28, 8_192, 16, 4)
    assert parameters(model) == 51_570_323_328


def test_lfm2_keeps_short_convolutions_between_attention_layers() -> None:
    kinds = "conv conv full_attention conv conv full_attention conv conv full_attention conv full_attention conv"
    config = {
        "model_type": "lfm2",
        "vocab_size": 65536,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "conv_L_cache": 3,
        "max_position_embeddings": 128000,
        "tie_word_embeddings": True,
        "layer_types": f"{kinds} full_attention conv full_attention conv".split(),
    }
    model = read_model(config)
    conv, full = model.caches.value
    assert isinstance(conv, ShortConvolution)
    assert (conv.layers, conv.channels, conv.conv_kernel) == (10, 2_048, 3)
    assert isinstance(full, FullAttention)
    assert (full.layers, full.kv_heads, full.key_dim) == (6, 8, 64)
    assert parameters(model) == 1_170_340_608


def test_minimax_m1_has_lightning_attention_in_seven_layers_of_eight() -> None:
    config = {
        "model_type": "minimax_m1",
        "attn_type_list": [*[0] * 7, 1] * 10,
        "head_dim": 128,
        "hidden_size": 6144,
        "intermediate_size": 9216,
        "max_position_embeddings": 10240000,
        "num_attention_heads": 64,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "num_local_experts": 32,
        "tie_word_embeddings": False,
        "vocab_size": 200064,
    }
    model = read_model(config)
    state, full = model.caches.value
    assert isinstance(state, LightningAttention)
    assert (state.layers, state.heads, state.head_dim, state.state_dtype) == (70, 64, 128, None)
    assert full.layers == 10
    assert parameters(model) == 456_089_655_296


def test_gemma_4_stores_values_of_global_layers_and_shares_caches_in_its_last_layers() -> None:
    text = {
        "model_type": "gemma4_text",
        "hidden_size": 1536,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "attention_k_eq_v": False,
        "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144,
        "intermediate_size": 6144,
        "layer_types": [*["sliding_attention"] * 4, "full_attention"] * 7,
        "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 256,
        "sliding_window": 512,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
    }
    model = read_model(
        {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": text}
    )
    window, full, shared = model.caches.value
    assert isinstance(window, SlidingWindow)
    assert (window.layers, window.window, window.kv_heads, window.key_dim) == (12, 512, 1, 256)
    assert full == FullAttention(layers=3, kv_heads=1, key_dim=512, value_dim=512, at=((4, 15, 5),))
    assert isinstance(shared, SharedCache)
    assert shared.layers == 20
    assert parameters(model) == 4_628_569_379
    assert model.draft_caches is not None
    assert model.draft_caches.value == ()


def test_inkling_keeps_a_history_of_four_tokens_beside_attention_in_every_layer() -> None:
    local = [layer for layer in range(66) if layer % 6 != 5]
    text = {
        "model_type": "inkling_text",
        "hidden_size": 6144,
        "num_hidden_layers": 66,
        "vocab_size": 201_024,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 16,
        "swa_head_dim": 128,
        "sliding_window_size": 512,
        "local_layer_ids": local,
        "sconv_kernel_size": 4,
        "model_max_length": 1_048_576,
    }
    model = read_model({"model_type": "inkling_mm_model", "text_config": text})
    histories = [cache for cache in model.caches.value if isinstance(cache, ConvolutionHistory)]
    assert [(cache.layers, cache.kv_heads, cache.taps) for cache in histories] == [(55, 16, 4), (11, 8, 4)]
    records = [cache.footprints(Storage(dtype="fp8", model_dtype="bf16"))[0].record_bytes for cache in histories]
    # 2 x 128 + 2 x 6,144 / 16 = 1,024 a head, and 2 x 128 + 2 x 6,144 / 8 = 1,792, padded to 2,048; always 2 bytes.
    assert records == [16 * 1024 * 2, 8 * 2048 * 2]


def test_towers_that_are_declared_and_not_counted_are_noted_until_the_total_is_given() -> None:
    assert read_model(QWEN3_5).notes == "Not counted in the weights: what vision_config describes."
    assert read_model(QWEN3_5, parameters=35_951_822_704).notes is None
    assert read_model(V4).notes == "Not counted in the weights: the draft layers."
