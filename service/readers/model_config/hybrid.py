"""Families that mix attention with recurrent layers."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import FullAttention, IndexKeys, RowRing, ShortConvolution
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Family, FeedForward, FeedForwards, Mixer, Mixers, Shape
from service.readers.model_config.feed_forward import Experts, Uncounted, dense
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.heads import grouped_query, head_dim, joined_drafts
from service.readers.model_config.layer_patterns import (
    CONVOLUTION,
    FULL,
    LINEAR,
    every,
    listed,
    numbered,
)
from service.readers.model_config.mixture import ROUTING
from service.readers.model_config.recurrent import (
    delta_net,
    lightning_attention,
    short_conv,
)
from service.readers.model_config.tally import tally

_QSA_WAITING, _QSA_STEP, _MROPE_BYTES = 4, 4, 24


def _interval(fields: Fields, shape: Shape) -> Sequence[str]:
    """Every `full_attention_interval`-th layer is attention, the others linear, unless the layers are listed."""
    return every(4, name="full_attention_interval", local=LINEAR)(fields, shape)


def _delta_net_hybrid(*, dtype: str | None) -> Mixers:
    """Qwen3-Next and Qwen3.5: gated delta nets, and attention with an output gate per channel."""

    def mixers(fields: Fields, shape: Shape) -> Sequence[Mixer]:
        linear = delta_net(fields, shape, dtype=dtype)
        full = grouped_query(qk_norm=True, gate="channels")(fields, shape)[0]
        return [full if kind == FULL else linear for kind in _interval(fields, shape)]

    return mixers


def _sparse_delta_net_hybrid(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Qwen3.8-Flash-Next: attention keeps everything, a key per few tokens for its indexer, and a ring of keys.

    One further convolution remembers the n-gram embeddings, whole on every rank.
    """
    mixers = list(_delta_net_hybrid(dtype="fp32")(fields, shape))
    width, ratio = fields.count("indexer_head_dim"), fields.count("indexer_compress_ratio", most=1_024)
    if fields.count("indexer_kv_heads", most=HEADS) != 1 or ratio != _QSA_STEP:
        raise Refused(Fault(fields.at("indexer_compress_ratio"), "only one index key per 4 tokens is known"))
    rope = fields.section("rope_scaling")
    mrope = rope is not None and rope.has("mrope_section")
    keys = IndexKeys(layers=1, key_dim=width, stored="bf16", tokens_per_key=ratio)
    row = 2 * width + (_MROPE_BYTES if mrope else 0)
    ring = RowRing(layers=1, row_bytes=row, waiting=_QSA_WAITING, step=_QSA_STEP)
    for layer, mixer in enumerate(mixers):
        if isinstance(mixer.caches[0], FullAttention):
            mixers[layer] = Mixer((*mixer.caches, keys, ring), mixer.weights)
    for layer in numbered(fields, shape, "ple_layer_ids", from_one=True):
        taps = (fields.count("ple_conv_kernel_size", most=64, least=2) - 1) * fields.count("ngram_size", most=64)
        channels = fields.count("hc_count", most=64) * shape.hidden
        history = ShortConvolution(layers=1, channels=channels, conv_kernel=taps + 1, replicated=True)
        mixers[layer] = Mixer((*mixers[layer].caches, history), mixers[layer].weights)
    return mixers


