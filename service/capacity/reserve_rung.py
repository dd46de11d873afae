"""Step 4 of the ladder: what is kept back, as the caller says, flat, by the engine's rule, or not known."""

import msgspec

from service.capacity.errors import NotPlannedYet
from service.capacity.placement import Stage
from service.capacity.question import ObservedReserve, Question
from service.capacity.reserve import Reserve, reserve_by_rule
from service.capacity.reserve_rules import Profiled
from service.capacity.rungs import Operand, Rung, byte_rung, default_operand, lever_operand
from service.capacity.units import Estimate, surely

_WHAT = "for activations, CUDA graphs, NCCL and contexts"


def reserve_of(question: Question, stage: Stage) -> Reserve:
    """What a rank keeps back, other processes included where they are in the way of its share.

    Raises `NotPlannedYet` where nobody knows it and no size of the cache is given.
    """
    own = _own(question, stage)
    others = question.levers.other_process_bytes
    if others and shares_all(question):
        return msgspec.structs.replace(
            own,
            formula=f"{own.formula}; the {others:,} B of other processes lie in what the fraction leaves",
            operands=(*own.operands, lever_operand("other_process_bytes", others, "B")),
        )
    return msgspec.structs.replace(
        own,
        bytes=Estimate(own.bytes.low + others, own.bytes.best + others, own.bytes.high + others),
        formula=f"{own.formula} + {others:,} B of other processes" if others else own.formula,
        operands=(*own.operands, lever_operand("other_process_bytes", others, "B")),
    )


def shares_all(question: Question) -> bool:
    """Whether a rank gets its share of the card whatever others hold, so long as that much of it is free.

    An engine that measures what it takes itself doesn't count what was gone before.
    """
    return isinstance(question.engine.spec.reserve_rule, Profiled) and question.levers.kv_cache_memory_bytes is None


def reserve_rung(reserve: Reserve) -> Rung:
    """Explain step 4."""
    return byte_rung(
        4, "reserve", reserve.bytes, formula=reserve.formula, operands=reserve.operands, source=reserve.source
    )


def _own(question: Question, stage: Stage) -> Reserve:
    if question.observed_reserve is not None:
        return _observed(question.observed_reserve)
    asked, flat = question.levers.reserve_bytes, question.engine.spec.reserve_bytes
    if asked is not None:
        operand = default_operand("reserve_bytes", asked, "B", flat)
        return Reserve(bytes=surely(asked), formula=f"{asked:,} B {_WHAT}", operands=(operand,), source=operand.source)
    try:
        return reserve_by_rule(question, stage)
    except NotPlannedYet:
        if question.levers.kv_cache_memory_bytes is None:
            raise
    unknown = f"not known for {question.engine.key}"
    return Reserve(
        bytes=surely(0),
        formula=f"nothing is counted {_WHAT}: it isn't known, and the size of the cache is given",
        operands=(Operand("reserve_bytes", 0, "B", unknown, "assumed"),),
        source=unknown,
    )


def _observed(observed: ObservedReserve) -> Reserve:
    amount, count = observed.bytes, observed.start_ups
    source = f"observation {observed.observation} of {observed.on}"
    beside = "beside the weights of step 3 and the KV cache that was printed"
    formula = f"{amount.best:,} B that the same deployment kept back when it started, {beside}"
    if count > 1:
        # Only of two that are unlike the most stands for both.
        most = count == 2 and amount.best == amount.high > amount.low  # noqa: PLR2004
        which = "the most (they differ by more than chance)" if most else "the middle"
        source = f"{which} of {count} start-ups, the newest {source}"
        formula = (
            f"{amount.best:,} B ({amount.low:,} to {amount.high:,}) that {count} such start-ups kept back, {beside}"
        )
    return Reserve(
        bytes=amount,
        formula=formula,
        operands=(Operand("observed_reserve", amount.best, "B", source, "measured"),),
        source=source,
    )
