"""Figures that no start-up of what was asked about can have printed: they would teach nothing but nonsense."""

from collections.abc import Iterator
from fractions import Fraction

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

_START_WITH_LESS = frozenset({"sglang", "tensorrt-llm"})
"""Engines that start with a cache of less than one window, and refuse or cut the requests that don't fit."""

_HALF_A_HUNDREDTH = Fraction(1, 200)
"""What a concurrency is rounded by."""

_FAR_OFF = 10
"""No cache of a model is planned so many times too large or too small."""


def impossible(question: Question, answer: Answer, observed: Observed) -> list[Fault]:
    """List each figure that can't be of this card or of these weights, with its place in the question."""
    return [
        *_of_weights(question, answer, observed),
        *_of_cache(question, observed),
        *_of_windows(question, answer, observed),
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


def _of_windows(question: Question, answer: Answer, observed: Observed) -> Iterator[Fault]:
    """Whether one window fits, as it must where vLLM got ready, and whether figures say about the same."""
    place = "/levers/max_model_len"
    rungs = {rung.name: rung for rung in answer.ladder}
    users, cache, tokens = observed.max_concurrency, observed.kv_budget, observed.printed_tokens
    of_one = _tokens_of_a_window(answer)
    if observed.outcome == "ready" and question.engine.key.partition("@")[0] not in _START_WITH_LESS:
        said = None
        if users is not None:
            said = f"{users} of one does" if exact(users) + _HALF_A_HUNDREDTH < 1 else None
        elif cache is not None and 0 < cache.high < rungs["bytes_per_window"].low:
            said = f"it takes {shown_gib(rungs['bytes_per_window'].value)}, and there were {shown_gib(cache.best)}"
        elif tokens is not None and of_one is not None and tokens + question.levers.block_size < of_one:
            said = f"there were {tokens:,} tokens"
        if said is not None:
            window = f"one window of {question.levers.max_model_len:,} tokens doesn't fit"
            yield Fault(place, f"it can't have got ready where {window}: {said}")
            return
    if not tokens or of_one is None:
        return
    if users and not Fraction(1, _ANOTHER) <= tokens / exact(users) / of_one <= _ANOTHER:
        yield Fault(place, f"{tokens:,} tokens and a concurrency of {users} contradict each other")
    of_a_token = exact(rungs["bytes_per_window"].value) / of_one
    if cache is not None and not Fraction(1, _FAR_OFF) <= cache.best / (tokens * of_a_token) <= _FAR_OFF:
        yield Fault(place, f"{tokens:,} tokens and a cache of {shown_gib(cache.best)} contradict each other")


def _tokens_of_a_window(answer: Answer) -> Fraction | None:
    """How many of the tokens that are printed one window takes; null where they mean something else.

    Fewer than it is long where only a sliding window of it is kept.
    """
    tokens, users = answer.kv_cache.printed_tokens, exact(answer.kv_cache.max_concurrency)
    return Fraction(tokens) / users if len(answer.kv_cache.groups) == 1 and tokens and users else None


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
    # What a card lacks is nothing where it was printed how much it has.
    if kept.high < (-slack if observed.reported_capacity is None else 0):
        yield Fault(
            "/levers/gpu_memory_utilization",
            f"weights and KV cache are {shown_gib(-kept.best)} more than this share of the card",
        )
    if kept.low > most + slack:
        yield Fault("/gpu", f"{shown_gib(kept.best)} can't be kept back on {question.gpu.key}: {shown_gib(card.best)}")
