"""What an engine said when it started, beside what was predicted of it: which figure was off, and by how much."""

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from service.capacity.answer import Answer
from service.capacity.memory import memory_of
from service.capacity.observed import ComparedFigure, Comparison, Observed
from service.capacity.observed_words import summary_of
from service.capacity.planner import plan
from service.capacity.question import Question
from service.capacity.reserve_fit import Started, kept_back
from service.capacity.rungs import Rung
from service.capacity.units import Estimate, exact, six_digits, surely

_PRINTED_TO = Fraction(1, 200)
"""Engines round the concurrency to hundredths."""


def compare(question: Question, answer: Answer, observed: Observed) -> Comparison:
    """Compare what can be compared."""
    figures = tuple(_figures(question, answer, observed))
    starts = _would_start(question, answer)
    held = None
    if observed.outcome != "unfinished" and observed.failure != "device_not_free":
        held = starts == (observed.outcome == "ready")
    implied = _with_implied_cache(answer, observed)
    told = figures if implied is observed else tuple(_figures(question, answer, implied))
    cause, amount = _most_off(told, answer)
    return Comparison(
        summary=summary_of(figures, starts=starts, observed=observed, cause=cause),
        predicted_to_start=starts,
        verdict_held=held,
        off_most=None if cause is None else cause.name,
        off_by_bytes=amount,
        figures=figures,
    )


def observed_reserve(question: Question, observed: Observed) -> Estimate | None:
    """What the tightest rank must have kept back; null where the start-up didn't say enough.

    A cache whose size was set by hand leaves open how much of the rest was used.
    """
    weights, kv = observed.weights, observed.kv_budget
    if weights is None or kv is None or question.levers.kv_cache_memory_bytes is not None:
        return None
    memory = observed.reported_capacity or memory_of(question).bytes

    def left(of: int, taken: int, cached: int) -> int:
        return kept_back(Started(question, weights=taken, kv=cached, memory=of))

    return Estimate(
        left(memory.low, weights.high, kv.high),
        left(memory.best, weights.best, kv.best),
        left(memory.high, weights.low, kv.low),
    )


def _figures(question: Question, answer: Answer, observed: Observed) -> Iterator[ComparedFigure]:
    rungs = {rung.name: rung for rung in answer.ladder}
    for name, seen in (
        ("reported_capacity", observed.reported_capacity),
        ("weights", observed.weights),
        ("reserve", observed_reserve(question, observed)),
        ("kv_budget", observed.kv_budget),
        ("bytes_per_window", observed_window(answer, observed)),
    ):
        if seen is not None:
            yield _in_bytes(rungs[name], seen)
    if observed.max_concurrency is not None:
        yield _concurrency(question, answer, observed.max_concurrency)
    # What the token line means changed between releases; for layers of one group all meanings are one.
    if len(answer.kv_cache.groups) == 1:
        for name, predicted, count in (
            ("printed_tokens", answer.kv_cache.printed_tokens, observed.printed_tokens),
            ("blocks", answer.kv_cache.blocks, observed.blocks),
        ):
            if predicted is not None and count is not None:
                yield _counted(name, answer, predicted, count)


def observed_window(answer: Answer, observed: Observed) -> Estimate | None:
    """What one full window takes: as a refusal said, or cache over concurrency, but for the rest of a block."""
    kv, users = observed.kv_budget, observed.max_concurrency
    if observed.bytes_per_window is not None or kv is None or users is None:
        return observed.bytes_per_window
    share = exact(users)
    if share <= _PRINTED_TO:
        return None
    return Estimate(
        int((kv.low - answer.kv_cache.block_bytes) / (share + _PRINTED_TO)),
        int(kv.best / share),
        int(kv.high / (share - _PRINTED_TO)) + 1,
    )


def _with_implied_cache(answer: Answer, observed: Observed) -> Observed:
    """Where no cache was printed, the one that the concurrency comes to with windows as large as predicted.

    Without it a rung that is printed and hardly off would be named where the cache is far off.
    """
    if observed.kv_budget is not None or observed.max_concurrency is None:
        return observed
    users, window = (
        exact(observed.max_concurrency),
        next(r.value for r in answer.ladder if r.name == "bytes_per_window"),
    )
    cache = Estimate(
        int((users - _PRINTED_TO) * window),
        int(users * window),
        int((users + _PRINTED_TO) * window) + answer.kv_cache.block_bytes,
    )
    return msgspec.structs.replace(observed, kv_budget=cache)


def _in_bytes(rung: Rung, seen: Estimate) -> ComparedFigure:
    return _compared(rung.name, "B", Estimate(rung.low, rung.value, rung.high), seen)


def _counted(name: str, answer: Answer, predicted: int, count: int) -> ComparedFigure:
    between = surely(predicted)
    if answer.interval is not None and answer.interval.tokens.best > 0:
        tokens = answer.interval.tokens
        between = Estimate(predicted * tokens.low // tokens.best, predicted, predicted * tokens.high // tokens.best)
    return _compared(name, "tokens" if name == "printed_tokens" else "blocks", between, surely(count))


def _compared(name: str, unit: str, predicted: Estimate, seen: Estimate) -> ComparedFigure:
    return ComparedFigure(
        name=name,
        unit=unit,
        predicted=predicted.best,
        low=predicted.low,
        high=predicted.high,
        observed=seen.best,
        observed_low=seen.low,
        observed_high=seen.high,
        difference=seen.best - predicted.best,
        within_rounding=seen.low <= predicted.best <= seen.high,
        within_interval=predicted.low <= seen.high and seen.low <= predicted.high,
    )


def _concurrency(question: Question, answer: Answer, users: float) -> ComparedFigure:
    predicted = exact(answer.kv_cache.max_concurrency)
    low = high = predicted
    if answer.interval is not None:
        tokens, window = answer.interval.tokens, question.levers.max_model_len
        low, high = min(low, Fraction(tokens.low, window)), max(high, Fraction(tokens.high, window))
    seen = exact(users)
    return ComparedFigure(
        name="max_concurrency",
        unit="users",
        predicted=answer.kv_cache.max_concurrency,
        low=six_digits(low),
        high=six_digits(high),
        observed=users,
        observed_low=six_digits(seen - _PRINTED_TO),
        observed_high=six_digits(seen + _PRINTED_TO),
        difference=six_digits(seen - predicted),
        within_rounding=abs(seen - predicted) <= _PRINTED_TO,
        within_interval=low - _PRINTED_TO <= seen <= high + _PRINTED_TO,
    )


def _most_off(figures: tuple[ComparedFigure, ...], answer: Answer) -> tuple[ComparedFigure | None, int | None]:
    """The rung that explains most, in bytes of the cache; the cache itself only where nothing above it is known."""
    users = exact(answer.kv_cache.max_concurrency)
    off = [
        (figure, int(figure.difference * (users if figure.name == "bytes_per_window" else 1)))
        for figure in figures
        if figure.unit == "B" and not figure.within_rounding
    ]
    causes = [one for one in off if one[0].name != "kv_budget"] or off
    if not causes:
        return None, None
    return max(causes, key=lambda cause: abs(cause[1]))


def _would_start(question: Question, answer: Answer) -> bool:
    """Whether one window fits: targets ask for more than a start needs."""
    return answer.fits or (question.targets is not None and plan(msgspec.structs.replace(question, targets=None)).fits)
