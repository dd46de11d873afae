"""The start-up logs that tests read, and a reading as plain text, to be compared with what was written by hand."""

from decimal import Decimal
from pathlib import Path

import msgspec

from service.readers.start_up_log.facts import Deployment, Memory, Pool, StartUpLog
from service.readers.start_up_log.printed import ByteRange, Concurrency, Seen

FOLDER = Path(__file__).parent / "readers" / "start_up_logs"
LOGS = sorted(FOLDER.glob("*.log"))

_SINGLE = (
    "version",
    "equivalent_memory_fraction",
    "state_page_padding_percent",
    "cuda_graphs_in_budget",
    "cache_set_by_hand",
    "unquantised",
    "first_engine",
    "initialised",
)


def expected() -> dict[str, dict[str, str]]:
    """The facts of each log as they were written out: `expected.txt` beside the logs."""
    facts: dict[str, dict[str, str]] = {}
    for line in (FOLDER / "expected.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            facts[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            name, _, values = line.partition(": ")
            facts[list(facts)[-1]][name] = values
    return facts


def told(read: StartUpLog) -> dict[str, str]:
    """Every fact of a reading as `value @line rank`, several joined by `, `."""
    facts: dict[str, list[str]] = {}
    for prefix, group in (("asked ", read.asked), ("resolved ", read.resolved), ("", read.memory), ("", read.pool)):
        assert isinstance(group, Deployment | Memory | Pool)
        for name in group.__struct_fields__:
            facts[prefix + name] = _shown(getattr(group, name))
    for name in _SINGLE:
        facts[name] = _shown(getattr(read, name))
    facts["outcome"] = [f"{read.outcome}, start {read.start} of {read.starts}"]
    facts["missing"] = list(read.missing)
    facts["concurrency"] = _shown(read.concurrencies)
    for index, failure in enumerate(read.failures):
        where = f"failure {index}" if index else "failure"
        facts[where] = [f"{failure.kind} @{failure.line}{f' {failure.rank}' if failure.rank else ''}"]
        for name in failure.__struct_fields__:
            figure = getattr(failure, name)
            if name not in {"kind", "line", "rank"} and figure is not None:
                facts[f"{where} {name}"] = [_value(figure)]
    return {name: ", ".join(values) for name, values in facts.items() if values}


def pieces(read: StartUpLog) -> set[tuple[str, str]]:
    """Every single fact of a reading, without how far it got."""
    facts = told(read)
    return {
        (name, piece)
        for name, values in facts.items()
        if name not in {"outcome", "missing"}
        for piece in values.split(", ")
    }


def _shown(seen: object) -> list[str]:
    if seen is None:
        return []
    if isinstance(seen, tuple):
        return [text for one in seen for text in _shown(one)]
    assert isinstance(seen, Seen)
    return [f"{_value(seen.value)} @{seen.line}{f' {seen.rank}' if seen.rank else ''}"]


def _value(value: object) -> str:
    match value:
        case ByteRange():
            return str(value.printed)
        case Concurrency():
            return f"{value.printed}x {value.max_model_len}"
        case str() | bool() | int() | Decimal():
            return str(value)
    raise AssertionError(msgspec.json.encode(value))
