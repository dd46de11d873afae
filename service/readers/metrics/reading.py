"""Measured lengths, however they were written down, as marginals: a histogram of prompts and one of outputs."""

from collections.abc import Sequence

import msgspec

from service.capacity.workload import Found, Marginal, Marginals
from service.errors import Fault, Refused
from service.readers.metrics.answers import histograms_of, series_of, value_at
from service.readers.metrics.bins import CAP, Counted, closed_at, counted, merged, tokens_of
from service.readers.metrics.envelope import PrometheusAnswer
from service.readers.metrics.evidence import can_be_held, checked, placed
from service.readers.metrics.held import Gauge, Held, held, held_in, mean_held
from service.readers.metrics.samples import Labels
from service.readers.metrics.texts import counted_in, model_of, of_one_model, reuse_in, scrapes
from service.readers.question import AskedPrometheus, AskedPrometheusAnswers

_CLOSE = "give max_model_len of the engine that counted them"
_MOST_WARNINGS = 3


def read_prometheus(asked: AskedPrometheus) -> Marginals:
    """Read what was scraped, or what Prometheus answered. Raises `Refused` for every contradiction in it."""
    if asked.result is not None:
        return _from_answers(asked.result, asked.max_model_len)
    assert asked.text is not None  # the one or the other: the wire type sees to it
    return _from_texts(asked.text, asked)


def _from_texts(text: str | tuple[str, ...], asked: AskedPrometheus) -> Marginals:
    later = scrapes("text", text)
    earlier = None if asked.earlier is None else scrapes("earlier", asked.earlier)
    if earlier is not None and len(earlier) != len(later):
        detail = f"{len(earlier)} earlier texts and {len(later)} later ones: give two of each pod, in the same order"
        raise Refused(Fault("/workload/earlier", detail))
    caps = _caps(asked.max_model_len, len(later))
    later, *begun = of_one_model(asked.model_name, [later] if earlier is None else [later, earlier])
    earlier = begun[0] if begun else None
    prompts: list[Counted] = []
    outputs: list[Counted] = []
    found: list[Found] = []
    for longest, (prompt, output, said) in zip(caps, counted_in(later, earlier), strict=True):
        prompts += [_sound(closed_at(longest, counted(series)), found) for series in prompt]
        outputs += [_sound(closed_at(longest, counted(series)), found) for series in output]
        found += said
    holding = Held()
    for each in [*later, *(earlier or [])]:
        holding = holding.and_also(held_in(each.samples, each.pointer))
    moments = (
        "at the instant of one scrape, which is no average" if earlier is None else "over the instants of two scrapes"
    )
    sides = (_marginal("prompts", prompts, found), _marginal("outputs", outputs, found))
    mean, measured = _mean_of(holding, moments, *sides)
    marginals = Marginals(
        prompt=sides[0],
        output=sides[1],
        mean_held_tokens=mean,
        found=(*found, *measured, *reuse_in(later, earlier)),
    )
    return checked(marginals, ("/workload/text", "/workload/text"), _CLOSE)


def _from_answers(asked: AskedPrometheusAnswers, longest: int | tuple[int, ...] | None) -> Marginals:
    (cap,) = _caps(longest, 1)
    at = "/workload/result"
    found: list[Found] = []
    sides: list[Marginal] = []
    for words, answer, sums in (("prompt", asked.prompt, asked.prompt_sum), ("output", asked.output, asked.output_sum)):
        _check_models(answer, f"{at}/{words}")
        series, repaired = histograms_of(answer, f"{at}/{words}")
        found += repaired
        closed = [_sound(closed_at(cap, each), found) for each in series]
        side = _marginal(f"{words}s", closed, found)
        if sums is not None:
            side = _with_sum(f"{words}s", side, sums, f"{at}/{words}_sum", found)
        sides.append(side)
    answers = (getattr(asked, name) for name in asked.__struct_fields__)
    warnings = [warning for answer in answers if answer is not None for warning in answer.warnings]
    warned = [Found("prometheus_warned", warning[:200]) for warning in warnings[:_MOST_WARNINGS]]
    mean, measured = _mean_of(_held_of(asked, at), "as queried", *sides)
    marginals = Marginals(prompt=sides[0], output=sides[1], mean_held_tokens=mean, found=(*found, *warned, *measured))
    return checked(marginals, (f"{at}/prompt", f"{at}/output"), _CLOSE)


def _mean_of(holding: Held, moments: str, prompt: Marginal, output: Marginal) -> tuple[float | None, list[Found]]:
    """What was held on average, unless no request can hold so much."""
    mean, said = mean_held(holding, moments)
    if mean is None or can_be_held(mean, prompt, output):
        return mean, said
    text = (
        f"{mean:,.1f} tokens for each running request are more than the longest prompt and output together: the size of"
        " the cache is not counted in tokens of requests, and the figure is left out."
    )
    return None, [Found("mean_held_is_unknown", text)]


def _held_of(asked: AskedPrometheusAnswers, at: str) -> Held:
    def gauges(name: str, answer: PrometheusAnswer | None) -> list[Gauge]:
        pointer = f"{at}/{name}"
        return [
            Gauge(where, "", _labels(series.metric), value_at(series, where))
            for index, series in enumerate(series_of(answer, pointer))
            if (where := f"{pointer}/data/result/{index}")
        ]

    shares, running = gauges("kv_usage", asked.kv_usage), gauges("running", asked.running)
    return held(shares, running, gauges("capacity", asked.capacity))


def _labels(metric: dict[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in metric.items() if name != "__name__"))


def _check_models(answer: PrometheusAnswer, pointer: str) -> None:
    names = {model_of(_labels(series.metric)) for series in series_of(answer, pointer)} - {None}
    if len(names) > 1:
        detail = f"counts the requests of {len(names)} models together: ask for one by its model_name"
        raise Refused(Fault(f"{pointer}/data/result", detail))


def _with_sum(words: str, side: Marginal, sums: PrometheusAnswer, pointer: str, found: list[Found]) -> Marginal:
    at = f"{pointer}/data/result"
    if side.tokens is not None:
        raise Refused(Fault(pointer, "is in the native histogram already: leave it out"))
    total = sum(value_at(series, f"{at}/{index}") for index, series in enumerate(series_of(sums, pointer)))
    tokens, clamped = placed(at, f"sum of {words}", side.bins, round(total))
    found += clamped
    return msgspec.structs.replace(side, tokens=tokens)


def _marginal(words: str, several: Sequence[Counted], found: list[Found]) -> Marginal:
    bins, lost = merged(several)
    if lost:
        text = (
            f"The {words} were counted at different edges: {lost} of them lie inside bins of others and were given up."
        )
        found.append(Found("edges_differ", text))
    return Marginal(bins=bins, tokens=tokens_of(several))


def _sound(series: Counted, found: list[Found]) -> Counted:
    tokens, clamped = placed(series.pointer, series.place or "sum", series.bins, series.tokens)
    found += clamped
    return msgspec.structs.replace(series, tokens=tokens)


def _caps(asked: int | tuple[int, ...] | None, texts: int) -> Sequence[int | None]:
    if not isinstance(asked, tuple):
        return [asked] * texts
    if len(asked) != texts:
        raise Refused(Fault(CAP, f"has {len(asked)} values for {texts} texts: give one for all, or one for each"))
    return asked
