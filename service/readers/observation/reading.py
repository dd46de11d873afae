"""From a log or from fields to what one start-up said of its tightest rank."""

import hashlib
from collections.abc import Iterator
from itertools import islice

import msgspec

from service.capacity.observed import Observed
from service.capacity.units import Estimate, surely
from service.errors import Fault, Refused
from service.readers.observation.asked import AskedFields, AskedObservation, check_length
from service.readers.observation.tightest import Tightest, tightest_of
from service.readers.observation.vetted import public_version, vetted
from service.readers.start_up_log import StartUpLog, read_start_up_log
from service.readers.start_up_log.facts import Deployment
from service.readers.start_up_log.printed import ByteRange, Seen, Value, byte_range

_UNKEPT = frozenset({"speculative", "limit_mm_per_prompt", "load_format"})
"""Facts of a deployment whose text may hold anything; what is needed of them is held against the question."""

_MOST_FACTS = 200
"""A real start has some thirty; of hundreds of ranks the first are as good as all."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact, and where it was found. Only these are kept of a log, never its lines: they may hold secrets."""

    name: str
    value: str
    line: int | None
    """Counted from 1; null for what was given as a field."""
    rank: str | None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One start-up as it was read."""

    observed: Observed
    log: StartUpLog | None
    """Null where fields were given."""
    log_digest: str | None
    """SHA-256 of the log in hexadecimal."""
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]


def read_observation(asked: AskedObservation) -> Reading:
    """Read what was observed.

    Raises `Refused` for a text that is no start-up log, and for a start-up of which nothing can be compared.
    """
    if (asked.plan is None) == (asked.question is None):
        raise Refused(Fault("", "an observation is of a plan or of a question: give one of the two"))
    match asked.log, asked.fields:
        case str() as log, None:
            return _read_log(log)
        case None, AskedFields() as fields:
            return _read_fields(fields)
        case _:
            raise Refused(Fault("", "what was observed is a log, or fields: give one of the two"))


def _read_log(text: str) -> Reading:
    check_length(text)
    try:
        log = vetted(read_start_up_log(text))
    except Refused as refused:
        raise Refused(*(Fault("/log", fault.detail) for fault in refused.faults)) from refused
    tightest = tightest_of(log)
    observed = _observed(log, tightest)
    if not _says_something(observed):
        missing = ", ".join(log.missing)
        raise Refused(Fault("/log", f"the start-up says nothing that can be compared; the log lacks: {missing}"))
    return Reading(
        observed=observed,
        log=log,
        log_digest=hashlib.sha256(text.encode()).hexdigest(),
        facts=tuple(islice(_facts(log, tightest), _MOST_FACTS)),
        notes=(*log.notes, *tightest.notes, *(f"The log lacks: {name}." for name in log.missing)),
    )


def _observed(log: StartUpLog, tightest: Tightest) -> Observed:
    users, tokens, blocks = log.concurrency, log.kv_cache_tokens, log.gpu_blocks
    failure = log.failures[0] if log.outcome == "failed" else None
    needed = next((one.needed for one in log.failures if one.kind == "window_too_long" and one.needed), None)
    return Observed(
        outcome=log.outcome,
        failure=None if failure is None else failure.kind,
        version=None if log.version is None else log.version.value,
        reported_capacity=tightest.memory,
        weights=tightest.weights,
        kv_budget=tightest.kv_cache,
        bytes_per_window=None if needed is None else estimate_of(needed),
        max_concurrency=None if users is None else float(users.value.printed),
        printed_tokens=None if tokens is None else tokens.value,
        blocks=None if blocks is None else blocks.value,
    )


def _says_something(observed: Observed) -> bool:
    figures = (getattr(observed, name) for name in Observed.__struct_fields__ if name not in {"outcome", "version"})
    return observed.outcome == "failed" or any(figure is not None for figure in figures)


def _facts(log: StartUpLog, tightest: Tightest) -> Iterator[Fact]:
    if log.version is not None:
        yield _fact("version", log.version)
    told = log.deployment
    for name in Deployment.__struct_fields__:
        seen = getattr(told, name)
        if seen is not None and name not in _UNKEPT:
            yield _fact(name, seen)
    for name, amounts in tightest.seen.items():
        yield from (_fact(name, seen) for seen in amounts)
    if log.concurrency is not None:
        yield _fact("max_concurrency", log.concurrency)
    for name, count in (("kv_cache_tokens", log.kv_cache_tokens), ("gpu_blocks", log.gpu_blocks)):
        if count is not None:
            yield _fact(name, count)
    for failure in log.failures:
        yield Fact(name="failure", value=failure.kind, line=failure.line, rank=failure.rank)


def _fact(name: str, seen: Seen[Value]) -> Fact:
    text = str(getattr(seen.value, "printed", seen.value))
    return Fact(name=name, value=text, line=seen.line, rank=seen.rank)


def _read_fields(fields: AskedFields) -> Reading:
    version = None if fields.version is None else public_version(fields.version)
    if version is None and fields.version is not None:
        raise Refused(Fault("/fields/version", "is a version as printed, such as 0.10.2"))
    observed = Observed(
        outcome=fields.outcome,
        version=version,
        reported_capacity=_amount("reported_capacity", fields.reported_capacity),
        weights=_amount("weights", fields.weights),
        kv_budget=_amount("kv_cache", fields.kv_cache),
        max_concurrency=fields.max_concurrency,
        printed_tokens=fields.kv_cache_tokens,
        blocks=fields.gpu_blocks,
    )
    if not _says_something(observed):
        raise Refused(Fault("/fields", "say nothing that can be compared; give a figure, or outcome failed"))
    kept = msgspec.structs.replace(fields, version=version)
    given = ((name, getattr(kept, name)) for name in AskedFields.__struct_fields__)
    facts = tuple(Fact(name=name, value=str(value), line=None, rank=None) for name, value in given if value is not None)
    return Reading(observed=observed, log=None, log_digest=None, facts=facts, notes=())


def _amount(name: str, given: int | str | None) -> Estimate | None:
    if given is None or isinstance(given, int):
        return None if given is None else surely(given)
    if not given.isascii() or given != given.strip():  # the schema's `$` and `\d` let others pass
        raise Refused(Fault(f"/fields/{name}", "is an amount as printed, such as 54.96 GiB"))
    digits, _, unit = given.partition(" ")
    return estimate_of(byte_range(digits, unit, 0))


def estimate_of(printed: ByteRange) -> Estimate:
    """What printed digits stand for."""
    return Estimate(printed.low, printed.best, printed.high)
