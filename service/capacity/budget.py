"""Steps 1 to 5 of the ladder: from the card's memory to the bytes that the KV cache may use, on one rank."""

from fractions import Fraction
from math import floor

import msgspec

from service.capacity.defaults import default_fraction_of
from service.capacity.drafts import draft_weights
from service.capacity.errors import Fault, NotPlannedYet, UnsupportedCombination
from service.capacity.fraction import Shared, shared_by
from service.capacity.memory import memory_of, memory_rung
from service.capacity.model import WeightPart
from service.capacity.placement import Stage
from service.capacity.question import Question
from service.capacity.reserve_rung import reserve_of, reserve_rung, shares_all
from service.capacity.rungs import (
    Operand,
    Rung,
    byte_rung,
    default_operand,
    lever_operand,
    step_operand,
)
from service.capacity.units import Estimate, exact, shown_gib
from service.capacity.weights import as_loaded, bytes_per_rank, lora_parts, shares
from service.capacity.weights_rung import weights_rung


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's memory, in bytes, and the five rungs that explain it."""

    usable: int
    """What the engine may use; all of the memory when the cache's size is set by hand."""
    weights: int
    reserve: int
    kv: Estimate
    """Below zero where weights and reserve don't fit."""
    asked: int | None
    """The size of the cache that was set by hand."""
    shared: Shared
    """What the memory fraction is one of, and what is taken from it."""
    rungs: tuple[Rung, ...]

    @property
    def left(self) -> int:
        """What weights and reserve leave, whatever was asked for."""
        return self.kv.best if self.asked is None else self.usable - self.weights - self.reserve


def budget_of(question: Question, stage: Stage) -> Budget:
    """Climb down from the card's memory to the KV budget; it can come out negative, which means zero blocks.

    Raises `NotPlannedYet` when the catalog doesn't know the card's memory, the model's parameter count or, where no
    size of the cache is given, the engine's reserve; `UnsupportedCombination` for a share that others don't leave free.
    """
    levers, of = question.levers, question.engine.spec.fraction_of
    seen = memory_of(question)
    parts = (*_weight_parts(question), *lora_parts(question.model.spec, levers), *draft_weights(question))
    loaded = shares(question, parts, stage)
    measured = as_loaded(question)
    known = question.model.spec.weights
    weights = bytes_per_rank(loaded, measured, "high" if known is None else known.confidence)
    kept = reserve_of(question, stage)
    fraction, asked = exact(levers.gpu_memory_utilization), levers.kv_cache_memory_bytes
    memory, held = seen.bytes, kept.bytes
    shared = shared_by(of, memory.best, weights.best, held.best)
    if asked is None:
        at_worst = shared_by(of, memory.low, weights.high, held.high)
        at_best = shared_by(of, memory.high, weights.low, held.low)
        kv = Estimate(at_worst.left(fraction), shared.left(fraction), at_best.left(fraction))
    else:
        kv = Estimate(
            min(asked, memory.low - weights.high - held.high),
            min(asked, memory.best - weights.best - held.best),
            min(asked, memory.high - weights.low - held.low),
        )
    usable = memory.best if asked is not None or of == "left" else floor(fraction * memory.best)
    _check_free(question, memory.best, usable)
    first = memory_rung(question, seen)
    second = _usable_rung(question, first, usable)
    third = weights_rung(question, loaded, measured, weights)
    fourth = reserve_rung(kept)
    fifth = (
        _kv_rung(question, (first, second, third, fourth), kv)
        if asked is None
        else _asked_rung(asked, first, third, fourth, kv)
    )
    return Budget(
        usable=usable,
        weights=weights.best,
        reserve=held.best,
        kv=kv,
        asked=asked,
        shared=shared,
        rungs=(first, second, third, fourth, fifth),
    )


