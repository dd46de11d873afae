"""Gemma 4: local and global layers of unlike heads, values taken from keys, caches shared by the last layers."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import SharedCache
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, Family, FeedForward, Mixer, Shape, total
from service.readers.model_config.feed_forward import Uncounted, beside, expert_width, routed_width
from service.readers.model_config.fields import HEADS, Fields
from service.readers.model_config.heads import cache
from service.readers.model_config.layer_patterns import FULL, every
from service.readers.model_config.parameters import attention, gated
from service.readers.model_config.tally import Tally, tally


def _sharing(fields: Fields, shape: Shape) -> int:
    """How many of the last layers read another layer's cache."""
    sharing = fields.count_or("num_kv_shared_layers", 0, most=shape.layers)
    if sharing >= shape.layers:
        raise Refused(Fault(fields.at("num_kv_shared_layers"), "at least one layer has to keep a cache"))
    return sharing


def _mixers(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Engines keep keys and values of global layers both, even where one projection serves for both."""
    by_kind: dict[str, Mixer] = {}
    readers: dict[str, Mixer] = {}
    if not fields.has("sliding_window"):
        detail = "without a window, nobody can tell which heads Gemma 4's layers have"
        raise Refused(Fault(fields.at("sliding_window"), detail))
    kinds = every(6)(fields, shape)
    local_heads = fields.count("num_key_value_heads", most=HEADS)
    for kind in set(kinds):
        full = kind == FULL
        dim = fields.count("global_head_dim" if full else "head_dim")
        heads = fields.count_or("num_global_key_value_heads", local_heads, most=HEADS, least=1) if full else local_heads
        weights = attention(
            shape.hidden,
            heads=shape.query_heads,
            kv_heads=heads,
            key_dim=dim,
            value_dim=dim,
            values=not (full and fields.flag("attention_k_eq_v")),
            small=2 * dim,
        )
        by_kind[kind] = Mixer((cache(fields, shape, kind, heads, dim),), weights)
        # A layer that reads another's cache projects queries only.
        queries = 2 * shape.hidden * shape.query_heads * dim
        readers[kind] = Mixer((SharedCache(layers=1),), tally(attention=queries, small=dim))
    owning = shape.layers - _sharing(fields, shape)
    return [(by_kind if layer < owning else readers)[kind] for layer, kind in enumerate(kinds)]


def _feed_forwards(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """A dense network in every layer, twice as wide in layers that share a cache if so said; experts beside it."""
    width = fields.count("intermediate_size")
    owning = shape.layers - _sharing(fields, shape)
    wider = 2 if fields.flag("use_double_wide_mlp") else 1
    mixture = FeedForward(tally(), 0)
    if fields.flag("enable_moe_block"):
        experts = fields.count("num_experts", most=HEADS)
        one = expert_width(fields)
        small = shape.hidden * experts + experts + shape.hidden + 3 * shape.hidden
        mixture = FeedForward(
            tally(experts=experts * gated(shape.hidden, one), small=small), routed_width(one, fields, "top_k_experts")
        )
    inputs = fields.count_or("hidden_size_per_layer_input", 0)
    per_layer = tally(dense=2 * shape.hidden * inputs, small=(shape.hidden if inputs else 0) + 1)
    widths = (width if layer < owning else wider * width for layer in range(shape.layers))
    return [
        FeedForward(
            total([tally(dense=gated(shape.hidden, here)), mixture.weights, per_layer]), beside(here, mixture.width)
        )
        for here in widths
    ]


def _extras(fields: Fields, shape: Shape) -> Tally:
    """The table of per-layer embeddings and the projection beside it."""
    inputs = fields.count_or("hidden_size_per_layer_input", 0) * shape.layers
    rows = fields.count_or("vocab_size_per_layer_input", shape.vocabulary)
    if not inputs:
        return tally()
    return total(
        [
            Counter({("per-layer embeddings", 0): rows * inputs}),
            tally(dense=shape.hidden * inputs, small=inputs // shape.layers),
        ]
    )


def _like_gemma_3(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Gemma 3n: layers of like heads, of which the last share caches. Its parameters aren't counted yet."""
    kinds = every(5)(fields, shape)
    dim, heads = fields.count("head_dim"), fields.count("num_key_value_heads", most=HEADS)
    owning = shape.layers - _sharing(fields, shape)
    return [
        Mixer((cache(fields, shape, kind, heads, dim) if layer < owning else SharedCache(layers=1),), tally())
        for layer, kind in enumerate(kinds)
    ]


def _no_caches(_: Fields, __: Shape, ___: Sequence[Mixer], ____: Sequence[Tally]) -> Drafts:
    """The assistant that drafts for Gemma 4 reads the model's own caches."""
    return Drafts(())


_GEMMA4 = Family(
    config_class="Gemma4TextConfig",
    mixers=_mixers,
    feed_forwards=_feed_forwards,
    norms=4,
    tied=True,
    extras=_extras,
    drafts=_no_caches,
    harmless=frozenset({"top_k_experts", "use_bidirectional_attention", "attention_bias", "expert_intermediate_size"}),
)

GEMMA4: Mapping[str, Family] = {
    "gemma3n_text": Family(
        config_class="Gemma3nTextConfig",
        mixers=_like_gemma_3,
        feed_forwards=Uncounted(dense="intermediate_size"),
        tied=True,
        counted=False,
        defaults={
            "head_dim": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "num_kv_shared_layers": 15,
            "sliding_window": 512,
            "vocab_size": 262_400,
            "max_position_embeddings": 32_768,
        },
        harmless=frozenset({"intermediate_size", "activation_sparsity_pattern", "altup_active_idx", "laurel_rank"})
        | {"altup_correct_scale", "altup_lr_multiplier", "altup_num_inputs", "hidden_size_per_layer_input"}
        | {"vocab_size_per_layer_input", "attention_bias", "query_pre_attn_scalar"},
    ),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": msgspec.structs.replace(_GEMMA4, config_class="Gemma4UnifiedTextConfig"),
}
"""Model types of this kind and how they are read."""
