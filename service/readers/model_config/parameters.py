"""Parameters of the building blocks of decoders, from their shapes. Every projection is a matrix in x out."""

from service.readers.model_config.tally import Tally, tally


def attention(
    hidden: int,
    *,
    heads: int,
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    bias: bool = False,
    out_bias: bool = False,
    gate: int = 0,
    small: int = 0,
    values: bool = True,
) -> Tally:
    """Grouped-query attention. `gate` adds further projections hidden x gate; `values=False` takes keys for values."""
    queries = heads * key_dim
    stored = kv_heads * (key_dim + (value_dim if values else 0))
    return tally(
        attention=hidden * (queries + gate + heads * value_dim),
        keys_and_values=hidden * stored,
        kv_heads=kv_heads,
        small=small + (queries + stored if bias else 0) + (hidden if out_bias else 0),
    )


def latent_attention(
    hidden: int,
    *,
    heads: int,
    query_rank: int,
    latent_dim: int,
    rope_dim: int,
    nope_dim: int,
    value_dim: int,
    gate: int = 0,
) -> Tally:
    """Multi-head latent attention: queries through a latent of their own where `query_rank` isn't 0."""
    queries = heads * (nope_dim + rope_dim)
    return tally(
        attention=(query_rank or hidden) * queries
        + latent_dim * heads * (nope_dim + value_dim)
        + hidden * (heads * value_dim + gate),
        latent=hidden * (query_rank + latent_dim + rope_dim),
        small=query_rank + latent_dim,
    )


def indexer(hidden: int, *, query_rank: int, heads: int, key_dim: int) -> Tally:
    """Lightning indexer (DeepSeek-V3.2): queries, one key with its LayerNorm, one weight per head."""
    return tally(latent=query_rank * heads * key_dim + hidden * (key_dim + heads), small=2 * key_dim)


def gated(hidden: int, width: int) -> int:
    """Gate, up and down projection."""
    return 3 * hidden * width


def gated_delta_net(
    hidden: int, *, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int
) -> Tally:
    """Queries, keys, values, the gate z, and b and a per head; convolution, decay and time step, norm, output."""
    mixed = 2 * key_heads * key_dim + value_heads * value_dim
    return tally(
        state=hidden * (mixed + 2 * value_heads * value_dim + 2 * value_heads),
        small=mixed * kernel + 2 * value_heads + value_dim,
    )


def kimi_delta(hidden: int, *, heads: int, head_dim: int, kernel: int, full_rank_gate: bool, decay_rank: bool) -> Tally:
    """Queries, keys, values and output; forget gate and output gate, each low-rank or whole; beta, convolutions."""
    width = heads * head_dim
    low_rank = hidden * head_dim + head_dim * width
    gates = (low_rank if decay_rank else hidden * width) + (hidden * width if full_rank_gate else low_rank)
    return tally(
        state=hidden * 4 * width + gates + hidden * heads,
        small=3 * width * kernel + heads + width + head_dim,
    )


def lightning(hidden: int, *, heads: int, head_dim: int, small: int) -> Tally:
    """Queries, keys, values, output gate and output; `small` are its norms."""
    return tally(state=5 * hidden * heads * head_dim, small=small)


def mamba1(hidden: int, *, inner: int, state: int, kernel: int, rank: int) -> Tally:
    """Selective state space with norms on time step, B and C (Jamba)."""
    return tally(
        state=hidden * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden,
        small=inner * (kernel + 1) + inner + inner * state + inner + rank + 2 * state,
    )


def mamba2(
    hidden: int, *, heads: int, head_dim: int, groups: int, state: int, kernel: int, conv_bias: bool, normed: bool
) -> Tally:
    """State space duality: one input projection for z, x, B, C and time step."""
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    return tally(
        state=hidden * (inner + channels + heads) + inner * hidden,
        small=channels * (kernel + int(conv_bias)) + 3 * heads + (inner if normed else 0),
    )


def short_convolution(hidden: int, kernel: int) -> Tally:
    """Input projection to three streams, a convolution over one, output projection (LFM2)."""
    return tally(state=4 * hidden * hidden, small=hidden * kernel)


def hyper_connection(hidden: int, streams: int, *, mixed: bool = True) -> int:
    """What reads one stream out of several, writes it back and, if `mixed`, mixes them: weights, bias, scales."""
    outputs = streams * (streams + 2 if mixed else 2)
    return outputs * (streams * hidden + 1) + 3 if streams else 0


def hyper_head(hidden: int, streams: int) -> int:
    """What brings the streams together before the head: weights, bias, one scale."""
    return streams * (streams * hidden + 1) + 1 if streams else 0
