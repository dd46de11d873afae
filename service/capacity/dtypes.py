"""Number formats and their width. A width is in bits, so that 4-bit formats stay integers."""

from fractions import Fraction
from typing import Literal

ElementDtype = Literal["bf16", "fp16", "fp32", "fp8", "int8", "int4", "int4_g32", "mxfp4", "nvfp4"]
"""A number format of weights, with the scales that come with it."""

KvCacheDtype = Literal[
    "auto",
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "fp8_per_token_head",
    "int8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
]
"""What a caller may ask the cache to be kept in; `auto` is the checkpoint's own scheme, else the model's dtype."""

PLAIN_BITS: dict[str, int] = {"bf16": 16, "fp16": 16, "fp32": 32, "fp8": 8, "int8": 8}
"""Formats without scales."""

BITS: dict[str, Fraction] = {
    **{name: Fraction(bits) for name, bits in PLAIN_BITS.items()},
    # One 16-bit scale and one 4-bit zero point per group of 128 numbers (AWQ, GPTQ).
    "int4": Fraction(4) + Fraction(16 + 4, 128),
    # One 16-bit scale per group of 32 numbers.
    "int4_g32": Fraction(4) + Fraction(16, 32),
    # One 8-bit exponent per 32 numbers (OCP Microscaling).
    "mxfp4": Fraction(4) + Fraction(8, 32),
    # One fp8 scale per 16 numbers.
    "nvfp4": Fraction(4) + Fraction(8, 16),
}
"""Bits of one weight, its share of the scales included."""


def bytes_of(elements: int, dtype: str) -> int:
    """Bytes of so many weights of a dtype, rounded up to a whole byte."""
    bits = elements * BITS[dtype]
    return -(-bits.numerator // (8 * bits.denominator))
