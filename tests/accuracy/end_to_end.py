"""Concurrency from model, card, flags and release alone, against what engines printed."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import median, quantiles

import msgspec

from service.capacity.answer import Answer
from service.capacity.errors import NotPlannedYet
from service.capacity.placement import stages
from service.capacity.planner import plan
from service.capacity.question import Question
from service.capacity.reserve import reserve_by_rule
from service.catalog.resolve import resolve
from service.readers.question import AskedLevers, AskedQuestion
from tests.accuracy.deployments import Cell, Deployed, Filled, deployments
from tests.accuracy.fitting import fitted
from tests.accuracy.kept import asked, catalog, filled

_GIB = 2**30
CLOSE_GIB = 0.3


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment, predicted and printed."""

    ids: tuple[str, ...]
    labels: dict[str, str]
    """What it is counted under: cache kind, engine, memory class, TP."""
    compared: str
    printed: float
    predicted: float
    low: float
    high: float
    kv_off: float
    """GiB of cache that the prediction is off by."""
    kv_width: float
    """Half of the width of the interval, in GiB of cache."""
    assumed: tuple[str, ...]
    unstated: str | None
    release_is_stated: bool
    """Whether the release was stated, and not taken for likely."""
    fitted: bool
    """Whether overheads are fitted to it."""

    @property
    def error(self) -> float:
        """Relative; a cache of which nothing is left is right where the prediction says so too."""
        if self.printed <= 0:
            return 0.0 if self.predicted <= 0 else 1.0
        return abs(self.predicted / self.printed - 1)

    @property
    def close(self) -> bool:
        return self.error <= 0.1 or abs(self.kv_off) <= CLOSE_GIB

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was printed, to the digits that were printed."""
        half = 0.005 if self.compared != "tokens" else 0.0
        return self.low - half <= self.printed <= self.high + half

    @property
    def width(self) -> float:
        """Half of the width of the interval, as a share of what was printed."""
        return (self.high - self.low) / 2 / self.printed if self.printed > 0 else 0.0


@cache
def outcomes() -> tuple[Outcome, ...]:
    """Every deployment, as the bundled catalog predicts it."""
    return tuple(outcome(one, asked(one)) for one in deployments().deployments)


def without(group: Callable[[Question], str]) -> tuple[Outcome, ...]:
    """Every deployment, predicted by what was fitted without any start-up of its own group."""
    return tuple(outcome(one, _fitted_without(asked(one), group)) for one in deployments().deployments)


def _fitted_without(question: Question, group: Callable[[Question], str]) -> Question:
    """The question with its engine fitted to all start-ups but those of the question's own group."""
    own = group(question)
    spec = fitted(question.engine, lambda other: group(other) == own, "fitted without this group")
    return msgspec.structs.replace(question, engine=msgspec.structs.replace(question.engine, spec=spec))


def outcome(one: Deployed, question: Question) -> Outcome:
    """Predict one deployment and put it beside what was printed."""
    answer = plan(question)
    kv, window = answer.ladder[4], question.levers.max_model_len
    interval = answer.interval
    assert interval is not None
    if one.printed.concurrency is not None:
        name, printed = "concurrency", float(one.printed.concurrency)
        low, predicted, high = (end / window for end in msgspec.structs.astuple(interval.tokens))
    elif one.printed.kv_gib is not None:
        name, printed = "KV GiB", float(one.printed.kv_gib)
        low, predicted, high = kv.low / _GIB, kv.value / _GIB, kv.high / _GIB
    else:
        # Only of models with one group, where the line is blocks times their tokens in every release.
        assert answer.kv_cache.printed_tokens is not None
        assert len(answer.kv_cache.groups) == 1
        name, printed, predicted = "tokens", float(one.printed.tokens or 0), float(answer.kv_cache.printed_tokens)
        low, high = predicted * kv.low / kv.value, predicted * kv.high / kv.value
    kv_off = kv.value / _GIB * (1 - printed / predicted) if predicted > 0 else kv.value / _GIB - printed
    return Outcome(
        ids=one.ids,
        labels=labels_of(question, answer),
        compared=name,
        printed=printed,
        predicted=predicted,
        low=low,
        high=high,
        kv_off=kv_off,
        kv_width=(kv.high - kv.low) / 2 / _GIB,
        assumed=tuple(sorted(entry.name for entry in answer.assumed)),
        unstated=one.unstated,
        release_is_stated=one.planned_because is None,
        fitted=one.fitted,
    )


