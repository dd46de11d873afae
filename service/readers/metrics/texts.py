"""The texts of a scrape, one a pod: which series of them count, and what was counted in their window."""

from collections.abc import Sequence

import msgspec

from service.capacity.workload import Found
from service.errors import Fault, Refused
from service.readers.faults import MOST_FAULTS
from service.readers.metrics.cumulative import Cumulative, histograms_in
from service.readers.metrics.names import OUTPUT, PREFIX_HITS, PREFIX_QUERIES, PROMPT
from service.readers.metrics.samples import Labels, Sample, said, samples_in
from service.readers.metrics.window import Side, between

_MOST_NAMES = 20


class Scrape(msgspec.Struct, frozen=True):
    """One text: where the caller's document holds it, what it is called, and its samples."""

    pointer: str
    name: str
    samples: tuple[Sample, ...]


def scrapes(field: str, texts: str | tuple[str, ...]) -> list[Scrape]:
    """Read one text or several. Raises `Refused` for what can't be read, text and line."""
    if isinstance(texts, str):
        return [Scrape(f"/workload/{field}", field, samples_in(texts, f"/workload/{field}"))]
    pointers = [f"/workload/{field}/{index}" for index in range(len(texts))]
    return [
        Scrape(pointer, f"{field} {index}", samples_in(text, pointer))
        for index, (pointer, text) in enumerate(zip(pointers, texts, strict=True))
    ]


def of_one_model(asked: str | None, several: Sequence[list[Scrape]]) -> list[list[Scrape]]:
    """Keep what is of one model: the one asked for, or the only one. Raises `Refused` with the names there are."""
    families = tuple(f"{family}_" for family in PROMPT + OUTPUT)
    names = sorted(
        {
            name
            for scrape in (scrape for part in several for scrape in part)
            for sample in scrape.samples
            if sample.name.startswith(families) and (name := model_of(sample.labels)) is not None
        }
    )
    shown = ", ".join(name[:100] for name in names[:_MOST_NAMES])
    if asked is None and len(names) > 1:
        raise Refused(Fault("/workload/model_name", f"is needed: the requests are of several models, {shown}"))
    if asked is not None and asked not in names:
        raise Refused(Fault("/workload/model_name", f"no request is of {asked}; models: {shown or 'not named'}"))
    only = asked or (names[0] if names else None)
    return [
        [
            # What no label gives a model is of the engine: its cache, for one.
            msgspec.structs.replace(
                scrape, samples=tuple(each for each in scrape.samples if model_of(each.labels) in {only, None})
            )
            for scrape in part
        ]
        for part in several
    ]


def model_of(labels: Labels) -> str | None:
    """The model that a series is of; SGLang called the label `name` at first."""
    known = dict(labels)
    return known.get("model_name", known.get("name"))


def sides_in(each: Scrape, faults: list[Fault]) -> tuple[Side, Side]:
    """The histograms of prompts and of outputs in a text, under the newest names that it has."""

    def side(families: tuple[str, ...]) -> dict[Labels, Cumulative]:
        for family in families:
            read, wrong = histograms_in(each.samples, family, each.pointer)
            if read or wrong:
                faults.extend(wrong)
                return read
        return {}

    return side(PROMPT), side(OUTPUT)


Counts = tuple[list[Cumulative], list[Cumulative], list[Found]]
"""Series of prompts and of outputs, and what has to be said of their window."""


def counted_in(later: Sequence[Scrape], earlier: Sequence[Scrape] | None) -> list[Counts]:
    """Read what each text counted: between the scrapes, or since its engines started where there is but one.

    Raises `Refused` with every series that contradicts itself, and where no text holds a histogram.
    """
    faults: list[Fault] = []
    ends = [sides_in(each, faults) for each in later]
    begins = None if earlier is None else [sides_in(each, faults) for each in earlier]
    if faults:
        raise Refused(*faults[:MOST_FAULTS])
    if not any(prompt or output for prompt, output in ends):
        detail = (
            f"no text holds a histogram of lengths: {', '.join(family for family in PROMPT + OUTPUT)}; SGLang exposes"
            " them with --collect-tokens-histogram"
        )
        raise Refused(Fault("/workload/text", detail))
    if begins is None:
        since = Found("lengths_are_since_start", "One scrape: lengths are of all requests since the engines started.")
        return [
            (list(prompt.values()), list(output.values()), [since, *_empty(each, prompt, output)])
            for each, (prompt, output) in zip(later, ends, strict=True)
        ]
    return [_between(each, begin, end) for each, begin, end in zip(later, begins, ends, strict=True)]


def _between(each: Scrape, begin: tuple[Side, Side], end: tuple[Side, Side]) -> Counts:
    window = between(begin, end)
    told = (
        ("engine_restarted", window.restarted, "started again between the scrapes: its later counts are taken whole"),
        ("engine_started", window.started, "was not there in the earlier scrape: its counts are taken whole"),
        ("engine_is_gone", window.gone, "is not there in the later scrape: what it counted in between is not known"),
    )
    found = [Found(code, f"{each.name}, {said(labels)} {text}.") for code, several, text in told for labels in several]
    return list(window.prompt), list(window.output), [*found, *_empty(each, *end)]


def _empty(each: Scrape, prompt: Side, output: Side) -> list[Found]:
    if prompt or output:
        return []
    return [Found("text_without_lengths", f"{each.name} holds no histogram of lengths.")]


def reuse_in(later: Sequence[Scrape], earlier: Sequence[Scrape] | None) -> list[Found]:
    """Say which share of the prompts' tokens was found in the prefix cache."""
    asked = _counter(PREFIX_QUERIES, later, earlier)
    hits = _counter(PREFIX_HITS, later, earlier)
    if not 0 < hits <= asked:  # also for NaN
        return []
    text = (
        f"{hits / asked:.1%} of the prompts' tokens were found in the prefix cache. That is not applied: it shortens"
        " prefill, and saves blocks only while requests share a prefix at the same time."
    )
    return [Found("prefixes_were_reused", text)]


def _counter(names: tuple[str, ...], later: Sequence[Scrape], earlier: Sequence[Scrape] | None) -> float:
    total = 0.0
    for index, each in enumerate(later):
        before = {} if earlier is None else _values(names, earlier[index])
        for key, value in _values(names, each).items():
            was = before.get(key, 0.0)
            total += value if value < was else value - was
    return total


def _values(names: tuple[str, ...], each: Scrape) -> dict[tuple[str, Labels], float]:
    return {(sample.name, sample.labels): sample.value for sample in each.samples if sample.name in names}