def _check_free(question: Question, memory: int, usable: int) -> None:
    """Refuse a share that isn't free when the engine starts."""
    others, share = question.levers.other_process_bytes, question.levers.gpu_memory_utilization
    if not others or not shares_all(question) or usable <= memory - others:
        return
    free = max(0, memory - others)
    most = floor(1000 * Fraction(free, memory)) / 1000
    detail = (
        f"{question.engine.key} starts only where its share of the card is free: gpu_memory_utilization {share} is"
        f" {shown_gib(usable)} of {shown_gib(memory)}, and other processes leave {shown_gib(free)}; at most"
        f" {most:g}"
    )
    raise UnsupportedCombination(Fault("/levers/other_process_bytes", detail))


def _weight_parts(question: Question) -> tuple[WeightPart, ...]:
    """The parts of the weights; none where nobody knows them and the size of the cache is given."""
    weights = question.model.spec.weights
    if weights is not None:
        return tuple(part for part in weights.value if part.needed != "drafting" or question.draft_model is None)
    if question.levers.kv_cache_memory_bytes is None:
        detail = f"what the weights of {question.model.key} take isn't known: give kv_cache_memory_bytes"
        raise NotPlannedYet(Fault("/model", detail))
    return ()


def _usable_rung(question: Question, memory: Rung, usable: int) -> Rung:
    """Step 2: a fraction of step 1, or all of it where the fraction comes last."""
    fraction = _fraction_operand(question)
    if question.engine.spec.fraction_of == "left":
        return byte_rung(
            2,
            "usable_memory",
            usable,
            formula=f"all {memory.value:,} B: the fraction counts at step 5",
            operands=(step_operand(memory),),
            source="step 1",
        )
    return byte_rung(
        2,
        "usable_memory",
        usable,
        formula=f"{memory.value:,} B x {question.levers.gpu_memory_utilization} utilization, rounded down",
        operands=(step_operand(memory), fraction),
        source="step 1 and the gpu_memory_utilization lever",
    )


def _fraction_operand(question: Question) -> Operand:
    share = question.levers.gpu_memory_utilization
    return default_operand("gpu_memory_utilization", share, "share", default_fraction_of(question))


def _kv_rung(question: Question, before: tuple[Rung, Rung, Rung, Rung], kv: Estimate) -> Rung:
    """Step 5 by the fraction: what weights and reserve leave of it."""
    memory, usable, weights, reserve = before
    fraction = question.levers.gpu_memory_utilization
    operands = [step_operand(usable), step_operand(weights), step_operand(reserve)]
    formula = f"{usable.value:,} B - {weights.value:,} B weights - {reserve.value:,} B reserve"
    match question.engine.spec.fraction_of:
        case "total":
            pass
        case "free":
            formula = (
                f"({memory.value:,} B - {reserve.value:,} B reserve) x {fraction}, rounded down,"
                f" - {weights.value:,} B weights"
            )
            operands[0] = step_operand(memory)
            operands.append(_fraction_operand(question))
        case "left":
            formula = f"({formula}) x {fraction}, rounded down"
            operands.append(_fraction_operand(question))
    return byte_rung(
        5,
        "kv_budget",
        kv,
        formula=formula + _between(kv),
        operands=tuple(operands),
        source="steps 2 to 4",
    )


def _asked_rung(asked: int, memory: Rung, weights: Rung, reserve: Rung, kv: Estimate) -> Rung:
    """Step 5 where the cache's size is set by hand."""
    return byte_rung(
        5,
        "kv_budget",
        kv,
        formula=(
            f"the smaller of {asked:,} B set by kv_cache_memory_bytes and the {memory.value:,} B"
            f" - {weights.value:,} B weights - {reserve.value:,} B reserve that are there; step 2 is not used"
        )
        + _between(kv),
        operands=(
            lever_operand("kv_cache_memory_bytes", asked, "B"),
            step_operand(memory),
            step_operand(weights),
            step_operand(reserve),
        ),
        source="the kv_cache_memory_bytes lever, and steps 1, 3 and 4",
    )


def _between(kv: Estimate) -> str:
    return f"; {kv.low:,} to {kv.high:,} B" if kv.low < kv.high else ""
