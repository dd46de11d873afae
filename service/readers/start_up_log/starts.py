"""A log taken apart into starts, each a list of facts: a container that restarts appends to the same log."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from service.readers.start_up_log.facts import Failure
from service.readers.start_up_log.lines import Line
from service.readers.start_up_log.rules import AMOUNTS, COUNTS, Engine, Fact, Marker, facts_of

MOST_VALUES = 4096
"""Values of one field that are kept: ranks, times the parts of a model, times how often it is said again."""

_ENDS = frozenset({"ready", "failures", "kv_cache_tokens", "kv_cache_tokens_with_host", "gpu_blocks"})
"""What a start came to: of several, the last with one of these counts."""

_REQUEST = "Received request "
"""Lines of an engine that repeat what users wrote."""


class Start(msgspec.Struct):
    """The facts of one start in the order of the log, and the markers that it was recognised by."""

    facts: list[Fact]
    markers: set[tuple[str, str | None]]
    cut_at: int | None = None

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
    for line in lines:
        if _REQUEST in line.text:
            continue
        for marker in engine.markers:
            if marker.anchor in line.text:
                if serving or _again(current, marker, line.rank):
                    starts.append(current)
                    current, serving, values = Start([], set()), False, Counter()
                current.markers.add((marker.anchor, line.rank))
        if serving:
            continue
        for fact in _found(engine, line):
            values[fact.field] += 1
            if values[fact.field] <= MOST_VALUES:
                current.facts.append(fact)
        if not line.whole:
            current.cut_at = line.number
        serving = any(anchor in line.text for anchor in engine.ready)
    starts.append(current)
    return [start for start in starts if start.facts or start.markers]


def _found(engine: Engine, line: Line) -> Iterator[Fact]:
    yield from facts_of(engine, line)
    if any(anchor in line.text for anchor in engine.ready):
        yield Fact("ready", value=True, line=line.number, rank=None)


def _again(start: Start, marker: Marker, rank: str | None) -> bool:
    """Whether the marker begins another start: it came before, and isn't another process of the same start."""
    if (marker.anchor, rank) not in start.markers:
        return False
    return not marker.repeated or any(fact.field in AMOUNTS or fact.field in COUNTS for fact in start.facts)


def without_repetition(facts: Iterable[Fact]) -> list[Fact]:
    """Keep each value of a rank once, and each failure once: every process that it passes through prints it."""
    kept: dict[tuple[str, object, str | None], Fact] = {}
    failures: list[Failure] = []
    for fact in facts:
        if isinstance(fact.value, Failure):
            if any(_says_no_more(fact.value, before) for before in failures):
                continue
            failures.append(fact.value)
        kept.setdefault((fact.field, fact.value, fact.rank), fact)
    return list(kept.values())


def _says_no_more(failure: Failure, before: Failure) -> bool:
    """Whether a failure is one from before: it may be cut, and then gives fewer figures."""
    figures = {name: getattr(failure, name) for name in Failure.__struct_fields__ if name not in {"line", "rank"}}
    return all(figure is None or figure == getattr(before, name) for name, figure in figures.items())
