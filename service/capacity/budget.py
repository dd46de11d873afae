"""Steps 1 to 5 of the ladder: from the card's memory to the bytes that the KV cache may use, on one rank."""

from math import floor

import msgspec

from service.capacity.dtypes import BITS
from service.capacity.errors import Fault, NotPlannedYet
from service.capacity.gpu import ReportedMemory
from service.capacity.model import WeightPart, weight_bytes
from service.capacity.question import Question
from service.capacity.rungs import (
    Operand,
    Rung,
    byte_rung,
    certainty_of,
    default_operand,
    lever_operand,
    step_operand,
)
from service.capacity.units import ceil_div, exact


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's memory, in bytes, and the five rungs that explain it."""

    usable: int
    """What the engine may use; all of the reported memory when the cache's size is set by hand."""
    weights: int
    reserve: int
    kv: int
    short: bool
    """Whether a cache whose size was set by hand doesn't fit beside weights and reserve."""
    rungs: tuple[Rung, ...]


def budget_of(question: Question) -> Budget:
    """Climb down from reported memory to the KV budget; it can come out negative, which means zero blocks.

    Raises `NotPlannedYet` when the catalog doesn't know the card's memory or the model's parameter count.
    """
    levers = question.levers
    memory = _memory(question)
    parts = _weight_parts(question)
    reported = memory.bytes.value
    usable = floor(reported * exact(levers.gpu_memory_utilization))
    all_weights = weight_bytes(parts, levers.weight_dtype)
    weights = ceil_div(all_weights, levers.tensor_parallel)
    reserve = levers.reserve_bytes + levers.other_process_bytes
    given = levers.kv_cache_memory_bytes
    left = (usable if given is None else reported) - weights - reserve
    kv = left if given is None else min(given, left)
    first = _reported_rung(question, memory)
    second = _usable_rung(question, first, usable)
    third = _weights_rung(question, parts, all_weights, weights)
    fourth = _reserve_rung(question, reserve)
    fifth = _kv_rung(second, third, fourth, kv) if given is None else _given_rung(given, first, third, fourth, kv)
    return Budget(
        usable=usable if given is None else reported,
        weights=weights,
        reserve=reserve,
        kv=kv,
        short=given is not None and kv < given,
        rungs=(first, second, third, fourth, fifth),
    )


def _memory(question: Question) -> ReportedMemory:
    memory = question.gpu.spec.reported_memory
    if memory is None:
        detail = f"what the driver of {question.gpu.key} reports isn't known"
        raise NotPlannedYet(Fault("/gpu", detail))
    return memory


def _weight_parts(question: Question) -> tuple[WeightPart, ...]:
    weights = question.model.spec.weights
    if weights is None:
        raise NotPlannedYet(Fault("/model", f"the parameter count of {question.model.key} isn't known"))
    return weights.value


def _reported_rung(question: Question, memory: ReportedMemory) -> Rung:
    return byte_rung(
        1,
        "reported_capacity",
        memory.bytes.value,
        formula=f"memory of one {question.gpu.spec.name} as {memory.reader} shows it",
        operands=(),
        source=memory.bytes.source,
        certainty=memory.certainty,
    )


def _usable_rung(question: Question, reported: Rung, usable: int) -> Rung:
    share = question.levers.gpu_memory_utilization
    default = question.engine.spec.gpu_memory_utilization
    return byte_rung(
        2,
        "usable_memory",
        usable,
        formula=f"{reported.value:,} B x {share} utilization, rounded down",
        operands=(
            step_operand(reported),
            default_operand("gpu_memory_utilization", share, "share", default),
        ),
        source="step 1 and the gpu_memory_utilization lever",
    )


def _weights_rung(question: Question, parts: tuple[WeightPart, ...], total: int, per_rank: int) -> Rung:
    levers = question.levers
    terms = " + ".join(
        f"{part.parameters:,} parameters of the {part.name} x {BITS[part.loaded_as(levers.weight_dtype)] // 8} B"
        for part in parts
    )
    over_ranks = f", over {levers.tensor_parallel} ranks = {per_rank:,} B each" if levers.tensor_parallel > 1 else ""
    figure = question.model.spec.weights
    assert figure is not None  # _weight_parts has refused it
    what_if = levers.weight_dtype != "auto"
    operands = tuple(
        operand
        for part in parts
        for operand in (
            Operand(part.name, part.parameters, "parameters", figure.source, certainty_of(figure.confidence)),
            Operand(f"bits of {part.name}", BITS[part.loaded_as(levers.weight_dtype)], "bits", "its dtype", "exact"),
        )
    )
    ranks = lever_operand("tensor_parallel", levers.tensor_parallel, "ranks")
    return byte_rung(
        3,
        "weights",
        per_rank,
        formula=f"{terms} = {total:,} B{over_ranks}",
        operands=(*operands, ranks),
        source=figure.source + ("; in the dtype of the weight_dtype lever, scales and towers apart" if what_if else ""),
        certainty="assumed" if what_if else certainty_of(figure.confidence),
    )


def _reserve_rung(question: Question, reserve: int) -> Rung:
    levers = question.levers
    default = question.engine.spec.reserve_bytes
    others = f" + {levers.other_process_bytes:,} B of other processes" if levers.other_process_bytes else ""
    return byte_rung(
        4,
        "reserve",
        reserve,
        formula=f"{levers.reserve_bytes:,} B for activations, CUDA graphs, NCCL and contexts{others}",
        operands=(
            default_operand("reserve_bytes", levers.reserve_bytes, "B", default),
            lever_operand("other_process_bytes", levers.other_process_bytes, "B"),
        ),
        source=default.source if levers.reserve_bytes == default.value else "the reserve_bytes lever",
    )


def _kv_rung(usable: Rung, weights: Rung, reserve: Rung, kv: int) -> Rung:
    return byte_rung(
        5,
        "kv_budget",
        kv,
        formula=f"{usable.value:,} B - {weights.value:,} B weights - {reserve.value:,} B reserve",
        operands=(step_operand(usable), step_operand(weights), step_operand(reserve)),
        source="steps 2 to 4",
    )


def _given_rung(given: int, reported: Rung, weights: Rung, reserve: Rung, kv: int) -> Rung:
    return byte_rung(
        5,
        "kv_budget",
        kv,
        formula=(
            f"the smaller of {given:,} B set by kv_cache_memory_bytes and the {reported.value:,} B"
            f" - {weights.value:,} B weights - {reserve.value:,} B reserve that are there; step 2 is not used"
        ),
        operands=(
            lever_operand("kv_cache_memory_bytes", given, "B"),
            step_operand(reported),
            step_operand(weights),
            step_operand(reserve),
        ),
        source="the kv_cache_memory_bytes lever, and steps 1, 3 and 4",
    )
