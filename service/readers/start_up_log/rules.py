"""How lines become facts: rules as data, each an anchor that the line must hold and a pattern around it.

The names of a pattern's groups are the fields that they fill (see `facts.py`), `resolved_...` those of the deployment;
`..._unit` beside an amount is its unit. Every pattern begins with fixed text and repeats nothing without a bound, so a
line takes time in proportion to its length, whatever stands in it.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from itertools import islice

import msgspec

from service.readers.start_up_log import arguments
from service.readers.start_up_log.facts import Deployment, EngineName, Failure, FailureKind, Memory, Pool
from service.readers.start_up_log.lines import Line
from service.readers.start_up_log.printed import Concurrency, byte_range, count

AMOUNTS = frozenset(Memory.__struct_fields__)
COUNTS = frozenset(Pool.__struct_fields__)
SHARES = frozenset({"equivalent_memory_fraction", "state_page_padding_percent"})
CONCURRENCIES = frozenset({"concurrencies", "concurrencies_with_host"})

WORDS = frozenset(
    {"model", "dtype", "quantization", "kv_cache_dtype", "speculative", "limit_mm_per_prompt", "load_format"}
)
FLAGS = frozenset(
    {
        "enforce_eager",
        "enable_prefix_caching",
        "expert_parallel",
        "enable_lora",
        "language_model_only",
        "hf_overrides",
        "skip_mm_profiling",
        "redundant_experts",
    }
)
_DECIMALS = frozenset({"memory_fraction", "cpu_offload_gb"})
"""Fields of a deployment that aren't counts."""

MOST_RECORDS = 64
"""Values of one kind that are taken from a line: records of ranks run into each other, though not without end."""


class Rule(msgspec.Struct, frozen=True):
    """Where the line holds `anchor`, `pattern` is looked for in it.

    `decimals` are those that the engine rounds an amount to at least, `unit` the amounts' unit where no group says it.
    `says` is a switch that the line's presence sets, `fails` the kind of failure that it is.
    """

    anchor: str
    pattern: re.Pattern[str]
    without: str | None = None
    unit: str = "GiB"
    decimals: int = 2
    says: tuple[str, bool] | None = None
    fails: FailureKind | None = None


class ArgumentsLine(msgspec.Struct, frozen=True):
    """A line that repeats arguments after `anchor`; `names` are the engine's names for each field, best first.

    A name that begins with `not ` is a switch of the opposite sense.
    """

    anchor: str
    source: str
    names: Mapping[str, tuple[str, ...]]


class Marker(msgspec.Struct, frozen=True):
    """A line that a start begins with; `repeated` where several processes of one start print it."""

    anchor: str
    repeated: bool = False


class Expected(msgspec.Struct, frozen=True):
    """What a complete log has, in the field's words: one of `fields`, from release `since` on.

    `only_with` is another field, without which the log is not of the kind that has it.
    """

    name: str
    fields: tuple[str, ...]
    since: tuple[int, ...] = ()
    unless_eager: bool = False
    only_with: str | None = None


class Fact(msgspec.Struct, frozen=True):
    """One value of one field, as found."""

    field: str
    value: object
    line: int
    rank: str | None


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of one engine's logs."""

    name: EngineName
    title: str
    markers: tuple[Marker, ...]
    ready: tuple[str, ...]
    rules: tuple[Rule, ...]
    arguments: tuple[ArgumentsLine, ...]
    expected: tuple[Expected, ...]
    signs: tuple[str, ...]
    """Examples of lines, for the refusal of a text that has none."""
    settle: Callable[[list[Fact]], list[Fact]] | None = None
    """Leaves out what was provisional."""

    def anchors(self) -> Iterator[str]:
        """What a line must hold some of to concern this engine."""
        yield from (rule.anchor for rule in self.rules)
        yield from (marker.anchor for marker in self.markers)
        yield from (told.anchor for told in self.arguments)
        yield from self.ready

    def concerning(self, anchors: Collection[str]) -> "Concern":
        """What of the engine's can be read in a line that holds these anchors."""
        return Concern(
            rules=tuple(rule for rule in self.rules if rule.anchor in anchors),
            arguments=tuple(told for told in self.arguments if told.anchor in anchors),
            markers=tuple(marker for marker in self.markers if marker.anchor in anchors),
            ready=any(anchor in anchors for anchor in self.ready),
        )


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """What of an engine's can be read in one line."""

    rules: tuple[Rule, ...]
    arguments: tuple[ArgumentsLine, ...]
    markers: tuple[Marker, ...]
    ready: bool