def _minimax_m1(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """MiniMax-Text-01 and M1: `attn_type_list` has 1 for attention and 0 for lightning attention."""
    dim = head_dim(fields, shape)
    recurrent = lightning_attention(fields, shape, head_dim=dim, small=shape.query_heads * dim)
    full = grouped_query(bias=False)(fields, shape)[0]
    kinds = fields.counts("attn_type_list", most=1, length=shape.layers)
    return [full if kind else recurrent for kind in kinds]


def _lfm2(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """LFM2: attention in the listed layers, short convolutions elsewhere. Without a list nobody can tell."""
    kinds = listed(fields, shape.layers, (FULL, CONVOLUTION))
    if not kinds:
        full = fields.counts("full_attn_idxs", most=LAYERS)
        if not full:
            raise Refused(
                Fault(fields.at("layer_types"), "layer_types is missing: nothing says which layers are attention")
            )
        kinds = tuple(FULL if layer in full else CONVOLUTION for layer in range(shape.layers))
    attends, convolves = grouped_query(bias=False, qk_norm=True)(fields, shape)[0], short_conv(fields, shape)
    return [attends if kind == FULL else convolves for kind in kinds]


def _lfm2_dense(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """LFM2's feed-forward, whose stated width is two thirds too wide where `block_auto_adjust_ff_dim` says so."""
    width = fields.count("intermediate_size")
    if fields.flag("block_auto_adjust_ff_dim"):
        multiple = fields.count_or("block_multiple_of", 256, least=1)
        width = -(-(2 * width // 3) // multiple) * multiple
    return [FeedForward(tally(dense=3 * shape.hidden * width), width)] * shape.layers


def _qwen(config_class: str, feed_forwards: FeedForwards, *, kv_heads: int, dtype: str | None) -> Family:
    return Family(
        config_class=config_class,
        mixers=_delta_net_hybrid(dtype=dtype),
        feed_forwards=feed_forwards,
        drafts=joined_drafts,
        harmless=ROUTING
        | {
            "attn_output_gate",
            "mtp_use_dedicated_embeddings",
            "output_gate_type",
            "intermediate_size",
            "mlp_only_layers",
        },
        defaults={"head_dim": 256, "num_key_value_heads": kv_heads},
    )


_QWEN3_5 = _qwen("Qwen3_5TextConfig", dense(bias=False), kv_heads=4, dtype="fp32")
_QWEN3_5_MOE = _qwen("Qwen3_5MoeTextConfig", Experts(shared_gate=True), kv_heads=2, dtype="fp32")
_LFM2 = Family(
    config_class="Lfm2Config",
    mixers=_lfm2,
    feed_forwards=_lfm2_dense,
    tied=True,
    harmless=frozenset(
        {"conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_use_swiglu", "block_ff_dim", "block_dim"}
    )
    | {
        "block_mlp_init_scale",
        "block_out_init_scale",
        "block_use_xavier_init",
        "block_ffn_dim_multiplier",
        "block_norm_eps",
    },
    defaults={"conv_L_cache": 3, "num_key_value_heads": 8},
)


_MINIMAX = Family(
    config_class="MiniMaxM1Config",
    mixers=_minimax_m1,
    feed_forwards=Experts(),
    harmless=ROUTING
    | {"postnorm", "shared_intermediate_size", "shared_moe_mode", "layernorm_full_attention_alpha"}
    | {"layernorm_full_attention_beta", "layernorm_linear_attention_alpha", "layernorm_linear_attention_beta"}
    | {"layernorm_mlp_alpha", "layernorm_mlp_beta"},
)

HYBRID: Mapping[str, Family] = {
    "qwen3_next": _qwen("Qwen3NextConfig", Experts(shared_gate=True), kv_heads=2, dtype=None),
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe_text": _QWEN3_5_MOE,
    "qwen4_exp_text": Family(
        config_class="Qwen4ExpTextConfig",
        mixers=_sparse_delta_net_hybrid,
        feed_forwards=Uncounted(expert="moe_intermediate_size"),
        counted=False,
        defaults={"num_key_value_heads": 2},
        harmless=ROUTING
        | {"num_experts", "moe_intermediate_size", "shared_expert_intermediate_size", "hc_lowrank", "ple_embed_dim"}
        | {"heads_per_ngram", "ngram_vocab_size_base", "make_ngram_vocab_size_divisible_by", "split_ngram_parts"}
        | {"indexer_n_heads", "indexer_budget", "output_gate_type"},
    ),
    "minimax_m1": _MINIMAX,
    "minimax_text_01": msgspec.structs.replace(_MINIMAX, also=frozenset({"MiniMaxText01"})),
    "lfm2": _LFM2,
    "lfm2_moe": msgspec.structs.replace(
        _LFM2, config_class="Lfm2MoeConfig", feed_forwards=Experts(router_bias=True), harmless=_LFM2.harmless | ROUTING
    ),
}
"""Model types of this kind and how they are read."""
