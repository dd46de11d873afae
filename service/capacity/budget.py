"""Steps 1 to 5 of the ladder: from the card's memory to the bytes that the KV cache may use, on one rank."""

from math import floor

import msgspec

from service.capacity.drafts import draft_weights
from service.capacity.errors import Fault, NotPlannedYet
from service.capacity.gpu import ReportedMemory
from service.capacity.model import WeightPart
from service.capacity.placement import Stage
from service.capacity.question import Question
from service.capacity.rungs import (
    Operand,
    Rung,
    byte_rung,
    default_operand,
    lever_operand,
    step_operand,
)
from service.capacity.units import exact
from service.capacity.weights import bytes_per_rank, lora_parts, shares
from service.capacity.weights_rung import weights_rung


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's memory, in bytes, and the five rungs that explain it."""

    reported: int
    usable: int
    """What the engine may use; all of the reported memory when the cache's size is set by hand."""
    weights: int
    reserve: int
    kv: int
    short: bool
    """Whether a cache whose size was set by hand doesn't fit beside weights and reserve."""
    rungs: tuple[Rung, ...]

    @property
    def left(self) -> int:
        """What weights and reserve leave, whatever was asked for."""
        return self.usable - self.weights - self.reserve


def budget_of(question: Question, stage: Stage) -> Budget:
    """Climb down from reported memory to the KV budget; it can come out negative, which means zero blocks.

    Raises `NotPlannedYet` when the catalog doesn't know the card's memory, the model's parameter count or, where no
    size of the cache is given, the engine's reserve.
    """
    levers = question.levers
    memory = _memory(question)
    parts = (*_weight_parts(question), *lora_parts(question.model.spec, levers), *draft_weights(question))
    loaded = shares(question, parts, stage)
    reported = memory.bytes.value
    usable = floor(reported * exact(levers.gpu_memory_utilization))
    weights = bytes_per_rank(loaded)
    reserve = _reserve(question) + levers.other_process_bytes
    given = levers.kv_cache_memory_bytes
    left = (usable if given is None else reported) - weights - reserve
    kv = left if given is None else min(given, left)
    first = _reported_rung(question, memory)
    second = _usable_rung(question, first, usable)
    third = weights_rung(question, loaded, weights)
    fourth = _reserve_rung(question, reserve)
    fifth = _kv_rung(second, third, fourth, kv) if given is None else _given_rung(given, first, third, fourth, kv)
    return Budget(
        reported=reported,
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
    """The parts of the weights; none where nobody knows them and the size of the cache is given."""
    weights = question.model.spec.weights
    if weights is not None:
        return tuple(part for part in weights.value if part.needed != "drafting" or question.draft_model is None)
    if question.levers.kv_cache_memory_bytes is None:
        detail = f"what the weights of {question.model.key} take isn't known: give kv_cache_memory_bytes"
        raise NotPlannedYet(Fault("/model", detail))
    return ()


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


def _reserve(question: Question) -> int:
    """Bytes that the engine keeps back; with a cache whose size is given and a reserve that isn't known, none."""
    reserve = question.levers.reserve_bytes
    if reserve is None and question.levers.kv_cache_memory_bytes is None:
        detail = (
            f"what {question.engine.key} keeps back for activations, CUDA graphs, NCCL and contexts isn't known: give"
            " reserve_bytes, or kv_cache_memory_bytes as the engine prints it"
        )
        raise NotPlannedYet(Fault("/levers/reserve_bytes", detail))
    return reserve or 0


def _reserve_rung(question: Question, reserve: int) -> Rung:
    levers, default = question.levers, question.engine.spec.reserve_bytes
    others = f" + {levers.other_process_bytes:,} B of other processes" if levers.other_process_bytes else ""
    what = "for activations, CUDA graphs, NCCL and contexts"
    if levers.reserve_bytes is None:
        formula = f"nothing is counted {what}: it isn't known, and the size of the cache is given{others}"
        own = Operand("reserve_bytes", 0, "B", f"not known for {question.engine.key}", "assumed")
        source = f"not known for {question.engine.key}"
    else:
        formula = f"{levers.reserve_bytes:,} B {what}{others}"
        own = default_operand("reserve_bytes", levers.reserve_bytes, "B", default)
        source = own.source
    return byte_rung(
        4,
        "reserve",
        reserve,
        formula=formula,
        operands=(own, lever_operand("other_process_bytes", levers.other_process_bytes, "B")),
        source=source,
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
