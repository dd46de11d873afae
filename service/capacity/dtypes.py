"""Number formats and their width. A width is in bits, so that 4-bit formats stay integers."""

from typing import Literal

ElementDtype = Literal["bf16", "fp16", "fp32", "fp8", "int8"]
"""A number format of weights."""

KvCacheDtype = Literal["auto", "bf16", "fp16", "fp32", "fp8"]
"""What a caller may ask the cache to be kept in; `auto` is the model's own dtype."""

BITS: dict[str, int] = {"bf16": 16, "fp16": 16, "fp32": 32, "fp8": 8, "int8": 8}


def bytes_of(elements: int, dtype: str) -> int:
    """Bytes of so many elements of a dtype, rounded up to a whole byte."""
    return -(-elements * BITS[dtype] // 8)
