"""Families with multi-head latent attention in every layer, with or without an indexer that picks tokens."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import CacheKind, IndexKeys, LatentAttention
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, Family, Mixer, Mixers, Shape, total
from service.readers.model_config.feed_forward import Experts, Uncounted
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.heads import draft_layers
from service.readers.model_config.mixture import ROUTING
from service.readers.model_config.parameters import hyper_connection, indexer, latent_attention
from service.readers.model_config.tally import Tally, tally

_OF_EACH_LAYER = 2
"""Latent caches of a decoder layer of LongCat."""

LATENT_FIELDS = frozenset(
    {"num_key_value_heads", "qk_head_dim", "head_dim", "mla_use_nope", "attention_bias", "rope_interleave"}
)
"""Fields that say nothing further about the cache: every head of a latent layer reads the one latent."""


def latent_cache(fields: Fields, shape: Shape, *, sparse: bool = False) -> LatentAttention:
    """The latent of one layer."""
    rope_dim = fields.count("qk_rope_head_dim", least=0)
    return LatentAttention(
        layers=1,
        latent_dim=fields.count("kv_lora_rank"),
        rope_dim=rope_dim,
        sparse=sparse,
        heads=shape.query_heads,
        key_dim=fields.count("qk_nope_head_dim") + rope_dim,
    )


def latent_weights(fields: Fields, shape: Shape, *, gate: int = 0) -> Tally:
    """The projections of one layer. A null `q_lora_rank` means queries without a latent."""
    return latent_attention(
        shape.hidden,
        heads=shape.query_heads,
        query_rank=fields.count_or("q_lora_rank", 0),
        latent_dim=fields.count("kv_lora_rank"),
        rope_dim=fields.count("qk_rope_head_dim", least=0),
        nope_dim=fields.count("qk_nope_head_dim"),
        value_dim=fields.count("v_head_dim"),
        gate=gate,
    )


def index_keys(fields: Fields) -> IndexKeys:
    """The index keys of one layer, pooled where the configuration says so."""
    pooled = fields.count_or("index_kpool", 1, least=1)
    return IndexKeys(layers=1, key_dim=fields.count("index_head_dim"), stored="fp8", tokens_per_key=pooled)


def index_weights(fields: Fields, shape: Shape) -> Tally:
    """The indexer of one layer."""
    return indexer(
        shape.hidden,
        query_rank=fields.count_or("q_lora_rank", shape.hidden),
        heads=fields.count("index_n_heads", most=HEADS),
        key_dim=fields.count("index_head_dim"),
    )


def owns_indexer(fields: Fields, shape: Shape) -> Sequence[bool]:
    """Which layers have an indexer of their own: all, or those that `indexer_types` or the schedule's numbers say."""
    if types := fields.items("indexer_types"):
        if len(types) < shape.layers or not set(map(str, types)) <= {"full", "shared"}:
            detail = f"indexer_types has to say full or shared for each of the {shape.layers} layers"
            raise Refused(Fault(fields.at("indexer_types"), detail))
        for name in ("index_topk_freq", "index_skip_topk_offset"):
            fields.raw(name)  # says the same in short
        return [kind == "full" for kind in types[: shape.layers]]
    freq = fields.count_or("index_topk_freq", 1, most=LAYERS, least=1)
    offset = fields.count_or("index_skip_topk_offset", 0, most=LAYERS)
    return [layer < offset or (layer - offset + 1) % freq == 0 for layer in range(shape.layers)]


def latent(*, indexed: bool = False, gate: bool = False) -> Mixers:
    """Latent attention in every layer; `indexed` adds the indexer, `gate` an output gate per channel."""

    def mixers(fields: Fields, shape: Shape) -> Sequence[Mixer]:
        cache = latent_cache(fields, shape, sparse=indexed)
        channels = shape.query_heads * fields.count("v_head_dim")
        weights = latent_weights(fields, shape, gate=channels if gate else 0)
        if gate:
            # Hy4: one sink per head, and two hyper-connections that read and write streams without mixing them.
            streams = fields.count_or("hc_mult", 0, most=64)
            joined = 2 * hyper_connection(shape.hidden, streams, mixed=False)
            weights = total([weights, tally(small=joined + shape.query_heads)])
        plain = Mixer((cache,), weights)
        if not indexed:
            return [plain] * shape.layers
        own = Mixer((cache, index_keys(fields)), total([weights, index_weights(fields, shape)]))
        return [own if owns else plain for owns in owns_indexer(fields, shape)]

    return mixers


