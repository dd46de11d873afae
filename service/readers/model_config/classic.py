"""Families from before LLaMA: LayerNorm with a bias, feed-forward networks of two matrices."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import FullAttention
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Family, FeedForward, Mixer, Shape
from service.readers.model_config.feed_forward import dense
from service.readers.model_config.fields import HEADS, Fields
from service.readers.model_config.heads import grouped_query, head_dim
from service.readers.model_config.parameters import attention
from service.readers.model_config.tally import Tally, tally


def _falcon(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """Falcon: one KV head, as many as query heads, or `num_kv_heads` in the newer decoder."""
    newer, multi = fields.flag("new_decoder_architecture"), fields.flag("multi_query", otherwise=True)
    parallel = fields.flag("parallel_attn", otherwise=True)
    stated = fields.count_or("num_key_value_heads", shape.query_heads, most=HEADS, least=1)
    heads = stated if newer else 1 if multi else shape.query_heads
    dim, biased = head_dim(fields, shape), fields.flag("bias")
    # The newer decoder normalises twice before its parallel halves, the older once.
    norms = 2 if newer or not parallel else 1
    weights = attention(
        shape.hidden,
        heads=shape.query_heads,
        kv_heads=heads,
        key_dim=dim,
        value_dim=dim,
        bias=biased,
        out_bias=biased,
        small=norms * 2 * shape.hidden,
    )
    return [Mixer((FullAttention(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim),), weights)] * shape.layers


class _FourTimes(msgspec.Struct, frozen=True):
    """A feed-forward network of two matrices that is four times as wide as the hidden size."""

    bias: bool | str

    def __call__(self, fields: Fields, shape: Shape) -> Sequence[FeedForward]:
        """One per layer."""
        times = fields.count_or("expansion_ratio", 4, most=64, least=1)
        width = fields.count_or("intermediate_size", times * shape.hidden, least=1)
        biased = fields.flag(self.bias) if isinstance(self.bias, str) else self.bias
        small = width + shape.hidden if biased else 0
        return [FeedForward(tally(dense=2 * shape.hidden * width, small=small), width)] * shape.layers


_ATTENTION_CONFIG = frozenset(
    {"alibi", "alibi_bias_max", "attn_impl", "attn_pdrop", "attn_uses_sequence_id", "clip_qkv", "prefix_lm", "qk_ln"}
    | {"softmax_scale"}
)
"""Fields of MPT's attention that say nothing of its heads; older files have them beside the others."""


def _mpt(fields: Fields, shape: Shape) -> Sequence[Mixer]:
    """MPT: heads stand in `attn_config`, where windows and other attention may stand too."""
    inner = fields.section("attn_config", _ATTENTION_CONFIG)
    heads = shape.query_heads
    if inner is not None:
        heads = inner.count_or("kv_n_heads", heads, most=HEADS, least=1)
        kind = inner.text("attn_type")
        if kind not in (None, "multihead_attention", "multiquery_attention", "grouped_query_attention"):
            raise Refused(Fault(inner.at("attn_type"), "this kind of attention isn't known"))
        heads = 1 if kind == "multiquery_attention" else heads
    dim, biased = head_dim(fields, shape), not fields.flag("no_bias", otherwise=True)
    weights = attention(
        shape.hidden, heads=shape.query_heads, kv_heads=heads, key_dim=dim, value_dim=dim, bias=biased, out_bias=biased
    )
    return [Mixer((FullAttention(layers=1, kv_heads=heads, key_dim=dim, value_dim=dim),), weights)] * shape.layers


def _opt_tables(fields: Fields, shape: Shape) -> Tally:
    """Learned positions, two more than the context."""
    width = fields.count_or("word_embed_proj_dim", shape.hidden)
    if width != shape.hidden or not fields.flag("do_layer_norm_before", otherwise=True):
        raise Refused(Fault(fields.at("word_embed_proj_dim"), "embeddings narrower than the layers aren't known here"))
    return tally(small=(shape.positions + 2) * shape.hidden)


CLASSIC: Mapping[str, Family] = {
    "falcon": Family(
        config_class="FalconConfig",
        mixers=_falcon,
        feed_forwards=_FourTimes(bias="bias"),
        norms=0,  # counted with the attention, because their number depends on the decoder
        norm_width=2,
        tied=True,
        defaults={"max_position_embeddings": 2_048},
        harmless=frozenset({"alibi", "apply_residual_connection_post_layernorm", "num_ln_in_parallel_attn"}),
    ),
    "bloom": Family(
        config_class="BloomConfig",
        mixers=grouped_query(bias=True),
        feed_forwards=_FourTimes(bias=True),
        norm_width=2,
        tied=True,
        defaults={"max_position_embeddings": 2_048},
        extras=lambda _, shape: tally(small=2 * shape.hidden),
        harmless=frozenset(
            {"apply_residual_connection_post_layernorm", "masked_softmax_fusion", "slow_but_exact", "offset_alibi"}
            | {"skip_bias_add", "skip_bias_add_qkv", "unk_token_id", "bias_dropout_fusion", "n_inner", "seq_length"}
        ),
    ),
    "opt": Family(
        config_class="OPTConfig",
        mixers=grouped_query(bias="enable_bias"),
        feed_forwards=dense(matrices=2, bias="enable_bias"),
        norm_width=2,
        tied=True,
        defaults={"enable_bias": True, "max_position_embeddings": 2_048},
        extras=_opt_tables,
        harmless=frozenset({"layerdrop", "layer_norm_elementwise_affine", "_remove_final_layer_norm"}),
    ),
    "mpt": Family(
        config_class="MptConfig",
        also=frozenset({"MPT"}),
        mixers=_mpt,
        feed_forwards=_FourTimes(bias=False),
        tied=True,
        defaults={"max_position_embeddings": 2_048},
        harmless=_ATTENTION_CONFIG
        | {"learned_pos_emb", "init_device", "emb_pdrop", "norm_type", "verbose", "no_bias", "embedding_fraction"}
        | {"init_config", "logit_scale", "tokenizer_name"},
    ),
}
"""Model types of this kind and how they are read."""
