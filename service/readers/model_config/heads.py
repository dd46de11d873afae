"""Layers of ordinary attention: keys and values per head, in whole, windows or chunks."""

from collections.abc import Sequence

import msgspec

from service.capacity.cache import CacheKind, ChunkedLocal, FullAttention, SlidingWindow
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, Mixer, Mixers, Shape, total
from service.readers.model_config.fields import DRAFT_LAYERS, HEADS, TOKENS, Fields
from service.readers.model_config.layer_patterns import CHUNK, WINDOW, Pattern, window_of, without_windows
from service.readers.model_config.parameters import attention
from service.readers.model_config.tally import Tally, tally

_AS_MANY_AS_QUERY_HEADS = frozenset(
    {
        "BaichuanConfig",
        "BloomConfig",
        "Cohere2Config",
        "Cohere2MoeConfig",
        "CohereConfig",
        "GraniteConfig",
        "GraniteMoeHybridConfig",
        "HunYuanMoEV1Config",
        "InternLM2Config",
        "LlamaConfig",
        "OPTConfig",
        "Olmo2Config",
        "OlmoConfig",
        "Olmo3Config",
        "OlmoeConfig",
        "Phi3Config",
    }
)
"""Classes in which `num_key_value_heads` left out means multi-head attention.

In others it means a number of their own, among the defaults of their family. Where that number is as many as the
class's query heads it is no default here: the field has to be stated.
"""


def head_dim(fields: Fields, shape: Shape) -> int:
    """Elements of one head: stated, or the hidden size shared out among the query heads."""
    if fields.has("head_dim"):
        return fields.count("head_dim")
    if shape.hidden % shape.query_heads:
        detail = f"head_dim is missing, and {shape.hidden} channels can't be shared out among {shape.query_heads} heads"
        raise Refused(Fault(fields.at("head_dim"), detail))
    return shape.hidden // shape.query_heads


def kv_heads(fields: Fields, query_heads: int) -> int:
    """KV heads of a layer: as many as query heads where the configuration names none and its class says so.

    Raises:
        Refused: they are missing, or null in a class with a number of its own (null may mean multi-head attention
            there), or the query heads can't be shared out among them.
    """
    name = "num_key_value_heads"
    if fields.owner in _AS_MANY_AS_QUERY_HEADS:
        heads = fields.count_or(name, query_heads, most=HEADS, least=1)
    else:
        heads = fields.count(name, most=HEADS)
        if name in fields.assumed and name in fields.names():
            raise Refused(Fault(fields.at(name), f"{name} is null, and {fields.owner} has a number of its own for it"))
    if query_heads % heads:
        detail = f"{query_heads} query heads can't be shared out among {heads} KV heads"
        raise Refused(Fault(fields.at("num_key_value_heads"), detail))
    return heads


def cache(fields: Fields, shape: Shape, kind: str, heads: int, dim: int) -> CacheKind:
    """The cache of one layer."""
    if kind == WINDOW:
        window = window_of(fields, shape)
        assert window is not None, "a pattern has windows only where one counts"
        return SlidingWindow(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim, window=window)
    if kind == CHUNK:
        chunk = fields.count("attention_chunk_size", most=TOKENS)
        return ChunkedLocal(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim, chunk=chunk)
    return FullAttention(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim)


def grouped_query(
    pattern: Pattern = without_windows,
    *,
    bias: bool | str = "attention_bias",
    out_bias: bool | str | None = None,
    qk_norm: bool | str = False,
    norm_all_heads: bool = False,
    gate: str | None = None,
    sinks: bool = False,
) -> Mixers:
    """Attention layers that differ at most in their span.

    `bias` and `out_bias` (null: as `bias`) and `qk_norm` are known or stated by a field. Norms of queries and keys
    are of one head's width, or of all heads' (`norm_all_heads`). `gate`: `heads` for one number per query head,
    `channels` for one per channel. `sinks`: one number per query head.
    """

    def mixers(fields: Fields, shape: Shape) -> Sequence[Mixer]:
        dim, heads = head_dim(fields, shape), kv_heads(fields, shape.query_heads)
        biased = fields.flag(bias) if isinstance(bias, str) else bias
        ends_biased = biased if out_bias is None else fields.flag(out_bias) if isinstance(out_bias, str) else out_bias
        small = shape.query_heads if sinks else 0
        if fields.flag(qk_norm, otherwise=True) if isinstance(qk_norm, str) else qk_norm:
            small += (shape.query_heads + heads) * dim if norm_all_heads else 2 * dim
        weights = attention(
            shape.hidden,
            heads=shape.query_heads,
            kv_heads=heads,
            key_dim=dim,
            value_dim=dim,
            bias=biased,
            out_bias=ends_biased,
            gate={None: 0, "heads": shape.query_heads, "channels": shape.query_heads * dim}[gate],
            small=small,
        )
        return [Mixer((cache(fields, shape, kind, heads, dim),), weights) for kind in pattern(fields, shape)]

    return mixers


def draft_layers(fields: Fields) -> int:
    """Draft layers that the configuration declares, under any of the names for it."""
    for name in DRAFT_LAYERS:
        if fields.has(name):
            return fields.count(name, most=64, least=0)
    return 0


def like_full_layers(fields: Fields, _: Shape, mixers: Sequence[Mixer], __: Sequence[Tally]) -> Drafts:
    """Draft layers of ordinary attention, each with the cache of one full layer."""
    layers = draft_layers(fields)
    full = next((cache for mixer in mixers for cache in mixer.caches if isinstance(cache, FullAttention)), None)
    if not layers or full is None:
        return Drafts(None)
    return Drafts((msgspec.structs.replace(full, layers=layers),))


def joined_drafts(fields: Fields, shape: Shape, mixers: Sequence[Mixer], feed_forwards: Sequence[Tally]) -> Drafts:
    """Draft layers that are full layers, each after a projection of token and hidden state into one.

    They have three norms more than a layer. Copies of embedding and head that a checkpoint may hold aren't counted:
    the decoder's own are used.
    """
    caches = like_full_layers(fields, shape, mixers, feed_forwards).caches
    if caches is None:
        return Drafts(None)
    full = next(mixer for mixer in mixers if any(isinstance(cache, FullAttention) for cache in mixer.caches))
    joining = tally(dense=2 * shape.hidden * shape.hidden, small=5 * shape.hidden)
    one = total([full.weights, feed_forwards[-1], joining])
    return Drafts(caches, total([one] * draft_layers(fields)))
