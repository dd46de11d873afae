"""Experts that an engine pads when it loads them, so that they take more room than in the files."""

from fractions import Fraction

import msgspec

from service.capacity.engine import Engine
from service.capacity.figures import Certainty
from service.capacity.gpu import Gpu, compute_capability
from service.capacity.model import WeightPart
from service.capacity.question import Levers

_OFTEN_PADDED = ("mxfp4",)
"""Formats whose kernels want other shapes than checkpoints have."""
_COARSEST = 256
"""The largest multiple that any of these kernels is known to want: sides of so many are never padded."""


class Padded(msgspec.Struct, frozen=True):
    """The sides of an expert on one rank, before and after they are padded."""

    hidden: tuple[int, int]
    width: tuple[Fraction, int]
    source: str
    certainty: Certainty

    @property
    def ratio(self) -> Fraction:
        """What the part takes, over what its share of the files does."""
        return Fraction(self.hidden[1] * self.width[1]) / (self.hidden[0] * self.width[0])


def padded(part: WeightPart, levers: Levers, engine: Engine, gpu: Gpu) -> Padded | None:
    """How a part is padded; null where this engine pads nothing of it, as far as is known."""
    rule = engine.padded_formats.get(part.dtype)
    if rule is None or part.expert_shape is None or not _is_uneven(part, levers):
        return None
    capability = compute_capability(gpu)
    generation = None if capability is None else capability[0]
    hidden, width = part.expert_shape[0], _width(part.expert_shape[1], levers)
    multiple = rule.value.width_on.get(str(generation), rule.value.width)
    return Padded(
        hidden=(hidden, _up(Fraction(hidden), rule.value.hidden)),
        width=(width, _up(width, multiple)),
        source=rule.source,
        certainty="measured" if generation in rule.value.measured_on else "assumed",
    )


def may_be_padded(part: WeightPart, levers: Levers, engine: Engine) -> bool:
    """Whether a part may take more room than its files have, and this engine has no rule that says how much."""
    ruled = part.dtype in engine.padded_formats and part.expert_shape is not None
    return not ruled and _is_uneven(part, levers)


def _is_uneven(part: WeightPart, levers: Levers) -> bool:
    """Whether some kernel for the part's format would pad it; not where it is re-quantised."""
    if part.dtype not in _OFTEN_PADDED or part.loaded_as(levers.weight_dtype) != part.dtype:
        return False
    if part.expert_shape is None:
        return True
    hidden, width = part.expert_shape
    return bool(hidden % _COARSEST or _width(width, levers) % _COARSEST)


def _width(width: int, levers: Levers) -> Fraction:
    """What one rank holds of an expert's width: all of it where it holds whole experts."""
    return Fraction(width, 1 if levers.expert_parallel else levers.tensor_parallel)


def _up(length: Fraction, multiple: int) -> int:
    return -(-length // multiple) * multiple
