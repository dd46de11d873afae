"""The sentences of a comparison."""

from service.capacity.observed import ComparedFigure, Observed
from service.capacity.units import shown_gib

_NAMES = {
    "reported_capacity": "the card's memory",
    "weights": "the weights",
    "reserve": "the reserve",
    "kv_budget": "the KV cache",
    "bytes_per_window": "the cache of one window",
}


def summary_of(
    figures: tuple[ComparedFigure, ...], *, starts: bool, observed: Observed, cause: ComparedFigure | None
) -> str:
    """Say what came of the start, how far off the cache was, and which rung explains most of that."""
    by_name = {figure.name: figure for figure in figures}
    sentences = [_start(observed, starts=starts)]
    main = by_name.get("kv_budget") or by_name.get("max_concurrency")
    if main is not None:
        sentences.append(f"{_of_the_cache(main)}{_in_interval(main)}.")
    if cause is not None and cause.name != "kv_budget":
        told = "" if cause.name in by_name else ", as the concurrency tells"
        sentences.append(f"Furthest off is {_NAMES[cause.name]}: {_beside(cause)}{told}.")
    elif cause is None and figures:
        sentences.append("Every figure of memory is as predicted, as far as it was printed.")
    return " ".join(sentences)


def _start(observed: Observed, *, starts: bool) -> str:
    if observed.outcome == "unfinished":
        return "Whether it started isn't known."
    if observed.outcome == "ready":
        return "It started, as predicted." if starts else "It started, though no full window was predicted to fit."
    why = f" ({observed.failure})" if observed.failure else ""
    if observed.failure == "device_not_free":
        return f"It failed to start{why}: other processes hold memory that the plan counts on."
    return f"It failed to start{why}, {'though it was predicted to' if starts else 'as predicted'}."


def _of_the_cache(figure: ComparedFigure) -> str:
    if figure.unit == "B":
        return f"KV cache: {_beside(figure)}"
    return f"Concurrency: {figure.observed:,.2f} where {figure.predicted:,.2f} was predicted"


def _beside(figure: ComparedFigure) -> str:
    less = int(figure.difference)
    return (
        f"{shown_gib(int(figure.observed))} where {shown_gib(int(figure.predicted))} was predicted"
        f" ({'+' if less > 0 else ''}{shown_gib(less)})"
    )


def _in_interval(figure: ComparedFigure) -> str:
    if figure.low == figure.high:
        return ""
    return ", inside of the interval" if figure.within_interval else ", outside of the interval"
