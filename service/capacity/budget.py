"""Steps 1 to 5 of the ladder: from the card's memory to the bytes that the KV cache may use, on one rank."""

from math import floor

import msgspec

from service.capacity.dtypes import BITS
from service.capacity.errors import Fault, UnsupportedModel
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
    weights: int
    reserve: int
    kv: int
    rungs: tuple[Rung, ...]


def budget_of(question: Question) -> Budget:
    """Climb down from reported memory to the KV budget; it can come out negative, which means zero blocks.

    Raises `UnsupportedModel` when the catalog doesn't know the card's memory or the model's parameter count.
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
    kv = usable - weights - reserve if given is None else given
    rungs = (
        _reported_rung(question, memory),
        _usable_rung(question, reported, usable),
        _weights_rung(question, parts, all_weights, weights),
        _reserve_rung(question, reserve),
        _given_rung(given) if given is not None else _kv_rung(usable, weights, reserve, kv),
    )
    return Budget(usable=usable, weights=weights, reserve=reserve, kv=kv, rungs=rungs)


def _memory(question: Question) -> ReportedMemory:
    memory = question.gpu.spec.reported_memory
    if memory is None:
        detail = f"what {question.gpu.key}'s driver reports isn't known: {question.gpu.spec.notes}"
        raise UnsupportedModel(Fault("/gpu", detail))
    return memory


def _weight_parts(question: Question) -> tuple[WeightPart, ...]:
    weights = question.model.spec.weights
    if weights is None:
        raise UnsupportedModel(Fault("/model", f"the parameter count of {question.model.key} isn't known"))
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


def _usable_rung(question: Question, reported: int, usable: int) -> Rung:
    share = question.levers.gpu_memory_utilization
    default = question.engine.spec.gpu_memory_utilization
    return byte_rung(
        2,
        "usable_memory",
        usable,
        formula=f"{reported:,} B x {share} utilization, rounded down",
        operands=(
            step_operand("reported_capacity", reported, "B", 1),
            default_operand("gpu_memory_utilization", share, "share", default),
        ),
        source="step 1 and the gpu_memory_utilization lever",
        certainty="exact",
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
        Operand(part.name, part.parameters, "parameters", figure.source, certainty_of(figure.confidence))
        for part in parts
    )
    ranks = lever_operand("tensor_parallel", levers.tensor_parallel, "ranks")
    return byte_rung(
        3,
        "weights",
        per_rank,
        formula=f"{terms} = {total:,} B{over_ranks}",
        operands=(*operands, ranks),
        source=figure.source + ("; quantised by the weight_dtype lever, all tensors alike" if what_if else ""),
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
        certainty="assumed" if levers.reserve_bytes == default.value else "exact",
    )


def _kv_rung(usable: int, weights: int, reserve: int, kv: int) -> Rung:
    return byte_rung(
        5,
        "kv_budget",
        kv,
        formula=f"{usable:,} B - {weights:,} B weights - {reserve:,} B reserve",
        operands=(
            step_operand("usable_memory", usable, "B", 2),
            step_operand("weights", weights, "B", 3),
            step_operand("reserve", reserve, "B", 4),
        ),
        source="steps 2 to 4",
        certainty="exact",
    )


def _given_rung(given: int) -> Rung:
    return byte_rung(
        5,
        "kv_budget",
        given,
        formula=f"{given:,} B set by kv_cache_memory_bytes; steps 1 to 4 are not used",
        operands=(lever_operand("kv_cache_memory_bytes", given, "B"),),
        source="the kv_cache_memory_bytes lever",
        certainty="exact",
    )
