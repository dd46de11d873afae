"""Families that mix latent attention with recurrent layers."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import RowRing
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Family, Mixer, Mixers, Shape, total
from service.readers.model_config.feed_forward import Experts, Uncounted
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.heads import head_dim
from service.readers.model_config.latent import (
    LATENT_FIELDS,
    index_keys,
    index_weights,
    latent_cache,
    latent_drafts,
    latent_weights,
    owns_indexer,
)
from service.readers.model_config.layer_patterns import (
    LINEAR,
    SPARSE,
    listed,
    numbered,
)
from service.readers.model_config.mixture import ROUTING
from service.readers.model_config.parameters import hyper_connection, hyper_head
from service.readers.model_config.recurrent import (
    kimi_delta_attention,
    lightning_attention,
)
from service.readers.model_config.tally import tally

_LINEAR_CONFIG = frozenset({"gate_lower_bound"})
"""Fields of recurrent layers that say nothing of their states."""


def _kimi(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Kimi-Linear: layers are numbered from 1; attention stores 64 more numbers although it doesn't rotate them."""
    linear = fields.section("linear_attn_config", _LINEAR_CONFIG)
    if linear is None:
        raise Refused(
            Fault(fields.at("linear_attn_config"), "linear_attn_config is missing: it says which layers are which")
        )
    recurrent = _partition(linear, shape, from_one=True)
    state = kimi_delta_attention(
        fields,
        shape,
        heads=linear.count("num_heads", most=HEADS),
        head_dim=linear.count("head_dim"),
        kernel=linear.count("short_conv_kernel_size", most=64),
        full_rank_gate=linear.flag("use_full_rank_gate"),
    )
    latent = Mixer((latent_cache(fields, shape),), latent_weights(fields, shape))
    return [state if layer in recurrent else latent for layer in range(shape.layers)]


def _partition(linear: Fields, shape: Shape, *, from_one: bool) -> frozenset[int]:
    """The recurrent layers. Together with the others they have to be every layer once."""
    recurrent = numbered(linear, shape, "kda_layers", from_one=from_one)
    full = numbered(linear, shape, "full_attn_layers", from_one=from_one)
    if recurrent & full or len(recurrent | full) != shape.layers:
        detail = f"kda_layers and full_attn_layers have to name each of the {shape.layers} layers once"
        raise Refused(Fault(linear.at("kda_layers"), detail))
    return recurrent


