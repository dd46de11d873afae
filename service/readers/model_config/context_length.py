"""The longest context of a model, in tokens."""

from fractions import Fraction

from service.errors import Fault, Refused
from service.readers.model_config.fields import CONTEXT, TOKENS, Fields

_WHOLE = frozenset({"default", "llama3", "longrope", "su", "mrope", "proportional", "none"})
"""Kinds of RoPE scaling whose `max_position_embeddings` already is the whole context."""
_LARGEST_FACTOR = 100_000


def longest_context(fields: Fields, *, linear_counts: bool) -> tuple[int, int, str]:
    """The context after RoPE scaling, `max_position_embeddings` as stated, and where the first is from.

    YaRN multiplies `original_max_position_embeddings`, linear (and dynamic) scaling `max_position_embeddings`.
    """
    positions = fields.count("max_position_embeddings", most=CONTEXT)
    stated = f"{fields.called('max_position_embeddings')} of the config.json"
    scaling = fields.section("rope_scaling")
    if scaling is None:
        return positions, positions, stated
    kind = scaling.text("rope_type") or scaling.text("type") or "default"
    if kind in _WHOLE or (kind == "linear" and not linear_counts):
        return positions, positions, stated
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
    if scaled <= positions:
        return positions, positions, stated
    return scaled, positions, f"{kind} RoPE scaling of the config.json: {base} x {factor:g}"
