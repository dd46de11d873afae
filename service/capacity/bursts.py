"""What a start-up takes for a moment: the sampler's dry run, one step through the widest layer, a tower's input."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil

import msgspec

from service.capacity.defaults import default_batched_tokens
from service.capacity.errors import Fault, NotPlannedYet
from service.capacity.figures import Figure
from service.capacity.placement import Stage
from service.capacity.question import Question
from service.capacity.reserve_kinds import has_tower, tower_of
from service.capacity.reserve_rules import Profiled, TowerBurst
from service.capacity.rungs import Operand, certainty_of, lever_operand
from service.capacity.units import Estimate, exact, surely

_USUAL_WIDENING = 4
"""Where an entry doesn't say how wide the feed-forward is: so many times the hidden state, as in many models."""


class Burst(msgspec.Struct, frozen=True):
    """What a start-up takes for a moment, in bytes, and how that comes about."""

    name: str
    bytes: Estimate
    terms: str
    operands: tuple[Operand, ...]


def unknown_reserve(question: Question, what: str) -> NotPlannedYet:
    """Build the refusal of a question whose reserve nobody knows, with what to give in its place."""
    return NotPlannedYet(
        Fault(
            "/levers/reserve_bytes",
            f"what {question.engine.key} keeps back for activations, CUDA graphs, NCCL and contexts {what}: give"
            " reserve_bytes, or kv_cache_memory_bytes as the engine prints it",
        )
    )


def bursts_of(rule: Profiled, question: Question, stage: Stage) -> Iterator[Burst]:
    """What doesn't overlap: the largest step, the sampler's dry run on the last stage, a tower's input on the first."""
    levers = question.levers
    yield step_of(question, rule.channel_bytes, _profiled_tokens(rule, question))
    chunked = 0 < rule.whole_windows_up_to < levers.max_model_len
    if stage.last and not chunked:
        yield _sampler(rule, question)
    tower = tower_of(rule, question.model.spec)
    if stage.first and not levers.language_model_only and has_tower(question.model.spec) and tower is not None:
        yield _tower(tower)


def largest_of(bursts: Iterable[Burst]) -> Burst:
    """The one that everything else has room in, with what the others would take."""
    found = sorted(bursts, key=lambda burst: -burst.bytes.best)
    first, others = found[0], found[1:]
    more = ", ".join(f"the {other.bytes.best:,} B of {other.name}" for other in others)
    return Burst(
        first.name,
        Estimate(*(max(end) for end in zip(*(msgspec.structs.astuple(one.bytes) for one in found), strict=True))),
        f"{first.terms}, more than {more}" if more else first.terms,
        tuple(operand for one in found for operand in one.operands),
    )


def step_of(question: Question, width: Figure[float] | Figure[int], tokens: Operand) -> Burst:
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


def _profiled_tokens(rule: Profiled, question: Question) -> Operand:
    """Tokens of the step that a release profiles, and who says so."""
    levers, whole = question.levers, rule.whole_windows_up_to
    tokens, window = levers.max_num_batched_tokens or 1, levers.max_model_len
    if not whole or tokens >= window:
        return step_tokens(tokens)
    if window <= whole:
        said = f"the max_model_len lever: {question.engine.key} profiles whole windows of up to {whole:,} tokens"
        return Operand("step_tokens", window, "tokens", f"{said}, unless max_num_batched_tokens is more", "exact")
    default = default_batched_tokens(question.engine.spec, question.gpu.spec)
    if default is None or tokens != default.value:
        return step_tokens(tokens)
    said = f"{question.engine.key} fills windows of more than {whole:,} tokens in chunks"
    return Operand("step_tokens", rule.chunk, "tokens", f"{said}; max_num_batched_tokens says how large", "assumed")


def step_tokens(tokens: int) -> Operand:
    """The tokens of a step, as the lever says them."""
    return Operand("step_tokens", tokens, "tokens", "the max_num_batched_tokens lever", "exact")


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


def _tower(tower: TowerBurst) -> Burst:
    source = f"{tower.source}; measured on {tower.logs} start-ups"
    return Burst(
        "a tower",
        Estimate(tower.low, tower.best, tower.high),
        f"{tower.best:,} B ({tower.low:,} to {tower.high:,}) of a tower's largest input",
        (Operand("tower_bytes", tower.best, "B", source, "measured"),),
    )
