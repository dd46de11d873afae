"""Bytes and tokens are integers; GiB and KiB appear only when a number is shown."""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

KIB = 2**10
MIB = 2**20
GIB = 2**30

_SIX_DIGITS = Context(prec=6, rounding=ROUND_HALF_EVEN)


Integers = TypeVar("Integers", int, NDArray[np.int64])


class Estimate(msgspec.Struct, frozen=True):
    """A number that isn't known exactly: at least, most likely, at most."""

    low: int
    best: int
    high: int


def surely(amount: int) -> Estimate:
    """An estimate of what is known."""
    return Estimate(amount, amount, amount)


def ceil_div(dividend: Integers, divisor: int) -> Integers:
    """Divide an integer, or each of many, by another, rounding up."""
    return -(-dividend // divisor)


def shown_gib(amount: int) -> str:
    """Render bytes as GiB with two decimals, rounded half up: 57,686,981,017 is `53.73 GiB`."""
    hundredths = (abs(amount) * 200 + GIB) // (2 * GIB)
    sign = "-" if amount < 0 and hundredths else ""
    return f"{sign}{hundredths // 100:,}.{hundredths % 100:02} GiB"


def shown_kib(amount: int) -> str:
    """Render bytes per token as KiB, with at most two decimals and no trailing zeros: `128 KiB`."""
    hundredths = (amount * 200 + KIB) // (2 * KIB)
    whole, part = divmod(hundredths, 100)
    decimals = f".{part:02}".rstrip("0") if part else ""
    return f"{whole:,}{decimals} KiB"


def exact(decimal: float) -> Fraction:
    """Read a share as the decimal that was written (0.9 is 9/10), not as the nearest binary fraction."""
    return Fraction(repr(decimal))


def six_digits(number: Fraction) -> float:
    """Round to 6 significant digits, the most that an answer shows of a ratio, half to even and only once."""
    return float(_SIX_DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator)))


def rounded(number: float) -> float:
    """Do the same with a float."""
    return six_digits(Fraction(number))
