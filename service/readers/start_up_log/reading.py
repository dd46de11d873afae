"""From the text of a log to what it says."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from service.errors import Fault, Refused
from service.readers.start_up_log.facts import Deployment, Failure, Memory, Pool, StartUpLog
from service.readers.start_up_log.lines import Line, lines_holding, text_of
from service.readers.start_up_log.printed import Seen
from service.readers.start_up_log.rules import AMOUNTS, CONCURRENCIES, COUNTS, Engine, Fact
from service.readers.start_up_log.sglang import SGLANG
from service.readers.start_up_log.starts import Start, starts_in, without_repetition
from service.readers.start_up_log.tensorrt_llm import TENSORRT_LLM
from service.readers.start_up_log.vllm import VLLM

ENGINES = (VLLM, SGLANG, TENSORRT_LLM)

_ONCE = frozenset(
    {
        "version",
        "equivalent_memory_fraction",
        "state_page_padding_percent",
        "cuda_graphs_in_budget",
        "cache_set_by_hand",
        "unquantised",
        "first_engine",
        "initialised",
    }
)

_Group = TypeVar("_Group", bound=msgspec.Struct)


def read_start_up_log(log: str | bytes) -> StartUpLog:
    """Read what an engine printed when it started.

    A log that was cut gives what it has; the end of a last line without a line feed isn't trusted where it ends in
    digits.

    Raises `Refused` for a text in which no engine's lines were found.
    """
    text = text_of(log) if isinstance(log, bytes) else log
    lines, left_out = lines_holding(text, dict.fromkeys(anchor for engine in ENGINES for anchor in engine.anchors()))
    found = [(engine, _starts(engine, lines)) for engine in ENGINES]
    engine, starts = max(found, key=lambda pair: _weight(pair[1]))
    if not any(_weight(starts)):
        looked_for = "; ".join(f"{one.title}: {', '.join(map(repr, one.signs))}" for one in ENGINES)
        raise Refused(Fault("", f"not an engine's start-up log: none of its lines was found, such as {looked_for}"))
    number = max((index for index, start in enumerate(starts) if start.ended), default=len(starts) - 1)
    return _start_up_log(engine, starts, number, left_out)


def _starts(engine: Engine, lines: list[Line]) -> list[Start]:
    starts = starts_in(engine, lines)
    for start in starts:
        start.facts = without_repetition(engine.settle(start.facts) if engine.settle else start.facts)
    return starts


def _weight(starts: list[Start]) -> tuple[int, int]:
    """How much of a log is an engine's: its memory and pools first; another may print no more than its version."""
    told = [fact.field for start in starts for fact in start.facts if fact.field not in {"failures", "ready"}]
    figures = sum(field in AMOUNTS or field in COUNTS for field in told)
    return (figures, len(told) + sum(len(start.markers) for start in starts))


def _start_up_log(engine: Engine, starts: list[Start], number: int, left_out: int) -> StartUpLog:
    start = starts[number]
    facts = start.facts
    read = StartUpLog(
        engine=engine.name,
        starts=len(starts),
        start=number + 1,
        ready=start.ready,
        asked=_first(Deployment(), facts, "asked."),
        resolved=_first(Deployment(), facts, "resolved."),
        memory=_all(Memory(), facts),
        pool=_all(Pool(), facts),
        failures=_failures(facts),
        missing=_missing(engine, facts),
        notes=_notes(starts, number, left_out),
    )
    return _with_the_rest(read, facts)


def _failures(facts: Iterable[Fact]) -> tuple[Failure, ...]:
    values = (fact.value for fact in facts)
    return tuple(value for value in values if isinstance(value, Failure))


def _all(group: _Group, facts: Iterable[Fact]) -> _Group:
    """Fill a group with every value of each field."""
    values: dict[str, list[Seen[object]]] = {}
    for fact in facts:
        if fact.field in group.__struct_fields__:
            values.setdefault(fact.field, []).append(Seen(fact.value, fact.line, fact.rank))
    return msgspec.structs.replace(group, **{name: tuple(seen) for name, seen in values.items()})


def _first(group: _Group, facts: Iterable[Fact], source: str) -> _Group:
    """Fill a group with the first value of each field, so that what follows can't change what was read."""
    values: dict[str, Seen[object]] = {}
    for fact in facts:
        if fact.field.startswith(source):
            values.setdefault(fact.field.removeprefix(source), Seen(fact.value, fact.line, fact.rank))
    return msgspec.structs.replace(group, **values)


def _with_the_rest(read: StartUpLog, facts: Iterable[Fact]) -> StartUpLog:
    values: dict[str, Seen[object]] = {}
    users: dict[str, list[Seen[object]]] = {}
    for fact in facts:
        seen = Seen(fact.value, fact.line, fact.rank)
        if fact.field in _ONCE:
            values.setdefault(fact.field, seen)
        elif fact.field in CONCURRENCIES:
            users.setdefault(fact.field, []).append(seen)
    return msgspec.structs.replace(read, **values, **{name: tuple(seen) for name, seen in users.items()})


def _missing(engine: Engine, facts: list[Fact]) -> tuple[str, ...]:
    fields = {fact.field for fact in facts}
    version = next((str(fact.value) for fact in facts if fact.field == "version"), None)
    eager = any(fact.field.endswith(".enforce_eager") and fact.value is True for fact in facts)
    lacking = (
        one.name
        for one in engine.expected
        if not fields.intersection(one.fields)
        and not (one.unless_eager and eager)
        and (one.only_with is None or one.only_with in fields)
        and (version is None or _release(version) >= one.since)
    )
    return tuple(dict.fromkeys(lacking))


def _release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 11, 2) of 0.11.2.dev1+g00; none of what isn't numbered."""
    numbers: list[int] = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers) or (10**9,)


def _notes(starts: list[Start], number: int, left_out: int) -> tuple[str, ...]:
    notes: list[str] = []
    if left_out:
        notes.append(f"The first {left_out:,} lines were left out: the rest holds enough of what engines say.")
    if len(starts) > 1:
        notes.append(f"The log holds {len(starts)} starts; number {number + 1} was read.")
    if starts[number].cut_at is not None:
        notes.append(f"Line {starts[number].cut_at} has no end; its last digits aren't trusted.")
    return tuple(notes)
