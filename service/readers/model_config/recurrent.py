"""Recurrent layers: the state of one layer and its parameters."""

from service.capacity.cache import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    ShortConvolution,
)
from service.capacity.units import ceil_div
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Mixer, Shape
from service.readers.model_config.fields import HEADS, Fields
from service.readers.model_config.parameters import (
    gated_delta_net,
    kimi_delta,
    lightning,
    mamba1,
    mamba2,
    short_convolution,
)

_STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "auto": None}
_KERNEL = 1_024
"""The longest convolution that is taken for real."""


def state_dtype(fields: Fields, name: str, otherwise: str | None) -> str | None:
    """The format of states: stated, or the family's; null is the model's own."""
    stated = fields.text(name)
    if stated is None:
        return otherwise
    if stated not in _STATE_DTYPES:
        raise Refused(Fault(fields.at(name), f"{name} has to be one of {', '.join(_STATE_DTYPES)}"))
    return _STATE_DTYPES[stated]


def delta_net(fields: Fields, shape: Shape, *, dtype: str | None) -> Mixer:
    """A gated delta net (Qwen3-Next and later)."""
    cache = GatedDeltaNet(
        layers=1,
        key_heads=fields.count("linear_num_key_heads", most=HEADS),
        value_heads=fields.count("linear_num_value_heads", most=HEADS),
        key_dim=fields.count("linear_key_head_dim"),
        value_dim=fields.count("linear_value_head_dim"),
        conv_kernel=fields.count("linear_conv_kernel_dim", most=_KERNEL),
        state_dtype=state_dtype(fields, "mamba_ssm_dtype", dtype),
    )
    weights = gated_delta_net(
        shape.hidden,
        key_heads=cache.key_heads,
        value_heads=cache.value_heads,
        key_dim=cache.key_dim,
        value_dim=cache.value_dim,
        kernel=cache.conv_kernel,
    )
    return Mixer((cache,), weights)


def kimi_delta_attention(
    fields: Fields,
    shape: Shape,
    *,
    heads: int,
    head_dim: int,
    kernel: int,
    full_rank_gate: bool,
    decay_rank: bool = True,
) -> Mixer:
    """Kimi delta attention: its state is fp32 even where no field says so."""
    dtype = state_dtype(fields, "mamba_ssm_dtype", "fp32")
    cache = KimiDeltaAttention(layers=1, heads=heads, head_dim=head_dim, conv_kernel=kernel, state_dtype=dtype)
    weights = kimi_delta(
        shape.hidden,
        heads=heads,
        head_dim=head_dim,
        kernel=kernel,
        full_rank_gate=full_rank_gate,
        decay_rank=decay_rank,
    )
    return Mixer((cache,), weights)


def lightning_attention(fields: Fields, shape: Shape, *, head_dim: int, small: int) -> Mixer:
    """Linear attention with a fixed decay, in the model's own dtype unless `mamba_cache_dtype` says otherwise."""
    dtype = state_dtype(fields, "mamba_cache_dtype", None)
    cache = LightningAttention(layers=1, heads=shape.query_heads, head_dim=head_dim, state_dtype=dtype)
    weights = lightning(shape.hidden, heads=shape.query_heads, head_dim=head_dim, small=small)
    return Mixer((cache,), weights)


def selective_state(fields: Fields, shape: Shape) -> Mixer:
    """Mamba-1. `mamba_dt_rank` "auto" is a 16th of the hidden size."""
    inner = fields.count("mamba_expand", most=64) * shape.hidden
    state, kernel = fields.count("mamba_d_state"), fields.count("mamba_d_conv", most=_KERNEL)
    rank = ceil_div(shape.hidden, 16)
    if fields.raw("mamba_dt_rank") not in (None, "auto"):
        rank = fields.count("mamba_dt_rank")
    dtype = state_dtype(fields, "mamba_ssm_cache_dtype", None)
    cache = Mamba1(layers=1, inner_dim=inner, state_dim=state, conv_kernel=kernel, state_dtype=dtype)
    return Mixer((cache,), mamba1(shape.hidden, inner=inner, state=state, kernel=kernel, rank=rank))


def state_space(fields: Fields, shape: Shape, *, dtype: str | None, normed: bool = True) -> Mixer:
    """Mamba-2, under the names of Nemotron-H or Granite. `normed`: whether its output is normalised with weights."""
    cache = Mamba2(
        layers=1,
        heads=fields.count("mamba_num_heads", most=HEADS),
        head_dim=fields.count("mamba_head_dim"),
        groups=fields.count("n_groups", most=HEADS),
        state_dim=fields.count("ssm_state_size"),
        conv_kernel=fields.count("conv_kernel", most=_KERNEL),
        state_dtype=state_dtype(fields, "mamba_ssm_cache_dtype", dtype),
    )
    weights = mamba2(
        shape.hidden,
        heads=cache.heads,
        head_dim=cache.head_dim,
        groups=cache.groups,
        state=cache.state_dim,
        kernel=cache.conv_kernel,
        conv_bias=fields.flag("use_conv_bias", otherwise=True),
        normed=normed,
    )
    return Mixer((cache,), weights)


def short_conv(fields: Fields, shape: Shape) -> Mixer:
    """The short convolution of LFM2, as wide as the hidden size."""
    kernel = fields.count("conv_L_cache", most=_KERNEL, least=2)  # of one tap it would keep nothing
    weights = short_convolution(shape.hidden, kernel)
    if fields.flag("conv_bias"):
        weights.update({("norms and routers", 1): 5 * shape.hidden})
    return Mixer((ShortConvolution(layers=1, channels=shape.hidden, conv_kernel=kernel),), weights)