def latent_drafts(fields: Fields, shape: Shape, mixers: Sequence[Mixer], feed_forwards: Sequence[Tally]) -> Drafts:
    """Draft layers of the last layer's kind, each with an indexer of its own where the model has them.

    Each joins token and hidden state in a projection, with three norms more than a layer.
    """
    layers = draft_layers(fields)
    if not layers:
        return Drafts(None)
    fullest = max(
        mixers, key=lambda mixer: (any(isinstance(c, LatentAttention) for c in mixer.caches), len(mixer.caches))
    )
    caches: list[CacheKind] = [msgspec.structs.replace(cache, layers=layers) for cache in fullest.caches]
    joining = tally(dense=2 * shape.hidden * shape.hidden, small=5 * shape.hidden)
    one = total([fullest.weights, feed_forwards[-1], joining])
    return Drafts(tuple(caches), total([one] * layers))


def _twice(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """LongCat: two latent caches per decoder layer; every `cli_factor`-th of them has an indexer."""
    cache = latent_cache(fields, shape, sparse=True)
    factor = fields.count("cli_factor", most=64)
    if fields.text("attention_method") != "LSA" or factor != _OF_EACH_LAYER:
        raise Refused(Fault(fields.at("attention_method"), "only LongCat's LSA with a cli_factor of 2 is known"))
    # Nothing is known of how much of the experts and the n-gram tables is stored, so only caches are read.
    return [Mixer((cache, cache, index_keys(fields)), tally())] * shape.layers


def _one_latent(fields: Fields, shape: Shape, _: Sequence[Mixer], __: Sequence[Tally]) -> Drafts:
    """LongCat's draft layers are ordinary: one latent each."""
    layers = draft_layers(fields)
    return Drafts(
        (msgspec.structs.replace(latent_cache(fields, shape, sparse=True), layers=layers),) if layers else None
    )


_DEEPSEEK_V2 = Family(
    config_class="DeepseekV2Config",
    mixers=latent(),
    feed_forwards=Experts(),
    drafts=latent_drafts,
    harmless=ROUTING | LATENT_FIELDS,
    experts_only=True,
)
_DEEPSEEK_V3 = msgspec.structs.replace(
    _DEEPSEEK_V2,
    config_class="DeepseekV3Config",
    feed_forwards=Experts(router_bias=True),
    defaults={"first_k_dense_replace": 3, "q_lora_rank": 1_536},
)
_DSA = msgspec.structs.replace(
    _DEEPSEEK_V3,
    config_class="DeepseekV32Config",
    mixers=latent(indexed=True),
    harmless=_DEEPSEEK_V3.harmless
    | {"index_topk", "index_topk_pattern", "indexer_rope_interleave", "index_share_for_mtp_iteration"},
)

LATENT: Mapping[str, Family] = {
    "deepseek_v2": _DEEPSEEK_V2,
    "deepseek_v3": msgspec.structs.replace(_DEEPSEEK_V3, also=frozenset({"MistralLarge3"})),
    "kimi_k2": _DEEPSEEK_V3,
    "deepseek_v32": _DSA,
    "glm_moe_dsa": msgspec.structs.replace(_DSA, config_class="GlmMoeDsaConfig"),
    "mistral4": msgspec.structs.replace(_DEEPSEEK_V2, config_class="Mistral4Config"),
    "mistral_large4_text": msgspec.structs.replace(
        _DSA, config_class="MistralLarge4TextConfig", counted=False, feed_forwards=Experts(), drafts=None, defaults={}
    ),
    "hy_v4_vl": msgspec.structs.replace(
        _DSA,
        config_class="HYV4VLTextConfig",
        mixers=latent(indexed=True, gate=True),
        harmless=_DSA.harmless | {"gated_mla", "learnable_sink"},
    ),
    "longcat": Family(
        config_class="LongcatConfig",
        mixers=_twice,
        layers=lambda fields: fields.count("num_layers", most=LAYERS),
        feed_forwards=Uncounted(dense="ffn_hidden_size", expert="expert_ffn_hidden_size"),
        drafts=_one_latent,
        counted=False,
        harmless=ROUTING
        | {"num_hidden_layers", "ffn_hidden_size", "expert_ffn_hidden_size", "n_routed_experts", "zero_expert_num"}
        | {"oe_vocab_size_ratio", "oe_neighbor_num", "oe_split_num", "index_topk", "index_local_tokens", "moe_topk"}
        | {
            "index_init_tokens",
            "q_lora_rank",
            "qk_nope_head_dim",
            "v_head_dim",
            "num_key_value_heads",
            "index_n_heads",
        },
    ),
}
"""Model types of this kind and how they are read."""
