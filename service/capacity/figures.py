"""A figure of a catalog entry: a value that says where it comes from and how far to trust it."""

from typing import Generic, Literal, TypeVar

import msgspec

Value = TypeVar("Value")

Confidence = Literal["high", "medium", "low"]
Certainty = Literal["exact", "measured", "assumed"]


class Figure(msgspec.Struct, Generic[Value], frozen=True, forbid_unknown_fields=True):
    """One value of a catalog entry with its source and confidence."""

    value: Value
    source: str
    confidence: Confidence
