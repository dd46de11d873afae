"""Figures that no start-up of what was asked about can have printed: they would teach nothing but nonsense."""

from collections.abc import Iterator

from service.capacity.answer import Answer
from service.capacity.memory import memory_of
from service.capacity.observation import observed_reserve, observed_window
from service.capacity.observed import Observed
from service.capacity.question import Question
from service.capacity.units import Estimate, exact, shown_gib
from service.errors import Fault

_OFF = 100
"""Cards of one name differ by up to a hundredth, and so much of their memory may seem to be missing."""

_ANOTHER = 2
"""Weights of more than twice what is planned, or of less than half, are another checkpoint's."""

_FAR_OFF = 10
"""No cache of a model is planned so many times too large or too small."""


def impossible(question: Question, answer: Answer, observed: Observed) -> list[Fault]:
    """List each figure that can't be of this card or of these weights, with its place in the question."""
    return [
        *_of_weights(question, answer, observed),
        *_of_cache(question, observed),
        *_of_counts(question, answer, observed),
        *_of_memory(question, observed),
    ]


def _of_weights(question: Question, answer: Answer, observed: Observed) -> Iterator[Fault]:
    seen = observed.weights
    if seen is None or question.model.spec.weights is None:
        return
    planned = {rung.name: rung for rung in answer.ladder}["weights"]
    if seen.low > _ANOTHER * planned.high or _ANOTHER * seen.high < planned.low:
        yield Fault(
            "/model",
            f"the weights took {shown_gib(seen.best)}, and {shown_gib(planned.value)} are planned: another checkpoint,"
            " or other ranks",
        )


def _of_cache(question: Question, observed: Observed) -> Iterator[Fault]:
    if observed.outcome == "ready" and observed.kv_budget is not None and observed.kv_budget.high <= 0:
        yield Fault("", "it can't have started without any KV cache")
    card = memory_of(question).bytes.high
    if observed.kv_budget is not None and observed.kv_budget.high < -(card + card // _OFF):
        lacks = shown_gib(-observed.kv_budget.best)
        yield Fault("/gpu", f"{lacks} can't lack for a KV cache on {question.gpu.key}: {shown_gib(card)}")


def _of_counts(question: Question, answer: Answer, observed: Observed) -> Iterator[Fault]:
    """What one request takes, and what as many of them, or as many tokens or blocks, would take of the card."""
    planned = {rung.name: rung for rung in answer.ladder}["bytes_per_window"]
    window, cache = observed_window(answer, observed), answer.kv_cache
    if window is not None and (window.low > _FAR_OFF * planned.high or _FAR_OFF * window.high < planned.low):
        detail = f"one window took {shown_gib(window.best)}, and {shown_gib(planned.value)} are planned"
        yield Fault("/model", f"{detail}: another model's, or another window")
        return
    counts = [("requests", observed.max_concurrency or 0, exact(planned.low))]
    if len(cache.groups) == 1:
        per_token = exact(planned.low) / question.levers.max_model_len
        counts.append(("tokens", observed.printed_tokens or 0, per_token))
        counts.append(("blocks", observed.blocks or 0, exact(cache.block_bytes)))
    card = memory_of(question).bytes.high
    for name, count, size in counts:
        if exact(count) * size > _FAR_OFF * card:
            yield Fault("/gpu", f"{count:,} {name} can't fit on {question.gpu.key}: {shown_gib(card)}")


def _of_memory(question: Question, observed: Observed) -> Iterator[Fault]:
    """What weights and cache come to has to be on the card, and in the share of it that the engine may use."""
    card = memory_of(question).bytes
    most = max(card.high, observed.reported_capacity.high if observed.reported_capacity else 0)
    slack = most // _OFF
    nothing = Estimate(0, 0, 0)
    weights, cache = observed.weights or nothing, observed.kv_budget or nothing
    if weights.low + cache.low > most + slack:
        yield Fault(
            "/gpu",
            f"weights and KV cache of {shown_gib(weights.best + cache.best)} are more than {question.gpu.key} has,"
            f" {shown_gib(card.best)}",
        )
        return
    kept = observed_reserve(question, observed)
    if kept is None:
        return
    if kept.high < -slack:
        yield Fault(
            "/levers/gpu_memory_utilization",
            f"weights and KV cache are {shown_gib(-kept.best)} more than this share of the card",
        )
    if kept.low > most + slack:
        yield Fault("/gpu", f"{shown_gib(kept.best)} can't be kept back on {question.gpu.key}: {shown_gib(card.best)}")
