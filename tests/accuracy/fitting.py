"""The bundled engines fitted again to start-ups: to all of them, or to all but some."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar

import msgspec

from service.capacity.bursts import bursts_of
from service.capacity.engine import AsLoaded, Engine
from service.capacity.placement import stages
from service.capacity.question import Pinned, Question
from service.capacity.reserve_fit import refit_from
from service.capacity.reserve_kinds import tower_of
from service.capacity.reserve_rules import Measured, Overhead, Profiled, TowerBurst
from service.capacity.weights import as_loaded
from tests.accuracy.deployments import deployments
from tests.accuracy.kept import asked, catalog, era_of, minor_of, observed
from tests.accuracy.stand_ins import Release, kind_of, release_of, stand_in

SHARED = (("0.6", "0.7"), ("0.8", "0.10"), ("0.11", "0.12"), ("0.13", "0.16"), ("0.17", "0.19"), ("0.20", "0.33"))
"""Releases that share their overheads too: a backend of Radeon changed in 0.13."""

_Row = TypeVar("_Row", TowerBurst, AsLoaded)

LeftOut = Callable[[Question], bool]
"""Whether a start-up is left out, by its question."""


def fitted(engine: Pinned[Engine], without: LeftOut, source: str) -> Engine:
    """One release with its overheads fitted to what says something of it, but for what is left out.

    A kind that no start-up is left of is what stands in for it, or is dropped where no release knows it. Only what no
    start-up ever told of stays as documents have it. A tower that no start-up is left of is no longer known, and
    weights on a kind of card that none is left of are like those on others. Of towers and cards that some are left of
    the figures stay, as do those of bursts.
    """
    rule = _fit(engine, without, source)
    if isinstance(rule, Profiled):
        overheads = _with_stand_ins(rule, engine.key, without, source)
        towers = tuple(one for one in rule.towers if one in _left(_towers_seen(), without))
        rule = msgspec.structs.replace(rule, overheads=overheads, towers=towers)
    return msgspec.structs.replace(engine.spec, reserve_rule=rule, as_loaded=_loaded(engine.spec.as_loaded, without))


def _fit(engine: Pinned[Engine], without: LeftOut, source: str) -> Profiled | Measured:
    """A release's rule fitted to the start-ups that are left."""
    rule = engine.spec.reserve_rule
    assert isinstance(rule, Profiled | Measured)
    used = [one for one in observed() if engine.key in one.informs and not without(one.question)]
    fit = refit_from(rule, ((one.question, one.bytes) for one in used), source)
    assert isinstance(fit, Profiled | Measured)
    return fit


def _with_stand_ins(rule: Profiled, key: str, without: LeftOut, source: str) -> tuple[Overhead, ...]:
    minor, releases = minor_of(key), releases_left(without, source)
    found = []
    for overhead in rule.overheads:
        kind = kind_of(overhead)
        if kind in release_of(minor, releases).measured or not _told_of(kind, minor):
            found.append(overhead)
        elif (carried := stand_in(kind, minor, releases)) is not None:
            found.append(carried)
    return tuple(found)


@cache
def _told_of(kind: Overhead, minor: int) -> bool:
    """Whether any start-up tells of a kind in a release, itself or through what stands in."""
    releases = releases_left(lambda _: False, "")
    return kind in release_of(minor, releases).measured or stand_in(kind, minor, releases) is not None


def releases_left(without: LeftOut, source: str) -> tuple[Release, ...]:
    """What every release was measured to keep back, but for what is left out."""
    found = []
    for first, last in SHARED:
        engine = catalog().engines.pinned(f"vllm@{first}", None)
        fit, before = _fit(engine, without, source), engine.spec.reserve_rule
        assert isinstance(fit, Profiled)
        assert before is not None
        found.append(
            Release(
                minors=(minor_of(first), minor_of(last)),
                rule=min(era_of(engine.key), key=minor_of),
                graphs=0 if fit.graph_bytes is None else fit.graph_bytes.value,
                measured={
                    kind_of(new): new
                    for old, new in zip(before.overheads, fit.overheads, strict=True)
                    if new is not old
                },
            )
        )
    return tuple(found)


def _loaded(rows: tuple[AsLoaded, ...], without: LeftOut) -> tuple[AsLoaded, ...]:
    """A kind of card whose start-ups are all left out: the middle that most start-ups give, in the range of all."""
    gone = {row for _, row in _loads_seen()} - _left(_loads_seen(), without)
    if gone.isdisjoint(rows):
        return rows
    others = [row for row in rows if row not in gone]
    most = max(others, key=lambda row: row.logs)
    low, high = min(row.low for row in others), max(row.high for row in others)
    carried = {row: msgspec.structs.replace(row, low=low, best=most.best, high=high, logs=0) for row in gone}
    return tuple(carried.get(row, row) for row in rows)


def _left(seen: Iterable[tuple[Question, _Row]], without: LeftOut) -> set[_Row]:
    """Rows that a start-up is left of."""
    return {row for question, row in seen if not without(question)}


@cache
def _towers_seen() -> tuple[tuple[Question, TowerBurst], ...]:
    """Start-ups whose largest burst is a tower's, and which: they are what it was measured on."""
    found = []
    for one in deployments().deployments:
        question = asked(one)
        rule, (stage, *_) = question.engine.spec.reserve_rule, stages(question.model.spec, question.levers)
        assert isinstance(rule, Profiled)
        tower = tower_of(rule, question.model.spec)
        largest = max(bursts_of(rule, question, stage), key=lambda burst: burst.bytes.best)
        if tower is not None and largest.name == "a tower":
            found.append((question, tower))
    return tuple(found)


@cache
def _loads_seen() -> tuple[tuple[Question, AsLoaded], ...]:
    """Start-ups that said what they loaded, and for which cards that counts."""
    questions = [asked(one) for one in deployments().deployments if one.weights_gib is not None]
    return tuple((one, row) for one in questions if (row := as_loaded(one)) is not None)
