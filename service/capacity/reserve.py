"""Step 4 by an engine's rule: what one GPU keeps back beside weights and cache, and how sure that is."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil

import msgspec

from service.capacity.cache import GatedDeltaNet
from service.capacity.defaults import default_batched_tokens
from service.capacity.errors import Fault, NotPlannedYet
from service.capacity.figures import Certainty, Figure
from service.capacity.gpu import is_one_of
from service.capacity.placement import Stage
from service.capacity.question import Levers, Question
from service.capacity.reserve_kinds import cache_family, has_experts, has_tower, tower_of, weight_format
from service.capacity.reserve_rules import HeldBack, Measured, Overhead, Profiled, TowerBurst
from service.capacity.rungs import Operand, certainty_of, lever_operand
from service.capacity.units import Estimate, exact, surely

_USUAL_WIDENING = 4
"""Where an entry doesn't say how wide the feed-forward is: so many times the hidden state, as in many models."""


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one GPU, and how they come about."""

    bytes: Estimate
    formula: str
    operands: tuple[Operand, ...]
    source: str


class Burst(msgspec.Struct, frozen=True):
    """What a start-up takes for a moment, in bytes, and how that comes about."""

    name: str
    bytes: Estimate
    terms: str
    operands: tuple[Operand, ...]


def reserve_by_rule(question: Question, stage: Stage) -> Reserve:
    """What a rank of a stage keeps back.

    Raises `NotPlannedYet` where the rule needs a figure of the model that nobody knows, or doesn't cover such a
    deployment.
    """
    rule = question.engine.spec.reserve_rule
    match rule:
        case Profiled():
            overhead = _eager(rule, question.levers, overhead_of(rule.overheads, question))
            burst = _largest(_bursts(rule, question, stage))
            graphs = rule.graph_bytes is not None and not question.levers.enforce_eager
            what = "contexts, NCCL and CUDA graphs" if graphs else "contexts and NCCL"
            return _as_tuned(rule, question, _beside(overhead, burst, what))
        case Measured():
            overhead = overhead_of(rule.overheads, question)
            step = _step(question, rule.channel_bytes, _step_tokens(question.levers.max_num_batched_tokens or 1))
            return _beside(overhead, step, "workspaces, contexts and NCCL")
        case HeldBack():
            return _before_the_model(overhead_of(rule.overheads, question))
        case None:
            raise unknown_reserve(question, "isn't known")


def unknown_reserve(question: Question, what: str) -> NotPlannedYet:
    """Build the refusal of a question whose reserve nobody knows, with what to give in its place."""
    return NotPlannedYet(
        Fault(
            "/levers/reserve_bytes",
            f"what {question.engine.key} keeps back for activations, CUDA graphs, NCCL and contexts {what}: give"
            " reserve_bytes, or kv_cache_memory_bytes as the engine prints it",
        )
    )


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


def _bursts(rule: Profiled, question: Question, stage: Stage) -> Iterator[Burst]:
    """What doesn't overlap: the largest step, the sampler's dry run on the last stage, a tower's input on the first."""
    levers = question.levers
    yield _step(question, rule.channel_bytes, _profiled_tokens(rule, question))
    chunked = 0 < rule.whole_windows_up_to < levers.max_model_len
    if stage.last and not chunked:
        yield _sampler(rule, question)
    tower = tower_of(rule, question.model.spec)
    if stage.first and not levers.language_model_only and has_tower(question.model.spec) and tower is not None:
        yield _tower(tower)


def _profiled_tokens(rule: Profiled, question: Question) -> Operand:
    """Tokens of the step that a release profiles, and who says so."""
    levers, whole = question.levers, rule.whole_windows_up_to
    tokens, window = levers.max_num_batched_tokens or 1, levers.max_model_len
    if not whole or tokens >= window:
        return _step_tokens(tokens)
    if window <= whole:
        said = f"the max_model_len lever: {question.engine.key} profiles whole windows of up to {whole:,} tokens"
        return Operand("step_tokens", window, "tokens", f"{said}, unless max_num_batched_tokens is more", "exact")
    default = default_batched_tokens(question.engine.spec, question.gpu.spec)
    if default is None or tokens != default.value:
        return _step_tokens(tokens)
    said = f"{question.engine.key} fills windows of more than {whole:,} tokens in chunks"
    return Operand("step_tokens", rule.chunk, "tokens", f"{said}; max_num_batched_tokens says how large", "assumed")


