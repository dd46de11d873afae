"""DeepSeek-V4 and later: one vector for the keys and values of several tokens."""

from collections.abc import Mapping, Sequence

from service.capacity.cache import CacheKind, CompressedLatent, LatentWindow, RowRing
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, DraftsOf, Family, FeedForward, Mixer, Shape, total
from service.readers.model_config.feed_forward import Experts, Uncounted
from service.readers.model_config.fields import HEADS, TOKENS, Fields
from service.readers.model_config.heads import draft_layers
from service.readers.model_config.layer_patterns import numbered
from service.readers.model_config.mixture import ROUTING
from service.readers.model_config.parameters import hyper_connection, hyper_head
from service.readers.model_config.tally import Tally, tally

_FP32 = 4


def _window(fields: Fields, *, layers: int = 1, block: int, microscaled: bool = False) -> LatentWindow:
    return LatentWindow(
        layers=layers,
        latent_dim=fields.count("head_dim"),
        window=fields.count("sliding_window", most=TOKENS),
        block=block,
        microscaled=microscaled,
    )


def _compressed(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """DeepSeek-V4: a window in every layer; ratio 4 with an index key, ratio 128 without, ratio 0 neither."""
    dim, index = fields.count("head_dim"), fields.count("index_head_dim")
    by_ratio: dict[int, tuple[CacheKind, ...]] = {
        0: (),
        4: (
            CompressedLatent(
                layers=1,
                latent_dim=dim,
                tokens_per_vector=4,
                index_dim=index,
                rows=8,
                row_width=4 * dim,
                index_row_width=4 * index,
                row_block=4,
            ),
        ),
        128: (
            CompressedLatent(layers=1, latent_dim=dim, tokens_per_vector=128, rows=128, row_width=2 * dim, row_block=8),
        ),
    }
    window, weights = _window(fields, block=64), _weights(fields, shape)
    mixers = []
    for layer, ratio in enumerate(fields.counts("compress_ratios", most=2**20, length=shape.layers)):
        if ratio not in by_ratio:
            raise Refused(
                Fault(f"{fields.at('compress_ratios')}/{layer}", f"a ratio of {ratio} isn't known: 0, 4 or 128")
            )
        mixers.append(Mixer((window, *by_ratio[ratio]), weights[ratio]))
    return mixers


def _weights(fields: Fields, shape: Shape) -> Mapping[int, Tally]:
    """Parameters of a layer by its ratio: attention, hyper-connections, compressor, indexer with one of its own."""
    hidden, dim, heads = shape.hidden, fields.count("head_dim"), shape.query_heads
    rank, out_rank, groups = (
        fields.count("q_lora_rank"),
        fields.count("o_lora_rank"),
        fields.count("o_groups", most=HEADS),
    )
    joined = 2 * hyper_connection(hidden, fields.count_or("hc_mult", 0, most=64))
    plain = tally(
        attention=rank * heads * dim + heads * dim * out_rank + groups * out_rank * hidden,
        latent=hidden * (rank + dim),
        small=rank + dim + heads + joined,
    )
    index = fields.count("index_head_dim")
    index_heads = fields.count("index_n_heads", most=HEADS)
    indexer = tally(latent=rank * index_heads * index + hidden * index_heads)
    overlapping = [_compressor(hidden, width=2 * width, ratio=4, norm=width) for width in (dim, index)]
    return {
        0: plain,
        4: total([plain, indexer, *overlapping]),
        128: total([plain, _compressor(hidden, width=dim, ratio=128, norm=dim)]),
    }


def _compressor(hidden: int, *, width: int, ratio: int, norm: int) -> Tally:
    """Vectors and their scores from hidden states, places within the ratio, a norm."""
    return tally(latent=2 * hidden * width, small=ratio * width + norm)


def _experts(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
    """Experts in every layer. The first `num_hash_layers` choose by a table of tokens, so have no correction bias."""
    routed = Experts()(fields, shape)
    hashed = fields.count_or("num_hash_layers", 0, most=shape.layers)
    bias = tally(small=fields.count("num_experts", most=HEADS))
    return [
        one if layer < hashed else FeedForward(total([one.weights, bias]), one.width)
        for layer, one in enumerate(routed)
    ]


def _compressed_and_shared(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """DeepSeek-V4.1: only the layers of `kv_source_layer_ids` keep vectors and index keys, the others read theirs."""
    ratios = fields.counts("compress_ratios", most=2**20, length=shape.layers)
    sources = numbered(fields, shape, "kv_source_layer_ids", from_one=False)
    dim, index = fields.count("head_dim"), fields.count("index_head_dim")
    window = _window(fields, block=32, microscaled=True)
    # fp32 [key-value, score] rows wait to be pooled; a ratio of 1 pools nothing.
    ring = RowRing(layers=1, row_bytes=2 * dim * _FP32, waiting=2, least_rows=8, power_of_two=True)
    mixers = []
    for layer, ratio in enumerate(ratios):
        caches: list[CacheKind] = [window]
        if layer in sources:
            if ratio not in (1, 2):
                raise Refused(
                    Fault(f"{fields.at('compress_ratios')}/{layer}", f"a ratio of {ratio} isn't known: 1 or 2")
                )
            vectors = CompressedLatent(
                layers=1, latent_dim=dim, tokens_per_vector=ratio, index_dim=index, microscaled=True
            )
            caches += [vectors] if ratio == 1 else [vectors, ring]
        mixers.append(Mixer(tuple(caches), tally()))
    return mixers


def _window_drafts(block: int, *, microscaled: bool = False) -> DraftsOf:
    """Draft layers keep a window and nothing else."""

    def drafts(fields: Fields, _: Shape, __: Sequence[Mixer], ___: Sequence[Tally]) -> Drafts:
        layers = draft_layers(fields)
        return Drafts((_window(fields, layers=layers, block=block, microscaled=microscaled),) if layers else None)

    return drafts


_SHARED = (
    ROUTING
    | {
        "num_key_value_heads",
        "q_lora_rank",
        "o_lora_rank",
        "o_groups",
        "index_n_heads",
        "index_topk",
        "hc_mult",
        "hc_eps",
    }
    | {"hc_sinkhorn_iters", "n_routed_experts", "n_shared_experts", "moe_intermediate_size", "num_hash_layers"}
    | {"swiglu_limit", "compress_rope_theta", "attention_bias", "qk_rope_head_dim"}
)

COMPRESSED: Mapping[str, Family] = {
    "deepseek_v4": Family(
        config_class="DeepseekV4Config",
        mixers=_compressed,
        feed_forwards=_experts,
        drafts=_window_drafts(64),
        extras=lambda fields, shape: tally(small=hyper_head(shape.hidden, fields.count_or("hc_mult", 0, most=64))),
        harmless=frozenset(_SHARED),
    ),
    "deepseek_v41_text": Family(
        config_class="DeepseekV41TextConfig",
        mixers=_compressed_and_shared,
        feed_forwards=Uncounted(expert="moe_intermediate_size"),
        drafts=_window_drafts(32, microscaled=True),
        counted=False,
        harmless=_SHARED
        | {"index_source_layer_ids", "candidate_source_layer_id", "candidate_topk_blocks", "candidate_block_size"}
        | {"engram_layer_ids", "engram_num_embeddings", "engram_max_ngram_size", "engram_vocab_size", "engram_n_heads"}
        | {"engram_head_dim", "dspark_block_size", "dspark_target_layer_ids", "dspark_markov_rank"}
        | {"dspark_n_routed_experts", "dspark_num_experts_per_tok"},
    ),
}
"""Model types of this kind and how they are read."""