def _glm_next(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """GLM-5.3-Flash: latent attention without a rotary part, pooled index keys and their ring; KDA elsewhere."""
    linear = fields.section("linear_attn_config", _LINEAR_CONFIG)
    if linear is None:
        raise Refused(
            Fault(fields.at("linear_attn_config"), "linear_attn_config is missing: it has the widths of the states")
        )
    kinds = listed(fields, shape.layers, (LINEAR, SPARSE))
    recurrent = _partition(linear, shape, from_one=False)
    if kinds and {layer for layer, kind in enumerate(kinds) if kind == LINEAR} != recurrent:
        raise Refused(Fault(fields.at("layer_types"), "layer_types and linear_attn_config disagree on the layers"))
    state = kimi_delta_attention(
        fields,
        shape,
        heads=linear.count("num_heads", most=HEADS),
        head_dim=linear.count("head_dim"),
        kernel=linear.count("short_conv_kernel_size", most=64),
        full_rank_gate=False,
    )
    if not fields.has("index_kpool"):
        raise Refused(
            Fault(fields.at("index_kpool"), "index_kpool is missing, and the class default isn't what is released")
        )
    keys = index_keys(fields)
    if keys.tokens_per_key != 4:  # noqa: PLR2004 - the ring's rows are known for 4 alone
        raise Refused(Fault(fields.at("index_kpool"), "only pools of 4 tokens are known"))
    ring = RowRing(layers=1, row_bytes=2 * keys.key_dim * 2, waiting=4, step=4, power_of_two=True)
    latent = latent_cache(fields, shape, sparse=True)
    streams = fields.count_or("hc_mult", 0, most=64)
    joined = tally(small=2 * hyper_connection(shape.hidden, streams))
    weights = total([latent_weights(fields, shape), joined])
    # Keys of one pool are weighed by a gate, which knows the place in the pool.
    pooling = tally(latent=shape.hidden * keys.key_dim, small=keys.tokens_per_key * keys.key_dim)
    own = Mixer((latent, keys, ring), total([weights, index_weights(fields, shape), pooling]))
    shared = Mixer((latent,), weights)
    state = Mixer(state.caches, total([state.weights, joined]))
    return [
        state if layer in recurrent else own if owns else shared
        for layer, owns in enumerate(owns_indexer(fields, shape))
    ]


def _bailing(*, kda: bool) -> Mixers:
    """Ling and Ring: the last layer of each group is latent attention, the others lightning (2.5) or KDA (3)."""

    def mixers(fields: Fields, shape: Shape) -> Sequence[Mixer]:
        group, dim = fields.count("layer_group_size", most=LAYERS), head_dim(fields, shape)
        if kda:
            recurrent = kimi_delta_attention(
                fields,
                shape,
                heads=shape.query_heads,
                head_dim=dim,
                kernel=fields.count("short_conv_kernel_size", most=64),
                full_rank_gate=fields.flag("no_kda_lora"),
                decay_rank=not fields.flag("no_kda_lora"),
            )
        else:
            recurrent = lightning_attention(fields, shape, head_dim=dim, small=2 * dim + shape.query_heads * dim)
        gate = shape.query_heads if kda else 0
        latent = Mixer((latent_cache(fields, shape),), latent_weights(fields, shape, gate=gate))
        # A last group that isn't whole ends in latent attention too.
        last = shape.layers // group * group
        return [latent if (layer + 1) % group == 0 or layer >= last else recurrent for layer in range(shape.layers)]

    return mixers


_KIMI = Family(
    config_class="KimiLinearConfig",
    mixers=_kimi,
    feed_forwards=Experts(router_bias=True),
    drafts=latent_drafts,
    harmless=ROUTING | LATENT_FIELDS,
    experts_only=True,
)


_BAILING = Family(
    config_class="BailingMoeV2_5Config",
    mixers=_bailing(kda=False),
    feed_forwards=Experts(router_bias=True),
    drafts=latent_drafts,
    harmless=ROUTING | LATENT_FIELDS,
)


_KIMI_K3 = msgspec.structs.replace(
    _KIMI,
    config_class="KimiK3TextConfig",
    also=frozenset({"KimiLinear"}),  # as the decoder alone is called
    feed_forwards=Uncounted(dense="intermediate_size", expert="moe_intermediate_size"),
    counted=False,
    harmless=_KIMI.harmless
    | {
        "attn_res_block_size",
        "latent_moe_use_norm",
        "mla_use_output_gate",
        "routed_expert_hidden_size",
        "num_experts",
    }
    | {"num_shared_experts", "moe_intermediate_size", "intermediate_size", "first_k_dense_replace", "moe_layer_freq"},
)

HYBRID_LATENT: Mapping[str, Family] = {
    "kimi_linear": _KIMI,
    "kimi_k3": _KIMI_K3,
    "glm5_next_text": Family(
        config_class="Glm5NextTextConfig",
        mixers=_glm_next,
        feed_forwards=Experts(router_bias=True),
        drafts=latent_drafts,
        harmless=ROUTING | LATENT_FIELDS | {"index_topk", "index_kpool_compress", "index_kpool_always_select_tail"},
        extras=lambda fields, shape: tally(small=hyper_head(shape.hidden, fields.count_or("hc_mult", 0, most=64))),
    ),
    "bailing_hybrid": _BAILING,
    "bailing_hybrid_v3": msgspec.structs.replace(
        _BAILING, config_class="BailingMoeV3Config", mixers=_bailing(kda=True)
    ),
}
"""Model types of this kind and how they are read."""
