"""Attention layers of families whose layers aren't alike in their heads."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import CacheKind, ConvolutionHistory, FullAttention, IndexKeys, SlidingWindow
from service.capacity.units import ceil_div
from service.errors import Fault, Refused
from service.readers.model_config.decoder import FeedForward, Mixer, Shape, total
from service.readers.model_config.fields import HEADS, Fields
from service.readers.model_config.heads import grouped_query, head_dim, kv_heads
from service.readers.model_config.layer_patterns import every, numbered, window_of
from service.readers.model_config.parameters import attention
from service.readers.model_config.tally import tally

_WIDEST, _WHOLE = 64, 256
"""Blocks of Nemotron-NAS: the largest factor that is taken for real, and what widths are multiples of."""


def all_attention(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """MiniMax-M2: `attn_type_list` has 1 for attention, and no layer of this generation is anything else."""
    kinds = fields.counts("attn_type_list", most=1)
    if 0 in kinds:
        raise Refused(Fault(fields.at("attn_type_list"), f"only attention layers (1) are known of {fields.owner}"))
    return grouped_query(bias=False, qk_norm="use_qk_norm", norm_all_heads=True)(fields, shape)


_WHICH_BLOCKS = frozenset(
    {"sparse_block_size", "sparse_disable_index_value", "sparse_init_block", "sparse_local_block", "sparse_score_type"}
    | {"sparse_topk_blocks"}
)
"""How MiniMax-M3 picks the blocks that a token attends to; all are kept."""
_FEED_FORWARD = frozenset({"ffn_mult", "gated", "hidden_act", "intermediate_size", "no_op", "replace_with_linear"})
"""The feed-forward network of a Nemotron-NAS block, whose parameters aren't counted from its configuration."""