def labels_of(question: Question, answer: Answer) -> dict[str, str]:
    kinds = sorted({kind for group in answer.kv_cache.groups for kind in group.kinds})
    memory = question.gpu.spec.visible_memory
    assert memory is not None
    size = memory.bytes.value / _GIB
    classes = ((16, "up to 16 GiB"), (25, "up to 25 GiB"), (49, "up to 49 GiB"), (100, "up to 100 GiB"))
    return {
        "cache kind": " + ".join(kinds),
        "engine": question.engine.key,
        "memory class": next((name for most, name in classes if size <= most), "more than 100 GiB"),
        "TP": f"TP {question.levers.tensor_parallel}",
    }


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How close a set of predictions comes."""

    count: int
    median: float
    ninetieth: float
    worst: float
    within: dict[float, float]
    """Shares within 1, 5, 10 and 20 %."""
    close: float
    """The share within 10 %, or within 0.3 GiB of cache."""
    covered: float
    width: float
    kv_width: float


def shares(among: Iterable[Outcome]) -> Shares:
    found = list(among)
    errors = sorted(one.error for one in found)
    return Shares(
        count=len(found),
        median=median(errors),
        ninetieth=quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0],
        worst=errors[-1],
        within={most: sum(error <= most for error in errors) / len(errors) for most in (0.01, 0.05, 0.1, 0.2)},
        close=sum(one.close for one in found) / len(found),
        covered=sum(one.covered for one in found) / len(found),
        width=median(one.width for one in found),
        kv_width=median(one.kv_width for one in found),
    )


def cell_question(cell: Cell) -> Question:
    """What a caller would ask of a cell."""
    levers = AskedLevers(tensor_parallel=cell.tensor_parallel, max_model_len=8192, max_num_batched_tokens=8192)
    asked_for = AskedQuestion(model=cell.model, gpu=cell.gpu, engine=cell.engine, levers=levers)
    return resolve(asked_for, catalog())


def cell_error(cell: Cell, group: Callable[[Question], str] | None = None) -> float | None:
    """GiB that the rule is away from a cell, or from the nearer end of one that is a range.

    With a group: the rule as fitted without any start-up of the cell's own; null where no rule is left for it.
    """
    question = cell_question(cell)
    if group is not None:
        question = _fitted_without(question, group)
    try:
        reserve = reserve_by_rule(question, stages(question.model.spec, question.levers)[0])
    except NotPlannedYet:
        return None
    kept = reserve.bytes.best / _GIB
    return max(float(cell.low_gib) - kept, kept - float(cell.high_gib), 0.0)


def filled_error(one: Filled) -> float:
    """How far the users that TensorRT-LLM is predicted to hold are from those measured."""
    return abs(plan(filled(one)).users.worst_case / one.users - 1)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A start that failed, and what is planned of it."""

    ids: tuple[str, ...]
    fits: bool
    said: str
    unstated: str | None


def failures() -> tuple[Failure, ...]:
    """Every start-up that an engine refused."""
    found = []
    for one in deployments().deployments:
        if not one.failed:
            continue
        answer = plan(asked(one))
        found.append(Failure(ids=one.ids, fits=answer.fits, said=answer.summary, unstated=one.unstated))
    return tuple(found)


def refused() -> tuple[Failure, ...]:
    """Every start-up that succeeded and isn't planned to fit even where all goes well."""
    found = []
    for one in deployments().deployments:
        answer = plan(asked(one))
        if not one.failed and answer.verdict == "does_not_fit":
            found.append(Failure(ids=one.ids, fits=answer.fits, said=answer.summary, unstated=one.unstated))
    return tuple(found)
