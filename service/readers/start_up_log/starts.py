"""A log taken apart into starts, each a list of facts: a container that restarts appends to the same log."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from service.readers.start_up_log.facts import Failure
from service.readers.start_up_log.lines import Line
from service.readers.start_up_log.rules import AMOUNTS, COUNTS, Concern, Engine, Fact, Marker, facts_of

MOST_VALUES = 4096
"""Values of one field that are kept: ranks, times the parts of a model, times how often it is said again."""

_LINES_OF_FAILURES = 256
"""Lines of failures that are looked at in one start: every rank says each, some of them more than once."""

MOST_FAILURES = 16
"""Failures of a start that are told apart; whoever prints more is no engine that failed to start."""

_ENDS = frozenset({"ready", "failures", "kv_cache_tokens", "kv_cache_tokens_with_host", "gpu_blocks"})
"""What a start came to: of several, the last with one of these counts."""

_REQUEST = "Received request "
"""Lines of an engine that repeat what users wrote."""


class Start(msgspec.Struct):
    """The facts of one start in the order of the log, and the markers that it was recognised by."""

    facts: list[Fact]
    markers: set[tuple[str, str | None]]
    cut_at: int | None = None
    has_figures: bool = False
    """Whether an amount or a count is among the facts."""

    @property
    def ready(self) -> bool:
        """Whether the engine said that it serves."""
        return any(fact.field == "ready" for fact in self.facts)

    @property
    def ended(self) -> bool:
        """Whether the start came to something."""
        return any(fact.field in _ENDS for fact in self.facts)


def starts_in(engine: Engine, lines: Iterable[Line]) -> list[Start]:
    """Read every start of an engine. What a server writes once it serves is not read."""
    starts: list[Start] = []
    current = Start([], set())
    serving = False
    values: Counter[str] = Counter()
    failures = 0
    concerns: dict[tuple[str, ...], Concern] = {}
    for line in lines:
        concern = concerns.get(line.anchors)
        if concern is None:
            concern = concerns[line.anchors] = engine.concerning(line.anchors)
        if _REQUEST in line.text:
            continue
        for marker in concern.markers:
            rank = line.rank_at(line.text.index(marker.anchor))
            if serving or _again(current, marker, rank):
                starts.append(current)
                current, serving, values = Start([], set()), False, Counter()
            current.markers.add((marker.anchor, rank))
        if serving:
            continue
        # Of a log with countless failures every start keeps its first.
        most = _LINES_OF_FAILURES if failures < MOST_VALUES else 1
        for fact in _found(concern, line, failures=values["failures"] < most):
            failures += fact.field == "failures"
            values[fact.field] += 1
            if values[fact.field] <= MOST_VALUES:
                current.facts.append(fact)
                current.has_figures |= fact.field in AMOUNTS or fact.field in COUNTS
        if not line.whole:
            current.cut_at = line.number
        serving = concern.ready
    starts.append(current)
    return [start for start in starts if start.facts or start.markers]


def _found(concern: Concern, line: Line, *, failures: bool) -> Iterator[Fact]:
    if concern.rules or concern.arguments:
        yield from facts_of(concern, line, failures=failures)
    if concern.ready:
        yield Fact("ready", value=True, line=line.number, rank=None)


def _again(start: Start, marker: Marker, rank: str | None) -> bool:
    """Whether the marker begins another start: it came before, and isn't another process of the same start."""
    if (marker.anchor, rank) not in start.markers:
        return False
    return not marker.repeated or start.has_figures


def without_repetition(facts: Iterable[Fact]) -> list[Fact]:
    """Keep each value of a rank once, and each failure once: every process that it passes through prints it."""
    kept: dict[tuple[str, object, str | None], Fact] = {}
    failures: list[_Figures] = []
    known: set[_Figures] = set()
    for fact in facts:
        if isinstance(fact.value, Failure):
            figures = _figures_of(fact.value)
            if len(failures) == MOST_FAILURES or figures in known:
                continue
            known.add(figures)
            if any(_say_no_more(figures, before) for before in failures):
                continue
            failures.append(figures)
        kept.setdefault((fact.field, fact.value, fact.rank), fact)
    return list(kept.values())


_Figures = tuple[object, ...]


def _figures_of(failure: Failure) -> _Figures:
    return tuple(getattr(failure, name) for name in Failure.__struct_fields__ if name not in {"line", "rank"})


def _say_no_more(figures: _Figures, before: _Figures) -> bool:
    """Whether a failure is one from before: it may be cut, and then gives fewer figures."""
    return all(one is None or one == other for one, other in zip(figures, before, strict=True))
