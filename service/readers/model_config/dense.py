"""Families with one feed-forward network per layer and ordinary attention."""

from collections.abc import Mapping

import msgspec

from service.readers.model_config.decoder import Family
from service.readers.model_config.feed_forward import dense
from service.readers.model_config.heads import grouped_query, joined_drafts, like_full_layers
from service.readers.model_config.layer_patterns import all_windows, dual_chunks, every, late_windows

LLAMA = Family(
    config_class="LlamaConfig",
    mixers=grouped_query(),
    feed_forwards=dense(),
    harmless=frozenset({"is_llama_config"}),
)
_MISTRAL = Family(
    config_class="MistralConfig",
    mixers=grouped_query(all_windows, bias=False),
    feed_forwards=dense(bias=False),
    defaults={"num_key_value_heads": 8, "sliding_window": 4_096},
)
_QWEN2 = Family(
    config_class="Qwen2Config",
    mixers=grouped_query(dual_chunks, bias=True, out_bias=False),
    feed_forwards=dense(bias=False),
    harmless=frozenset({"max_window_layers", "use_mrope"}),
)
_QWEN2_VL = msgspec.structs.replace(_QWEN2, config_class="Qwen2VLTextConfig", defaults={"num_key_value_heads": 8})
_QWEN2_5_VL = msgspec.structs.replace(_QWEN2_VL, also=frozenset({"Qwen2_5_VL"}))
_QWEN3 = Family(
    config_class="Qwen3Config",
    mixers=grouped_query(dual_chunks, qk_norm=True),
    feed_forwards=dense(bias=False),
    defaults={"head_dim": 128},
    harmless=frozenset({"max_window_layers"}),
)
_PHI3 = Family(
    config_class="Phi3Config",
    mixers=grouped_query(all_windows, bias=False),
    feed_forwards=dense(bias=False),
    harmless=frozenset({"full_attn_mod", "interpolate_factor"}),
)
_EXAONE4 = Family(
    config_class="Exaone4Config",
    mixers=grouped_query(every(4), bias=False, qk_norm=True),
    feed_forwards=dense(bias=False),
    drafts=like_full_layers,
)

