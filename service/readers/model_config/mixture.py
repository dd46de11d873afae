"""Families with routed experts and ordinary attention."""

from collections.abc import Mapping

import msgspec

from service.readers.model_config.decoder import Family
from service.readers.model_config.feed_forward import EXPERTS_PER_TOKEN, Experts, Uncounted
from service.readers.model_config.heads import grouped_query, joined_drafts, like_full_layers
from service.readers.model_config.layer_patterns import all_windows, dual_chunks, every, without_rotation
from service.readers.model_config.tally import tally
from service.readers.model_config.unlike_layers import (
    all_attention,
    block_sparse,
    nas,
    nas_feed_forwards,
    step,
    two_geometries,
    with_history,
)

ROUTING = frozenset(
    {
        "n_group",
        "topk_group",
        "norm_topk_prob",
        "routed_scaling_factor",
        "scoring_func",
        "topk_method",
        "seq_aux",
        "aux_loss_alpha",
        "ep_size",
        "moe_router_dtype",
        *EXPERTS_PER_TOKEN,
        "num_expert_group",
        "use_grouped_topk",
        "moe_renormalize",
        "moe_router_activation_func",
    }
)
"""How experts are chosen, which changes no tensor's shape."""


_MIXTRAL = Family(
    config_class="MixtralConfig",
    mixers=grouped_query(all_windows, bias=False),
    feed_forwards=Experts(),
    defaults={"num_key_value_heads": 8, "num_experts": 8},
    harmless=ROUTING,
)
_QWEN3_MOE = Family(
    config_class="Qwen3MoeConfig",
    mixers=grouped_query(dual_chunks, qk_norm=True),
    feed_forwards=Experts(),
    defaults={"num_key_value_heads": 4},
    harmless=ROUTING | {"max_window_layers", "qkv_bias", "use_qk_norm"},
)
_STEP = Family(
    config_class="Step3p5Config",
    mixers=step,
    feed_forwards=Uncounted(dense="intermediate_size", expert="moe_intermediate_size"),
    counted=False,
    harmless=ROUTING
    | {
        "use_moe_router_bias",
        "moe_router_scaling_factor",
        "num_experts",
        "moe_num_experts",
        "moe_top_k",
        "n_shared_experts",
    }
    | {"moe_intermediate_size", "share_expert_dim", "first_k_dense_replace", "intermediate_size", "moe_layers_enum"}
    | {"num_nextn_predict_layers", "use_head_wise_attn_gate", "att_impl_type", "yarn_only_types", "zero_centered"},
)

