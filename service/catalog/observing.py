"""A start-up beside the plan that it is of, in the bytes that are hashed, stored and sent."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import msgspec

from service.capacity.answer import Answer
from service.capacity.cache import CacheFamily
from service.capacity.canonical import plan_id
from service.capacity.observation import compare, observed_reserve
from service.capacity.observed import ComparedFigure, Comparison, Observed, Outcome
from service.capacity.observed_reserve import conditions_of
from service.capacity.question import Question
from service.capacity.reserve_fit import Started, kept_back
from service.capacity.reserve_kinds import cache_family
from service.catalog.contradictions import contradictions, not_stated
from service.catalog.entries import Catalog, canonical, digest_of
from service.catalog.impossible import impossible
from service.catalog.offering import planned_weights
from service.catalog.planning import Planned
from service.catalog.stored_question import from_another_release, question_of
from service.errors import Fault, Refused, UnknownKey
from service.readers.observation import Fact, Reading


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine printed when it started, beside what was predicted. Keys are always present."""

    observation: str
    observation_url: str
    plan: str
    plan_url: str
    recorded_at: datetime
    model: str
    gpu: str
    engine: str
    family: CacheFamily
    """The family of caches that the model's kernels are of."""
    tensor_parallel: int
    outcome: Outcome
    comparison: Comparison
    facts: tuple[Fact, ...]
    """What was found in the log and where, or given as fields. The log's other lines aren't kept."""
    not_stated: tuple[str, ...]
    """Parts of the question that the start-up neither confirms nor contradicts, because it doesn't state them."""
    notes: tuple[str, ...]
    log_digest: str | None
    """SHA-256 of the log; null where fields were given."""


class ObservationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One observation as a line of a table: residuals are what was observed less what was predicted."""

    observation: str
    recorded_at: datetime
    plan: str
    model: str
    gpu: str
    engine: str
    version: str | None
    family: CacheFamily
    tensor_parallel: int
    outcome: Outcome
    predicted_to_start: bool
    kv_budget_bytes: int | None
    kv_budget_difference: int | None
    kv_budget_in_interval: bool | None
    max_concurrency: float | None
    max_concurrency_difference: float | None
    weights_difference: int | None
    reserve_bytes: int | None
    reserve_difference: int | None
    off_most: str | None
    off_by_bytes: int | None
    summary: str


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What makes an observation that one and no other: the same start-up told again is the same."""

    plan: str
    observed: Observed
    stated: tuple[tuple[str, str], ...] = ()
    """Every fact without its line and rank: figures may be alike where another model, or another flag, was stated."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """An observation, and what the store keeps beside it."""

    observation: Observation
    content: bytes
    row: ObservationRow
    model_digest: str
    observed_digest: str
    """Of the start-up without its plan."""
    reserve: int | None
    """What the rank kept back beside the planned weights, where the start-up said enough."""
    weights: int
    """What is planned for those."""
    conditions: str


def content_of(stored: bytes) -> Content:
    """Read the content of a stored observation."""
    return msgspec.json.decode(stored, type=Content)


def noted(plan: str, question: Question, answer: Answer, *, reading: Reading, catalog: Catalog, at: datetime) -> Noted:
    """Put a start-up beside the plan that it is of.

    Raises `Refused` with every fact that contradicts the question, or that can't be.
    """
    if faults := [*contradictions(question, reading, catalog), *impossible(question, answer, reading.observed)]:
        raise Refused(*faults)
    stated = tuple(sorted({(fact.name, fact.value) for fact in reading.facts}))
    content = canonical(Content(plan=plan, observed=reading.observed, stated=stated))
    identity = f"obs_{digest_of(content)}"
    observation = Observation(
        observation=identity,
        observation_url=f"/v1/observations/{identity}",
        plan=plan,
        plan_url=f"/v1/plans/{plan}",
        recorded_at=at,
        model=question.model.key,
        gpu=question.gpu.key,
        engine=question.engine.key,
        family=cache_family(question.model.spec.caches.value),
        tensor_parallel=question.levers.tensor_parallel,
        outcome=reading.observed.outcome,
        comparison=compare(question, answer, reading.observed),
        facts=reading.facts,
        not_stated=not_stated(question, reading),
        notes=reading.notes,
        log_digest=reading.log_digest,
    )
    return Noted(
        observation=observation,
        content=content,
        row=_row_of(observation, reading.observed),
        model_digest=question.model.digest,
        observed_digest=digest_of(canonical(reading.observed)),
        reserve=_reserve_of(question, answer, reading.observed),
        weights=planned_weights(answer),
        conditions=conditions_of(question, reading.observed.version),
    )


def _reserve_of(question: Question, answer: Answer, observed: Observed) -> int | None:
    """What is left beside the weights and the memory as they are planned, so that the cache comes out as it was seen.

    With weights as they were observed, what is wrong with the planned ones would be taken from the cache.
    """
    kept = observed_reserve(question, observed)
    # Less than nothing is no reserve: the figures are of different ranks or cards.
    if kept is None or kept.best < 0 or observed.kv_budget is None:
        return None
    return kept_back(Started(question, weights=planned_weights(answer), kv=observed.kv_budget.best))


def noted_of_planned(planned: Planned, answer: bytes, *, reading: Reading, catalog: Catalog, at: datetime) -> Noted:
    """Put a start-up beside a plan that is recorded together with it, and the answer that is stored of that."""
    said = _answer(answer, planned.id)
    return noted(planned.id, planned.question, said, reading=reading, catalog=catalog, at=at)


def noted_of_stored(question: bytes, answer: bytes, reading: Reading, catalog: Catalog, at: datetime) -> Noted:
    """Put a start-up beside a stored plan."""
    identity = plan_id(question)
    with placed("/plan", deep=False):
        said = _answer(answer, identity)
        return noted(identity, question_of(question, catalog), said, reading=reading, catalog=catalog, at=at)


def _answer(stored: bytes, plan: str) -> Answer:
    try:
        return msgspec.json.decode(stored, type=Answer)
    except msgspec.ValidationError as error:
        raise from_another_release(plan) from error


@contextmanager
def placed(pointer: str, *, deep: bool = True) -> Iterator[None]:
    """Say of faults where the caller's document holds what they are about; not `deep`: all of them there."""
    try:
        yield
    except UnknownKey as unknown:
        faults = [_moved(fault, pointer, deep=deep) for fault in unknown.faults]
        raise UnknownKey(unknown.kind, unknown.key, unknown.nearest, *faults) from unknown
    except Refused as refused:
        raise type(refused)(*(_moved(fault, pointer, deep=deep) for fault in refused.faults)) from refused


