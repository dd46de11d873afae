"""Number formats and their width. A width is in bits, so that 4-bit formats stay integers."""

from fractions import Fraction
from typing import Literal

import msgspec

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
"""Formats without scales of their own."""


class Scales(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept beside quantised numbers: so many bits of scales and zero points for every so many numbers."""

    bits: int
    numbers: int


SCALES: dict[str, Scales] = {
    # One 16-bit scale and one 4-bit zero point (AWQ, GPTQ).
    "int4": Scales(16 + 4, 128),
    # One 16-bit scale and no zero point.
    "int4_g32": Scales(16, 32),
    # One 8-bit exponent (OCP Microscaling).
    "mxfp4": Scales(8, 32),
    # One fp8 scale; the two 32-bit scales of a whole matrix are too few to count.
    "nvfp4": Scales(8, 16),
}
"""The scales that a format comes with, where a checkpoint doesn't say that it keeps others."""

_PACKED_BITS = 4


def width(dtype: str, scales: Scales | None = None) -> Fraction:
    """Bits of one weight, its share of the scales included."""
    kept = SCALES.get(dtype) if scales is None else scales
    return Fraction(PLAIN_BITS.get(dtype, _PACKED_BITS)) + (Fraction(kept.bits, kept.numbers) if kept else 0)


def layout(dtype: str, scales: Scales | None = None) -> str:
    """What makes up the width, in words."""
    kept = SCALES.get(dtype) if scales is None else scales
    said = f"{dtype}: {PLAIN_BITS.get(dtype, _PACKED_BITS)} bits"
    return f"{said} and {kept.bits:,} of scales for every {kept.numbers:,} numbers" if kept else said


BITS: dict[str, Fraction] = {name: width(name) for name in (*PLAIN_BITS, *SCALES)}
"""The width of each format with the scales that it comes with."""


def bytes_of(elements: int, bits: Fraction) -> int:
    """Bytes of so many weights of a width in bits, rounded up to a whole byte."""
    total = elements * bits
    return -(-total.numerator // (8 * total.denominator))
