"""The longest context of a model, in tokens."""

from fractions import Fraction

from service.errors import Fault, Refused
from service.readers.model_config.fields import CONTEXT, TOKENS, Fields

_WHOLE = frozenset({"default", "llama3", "longrope", "su", "mrope", "proportional", "none"})
"""Kinds of RoPE scaling whose `max_position_embeddings` already is the whole context."""
_LARGEST_FACTOR = 100_000
_LAYER_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
"""Kinds of layers that may have a RoPE of their own."""
ROPE_FIELDS = (
    frozenset({"factor", "original_max_position_embeddings"})  # read where the kind of scaling multiplies by them
    | {"rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"}
    | {"low_freq_factor", "high_freq_factor", "long_factor", "short_factor", "long_mscale", "short_mscale"}
    | {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "attn_factor", "truncate"}
    | {"extrapolation_factor", "llama_4_scaling_beta", "alpha", "finetuned"}
)
"""Fields of a RoPE that turn or weigh vectors, and lengthen no context."""


def longest_context(fields: Fields, *, linear_counts: bool) -> tuple[int, int, str]:
    """The context after RoPE scaling, `max_position_embeddings` as stated, and where the first is from.

    Layers of several kinds may each have a scaling of their own; the longest counts.
    """
    positions = fields.count("max_position_embeddings", most=CONTEXT)
    longest = positions, f"{fields.called('max_position_embeddings')} of the config.json"
    scaling = fields.section("rope_scaling", ROPE_FIELDS)
    if scaling is not None:
        of_layers = [scaling.section(kind, ROPE_FIELDS) for kind in _LAYER_KINDS]
        for one in (scaling, *of_layers):
            scaled = None if one is None else _scaled(one, positions, linear_counts=linear_counts)
            if scaled is not None and scaled[0] > longest[0]:
                longest = scaled
    return longest[0], positions, longest[1]


def _scaled(scaling: Fields, positions: int, *, linear_counts: bool) -> tuple[int, str] | None:
    """The context that one RoPE scaling comes to and where it is from; none where it lengthens nothing.

    YaRN multiplies `original_max_position_embeddings`, linear (and dynamic) scaling `max_position_embeddings`.
    """
    legacy = scaling.text("type") or "default"
    kind = scaling.text("rope_type") or legacy
    if scaling.has("type") and kind != legacy and not {kind, legacy} <= _WHOLE:
        detail = f"type says '{legacy[:40]}' and rope_type says '{kind[:40]}'"
        raise Refused(Fault(scaling.at("type"), detail))
    if kind in _WHOLE or (kind == "linear" and not linear_counts):
        return None
    if kind not in ("yarn", "deepseek_yarn", "linear", "dynamic"):
        raise Refused(Fault(scaling.at("rope_type"), f"RoPE scaling of type '{kind[:40]}' isn't known"))
    factor = scaling.raw("factor")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= _LARGEST_FACTOR:
        raise Refused(Fault(scaling.at("factor"), f"factor has to be a number above 0 and up to {_LARGEST_FACTOR:,}"))
    base = positions
    if "yarn" in kind:
        base = scaling.count_or("original_max_position_embeddings", positions, most=TOKENS, least=1)
    scaled = int(base * Fraction(factor))
    if scaled > CONTEXT:
        raise Refused(Fault(scaling.at("factor"), f"a context of more than {CONTEXT:,} tokens isn't taken for real"))
    return scaled, f"{kind} RoPE scaling of the config.json: {base} x {factor:g}"