def block_sparse(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """MiniMax-M3: ordinary attention that keeps everything, and one index key per token in the sparse layers."""
    plain = grouped_query(bias=False, qk_norm="use_qk_norm")(fields, shape)
    sparse = fields.section("sparse_attention_config", _WHICH_BLOCKS)
    if sparse is None or not sparse.flag("use_sparse_attention"):
        return plain
    freq = sparse.counts("sparse_attention_freq", most=1, length=shape.layers)
    width, heads = sparse.count("sparse_index_dim"), sparse.count("sparse_num_index_heads", most=HEADS)
    keys = IndexKeys(layers=1, key_dim=width, stored="bf16")
    weights = tally(latent=shape.hidden * width * (heads + 1), small=2 * width)
    return [
        Mixer((*mixer.caches, keys), total([mixer.weights, weights])) if sparse_here else mixer
        for mixer, sparse_here in zip(plain, freq, strict=True)
    ]


def two_geometries(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """MiMo-V2: values narrower than keys, and window layers with heads of their own (`hybrid_layer_pattern`, 1)."""
    window = window_of(fields, shape)
    by_kind: dict[int, Mixer] = {}
    for kind, prefix in ((0, ""), (1, "swa_")):
        heads = fields.count_or(f"{prefix}num_attention_heads", shape.query_heads, most=HEADS, least=1)
        stored = fields.count(f"{prefix}num_key_value_heads", most=HEADS)
        key_dim, value_dim = fields.count(f"{prefix}head_dim"), fields.count(f"{prefix}v_head_dim")
        cache: CacheKind = FullAttention(layers=1, kv_heads=stored, key_dim=key_dim, value_dim=value_dim)
        if kind and window is not None:
            cache = SlidingWindow(layers=1, kv_heads=stored, key_dim=key_dim, value_dim=value_dim, window=window)
        sinks = fields.flag("add_swa_attention_sink_bias", otherwise=True) if kind else False
        weights = attention(
            shape.hidden,
            heads=heads,
            kv_heads=stored,
            key_dim=key_dim,
            value_dim=value_dim,
            small=heads if sinks else 0,
        )
        by_kind[kind] = Mixer((cache,), weights)
    return [by_kind[kind] for kind in fields.counts("hybrid_layer_pattern", most=1, length=shape.layers)]


def with_history(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Inkling: window layers (`local_layer_ids`) with heads of their own, and short convolutions in every layer."""
    local = numbered(fields, shape, "local_layer_ids", from_one=False)
    window = window_of(fields, shape)
    by_kind: dict[bool, Mixer] = {}
    for is_local, prefix in ((False, ""), (True, "swa_")):
        heads = fields.count(f"{prefix}num_attention_heads", most=HEADS)
        stored, dim = fields.count(f"{prefix}num_key_value_heads", most=HEADS), fields.count(f"{prefix}head_dim")
        cache: CacheKind = FullAttention(layers=1, kv_heads=stored, key_dim=dim, value_dim=dim)
        if is_local and window is not None:
            cache = SlidingWindow(layers=1, kv_heads=stored, key_dim=dim, value_dim=dim, window=window)
        history = ConvolutionHistory(
            layers=1,
            kv_heads=stored,
            head_dim=dim,
            hidden_size=shape.hidden,
            taps=fields.count("sconv_kernel_size"),
        )
        weights = attention(shape.hidden, heads=heads, kv_heads=stored, key_dim=dim, value_dim=dim)
        by_kind[is_local] = Mixer((cache, history), weights)
    return [by_kind[layer in local] for layer in range(shape.layers)]


def step(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Step-3.5: every 4th layer from the first sees everything; window layers have query heads of their own."""
    mixers = grouped_query(every(4, first=0), bias=False, qk_norm=True)(fields, shape)
    other = fields.section("attention_other_setting")
    if other is None:
        return mixers
    heads = other.count_or("num_key_value_heads", kv_heads(fields, shape.query_heads), most=HEADS)
    other.raw("num_attention_heads")
    return [
        Mixer(
            tuple(
                msgspec.structs.replace(cache, kv_heads=heads) if isinstance(cache, SlidingWindow) else cache
                for cache in mixer.caches
            ),
            mixer.weights,
        )
        for mixer in mixers
    ]


def nas(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Nemotron-NAS: each block says how many query heads share one KV head, or that it has no attention."""
    dim = head_dim(fields, shape)
    mixers = []
    for index, block in enumerate(_blocks(fields, shape)):
        attends = block.section("attention", frozenset({"n_heads_in_group"}))  # a block without attention may say it
        block.section("ffn", _FEED_FORWARD)
        if attends is None or attends.flag("no_op") or attends.flag("replace_with_linear"):
            weights = (
                tally(attention=shape.hidden * shape.hidden)
                if attends and attends.flag("replace_with_linear")
                else tally()
            )
            mixers.append(Mixer((), weights))
            continue
        if attends.has("window_length") or attends.has("num_sink_tokens") or attends.has("sparsify"):
            raise Refused(
                Fault(
                    f"{fields.at('block_configs')}/{index}/attention",
                    "windows, sinks and sparsity of single blocks aren't known here",
                )
            )
        sharing = attends.count("n_heads_in_group", most=shape.query_heads)
        if shape.query_heads % sharing:
            detail = f"{shape.query_heads} query heads can't be shared out in groups of {sharing}"
            raise Refused(Fault(attends.at("n_heads_in_group"), detail))
        heads = shape.query_heads // sharing
        weights = attention(shape.hidden, heads=shape.query_heads, kv_heads=heads, key_dim=dim, value_dim=dim)
        mixers.append(Mixer((FullAttention(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim),), weights))
    return mixers


def nas_feed_forwards(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """Nemotron-NAS: `ffn_mult` of a block times 2/3 of the hidden size, rounded up. No parameters are counted."""
    return [FeedForward(tally(), _nas_width(block, shape.hidden)) for block in _blocks(fields, shape)]


def _nas_width(block: Fields, hidden: int) -> int | None:
    inner = block.raw("ffn")
    if not isinstance(inner, Mapping) or inner.get("no_op") or inner.get("replace_with_linear"):
        return 0
    times = inner.get("ffn_mult")
    if not isinstance(times, int | float) or isinstance(times, bool) or not 0 < times <= _WIDEST:
        return None
    return ceil_div(int(2 * times * hidden / 3), _WHOLE) * _WHOLE


def _blocks(fields: Fields, shape: Shape) -> Sequence[Fields]:
    blocks = fields.items("block_configs")
    if len(blocks) != shape.layers:
        raise Refused(
            Fault(fields.at("block_configs"), f"block_configs has {len(blocks)} entries for {shape.layers} layers")
        )
    return [fields.section_of_list("block_configs", index) for index in range(shape.layers)]
