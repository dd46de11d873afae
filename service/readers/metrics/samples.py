"""Exposition text (0.0.4 or OpenMetrics) as samples, each with its line.

Each line is parsed by `prometheus_client`, and only the lines of metrics that are read: its parsers of whole texts give
no line numbers, and refuse a text for whatever is wrong with any of its metrics.
"""

import re
from collections.abc import Iterator

import msgspec

from service.errors import Fault, Refused
from service.readers.faults import MOST_FAULTS
from service.readers.metrics.names import ALL

LONGEST_LINE = 2**14
"""Characters; the longest real line, `vllm:cache_config_info`, has about two thousand."""

_LINE = re.compile(
    r"""
    ^[^\S\n]* (?:
        (vllm|sglang) [:_] ([a-zA-Z0-9_:]*) .*
      | \{ .* "(?:vllm|sglang)[:_] .*  # a name may stand in the braces: {"vllm:num_requests_running",engine="0"} 1
    ) $
    """,
    re.MULTILINE | re.VERBOSE,
)

_ENGINE = re.compile("^(vllm|sglang)_")

Labels = tuple[tuple[str, str], ...]
"""The labels of a series, sorted by name."""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One value of one series, and the line that it stands on."""

    name: str
    labels: Labels
    value: float
    line: int


def samples_in(text: str, pointer: str) -> tuple[Sample, ...]:
    """Read the samples of metrics that are known. `pointer` is where the caller's document holds the text.

    Raises `Refused` for lines that can't be read, each by its number.
    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - most commands need none

    samples: list[Sample] = []
    faults: list[Fault] = []
    for number, line in _known(text):
        if len(line) > LONGEST_LINE:
            faults.append(Fault(pointer, f"line {number} has more than {LONGEST_LINE:,} characters"))
            continue
        try:
            ((sample,),) = (family.samples for family in text_string_to_metric_families(line))
            labels = tuple(sorted(sample.labels.items()))
            samples.append(Sample(_with_colon(sample.name), labels, float(sample.value), number))
        except (ValueError, IndexError, OverflowError):  # an integer may be beyond every float
            faults.append(Fault(pointer, f"line {number} is no sample of a metric: {line.strip()[:80]!r}"))
    if faults:
        raise Refused(*faults[:MOST_FAULTS])
    return tuple(samples)


def known_lines(text: str) -> str:
    """The lines of a text that are read, as they are."""
    return "".join(f"{line}\n" for _, line in _known(text))


def _known(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is read."""
    number, counted = 1, 0
    for match in _LINE.finditer(text):
        if match[1] is None or f"{match[1]}:{match[2]}" in ALL:
            number += text.count("\n", counted, match.start())
            counted = match.start()
            yield number, match[0]


def _with_colon(name: str) -> str:
    """The name as engines mean it. Python's client writes their colon as an underscore in OpenMetrics."""
    return _ENGINE.sub(r"\1:", name)


def said(labels: Labels) -> str:
    """The labels as they stand in a text, cut where they are long."""
    text = ",".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{text[:120]}...}}" if len(text) > 120 else f"{{{text}}}"  # noqa: PLR2004 - of a line's width