def _moved(fault: Fault, pointer: str, *, deep: bool) -> Fault:
    if deep:
        return Fault(pointer + fault.pointer, fault.detail)
    place = fault.pointer.rpartition("/")[2]
    return Fault(pointer, f"{place}: {fault.detail}" if place else fault.detail)


def _row_of(observation: Observation, observed: Observed) -> ObservationRow:
    comparison = observation.comparison
    figures = {figure.name: figure for figure in comparison.figures}
    kv, reserve, concurrency = (figures.get(name) for name in ("kv_budget", "reserve", "max_concurrency"))
    return ObservationRow(
        observation=observation.observation,
        recorded_at=observation.recorded_at,
        plan=observation.plan,
        model=observation.model,
        gpu=observation.gpu,
        engine=observation.engine,
        version=observed.version,
        family=observation.family,
        tensor_parallel=observation.tensor_parallel,
        outcome=observation.outcome,
        predicted_to_start=comparison.predicted_to_start,
        kv_budget_bytes=None if kv is None else int(kv.observed),
        kv_budget_difference=_difference(figures, "kv_budget"),
        kv_budget_in_interval=None if kv is None else kv.within_interval,
        max_concurrency=observed.max_concurrency,
        max_concurrency_difference=None if concurrency is None else concurrency.difference,
        weights_difference=_difference(figures, "weights"),
        reserve_bytes=None if reserve is None else int(reserve.observed),
        reserve_difference=_difference(figures, "reserve"),
        off_most=comparison.off_most,
        off_by_bytes=comparison.off_by_bytes,
        summary=comparison.summary,
    )


def _difference(figures: Mapping[str, ComparedFigure], name: str) -> int | None:
    return int(figures[name].difference) if name in figures else None
