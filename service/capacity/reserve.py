"""Step 4 by an engine's rule: what one GPU keeps back beside weights and cache, and how sure that is."""

from collections.abc import Iterable

import msgspec

from service.capacity.bursts import Burst, bursts_of, largest_of, step_of, step_tokens, unknown_reserve
from service.capacity.cache import GatedDeltaNet
from service.capacity.figures import Certainty
from service.capacity.gpu import is_one_of
from service.capacity.placement import Stage
from service.capacity.question import Levers, Question
from service.capacity.reserve_kinds import cache_family, has_experts, shared_graphs, weight_format
from service.capacity.reserve_rules import HeldBack, Measured, Overhead, Profiled
from service.capacity.rungs import Operand
from service.capacity.units import Estimate


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one GPU, and how they come about."""

    bytes: Estimate
    formula: str
    operands: tuple[Operand, ...]
    source: str


def reserve_by_rule(question: Question, stage: Stage) -> Reserve:
    """What a rank of a stage keeps back.

    Raises `NotPlannedYet` where the rule needs a figure of the model that nobody knows, or doesn't cover such a
    deployment.
    """
    rule = question.engine.spec.reserve_rule
    match rule:
        case Profiled():
            overhead = _eager(rule, question.levers, overhead_of(rule.overheads, question))
            burst = largest_of(bursts_of(rule, question, stage))
            graphs = rule.graph_bytes is not None and not question.levers.enforce_eager
            what = "contexts, NCCL and CUDA graphs" if graphs else "contexts and NCCL"
            return _as_estimated(rule, question, _as_tuned(rule, question, _beside(overhead, burst, what)))
        case Measured():
            overhead = overhead_of(rule.overheads, question)
            step = step_of(question, rule.channel_bytes, step_tokens(question.levers.max_num_batched_tokens or 1))
            return _beside(overhead, step, "workspaces, contexts and NCCL")
        case HeldBack():
            return _before_the_model(overhead_of(rule.overheads, question))
        case None:
            raise unknown_reserve(question, "isn't known")


def overhead_of(overheads: Iterable[Overhead], question: Question) -> Overhead:
    """Find the first kind that a deployment is of.

    Raises `NotPlannedYet` where it is of none.
    """
    card, model, ranks = question.gpu.spec, question.model.spec, question.levers.tensor_parallel
    for one in overheads:
        first, last = one.tensor_parallel
        if (
            is_one_of(card, one.cards)
            and (not one.caches or cache_family(model.caches.value) in one.caches)
            and (one.experts is None or one.experts == has_experts(model))
            and (not one.weights or weight_format(model, question.levers) in one.weights)
            and first <= ranks <= last
        ):
            return one
    raise unknown_reserve(question, f"isn't known at tensor_parallel {ranks} on {card.name}")


def _eager(rule: Profiled, levers: Levers, overhead: Overhead) -> Overhead:
    """Without CUDA graphs, where they are part of it."""
    if not levers.enforce_eager or rule.graph_bytes is None:
        return overhead
    graphs = rule.graph_bytes.value
    return msgspec.structs.replace(
        overhead,
        low=max(0, overhead.low - graphs),
        best=max(0, overhead.best - graphs),
        high=max(0, overhead.high - graphs),
        source=f"{overhead.source}; less {graphs:,} B of CUDA graphs: {rule.graph_bytes.source}",
    )


def _as_tuned(rule: Profiled, question: Question, kept: Reserve) -> Reserve:
    """Less sure where kernels are tuned while memory is profiled: identical start-ups then differ."""
    spread, caches = rule.delta_net_spread, question.model.spec.caches.value
    if spread is None or not any(isinstance(cache, GatedDeltaNet) for cache in caches):
        return kept
    high = kept.bytes.best + spread.value
    return msgspec.structs.replace(
        kept,
        bytes=msgspec.structs.replace(kept.bytes, high=max(high, kept.bytes.high)),
        formula=f"{kept.formula}; up to {spread.value:,} B more: {spread.source}",
    )


def _as_estimated(rule: Profiled, question: Question, kept: Reserve) -> Reserve:
    """Less sure where the host shares the memory, and what it takes is counted as CUDA graphs."""
    most = shared_graphs(rule, question.gpu.spec, question.levers)
    if most is None or rule.graph_bytes is None:
        return kept
    more = max(0, most.value - rule.graph_bytes.value)
    return msgspec.structs.replace(
        kept,
        bytes=msgspec.structs.replace(kept.bytes, high=kept.bytes.high + more),
        formula=f"{kept.formula}; up to {more:,} B more: {most.source}",
    )


def _beside(overhead: Overhead, burst: Burst, what: str) -> Reserve:
    best = burst.bytes.best + overhead.best
    return Reserve(
        # A constant below zero says that bursts of its kind are counted too large; nothing gives memory back.
        bytes=Estimate(max(0, burst.bytes.low + overhead.low), max(0, best), max(0, burst.bytes.high + overhead.high)),
        formula=f"{burst.terms}; + {overhead.best:,} B ({overhead.low:,} to {overhead.high:,}) of {what}"
        + (", at least 0" if best < 0 else ""),
        operands=(*burst.operands, _overhead_operand(overhead)),
        source=overhead.source,
    )


def _before_the_model(overhead: Overhead) -> Reserve:
    return Reserve(
        bytes=Estimate(overhead.low, overhead.best, overhead.high),
        formula=(
            f"{overhead.best:,} B ({overhead.low:,} to {overhead.high:,}) gone before the model is loaded, for contexts"
            " and NCCL; steps and CUDA graphs use what the fraction leaves out"
        ),
        operands=(_overhead_operand(overhead),),
        source=overhead.source,
    )


def _overhead_operand(overhead: Overhead) -> Operand:
    measured = f"; measured on {overhead.logs} start-ups" if overhead.logs else ""
    certainty: Certainty = "measured" if overhead.logs else "assumed"
    return Operand("overhead_bytes", overhead.best, "B", f"{overhead.source}{measured}", certainty)
