"""The rungs of the ladder: numbers that carry their formula, operands, source and certainty."""

import msgspec

from service.capacity.figures import Certainty, Confidence, Figure
from service.capacity.units import Estimate, shown_gib, surely

_FROM_CERTAIN_TO_DOUBTFUL: tuple[Certainty, ...] = ("exact", "measured", "assumed")


class Operand(msgspec.Struct, frozen=True):
    """One value that a formula uses, with its own source."""

    name: str
    value: int | float
    unit: str
    source: str
    certainty: Certainty


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A value that explains itself."""

    value: int | float
    unit: str
    formula: str
    operands: tuple[Operand, ...]
    source: str
    certainty: Certainty


def number(value: float, unit: str, formula: str, *operands: Operand, source: str, certainty: Certainty) -> Number:
    """Build a number from its operands as they come."""
    return Number(value=value, unit=unit, formula=formula, operands=operands, source=source, certainty=certainty)


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the ladder from the card's memory down to the users."""

    step: int
    name: str
    value: int
    unit: str
    bytes: int | None
    """The value again where it is bytes; null at the last step, which counts users."""
    low: int
    high: int
    """What the value may come to at least and at most; both are the value itself where it isn't in doubt."""
    shown: str
    formula: str
    operands: tuple[Operand, ...]
    source: str
    certainty: Certainty


def byte_rung(
    step: int,
    name: str,
    amount: int | Estimate,
    *,
    formula: str,
    operands: tuple[Operand, ...],
    source: str,
    certainty: Certainty | None = None,
) -> Rung:
    """Build a rung that is an amount of memory, shown in GiB; it is as certain as its least certain operand."""
    of = surely(amount) if isinstance(amount, int) else amount
    return Rung(
        step=step,
        name=name,
        value=of.best,
        unit="B",
        bytes=of.best,
        low=of.low,
        high=of.high,
        shown=shown_gib(of.best),
        formula=formula,
        operands=operands,
        source=source,
        certainty=weakest(*operands) if certainty is None else certainty,
    )


def weakest(*parts: Operand | Rung) -> Certainty:
    """The certainty of what is computed from these: that of the least certain one."""
    return max((part.certainty for part in parts), key=_FROM_CERTAIN_TO_DOUBTFUL.index)


def step_operand(rung: Rung) -> Operand:
    """Build an operand that is an earlier step's result."""
    return Operand(rung.name, rung.value, rung.unit, f"step {rung.step}", rung.certainty)


def lever_operand(name: str, value: float, unit: str) -> Operand:
    """Build an operand that the caller sets."""
    return Operand(name, value, unit, f"the {name} lever", "exact")


def default_operand(name: str, value: float, unit: str, default: Figure[int] | Figure[float] | None) -> Operand:
    """Build an operand that is a lever with an engine's default: the default's own source while it stands."""
    if default is None or value != default.value:
        return lever_operand(name, value, unit)
    return Operand(name, value, unit, default.source, "assumed")


def certainty_of(confidence: Confidence) -> Certainty:
    """Say how certain a catalog figure is: a well-sourced one is exact, a doubtful one assumed."""
    return "assumed" if confidence == "low" else "exact"