MIXTURE_FAMILIES: Mapping[str, Family] = {
    "mixtral": _MIXTRAL,
    "phimoe": Family(
        config_class="PhimoeConfig",
        also=frozenset({"PhiMoE"}),
        mixers=grouped_query(all_windows),
        feed_forwards=Experts(),
        norm_width=2,
        defaults={"num_key_value_heads": 8},
        harmless=ROUTING,
        extras=lambda fields, shape: tally(small=shape.vocabulary if fields.flag("lm_head_bias") else 0),
    ),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": msgspec.structs.replace(_QWEN3_MOE, config_class="Qwen3VLMoeTextConfig", defaults={}),
    "qwen2_moe": Family(
        config_class="Qwen2MoeConfig",
        mixers=grouped_query(dual_chunks, bias=True, out_bias=False),
        feed_forwards=Experts(shared_gate=True),
        defaults={"shared_expert_intermediate_size": 5_632},
        harmless=ROUTING | {"max_window_layers"},
    ),
    "olmoe": Family(
        config_class="OlmoeConfig",
        mixers=grouped_query(qk_norm=True, norm_all_heads=True),
        feed_forwards=Experts(),
        harmless=ROUTING | {"clip_qkv"},
    ),
    "glm4_moe": Family(
        config_class="Glm4MoeConfig",
        mixers=grouped_query(out_bias=False, qk_norm="use_qk_norm"),
        feed_forwards=Experts(router_bias=True),
        defaults={"use_qk_norm": False, "num_key_value_heads": 8},
        drafts=joined_drafts,
        harmless=ROUTING,
    ),
    "gpt_oss": Family(
        config_class="GptOssConfig",
        mixers=grouped_query(every(2), sinks=True),
        feed_forwards=Experts(router_bias=True, expert_bias=True),
        defaults={"attention_bias": True, "sliding_window": 128, "head_dim": 64, "num_key_value_heads": 8},
        harmless=ROUTING | {"initial_context_length", "swiglu_limit", "experts_per_token"},
        experts_only=True,
    ),
    "minimax_m2": Family(
        config_class="MiniMaxM2Config",
        mixers=all_attention,
        feed_forwards=Experts(router_bias=True),
        defaults={"num_key_value_heads": 8},
        harmless=ROUTING
        | {"qk_norm_type", "use_routing_bias", "shared_intermediate_size"}
        | {"use_mtp", "num_mtp_modules", "mtp_transformer_layers"},
    ),
    "minimax_m3": Family(
        config_class="MiniMaxM3Config",
        mixers=block_sparse,
        feed_forwards=Experts(router_bias=True),
        drafts=like_full_layers,
        harmless=ROUTING
        | {"qk_norm_type", "use_routing_bias", "shared_intermediate_size", "use_gemma_norm", "attention_output_gate"}
        | {"num_mtp_modules", "swiglu_alpha", "swiglu_limit"},
    ),
    "hy_v3": Family(
        config_class="HYV3Config",
        mixers=grouped_query(bias=False, qk_norm=True),
        feed_forwards=Experts(router_bias=True),
        drafts=joined_drafts,
        defaults={"num_key_value_heads": 8},
        harmless=ROUTING,
    ),
    "llama4_text": Family(
        config_class="Llama4TextConfig",
        mixers=grouped_query(without_rotation),
        feed_forwards=Experts(own_shared=1),
        defaults={"attention_chunk_size": 8_192, "head_dim": 128, "num_key_value_heads": 8},
        harmless=ROUTING
        | {"use_qk_norm", "for_llm_compressor", "attn_temperature_tuning", "attn_scale", "floor_scale"}
        | {"no_rope_layer_interval", "moe_layers", "cache_implementation"},
    ),
    "exaone_moe": Family(
        config_class="ExaoneMoeConfig",
        also=frozenset({"ExaoneMoE"}),
        mixers=grouped_query(every(4), bias=False, qk_norm=True),
        feed_forwards=Experts(router_bias=True),
        drafts=like_full_layers,
        harmless=ROUTING,
    ),
    "cohere2_moe": Family(
        config_class="Cohere2MoeConfig",
        mixers=grouped_query(every(4)),
        feed_forwards=Experts(),
        norms=1,
        tied=True,
        defaults={"sliding_window": 4_096},
        harmless=ROUTING | {"logit_scale"},
    ),
    "mimo_v2": Family(
        config_class="MiMoV2Config",
        mixers=two_geometries,
        feed_forwards=Experts(router_bias=True),
        harmless=ROUTING | {"attention_value_scale", "add_full_attention_sink_bias"},
    ),
    **{
        f"{name}_text": Family(
            config_class=f"{name.capitalize()}TextConfig",
            mixers=with_history,
            feed_forwards=Uncounted(dense="dense_intermediate_size", expert="intermediate_size"),
            counted=False,  # the gates beside its convolutions aren't published
            harmless=ROUTING | {"n_routed_experts", "n_shared_experts", "intermediate_size", "dense_intermediate_size"},
        )
        for name in ("inkling", "inkling2")
    },
    "muse_spark_text": Family(
        config_class="MuseSparkTextConfig",
        mixers=grouped_query(every(4), bias=False),
        feed_forwards=Uncounted(dense="intermediate_size", expert="moe_intermediate_size"),
        counted=False,
        defaults={"num_key_value_heads": 16},
        harmless=ROUTING | {"num_local_experts", "moe_intermediate_size", "moe_hidden_size", "intermediate_size"},
    ),
    "ernie4_5_moe": Family(
        config_class="Ernie4_5_MoeConfig",
        mixers=grouped_query(bias="use_bias"),
        feed_forwards=Experts(router_bias=True),
        tied=True,
        defaults={"num_key_value_heads": 4},
        harmless=ROUTING
        | {"moe_layer_interval", "moe_layer_end_index", "moe_capacity", "moe_gate", "moe_use_aux_free", "moe_norm_min"}
        | {"weight_share_add_bias", "compression_ratio", "num_nextn_predict_layers", "router_aux_loss_coef"},
    ),
    "hunyuan_v1_moe": Family(
        config_class="HunYuanMoEV1Config",
        mixers=grouped_query(qk_norm="use_qk_norm"),
        feed_forwards=Experts(),
        tied=True,
        harmless=ROUTING
        | {"use_mixed_mlp_moe", "moe_drop_tokens", "moe_random_routing_dropped_token", "group_limited_greedy"}
        | {"moe_layer_num_skipped", "capacity_factor", "norm_type", "mlp_bias", "cla_share_factor", "org_vocab_size"}
        | {"routed_scaling_factor", "attention_head_dim"},
    ),
    "step3p5": _STEP,
    "step3p7": msgspec.structs.replace(_STEP, also=frozenset({"Step3p7", "Step3p7Flash"})),
    "nemotron-nas": Family(
        config_class="DeciLMConfig",
        mixers=nas,
        feed_forwards=nas_feed_forwards,
        counted=False,
        harmless=frozenset({"intermediate_size"}),
    ),
}
"""Model types of this kind and how they are read."""
