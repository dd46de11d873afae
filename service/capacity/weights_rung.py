"""Step 3 of the ladder: what one rank loads, part by part, with the width of each and who says so."""

from collections.abc import Iterator
from fractions import Fraction

from service.capacity.dtypes import SCALES
from service.capacity.engine import AsLoaded
from service.capacity.figures import Certainty
from service.capacity.model import AskedWeightDtype, WeightPart
from service.capacity.padding import may_be_padded
from service.capacity.question import Question
from service.capacity.rungs import Operand, Rung, byte_rung, certainty_of, lever_operand, weakest
from service.capacity.units import Estimate, six_digits
from service.capacity.weights import Share


def weights_rung(question: Question, loaded: tuple[Share, ...], measured: AsLoaded | None, per_rank: Estimate) -> Rung:
    """Explain the bytes of the weights on one rank."""
    levers = question.levers
    figure = question.model.spec.weights
    if figure is None:
        unknown = f"the weights of {question.model.key} aren't known"
        return byte_rung(
            3,
            "weights",
            0,
            formula=f"nothing is counted: {unknown}, and the size of the cache is given",
            operands=(Operand("weights", 0, "B", unknown, "assumed"),),
            source=unknown,
        )
    what_if = levers.weight_dtype != "auto"
    certainty = certainty_of(figure.confidence)
    operands = tuple(operand for share in loaded for operand in _operands(question, share, figure.source, certainty))
    terms = " + ".join(_term(share, levers.weight_dtype) for share in loaded)
    if measured is not None:
        terms = f"({terms}) x {measured.best:g} as loaded ({measured.low:g} to {measured.high:g})"
        said = f"{measured.source}; measured on {measured.logs} start-ups"
        operands = (*operands, Operand("as_loaded", measured.best, "times", said, "measured"))
    return byte_rung(
        3,
        "weights",
        per_rank,
        formula=f"{terms} = {per_rank.best:,} B on one rank",
        operands=(
            *operands,
            lever_operand("tensor_parallel", levers.tensor_parallel, "ranks"),
            *(
                lever_operand(name, value, unit)
                for name, value, unit, default in (
                    ("pipeline_parallel", levers.pipeline_parallel, "stages", 1),
                    ("expert_parallel", int(levers.expert_parallel), "0 or 1", 0),
                )
                if value != default
            ),
        ),
        source=figure.source + ("; in the dtype of the weight_dtype lever, scales and towers apart" if what_if else ""),
        certainty="assumed" if what_if else weakest(*operands) if operands else certainty,
    )


def _operands(question: Question, share: Share, source: str, certainty: Certainty) -> Iterator[Operand]:
    """What one part's term is made of.

    A width is as certain as the figure that names the format, and assumed where the format comes with scales that
    nobody has stated, or where an engine may pad what it loads.
    """
    part, asked = share.part, question.levers.weight_dtype
    as_files = may_be_padded(part, question.levers, question.engine.spec)
    if _from_files(part, asked):
        sure = "assumed" if as_files else certainty
        yield Operand(part.name, part.loaded_bytes(asked), "B", source, sure)
        return
    yield Operand(part.name, part.parameters, "parameters", source, certainty)
    dtype = part.loaded_as(asked)
    what_if = dtype != part.dtype and dtype in SCALES
    said = part.layout(asked) + (", loaded as it is in the files" if as_files else "")
    width = six_digits(part.loaded_width(asked))
    yield Operand(f"bits of {part.name}", width, "bits", said, "assumed" if what_if or as_files else certainty)
    if share.padding is not None:
        ratio = six_digits(share.padding.ratio)
        yield Operand(f"padding of {part.name}", ratio, "times", share.padding.source, share.padding.certainty)


def _from_files(part: WeightPart, weight_dtype: AskedWeightDtype) -> bool:
    return part.bytes is not None and part.loaded_as(weight_dtype) == part.dtype


def _term(share: Share, weight_dtype: AskedWeightDtype) -> str:
    part = share.part
    if _from_files(part, weight_dtype):
        term = f"{part.loaded_bytes(weight_dtype):,} B of the {part.name}"
    else:
        width = f"{float(part.loaded_width(weight_dtype) / 8):.10g}"
        term = f"{part.parameters:,} parameters of the {part.name} x {width} B"
    on_stage = "" if share.layers == 1 else f" x {share.layers} of the layers"
    over_ranks = "" if share.of == 1 else f" / {share.of} ranks"
    return term + _padding_term(share) + on_stage + over_ranks


def _padding_term(share: Share) -> str:
    """The sides of an expert that are padded, each as padded over own."""
    if share.padding is None:
        return ""
    hidden, width = share.padding.hidden, share.padding.width
    sides = ((hidden[0], hidden[1], "the hidden size"), (width[0], width[1], "an expert's width"))
    return "".join(f" x {up:,}/{_written(own)} of {said}" for own, up, said in sides if own != up)


def _written(side: int | Fraction) -> str:
    """A side of what one rank holds, which needn't be whole."""
    return f"{side.numerator:,}" if side.denominator == 1 else f"({side})"
