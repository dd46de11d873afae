"""Families that mix attention with Mamba layers."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import FullAttention
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, Family, FeedForward, Mixer, Shape, total
from service.readers.model_config.feed_forward import (
    Experts,
    beside,
    dense,
    expert_width,
    nothing,
    routed_width,
    shared_width,
)
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.heads import draft_layers, grouped_query, kv_heads
from service.readers.model_config.layer_patterns import (
    FEED_FORWARD,
    FULL,
    MIXTURE,
    STATE,
    lettered,
    listed,
)
from service.readers.model_config.mixture import ROUTING
from service.readers.model_config.parameters import attention
from service.readers.model_config.recurrent import (
    selective_state,
    state_space,
)
from service.readers.model_config.tally import Tally, tally


def _jamba(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Jamba: attention every `attn_layer_period` layers from `attn_layer_offset` on, Mamba-1 elsewhere."""
    period, offset = (
        fields.count("attn_layer_period", most=LAYERS),
        fields.count("attn_layer_offset", least=0, most=LAYERS),
    )
    full = grouped_query(bias=False)(fields, shape)[0]
    recurrent = selective_state(fields, shape)
    return [full if layer % period == offset % period else recurrent for layer in range(shape.layers)]


def nemotron_blocks(fields: Fields, prefix: str = "") -> tuple[str, ...]:
    """The blocks of Nemotron-H, written as letters or as a list of names."""
    letters = lettered(fields, f"{prefix}hybrid_override_pattern")
    names = listed(
        fields, None, (STATE, FULL, FEED_FORWARD, MIXTURE), f"{prefix}layers_block_type" if prefix else "layer_types"
    )
    if letters and names and letters != names:
        raise Refused(Fault(fields.at("layer_types"), "layers_block_type and hybrid_override_pattern disagree"))
    return letters or names


def _block_count(fields: Fields) -> int:
    """As many layers as blocks; `num_hidden_layers` only repeats it, and newer files leave it out."""
    blocks = len(nemotron_blocks(fields))
    stated = fields.count_or("num_hidden_layers", blocks, most=LAYERS)
    if not blocks or stated != blocks:
        detail = f"num_hidden_layers says {stated}, and the pattern has {blocks} blocks"
        raise Refused(Fault(fields.at("num_hidden_layers"), detail))
    return blocks


