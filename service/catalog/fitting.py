"""An engine's overheads learned from stored observations: a proposal, row by row."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from service.capacity.engine import Engine
from service.capacity.observed_reserve import conditions_of
from service.capacity.question import Pinned
from service.capacity.reserve import overhead_of
from service.capacity.reserve_fit import MARGIN, Started, kept_back, overhead_bytes, refit
from service.capacity.reserve_rules import Overhead, ReserveRule
from service.catalog.engine_integrity import LEAST_OVERHEAD, MOST_OVERHEAD, engine_faults
from service.catalog.entries import Catalog, canonical
from service.catalog.observing import content_of
from service.catalog.stored_question import question_of
from service.errors import Fault, NotPlannedYet, Refused

SOURCE = "start-ups that this Headcount was told of"


class StartUp(NamedTuple):
    """A stored observation: what was observed, and the question that it is of."""

    observation: str
    content: bytes
    question: bytes


class Row(NamedTuple):
    """One kind of deployment, before and after."""

    old: Overhead
    new: Overhead


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """An engine with new overheads."""

    key: str
    digest: str
    """Of the version that it is made from."""
    spec: Engine
    rows: tuple[Row, ...]
    """Only those that a start-up was of."""
    observations: tuple[str, ...]
    """Those that count."""
    passed_over: int
    """Those that don't say what was kept back, or of which rank."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What came of fitting one engine."""

    key: str
    proposal: Proposal | None
    """Null where the engine has no rule with rows of its own, or no start-up counts."""
    impossible: tuple[str, ...] = ()
    """Observations that don't count because no engine can have kept back so much, or so little."""
    faults: tuple[Fault, ...] = ()
    """Why nothing is proposed, where the result isn't sound as a catalog entry."""


def fit(key: str, start_ups: Iterable[StartUp], catalog: Catalog) -> Fit:
    """Refit an engine of the catalog. What is wrong with one is said, so that others can be fitted beside it."""
    try:
        return _fit(catalog.engines.pinned(key, None), start_ups, catalog)
    except Refused as refused:
        return Fit(key=key, proposal=None, faults=tuple(refused.faults))


def _fit(engine: Pinned[Engine], start_ups: Iterable[StartUp], catalog: Catalog) -> Fit:
    rule = engine.spec.reserve_rule
    if rule is None:
        return Fit(key=engine.key, proposal=None)
    counted: dict[str, Started] = {}
    told: set[tuple[bytes, str]] = set()
    impossible: list[str] = []
    passed_over = 0
    for one in start_ups:
        started = _started(one, engine, catalog)
        if started is None:
            passed_over += 1
            continue
        if not _possible(started):
            impossible.append(one.observation)
            continue
        # The same start-up may have been told of several plans.
        start_up = (canonical(content_of(one.content).observed), conditions_of(started.question))
        if start_up not in told:
            told.add(start_up)
            counted[one.observation] = started
    if not counted:
        return Fit(key=engine.key, proposal=None, impossible=tuple(impossible))
    used = {overhead_of(rule.overheads, started.question) for started in counted.values()}
    refitted = refit(_before_learning(rule, engine.key, catalog), counted.values(), SOURCE).overheads
    rows = tuple(Row(old, new if old in used else old) for old, new in zip(rule.overheads, refitted, strict=True))
    learned = msgspec.structs.replace(rule, overheads=tuple(row.new for row in rows))
    spec = msgspec.structs.replace(engine.spec, reserve_rule=learned)
    if faults := engine_faults(engine.key, spec):
        raise Refused(*(Fault("", f"{engine.key}: {fault}") for fault in faults))
    proposal = Proposal(
        key=engine.key,
        digest=engine.digest,
        spec=spec,
        rows=tuple(row for row in rows if row.old in used),
        observations=tuple(sorted(counted)),
        passed_over=passed_over,
    )
    return Fit(key=engine.key, proposal=proposal, impossible=tuple(impossible))


def _possible(started: Started) -> bool:
    """Whether a rank can have kept back what it is said to have, and the catalog hold it with the margin of one."""
    kept = kept_back(started)
    overhead = overhead_bytes(started.question, kept)
    return kept >= 0 and LEAST_OVERHEAD + MARGIN <= overhead < MOST_OVERHEAD - MARGIN


def _before_learning(rule: ReserveRule, key: str, catalog: Catalog) -> ReserveRule:
    """The rule with learned rows as they were before: every stored start-up is counted anew, and none twice."""
    versions = [catalog.engines.pinned(key, one.version).spec for one in catalog.engines.versions(key)]
    given = {
        _kind(row): row
        for older in versions
        if older.reserve_rule is not None
        for row in older.reserve_rule.overheads
        if not row.source.startswith(SOURCE)
    }
    overheads = tuple(
        given.get(_kind(row), msgspec.structs.replace(row, logs=0)) if row.source.startswith(SOURCE) else row
        for row in rule.overheads
    )
    return msgspec.structs.replace(rule, overheads=overheads)


def _kind(row: Overhead) -> Overhead:
    """A row without what is measured."""
    return msgspec.structs.replace(row, low=0, best=0, high=0, logs=0, source="")


def _started(one: StartUp, engine: Pinned[Engine], catalog: Catalog) -> Started | None:
    """A start-up as it is fitted: with the rule as it is today; None for one that tells nothing of a reserve."""
    observed = content_of(one.content).observed
    try:
        question = question_of(one.question, catalog)
    except Refused:  # another release's
        return None
    question = msgspec.structs.replace(question, engine=engine, observed_reserve=None)
    if observed.weights is None or observed.kv_budget is None or question.levers.kv_cache_memory_bytes is not None:
        return None
    if question.levers.pipeline_parallel > 1:  # whose stage the tightest rank is of isn't known
        return None
    try:
        overhead_bytes(question, 0)
    except NotPlannedYet:  # the rule doesn't cover such a deployment
        return None
    memory = observed.reported_capacity
    return Started(
        question,
        weights=observed.weights.best,
        kv=observed.kv_budget.best,
        memory=None if memory is None else memory.best,
    )