def facts_of(concern: Concern, line: Line, *, failures: bool = True) -> Iterator[Fact]:
    """Find all facts of one line; where enough is known of failures, all but those."""
    for rule in concern.rules:
        if (rule.fails is None or failures) and not (rule.without and rule.without in line.text):
            for found in islice(rule.pattern.finditer(line.text), MOST_RECORDS):
                yield from _facts_of_rule(rule, found, line, line.rank_at(found.start()))
    for told in concern.arguments[:1]:  # no engine repeats its arguments twice on a line
        before, _, rest = line.text.partition(told.anchor)
        yield from _facts_of_arguments(told, rest, line, line.rank_at(len(before)))


def _facts_of_rule(rule: Rule, found: re.Match[str], line: Line, rank: str | None) -> Iterator[Fact]:
    groups = {
        name: text
        for name, text in found.groupdict().items()
        if text is not None and (line.whole or name.endswith("_unit") or found.end(name) < len(line.text))
    }
    if rule.fails is not None:
        figures = {name: _figure(name, text, groups, rule) for name, text in _values(groups)}
        failure = Failure(kind=rule.fails, line=line.number, rank=rank)
        yield Fact("failures", msgspec.structs.replace(failure, **figures), line.number, rank)
        return
    if rule.says is not None:
        yield Fact(*rule.says, line.number, rank)
    for name, text in _values(groups):
        value = _value(name, text, groups, rule)
        if value is not None:
            yield Fact(name.replace("resolved_", "resolved.", 1), value, line.number, rank)


def _values(groups: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in groups.items() if not name.endswith(("_unit", "_window")))


def _value(name: str, text: str, groups: Mapping[str, str], rule: Rule) -> object:
    if name in AMOUNTS:
        return byte_range(text, groups.get(f"{name}_unit", rule.unit), rule.decimals)
    if name in COUNTS:
        return count(text)
    if name in CONCURRENCIES:
        return Concurrency(Decimal(text), count(groups[f"{name}_window"]))
    if name in SHARES:
        return Decimal(text)
    if name.startswith("resolved_"):
        return converted(name.removeprefix("resolved_"), text)
    return arguments.word(text)


def _figure(name: str, text: str, groups: Mapping[str, str], rule: Rule) -> object:
    if name in {"needed", "available", "total"}:
        return byte_range(text, groups.get(f"{name}_unit", rule.unit), rule.decimals)
    return Decimal(text) if name == "memory_fraction" else count(text)


def _facts_of_arguments(told: ArgumentsLine, text: str, line: Line, rank: str | None) -> Iterator[Fact]:
    pairs = arguments.pairs_in(text, whole=line.whole)
    for field, names in told.names.items():
        for name in names:
            raw = arguments.value_of(pairs, name.removeprefix("not "))
            value = None if raw is None else converted(field, raw)
            if value is not None:
                value = not value if name.startswith("not ") else value
                yield Fact(f"{told.source}.{field}", value, line.number, rank)
                break


def converted(field: str, text: str) -> object:
    """Read a value of a deployment as its field is typed; None for what isn't one."""
    if field not in Deployment.__struct_fields__:
        raise AssertionError(field)  # pragma: no cover - a name in a table that no field has
    if field in WORDS:
        return arguments.word(text)
    if field in FLAGS:
        return arguments.flag(text.strip("'\""))
    if field in _DECIMALS:
        return arguments.share(text)
    return arguments.whole_number(text.replace(",", ""))
