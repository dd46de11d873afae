"""What an engine's memory fraction is one of: the same 0.9 means three different budgets."""

from fractions import Fraction
from math import floor
from typing import Literal

import msgspec

FractionOf = Literal["total", "free", "left"]
"""All memory of the card; what is free before the model is loaded; what is left when it is loaded and has run its
largest batch."""


class Shared(msgspec.Struct, frozen=True):
    """A KV budget as a function of the fraction, in bytes: the fraction of `base`, less `taken`."""

    base: int
    taken: int

    def left(self, fraction: Fraction) -> int:
        """The KV budget at a fraction, rounded down; below zero where not even the weights fit."""
        return floor(fraction * self.base) - self.taken


def shared_by(of: FractionOf, memory: int, weights: int, reserve: int) -> Shared:
    """What is shared and what is taken, where `reserve` is kept back beside the weights.

    Of what is free before the model is loaded, the reserve is what is gone by then; later steps use the other part.
    """
    match of:
        case "total":
            return Shared(memory, weights + reserve)
        case "free":
            return Shared(memory - reserve, weights)
        case "left":
            return Shared(memory - weights - reserve, 0)
