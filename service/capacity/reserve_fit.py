"""Learning a release's overheads from start-ups: the constants of its reserve rule, measured again."""

from collections.abc import Iterable
from fractions import Fraction
from math import floor, isqrt

import msgspec

from service.capacity.memory import memory_of
from service.capacity.placement import stages
from service.capacity.question import Question
from service.capacity.reserve import overhead_of, reserve_by_rule
from service.capacity.reserve_rules import Overhead, ReserveRule
from service.capacity.reserve_rung import shares_all
from service.capacity.units import GIB, exact

MARGIN = GIB // 2
"""How far off one start-up alone may be, in bytes; n of them by 1/sqrt(n) of it. What repeated start-ups differ by."""


class Started(msgspec.Struct, frozen=True):
    """One start-up: its question, and what its engine said of one rank, in bytes."""

    question: Question
    weights: int
    kv: int
    memory: int | None = None
    """All that the engine saw of the card; null: it didn't say, and the catalog does."""


def kept_back(started: Started) -> int:
    """What the rank must have kept back, by what it said: all that neither weights nor cache took."""
    question = started.question
    memory = memory_of(question).bytes.best if started.memory is None else started.memory
    fraction = exact(question.levers.gpu_memory_utilization)
    others = 0 if shares_all(question) else question.levers.other_process_bytes
    match question.engine.spec.fraction_of:
        case "total":
            return floor(memory * fraction) - started.weights - started.kv - others
        case "free":
            return memory - floor((started.weights + started.kv) / fraction) - others
        case "left":
            return memory - started.weights - floor(started.kv / fraction) - others


def overhead_bytes(question: Question, kept: int) -> int:
    """What isn't the burst that was profiled of what a rank kept back: the part that a rule has as a constant."""
    (stage, *_) = stages(question.model.spec, question.levers)
    rule = question.engine.spec.reserve_rule
    assumed = 0 if rule is None else overhead_of(rule.overheads, question).best
    return kept - (reserve_by_rule(question, stage).bytes.best - assumed)


def refit(rule: ReserveRule, start_ups: Iterable[Started], source: str) -> ReserveRule:
    """The rule with the overheads of every kind that one of the start-ups is of, beside those they were measured on.

    Start-ups that were counted before keep their say: middles are weighed by their number, and ranges only widen.
    """
    fit = refit_from(rule, ((started.question, kept_back(started)) for started in start_ups), source)
    pairs = zip(rule.overheads, fit.overheads, strict=True)
    return msgspec.structs.replace(
        rule, overheads=tuple(new if new is old or not old.logs else _together(old, new) for old, new in pairs)
    )


def refit_from(rule: ReserveRule, kept: Iterable[tuple[Question, int]], source: str) -> ReserveRule:
    """The rule fitted to nothing but what ranks kept back, in bytes: the middle of each kind, and a margin for chance.

    A kind that no start-up is of stays as it is.
    """
    found: dict[Overhead, list[int]] = {}
    for question, amount in kept:
        found.setdefault(overhead_of(rule.overheads, question), []).append(overhead_bytes(question, amount))
    return msgspec.structs.replace(
        rule, overheads=tuple(_measured(one, found[one], source) if one in found else one for one in rule.overheads)
    )


def _measured(overhead: Overhead, amounts: list[int], source: str) -> Overhead:
    amounts = sorted(amounts)
    count = len(amounts)
    middle = floor(Fraction(amounts[(count - 1) // 2] + amounts[count // 2], 2))
    margin = MARGIN * 1000 // isqrt(count * 1_000_000)
    return msgspec.structs.replace(
        overhead,
        low=amounts[0] - margin,
        best=middle,
        high=amounts[-1] + margin,
        logs=count,
        source=source,
    )


def _together(old: Overhead, new: Overhead) -> Overhead:
    logs = old.logs + new.logs
    return msgspec.structs.replace(
        new,
        low=min(old.low, new.low),
        best=(old.best * old.logs + new.best * new.logs) // logs,
        high=max(old.high, new.high),
        logs=logs,
        source=f"{new.source}; before that: {old.source}",
    )
