"""Texts of any requests read back bin for bin, and texts that nobody wrote for us are refused in time and in words."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from service.errors import Refused
from tests.exposition import Requests, bins_of, read, vllm, vllm_edges

WINDOWS = (2048, 8192, 32_768, 131_072)

_lengths = st.integers(1, 2000) | st.sampled_from([1, 2, 5, 10, 100, 1000, 2000, 2048])
_requests = st.lists(st.tuples(_lengths, _lengths), min_size=1, max_size=40)
_labels = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


def exposed(requests: Requests, window: int, model: str, write: Callable[[CollectorRegistry], bytes]) -> str:
    """What the client library that engines use exposes of requests."""
    registry = CollectorRegistry()
    sides = [
        Histogram(name, "Lengths.", ["model_name"], registry=registry, buckets=vllm_edges(window)).labels(model)
        for name in ("vllm:request_prompt_tokens", "vllm:request_generation_tokens")
    ]
    for request in requests:
        for side, length in zip(sides, request, strict=True):
            side.observe(length)
    return write(registry).decode()


@pytest.mark.parametrize("write", [generate_latest, generate_openmetrics], ids=["0.0.4", "OpenMetrics"])
@given(requests=_requests, window=st.sampled_from(WINDOWS), model=_labels)
def test_any_requests_read_back_bin_for_bin(
    write: Callable[[CollectorRegistry], bytes], requests: Requests, window: int, model: str
) -> None:
    marginals = read(text=exposed(requests, window, model, write), max_model_len=window)
    for side, index in ((marginals.prompt, 0), (marginals.output, 1)):
        lengths = [request[index] for request in requests]
        assert side.bins == bins_of(lengths, vllm_edges(window), window)
        assert side.tokens == sum(lengths)


@given(
    pods=st.lists(st.tuples(_requests, st.sampled_from(WINDOWS)), min_size=1, max_size=4),
    before=st.lists(_requests | st.just([]), min_size=4, max_size=4),
)
def test_pods_of_any_windows_add_up_to_what_lies_between_common_edges(
    pods: list[tuple[Requests, int]], before: list[Requests]
) -> None:
    marginals = read(
        text=[vllm([*begun, *requests], window) for (requests, window), begun in zip(pods, before, strict=False)],
        earlier=[vllm(begun, window) for (_, window), begun in zip(pods, before, strict=False)],
        max_model_len=[window for _, window in pods],
    )
    for side, index in ((marginals.prompt, 0), (marginals.output, 1)):
        lengths = [request[index] for requests, _ in pods for request in requests]
        assert side.tokens == sum(lengths)
        assert sum(part.count for part in side.bins) == len(lengths)
        last = 0
        for part in side.bins:  # disjoint, rising, and each with the requests that lie in it
            assert part.upper is not None
            assert last <= part.lower < part.upper
            assert part.count == sum(part.lower < length <= part.upper for length in lengths)
            last = part.upper


@given(st.text(max_size=200) | st.text('vllm:request_prompt_tokens_bucket{}",=\\# \n\t\r+-.e019InfNa', max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(Refused):
        read(text=f"{vllm([(3, 4)])}vllm:num_requests_running{text}".replace("\0", ""))


@given(st.data())
def test_any_damage_to_a_text_is_read_or_refused(data: st.DataObject) -> None:
    text = vllm([(30, 4), (900, 30)])
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(at + 30, len(text))))
    with suppress(Refused):
        read(text=text[:at] + data.draw(st.text(max_size=8)).replace("\0", "") + text[until:])


BUCKET = "vllm:request_prompt_tokens_bucket"
MIB = 2**20

HOSTILE = {
    "one line of many labels": BUCKET + "{" + ",".join(f'a{i}="b"' for i in range(MIB // 10)) + "} 1",
    "one line of backslashes": BUCKET + '{a="' + "\\" * MIB + '"} 1',
    "one line of quotes": BUCKET + "{" + '"' * MIB,
    "lines of quotes": (BUCKET + '{a="' + '\\"' * 8000 + '"} 1\n') * 60,
    "lines of labels": (BUCKET + "{" + ",".join(f'a{i}="b"' for i in range(1500)) + "} 1\n") * 60,
    "lines that are short": f"{BUCKET} 1\n" * 27_000,
    "a value of many digits": f"{BUCKET} {'9' * 10_000}",
    "a value of many digits that are one number": f"{BUCKET} {'9' * 4_000}",
    "white space": " " * MIB,
    "line feeds": "\n" * MIB,
    "braces": ('{"vllm:' + "x" * 50 + "\n") * 17_000,
    "thousands of series": "\n".join(f'{BUCKET}{{pod="{i}",le="+Inf"}} 1' for i in range(16_000)),
    "thousands of edges": "\n".join(f'{BUCKET}{{le="{i}"}} {i}' for i in range(16_000)),
    "thousands of models": "\n".join(f'{BUCKET}{{model_name="{i}",le="+Inf"}} 1' for i in range(16_000)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused_within_seconds(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(Refused) as caught:
        read(text=text)
    took = time.perf_counter() - begun
    assert took < 10
    print(f"{took:.2f} s")
    assert len(caught.value.faults) <= 20
    assert all(len(fault.detail) < 3000 for fault in caught.value.faults)


def test_thousands_of_series_and_edges_are_added_up_within_seconds() -> None:
    pods = [vllm([(30 + pod, 4)] * 10, engine=pod) for pod in range(400)]
    begun = time.perf_counter()
    marginals = read(text="".join(pods))
    assert time.perf_counter() - begun < 10
    assert sum(part.count for part in marginals.prompt.bins) == 4000


CACHES = {
    "thousands of caches": "\n".join(
        f'vllm:kv_cache_usage_perc{{pod="{i}"}} 1\n'
        f'vllm:cache_config_info{{pod="{i}",block_size="16",kv_cache_size_tokens="5000"}} 1\n'
        f'vllm:num_requests_running{{pod="{i}"}} 1'
        for i in range(6_000)
    ),
    "thousands of kinds of caches": "\n".join(
        f'vllm:kv_cache_usage_perc{{a{i}="1"}} 1\nvllm:cache_config_info{{a{i}="1",b{i}="1"}} 1' for i in range(9_000)
    ),
}


@pytest.mark.parametrize("text", CACHES.values(), ids=CACHES)
def test_thousands_of_caches_are_found_within_seconds(text: str) -> None:
    begun = time.perf_counter()
    marginals = read(text=f"{text}\n{vllm([(3000, 20)])}")
    took = time.perf_counter() - begun
    assert took < 10
    print(f"{took:.2f} s")
    assert marginals.mean_held_tokens == (5000 if "block" in text else None)