DENSE: Mapping[str, Family] = {
    "llama": LLAMA,
    "mistral": _MISTRAL,
    "ministral3": Family(
        config_class="Ministral3Config",
        mixers=grouped_query(all_windows, bias=False),
        feed_forwards=dense(bias=False),
        defaults={"num_key_value_heads": 8, "head_dim": 128},
    ),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2_5_VL,
    "qwen2_5_vl_text": _QWEN2_5_VL,
    "qwen2_vl": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "qwen3": _QWEN3,
    "qwen3_vl_text": msgspec.structs.replace(_QWEN3, also=frozenset({"Qwen3VL"})),
    "granite": Family(
        config_class="GraniteConfig",
        mixers=grouped_query(),
        feed_forwards=dense(),
        harmless=frozenset({"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"}),
    ),
    "olmo": Family(
        config_class="OlmoConfig",
        mixers=grouped_query(),
        feed_forwards=dense(bias=False),
        norm_width=0,
        harmless=frozenset({"clip_qkv"}),
    ),
    "olmo2": Family(
        config_class="Olmo2Config", mixers=grouped_query(qk_norm=True, norm_all_heads=True), feed_forwards=dense()
    ),
    "olmo3": Family(
        config_class="Olmo3Config",
        mixers=grouped_query(every(4), qk_norm=True, norm_all_heads=True),
        feed_forwards=dense(bias=False),
        defaults={"sliding_window": 4_096},
    ),
    "glm4": Family(
        config_class="Glm4Config",
        mixers=grouped_query(out_bias=False),
        feed_forwards=dense(bias=False),
        norms=4,
        defaults={"attention_bias": True, "head_dim": 128, "num_key_value_heads": 2},
    ),
    "phi3": _PHI3,
    "gemma": Family(
        config_class="GemmaConfig",
        mixers=grouped_query(),
        feed_forwards=dense(bias=False),
        tied=True,
        defaults={"head_dim": 256},
    ),
    "gemma2": Family(
        config_class="Gemma2Config",
        mixers=grouped_query(every(2)),
        feed_forwards=dense(bias=False),
        norms=4,
        tied=True,
        defaults={"head_dim": 256, "sliding_window": 4_096, "num_key_value_heads": 4, "num_attention_heads": 8},
        harmless=frozenset({"query_pre_attn_scalar", "cache_implementation"}),
    ),
    "gemma3_text": Family(
        config_class="Gemma3TextConfig",
        mixers=grouped_query(every(6), qk_norm=True),
        feed_forwards=dense(bias=False),
        norms=4,
        tied=True,
        defaults={
            "head_dim": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "sliding_window": 4_096,
            "vocab_size": 262_208,
            "max_position_embeddings": 131_072,
        },
        harmless=frozenset({"query_pre_attn_scalar", "cache_implementation"}),
    ),
    "cohere": Family(
        config_class="CohereConfig",
        mixers=grouped_query(qk_norm="use_qk_norm", norm_all_heads=True),
        feed_forwards=dense(bias=False),
        norms=1,
        tied=True,
        defaults={"use_qk_norm": False},
        harmless=frozenset({"logit_scale"}),
    ),
    "cohere2": Family(
        config_class="Cohere2Config",
        mixers=grouped_query(every(4)),
        feed_forwards=dense(bias=False),
        norms=1,
        tied=True,
        defaults={"sliding_window": 4_096},
        harmless=frozenset({"logit_scale", "cache_implementation", "rotary_pct", "use_parallel_embedding"}),
        only={
            "layer_switch": (4,),
            "order_of_interleaved_layers": ("local_attn_first",),
            "position_embedding_type": ("rope", "rope_gptj"),
            "use_embedding_sharing": (True,),
            "use_gated_activation": (True,),
            "use_parallel_block": (True,),
        },
    ),
    "internlm2": Family(
        config_class="InternLM2Config",
        mixers=grouped_query(bias="bias"),
        feed_forwards=dense(bias=False),
    ),
    "internlm3": Family(
        config_class="InternLM3Config",
        mixers=grouped_query(bias="qkv_bias", out_bias="bias"),
        feed_forwards=dense(bias=False),
        defaults={"num_key_value_heads": 2},
    ),
    "baichuan": Family(
        config_class="BaichuanConfig",
        also=frozenset({"BaiChuan"}),
        mixers=grouped_query(bias=False),
        feed_forwards=dense(bias=False),
        harmless=frozenset({"z_loss_weight"}),
    ),
    "exaone": Family(
        config_class="ExaoneConfig",
        mixers=grouped_query(bias=False),
        feed_forwards=dense(bias=False),
        tied=False,
    ),
    "exaone4": _EXAONE4,
    "exaone4_5_text": msgspec.structs.replace(_EXAONE4, also=frozenset({"Exaone4_5", "Exaone4_5_"})),
    "mimo": Family(
        config_class="MiMoConfig",
        mixers=grouped_query(late_windows, bias=True, out_bias=False),
        feed_forwards=dense(bias=False),
        drafts=joined_drafts,
        harmless=frozenset({"attention_bias", "max_window_layers", "use_mrope"}),
    ),
    "muse_glimmer_text": Family(
        config_class="MuseGlimmerTextConfig",
        mixers=grouped_query(every(4), bias=False, gate="channels"),
        feed_forwards=dense(bias=False),
        norms=4,
        defaults={"num_key_value_heads": 2},
    ),
    "seed_oss": Family(
        config_class="SeedOssConfig",
        mixers=grouped_query(bias="attention_bias", out_bias="attention_out_bias"),
        feed_forwards=dense(),
        defaults={"attention_bias": True, "head_dim": 128, "num_key_value_heads": 8},
    ),
    "smollm3": Family(
        config_class="SmolLM3Config",
        mixers=grouped_query(late_windows),
        feed_forwards=dense(),
        tied=True,
        defaults={"num_key_value_heads": 4},
        harmless=frozenset({"no_rope_layers", "no_rope_layer_interval", "max_window_layers"}),
    ),
    "starcoder2": Family(
        config_class="Starcoder2Config",
        mixers=grouped_query(all_windows, bias="use_bias"),
        feed_forwards=dense(matrices=2, bias="use_bias"),
        norm_width=2,
        tied=True,
        defaults={"use_bias": True, "num_key_value_heads": 2},
        harmless=frozenset({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights"}),
        only={"mlp_type": ("default",), "norm_type": ("layer_norm",)},
    ),
}
"""Model types of this kind and how they are read."""
