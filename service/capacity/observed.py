"""What an engine said when it started, and what comes of putting a prediction beside it: the values."""

from typing import Literal

import msgspec

from service.capacity.units import Estimate

Outcome = Literal["ready", "failed", "unfinished"]


class Observed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one start-up said of its tightest rank: amounts as the bytes that the printed digits may stand for.

    Null: it didn't say.
    """

    outcome: Outcome
    failure: str | None = None
    """Why it failed, in the words of the log reader."""
    version: str | None = None
    reported_capacity: Estimate | None = None
    weights: Estimate | None = None
    kv_budget: Estimate | None = None
    bytes_per_window: Estimate | None = None
    max_concurrency: float | None = None
    printed_tokens: int | None = None
    blocks: int | None = None


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, predicted and observed. `difference` is what was observed less what was predicted."""

    name: str
    """A rung of the ladder, or `max_concurrency`, `printed_tokens`, `blocks`."""
    unit: str
    predicted: int | float
    low: int | float
    high: int | float
    observed: int | float
    observed_low: int | float
    """What the printed digits stand for at least; `observed` itself where nothing was rounded."""
    observed_high: int | float
    difference: int | float
    within_rounding: bool
    """Whether the prediction is what was printed, as far as digits go."""
    within_interval: bool
    """Whether the interval of the prediction holds what was printed."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction beside what came of it."""

    summary: str
    predicted_to_start: bool
    """Whether one full window fits: what a start needs, whatever the question's targets are."""
    verdict_held: bool | None
    """Null where the start-up doesn't tell: it isn't finished, or other processes held the memory."""
    off_most: str | None
    """Of memory, weights, reserve and the cost of a window the one that explains most of the difference in bytes of
    the cache; null where all of them are as predicted. Where no cache was printed, the concurrency implies one."""
    off_by_bytes: int | None
    """Its difference; for `bytes_per_window` that of all windows together."""
    figures: tuple[ComparedFigure, ...]
