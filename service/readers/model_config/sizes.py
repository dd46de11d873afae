"""The figures of a model's parameters and weights, from what was counted and from the totals that the caller gives."""

from service.capacity.figures import Confidence, Figure
from service.capacity.model import WeightPart
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Family
from service.readers.model_config.quantisation import Quantisation
from service.readers.model_config.weights import (
    OUTSIDE,
    TOWERS,
    Counted,
    as_checkpoint,
    parts_of,
    whole,
    with_remainder,
)

MOST_PARAMETERS = 10**14
"""The largest number of parameters that is taken for real."""


def parameters_figure(
    counted: Counted, family: Family, given: int | None, assumed: str, confidence: Confidence
) -> Figure[int] | None:
    """Parameters of the text decoder; of an architecture that can't be counted, the caller's total or none.

    Raises:
        Refused: they come to more than any model has.
    """
    if not family.counted:
        source = "given by the caller: what this architecture's towers and draft layers hold included"
        return Figure(given, source, "medium") if given else None
    if counted.text > MOST_PARAMETERS:
        raise Refused(Fault("", f"these shapes come to more than {MOST_PARAMETERS:,} parameters"))
    return Figure(counted.text, f"counted from the shapes in the config.json{assumed}", confidence)


def weights_figure(
    counted: Counted,
    family: Family,
    formats: Quantisation,
    parameters: int | None,
    weight_bytes: int | None,
    *,
    towers: bool,
    complete: bool,
) -> Figure[tuple[WeightPart, ...]] | None:
    """The parts of the weights; `complete` where the configuration declares nothing that isn't counted.

    Of low confidence where a part of them isn't counted from shapes, unless the files' size says what all take.

    Raises:
        Refused: the caller's totals don't fit what was counted.
    """
    method = f", quantised by {formats.method}" if formats.method else ""
    if not family.counted:
        return _uncounted(formats, parameters, weight_bytes, method)
    parts = with_remainder(parts_of(counted, formats), counted, parameters, formats, towers=towers)
    rest = next((part for part in parts if part.name in (TOWERS, OUTSIDE)), None)
    if weight_bytes is not None:
        apart = [part for part in parts if part.needed != "always"]
        listed = " and ".join(f"{part.loaded_bytes('auto'):,} B of {part.name}" for part in apart)
        source = f"{weight_bytes:,} B of files as given by the caller"
        source += f", less {listed} listed apart" if apart else ""
        return Figure(as_checkpoint(parts, weight_bytes), source, "medium" if rest in apart else "high")
    source = f"parameters counted from the shapes{method}"
    if formats.assumed is not None:
        source += f"; {formats.assumed}"
    if not complete:
        return Figure(parts, f"{source}; not all of the checkpoint's are", "low")
    if rest is not None:
        source += f"; the other {rest.parameters:,} of the total given by the caller, taken for {rest.dtype}"
        return Figure(parts, source, "low")
    if formats.assumed is not None:
        return Figure(parts, source, "low")
    return Figure(parts, source, "high" if not formats.method else "medium")


def _uncounted(
    formats: Quantisation, parameters: int | None, weight_bytes: int | None, method: str
) -> Figure[tuple[WeightPart, ...]] | None:
    """One part of what the caller gives, if anything."""
    dtype = formats.quantised or formats.plain
    if weight_bytes is not None:
        source = f"{weight_bytes:,} B of files as given by the caller"
        return Figure((whole(parameters or weight_bytes, dtype, weight_bytes),), source, "high")
    if parameters is not None:
        parts = (whole(parameters, dtype, None, formats.scales_of(dtype)),)
        return Figure(parts, f"parameters given by the caller{method}", "low" if formats.assumed else "medium")
    return None