def _nemotron(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Nemotron-H: each block is a Mamba-2 state, attention, an MLP or experts, and only the first two keep anything."""
    recurrent = state_space(fields, shape, dtype=None)
    dim = fields.count("attention_head_dim" if fields.has("attention_head_dim") else "head_dim")
    heads = kv_heads(fields, shape.query_heads)
    cache = FullAttention(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim)
    full = Mixer((cache,), attention(shape.hidden, heads=shape.query_heads, kv_heads=heads, key_dim=dim, value_dim=dim))
    by_kind = {STATE: recurrent, FULL: full}
    return [by_kind.get(kind, Mixer((), tally())) for kind in nemotron_blocks(fields)]


def _nemotron_feed_forwards(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """MLPs and experts of two matrices each; experts may work in a latent of `moe_latent_size`."""
    kinds = nemotron_blocks(fields)
    by_kind = dict.fromkeys((STATE, FULL), FeedForward(tally(), 0))
    if FEED_FORWARD in kinds:
        width = fields.count("intermediate_size")
        by_kind[FEED_FORWARD] = FeedForward(tally(dense=2 * shape.hidden * width), width)
    if MIXTURE in kinds:
        # The balance correction of the router isn't among the published parameters.
        experts, width = fields.count("num_experts", most=HEADS), expert_width(fields)
        latent, shared = fields.count_or("moe_latent_size", 0), shared_width(fields, width)
        weights = tally(
            experts=experts * 2 * (latent or shape.hidden) * width,
            shared=2 * shape.hidden * shared,
            latent=2 * shape.hidden * latent,
            small=shape.hidden * experts,
        )
        by_kind[MIXTURE] = FeedForward(weights, beside(shared, routed_width(width, fields)))
    fields.raw("intermediate_size")
    return [by_kind[kind] for kind in kinds]


def _nemotron_drafts(fields: Fields, shape: Shape, mixers: Sequence[Mixer], forwards: Sequence[Tally]) -> Drafts:
    """The blocks of the draft pattern, like the decoder's, after a projection of token and hidden state into one."""
    blocks = nemotron_blocks(fields, "mtp_")
    full = next((mixer for mixer in mixers if any(isinstance(cache, FullAttention) for cache in mixer.caches)), None)
    depth = draft_layers(fields)
    if STATE in blocks or full is None or not depth or not blocks:
        return Drafts(None)
    alike = {**dict(zip(nemotron_blocks(fields), forwards, strict=False)), FULL: full.weights}
    if not set(blocks) <= set(alike):
        return Drafts(None)
    joining = tally(dense=2 * shape.hidden * shape.hidden, small=(len(blocks) + 3) * shape.hidden)
    attends = blocks.count(FULL) * depth
    caches = tuple(msgspec.structs.replace(cache, layers=attends) for cache in full.caches if attends)
    return Drafts(caches, total([*(alike[block] for block in blocks), joining] * depth))


_NEMOTRON = Family(
    config_class="NemotronHConfig",
    defaults={"num_key_value_heads": 8},
    mixers=_nemotron,
    feed_forwards=_nemotron_feed_forwards,
    layers=_block_count,
    norms=1,
    drafts=_nemotron_drafts,
    harmless=ROUTING
    | {"chunk_size", "expand", "residual_in_fp32", "rescale_prenorm_residual", "use_mamba_kernels"}
    | {"mamba_proj_bias", "use_bias", "mlp_bias", "attention_bias", "time_step_limit", "time_step_max", "time_step_min"}
    | {"time_step_floor", "time_step_rank", "moe_shared_expert_overlap", "num_logits_to_keep"},
)


def _granite(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Granite 4: Mamba-2 in the layers that `layer_types` says, attention in the others."""
    kinds = listed(fields, shape.layers, (STATE, FULL))
    if not kinds:
        raise Refused(
            Fault(fields.at("layer_types"), "layer_types is missing: nothing says which layers are attention")
        )
    full = grouped_query()(fields, shape)[0]
    if STATE not in kinds:
        return [full] * shape.layers
    recurrent = state_space(fields, shape, dtype=None)
    return [full if kind == FULL else recurrent for kind in kinds]


def _granite_feed_forwards(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """A shared network in every layer, and experts beside it where there are any."""
    own = fields.count("shared_intermediate_size")
    shared = 3 * shape.hidden * own
    experts = fields.count_or("num_experts", 0, most=HEADS)
    width = fields.count("intermediate_size")
    one = tally(
        shared=shared if experts else 0,
        dense=0 if experts else shared,
        experts=3 * shape.hidden * width * experts,
        small=shape.hidden * experts,
    )
    return [FeedForward(one, beside(own, routed_width(width, fields)) if experts else own)] * shape.layers


def _side_by_side(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    full = grouped_query()(fields, shape)[0]
    recurrent = state_space(fields, shape, dtype=None, normed=fields.flag("mamba_rms_norm", otherwise=True))
    return [Mixer((*full.caches, *recurrent.caches), total([full.weights, recurrent.weights]))] * shape.layers


MAMBA: Mapping[str, Family] = {
    "jamba": Family(
        config_class="JambaConfig",
        mixers=_jamba,
        feed_forwards=Experts(),
        harmless=ROUTING | {"use_mamba_kernels", "mamba_conv_bias", "mamba_proj_bias", "num_logits_to_keep"},
        defaults={
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "num_experts": 16,
            "num_key_value_heads": 8,
        },
    ),
    "nemotron_h": _NEMOTRON,
    "nemotron_h_puzzle": msgspec.structs.replace(
        _NEMOTRON,
        config_class="NemotronHPuzzleConfig",
        defaults={"mamba_ssm_cache_dtype": "float32", "num_key_value_heads": 8},
        feed_forwards=nothing,  # blocks have experts of widths of their own
        counted=False,
        harmless=_NEMOTRON.harmless
        | {"n_routed_experts", "n_shared_experts", "moe_latent_size", "moe_shared_expert_intermediate_size"}
        | {"intermediate_size", "moe_intermediate_size"},
    ),
    "granitemoehybrid": Family(
        config_class="GraniteMoeHybridConfig",
        mixers=_granite,
        feed_forwards=_granite_feed_forwards,
        tied=True,
        harmless=ROUTING
        | {"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling", "mamba_chunk_size"}
        | {"mamba_proj_bias", "mamba_expand", "position_embedding_type", "normalization_function", "mamba_n_heads"}
        | {"mamba_d_head", "mamba_d_state", "mamba_d_conv", "mamba_n_groups", "mamba_conv_bias"},
    ),
    "falcon_h1": Family(
        config_class="FalconH1Config",
        mixers=_side_by_side,
        feed_forwards=dense(),
        defaults={"num_key_value_heads": 8},
        harmless=frozenset({"mamba_d_ssm", "mamba_expand", "mamba_chunk_size", "mamba_use_mlp", "mamba_proj_bias"})
        | {"mamba_norm_before_gate", "attention_in_multiplier", "attention_out_multiplier", "embedding_multiplier"}
        | {"key_multiplier", "lm_head_multiplier", "mlp_multipliers", "ssm_in_multiplier", "ssm_multipliers"}
        | {"ssm_out_multiplier", "mlp_expansion_factor", "projectors_bias", "attn_layer_indices", "num_logits_to_keep"}
        | {"time_step_floor", "time_step_max", "time_step_min"},
    ),
}
"""Model types of this kind and how they are read."""
