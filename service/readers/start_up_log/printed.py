"""What a log line printed: the digits, what they stand for, and where they were found."""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Generic, TypeVar

import msgspec

from service.capacity.units import GIB, KIB, MIB

Value = TypeVar("Value")

UNITS = {"B": 1, "bytes": 1, "KiB": KIB, "MiB": MIB, "MB": MIB, "GiB": GIB, "GB": GIB}
"""Bytes of each unit. The engines divide by 2**30 also where they print `GB`, and by 2**20 for `MB`."""

SIZE = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
"""Digits of what can't be less than nothing: what is needed, and how many requests fit."""

AMOUNT = rf"-?{SIZE}"
"""Digits of an amount. Without a comma: no engine prints one in an amount, so `58,7` is not read as anything."""

COUNT = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})"
"""Digits of a count, with or without a comma for every thousand."""


class Seen(msgspec.Struct, Generic[Value], frozen=True):
    """One value, the line that it was found on, counted from 1, and the rank that printed it, if it said so."""

    value: Value
    line: int
    rank: str | None = None


class ByteRange(msgspec.Struct, frozen=True):
    """An amount of memory as printed, and the bytes that it may stand for: what was printed is rounded."""

    printed: Decimal
    low: int
    best: int
    high: int


class Concurrency(msgspec.Struct, frozen=True):
    """How many requests of `max_model_len` tokens fit at once; `computed` where it follows from other lines."""

    printed: Decimal
    max_model_len: int
    computed: bool = False


def byte_range(digits: str, unit: str, decimals: int) -> ByteRange:
    """Read an amount that was rounded to at least `decimals` decimals.

    Engines that print a rounded number in its shortest form drop zeros: `1.0` is then 1.00, and stands for 0.995 to
    1.005. Whole bytes are exact.
    """
    printed = Decimal(digits)
    size = UNITS[unit]
    if size == 1:
        return ByteRange(printed, int(printed), int(printed), int(printed))
    half = Decimal(5).scaleb(-max(decimals, len(digits.partition(".")[2])) - 1)
    return ByteRange(
        printed,
        int(((printed - half) * size).to_integral_value(ROUND_FLOOR)),
        int((printed * size).to_integral_value(ROUND_HALF_EVEN)),
        int(((printed + half) * size).to_integral_value(ROUND_CEILING)),
    )


def count(digits: str) -> int:
    """Read a count, leaving out its commas."""
    return int(digits.replace(",", ""))
