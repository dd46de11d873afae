"""Step 1 of the ladder: the memory of one card as its engine sees it."""

import msgspec

from service.capacity.errors import Fault, NotPlannedYet
from service.capacity.figures import Certainty
from service.capacity.question import Question
from service.capacity.rungs import Rung, byte_rung
from service.capacity.units import Estimate, surely


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one device, and whose word that is."""

    bytes: Estimate
    reader: str
    source: str
    certainty: Certainty


def memory_of(question: Question) -> Seen:
    """What the engine takes its fraction of: what CUDA or ROCm shows it, or what the driver reports.

    Raises `NotPlannedYet` where nobody knows it.
    """
    gpu, visible = question.gpu, question.engine.spec.memory == "visible"
    if visible and gpu.spec.visible_memory is not None:
        seen = gpu.spec.visible_memory
        return Seen(
            bytes=Estimate(seen.low, seen.bytes.value, seen.high),
            reader="a process",
            source=seen.bytes.source,
            certainty=seen.certainty,
        )
    if not visible and gpu.spec.reported_memory is not None:
        reported = gpu.spec.reported_memory
        return Seen(
            bytes=surely(reported.bytes.value),
            reader=reported.reader,
            source=reported.bytes.source,
            certainty=reported.certainty,
        )
    who = f"a process sees of {gpu.key}" if visible else f"the driver of {gpu.key} reports"
    raise NotPlannedYet(Fault("/gpu", f"what {who} isn't known"))


def memory_rung(question: Question, seen: Seen) -> Rung:
    """Explain step 1."""
    amount = seen.bytes
    between = f", {amount.low:,} to {amount.high:,} B by board and driver" if amount.low < amount.high else ""
    return byte_rung(
        1,
        "reported_capacity",
        amount,
        formula=f"memory of one {question.gpu.spec.name} as {seen.reader} shows it{between}",
        operands=(),
        source=seen.source,
        certainty=seen.certainty,
    )