def _step_tokens(tokens: int) -> Operand:
    return Operand("step_tokens", tokens, "tokens", "the max_num_batched_tokens lever", "exact")


def _largest(bursts: Iterable[Burst]) -> Burst:
    found = sorted(bursts, key=lambda burst: -burst.bytes.best)
    first, others = found[0], found[1:]
    more = ", ".join(f"the {other.bytes.best:,} B of {other.name}" for other in others)
    return Burst(
        first.name,
        Estimate(*(max(end) for end in zip(*(msgspec.structs.astuple(one.bytes) for one in found), strict=True))),
        f"{first.terms}, more than {more}" if more else first.terms,
        tuple(operand for one in found for operand in one.operands),
    )


def _tower(tower: TowerBurst) -> Burst:
    source = f"{tower.source}; measured on {tower.logs} start-ups"
    return Burst(
        "a tower",
        Estimate(tower.low, tower.best, tower.high),
        f"{tower.best:,} B ({tower.low:,} to {tower.high:,}) of a tower's largest input",
        (Operand("tower_bytes", tower.best, "B", source, "measured"),),
    )


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


def _sampler(rule: Profiled, question: Question) -> Burst:
    """Logits and what sorting or sampling them takes, for as many sequences as may run at once."""
    model, sequences, usual = question.model, question.levers.max_num_seqs or 1, rule.sampler_bytes
    if model.spec.vocab_size is None:
        raise unknown_reserve(question, f"isn't known, because the vocabulary of {model.key} isn't")
    vocabulary = model.spec.vocab_size
    fused = usual if rule.fused_sampler_bytes is None else rule.fused_sampler_bytes
    least, amount = (ceil(exact(width.value) * sequences * vocabulary.value) for width in (fused, usual))
    otherwise = "" if fused is usual else f" ({least:,} B where a fused sampler is installed)"
    return Burst(
        "the sampler",
        Estimate(least, amount, amount),
        f"{usual.value:g} B x {sequences:,} sequences x {vocabulary.value:,} entries of the vocabulary = {amount:,} B"
        f"{otherwise}",
        (
            Operand("sampler_bytes", usual.value, "B", usual.source, "assumed"),
            lever_operand("max_num_seqs", sequences, "sequences"),
            Operand("vocab_size", vocabulary.value, "entries", vocabulary.source, certainty_of(vocabulary.confidence)),
        ),
    )


def _step(question: Question, width: Figure[float] | Figure[int], tokens: Operand) -> Burst:
    """One step through the widest layer: the hidden state whole, the feed-forward of one rank."""
    model, ranks = question.model.spec, question.levers.tensor_parallel
    hidden, inner = model.hidden_size, model.feed_forward_width
    if hidden is None:
        raise unknown_reserve(question, f"isn't known, because the hidden size of {question.model.key} isn't")
    if inner is None:
        usual = f"{_USUAL_WIDENING} times the hidden size: the width of {question.model.key} isn't known"
        inner = Figure(_USUAL_WIDENING * hidden.value, usual, "low")
    channels = hidden.value + Fraction(inner.value, ranks)
    amount = ceil(exact(width.value) * exact(tokens.value) * channels)
    over = f" / {ranks} ranks" if ranks > 1 else ""
    return Burst(
        "a step",
        surely(amount),
        f"{width.value:g} B x {tokens.value:,} tokens of a step x ({hidden.value:,} + {inner.value:,}{over}) channels"
        f" = {amount:,} B",
        (
            Operand("channel_bytes", width.value, "B", width.source, "assumed"),
            tokens,
            Operand("hidden_size", hidden.value, "channels", hidden.source, certainty_of(hidden.confidence)),
            Operand("feed_forward_width", inner.value, "channels", inner.source, certainty_of(inner.confidence)),
        ),
    )


def _beside(overhead: Overhead, burst: Burst, what: str) -> Reserve:
    return Reserve(
        bytes=Estimate(
            burst.bytes.low + overhead.low, burst.bytes.best + overhead.best, burst.bytes.high + overhead.high
        ),
        formula=f"{burst.terms}; + {overhead.best:,} B ({overhead.low:,} to {overhead.high:,}) of {what}",
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
