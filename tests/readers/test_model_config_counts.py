"""Parameters of further families, from the shapes in their models' cards, against the published totals."""

from typing import Any

import pytest

from service.capacity.cache import FullAttention
from service.readers.model_config import read_model

GRANITE_LAYERS = ["attention" if layer in (5, 15, 25, 35) else "mamba" for layer in range(40)]
NEMOTRON_9B = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"


def shape(model_type: str, layers: int, hidden: int, heads: int, vocabulary: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        **fields,
    }


@pytest.mark.parametrize(
    ("config", "total"),
    [
        (shape("falcon", 32, 4544, 71, 65024, multi_query=True, new_decoder_architecture=False), 6_921_720_704),
        (shape("falcon", 60, 8192, 128, 65024, num_kv_heads=8, new_decoder_architecture=True), 41_303_293_952),
        (shape("bloom", 30, 4096, 32, 250880), 7_069_016_064),
        (shape("bloom", 70, 14336, 112, 250880), 176_247_271_424),
        (shape("mpt", 32, 4096, 32, 50432, no_bias=True, attn_config={"alibi": True}), 6_649_286_656),
        (shape("opt", 12, 768, 12, 50272, ffn_dim=3072), 125_239_296),
        (shape("opt", 64, 9216, 72, 50272, ffn_dim=36864), 65_719_701_504),
        (
            shape("starcoder2", 32, 4608, 36, 49152, num_key_value_heads=4, intermediate_size=18432, use_bias=True),
            7_173_923_840,
        ),
        (
            shape("cohere", 64, 12288, 96, 256000, num_key_value_heads=8, intermediate_size=33792, use_qk_norm=True),
            103_810_674_688,
        ),
        (shape("cohere2", 64, 12288, 96, 256000, num_key_value_heads=8, intermediate_size=36864), 111_057_580_032),
        (
            shape("seed_oss", 64, 5120, 80, 155136, num_key_value_heads=8, intermediate_size=27648, head_dim=128),
            36_151_104_512,
        ),
        (shape("olmo", 16, 2048, 16, 50304, intermediate_size=8192, tie_word_embeddings=True), 1_176_764_416),
        (shape("olmo", 32, 4096, 32, 50304, intermediate_size=11008, clip_qkv=None), 6_888_095_744),
        (
            shape(
                "glm4",
                40,
                4096,
                32,
                151552,
                num_key_value_heads=2,
                head_dim=128,
                intermediate_size=13696,
                attention_bias=True,
                partial_rotary_factor=0.5,
            ),
            9_400_279_040,
        ),
        (shape("smollm3", 36, 2048, 16, 128256, num_key_value_heads=4, intermediate_size=11008), 3_075_098_624),
        (shape("internlm3", 48, 4096, 32, 128512, num_key_value_heads=2, intermediate_size=10240), 8_804_241_408),
        (
            shape(
                "ernie4_5_moe",
                54,
                8192,
                64,
                103424,
                num_key_value_heads=8,
                intermediate_size=28672,
                moe_num_experts=64,
                moe_k=8,
                moe_intermediate_size=3584,
                moe_layer_start_index=3,
                tie_word_embeddings=False,
            ),
            299_484_163_264,
        ),
        (
            shape(
                "hunyuan_v1_moe",
                32,
                4096,
                32,
                128167,
                num_key_value_heads=8,
                intermediate_size=3072,
                num_experts=64,
                moe_topk=[8] * 32,
                moe_intermediate_size=[3072] * 32,
                num_shared_expert=[1] * 32,
                use_qk_norm=True,
            ),
            80_393_183_232,
        ),
        (
            shape(
                "granitemoehybrid",
                40,
                4096,
                32,
                100352,
                num_key_value_heads=8,
                layer_types=GRANITE_LAYERS,
                mamba_n_heads=128,
                mamba_d_head=64,
                mamba_n_groups=1,
                mamba_d_state=128,
                mamba_d_conv=4,
                intermediate_size=768,
                num_local_experts=72,
                shared_intermediate_size=1536,
            ),
            32_207_337_984,
        ),
        (
            shape(
                "falcon_h1",
                44,
                3072,
                12,
                130049,
                num_key_value_heads=2,
                head_dim=128,
                mamba_n_heads=24,
                mamba_d_head=128,
                mamba_n_groups=1,
                mamba_d_state=256,
                mamba_d_conv=4,
                mamba_d_ssm=3072,
                intermediate_size=12288,
            ),
            7_585_654_880,
        ),
        (
            shape(
                "nemotron_h",
                56,
                4480,
                40,
                131072,
                num_key_value_heads=8,
                head_dim=128,
                intermediate_size=15680,
                mamba_num_heads=128,
                mamba_head_dim=80,
                n_groups=8,
                ssm_state_size=128,
                conv_kernel=4,
                hybrid_override_pattern=NEMOTRON_9B,
            ),
            8_888_227_328,
        ),
        (
            shape("jamba", 72, 8192, 64, 65536, num_key_value_heads=8, intermediate_size=24576),
            398_555_145_696,
        ),
        (
            shape(
                "deepseek_v2",
                60,
                5120,
                128,
                102400,
                intermediate_size=12288,
                moe_intermediate_size=1536,
                n_routed_experts=160,
                n_shared_experts=2,
                first_k_dense_replace=1,
                q_lora_rank=1536,
                kv_lora_rank=512,
                qk_nope_head_dim=128,
                qk_rope_head_dim=64,
                v_head_dim=128,
            ),
            235_741_434_880,
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else str(value),
)
def test_the_published_total_is_reproduced_to_the_unit(config: dict[str, Any], total: int) -> None:
    model = read_model(config)
    assert model.parameters is not None
    assert model.parameters.value == total


def test_falcon_7b_has_one_kv_head_whatever_num_kv_heads_says() -> None:
    model = read_model(shape("falcon", 32, 4544, 71, 65024, multi_query=True, num_kv_heads=71))
    assert model.caches.value == (FullAttention(layers=32, kv_heads=1, key_dim=64, value_dim=64),)


def test_falcon_h1_keeps_attention_and_a_state_in_every_layer() -> None:
    config = shape(
        "falcon_h1", 4, 512, 4, 1000, num_key_value_heads=2, intermediate_size=1024, mamba_n_heads=8, mamba_d_head=64
    )
    model = read_model({**config, "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4})
    assert [(type(cache).__name__, cache.layers) for cache in model.caches.value] == [
        ("FullAttention", 4),
        ("Mamba2", 4),
    ]


def test_llama_4_says_itself_which_layers_see_everything() -> None:
    config = shape(
        "llama4_text",
        4,
        512,
        4,
        1000,
        num_key_value_heads=2,
        intermediate_size=1024,
        intermediate_size_mlp=2048,
        num_local_experts=2,
    )
    model = read_model({**config, "no_rope_layers": [0, 1, 1, 1]})
    assert [(type(cache).__name__, cache.layers) for cache in model.caches.value] == [
        ("FullAttention", 1),
        ("ChunkedLocal", 3),
    ]


def test_a_total_without_the_declared_draft_layers_leaves_them_out() -> None:
    config = shape("mimo", 4, 512, 4, 1000, num_key_value_heads=2, intermediate_size=1024, num_nextn_predict_layers=1)
    counted = read_model(config)
    assert counted.parameters is not None
    alone = read_model(config, parameters=counted.parameters.value)
    assert alone.weights is not None
    assert {part.needed for part in alone.weights.value} == {"always"}


def width(model_type: str, **fields: Any) -> int | None:  # noqa: ANN401
    found = read_model(shape(model_type, 2, 1024, 8, 1000, **fields)).feed_forward_width
    return None if found is None else found.value


EXPERTS = {"num_key_value_heads": 4, "intermediate_size": 3000, "moe_intermediate_size": 128, "num_experts": 16}


@pytest.mark.parametrize(
    ("model_type", "fields", "expected"),
    [
        ("llama", {"intermediate_size": 2816}, 2816),
        ("opt", {"ffn_dim": 4096}, 4096),
        ("bloom", {}, 4 * 1024),
        ("mpt", {"expansion_ratio": 3}, 3 * 1024),
        ("lfm2", {"intermediate_size": 4096, "block_auto_adjust_ff_dim": True, "full_attn_idxs": [0]}, 2816),
        ("qwen3_moe", {**EXPERTS, "num_experts_per_tok": 4}, 4 * 128),
        ("qwen3_moe", {**EXPERTS, "num_experts_per_tok": 4, "mlp_only_layers": [0]}, 3000),
        ("qwen2_moe", {**EXPERTS, "num_experts_per_tok": 4, "shared_expert_intermediate_size": 900}, 900),
        ("hunyuan_v1_moe", {**EXPERTS, "moe_topk": [4, 8], "moe_intermediate_size": [128, 128]}, 8 * 128),
        ("ernie4_5_moe", {**EXPERTS, "moe_k": 6, "moe_num_shared_experts": 2}, 6 * 128),
        ("gemma3n_text", {"intermediate_size": [2048, 4096], "num_kv_shared_layers": 0}, 4096),
        ("step3p5", {**EXPERTS, "moe_top_k": 4, "num_attention_groups": 4}, 3000),
    ],
)
def test_the_width_is_that_of_the_widest_feed_forward_layer_with_all_experts_of_a_token(
    model_type: str, fields: dict[str, Any], expected: int
) -> None:
    assert width(model_type, **fields) == expected


@pytest.mark.parametrize("stated", [None, "four", 4.5, True, -4, 2**40, []])
def test_an_unreal_number_of_experts_per_token_leaves_the_width_unknown_and_refuses_nothing(stated: object) -> None:
    assert width("qwen3_moe", **EXPERTS, num_experts_per_tok=stated) is None


def test_the_width_of_a_shared_expert_by_class_default_is_less_sure() -> None:
    config = shape("qwen2_moe", 2, 1024, 8, 1000, **EXPERTS, num_experts_per_tok=4)
    found = read_model(config).feed_forward_width
    assert found is not None
    assert (found.value, found.confidence) == (5_632, "medium")
    assert found.source.endswith("class defaults of Qwen2MoeConfig: shared_expert_intermediate_size")


def test_olmo_has_a_head_of_keys_for_each_of_queries_and_no_norms_to_keep() -> None:
    model = read_model(shape("olmo", 32, 4096, 32, 50304, intermediate_size=11008))
    assert model.caches.value == (FullAttention(layers=32, kv_heads=32, key_dim=128, value_dim=128),)
    assert model.weights is not None
    # 2 x 50,304 x 4,096 of embeddings and head; 32 layers of 4 x 4,096 x 4,096 and 3 x 4,096 x 11,008.
    assert sum(part.parameters for part in model.weights.value) == 412_090_368 + 32 * (67_108_864 + 135_266_304)
    assert all(part.parameters for part in model.weights.value)
