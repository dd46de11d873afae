"""Defaults that an engine takes from the card and the deployment: chunk, sequences and memory fraction."""

from fractions import Fraction

from service.capacity.engine import Engine
from service.capacity.figures import Figure
from service.capacity.gpu import Gpu
from service.capacity.question import Levers, Question
from service.capacity.reserve_rules import ByMemory, HeldBack
from service.capacity.units import MIB, exact


def default_batched_tokens(engine: Engine, gpu: Gpu) -> Figure[int] | None:
    """Tokens of one step where nobody asked; null where there is no default or the card's memory isn't known."""
    return _by_memory(engine.max_num_batched_tokens, gpu)


def default_sequences(engine: Engine, gpu: Gpu) -> Figure[int] | None:
    """Sequences of one pool where nobody asked; null where there is no default or the card's memory isn't known."""
    return _by_memory(engine.max_num_seqs, gpu)


def default_fraction(engine: Engine, gpu: Gpu, levers: Levers, *, draft_model: bool) -> Figure[float] | None:
    """The memory fraction where nobody asked; null where a rule needs the card's memory and nobody knows that.

    Of the levers only those count that say how the model is spread and what a step is.
    """
    rule, memory = engine.reserve_rule, gpu.reported_memory
    if not isinstance(rule, HeldBack):
        return engine.gpu_memory_utilization
    if memory is None:
        return None
    total = memory.bytes.value // MIB
    held = held_back(rule, memory.bytes.value, gpu.name, levers, draft_model=draft_model)
    return Figure(float(round((total - held) / total, 3)), rule.source, "medium")


def default_fraction_of(question: Question) -> Figure[float] | None:
    """The default of a question."""
    return default_fraction(
        question.engine.spec, question.gpu.spec, question.levers, draft_model=question.draft_model is not None
    )


def held_back(rule: HeldBack, memory: int, card: str, levers: Levers, *, draft_model: bool) -> Fraction:
    """MiB that are left free on a card of so many bytes."""
    batch = value_for(rule.batch_of_many if levers.tensor_parallel >= rule.many else rule.batch, memory, card)
    held = (
        rule.base
        + exact(rule.per_token) * max(rule.least_tokens, levers.max_num_batched_tokens or 0)
        + rule.per_rank * levers.tensor_parallel * levers.pipeline_parallel
        + rule.per_sequence * batch
    )
    if levers.expert_parallel and levers.data_parallel > 1:
        more = exact(rule.per_shared_sequence_of_large) if batch > rule.large_batch else Fraction(0)
        held += (rule.per_shared_sequence + more) * batch * levers.data_parallel
    if memory > rule.least_from * MIB:
        held = max(held, Fraction(rule.least))
    if levers.speculative_tokens:
        held += rule.draft_model if draft_model else rule.draft_layers
    return held


def value_for(by_memory: ByMemory, memory: int, card: str) -> int:
    """The default of a card with so many bytes."""
    first = by_memory.tiers[0][1]
    if any(word in card for word in by_memory.small_too):
        return first
    return max(tier for tier in by_memory.tiers if tier[0] <= memory)[1]


def _by_memory(figure: Figure[ByMemory] | None, gpu: Gpu) -> Figure[int] | None:
    if figure is None or gpu.reported_memory is None:
        return None
    value = value_for(figure.value, gpu.reported_memory.bytes.value, gpu.name)
    return Figure(value, figure.source, figure.confidence)
