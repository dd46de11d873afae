"""Two scrapes: only what finished in between counts, whatever each pod went through meanwhile."""

import pytest

from service.errors import Refused
from tests.exposition import bins_of, read, requests_of, sglang, texts_by_code, vllm, vllm_edges

BEFORE, BETWEEN = requests_of(1500, 11), requests_of(1200, 12)


def test_what_finished_between_two_scrapes_counts() -> None:
    marginals = read(text=vllm(BEFORE + BETWEEN), earlier=vllm(BEFORE))
    assert marginals.prompt.bins == bins_of([prompt for prompt, _ in BETWEEN], vllm_edges(8192))
    assert marginals.prompt.tokens == sum(prompt for prompt, _ in BETWEEN)
    assert marginals.output.bins == bins_of([output for _, output in BETWEEN], vllm_edges(8192))
    assert marginals.output.tokens == sum(output for _, output in BETWEEN)
    assert marginals.found == ()


def test_a_pod_that_started_again_is_taken_whole_and_said() -> None:
    steady, again = requests_of(900, 13), requests_of(800, 14)
    marginals = read(text=[vllm(BEFORE + steady), vllm(again)], earlier=[vllm(BEFORE), vllm(BEFORE)])
    together = [*steady, *again]
    assert marginals.prompt.bins == bins_of([prompt for prompt, _ in together], vllm_edges(8192))
    assert marginals.prompt.tokens == sum(prompt for prompt, _ in together)
    assert marginals.output.bins == bins_of([output for _, output in together], vllm_edges(8192))
    assert texts_by_code(marginals) == {
        "engine_restarted": (
            'text 1, {engine="0",model_name="llama"} started again between the scrapes: its later counts are taken'
            " whole."
        )
    }


def test_a_new_start_that_only_one_bin_shows_is_seen_on_both_sides() -> None:
    """More requests than before in every cumulative count, but fewer of 100 to 200 prompt tokens."""
    before = [(150, 30)] * 10
    again = [(50, 30)] * 1500 + [(150, 30)] * 5
    marginals = read(text=vllm(again), earlier=vllm(before))
    assert marginals.prompt.bins == bins_of([prompt for prompt, _ in again], vllm_edges(8192))
    assert marginals.output.bins == bins_of([output for _, output in again], vllm_edges(8192))
    assert texts_by_code(marginals).keys() == {"engine_restarted"}


def test_a_new_start_with_another_longest_request_is_one() -> None:
    marginals = read(text=vllm(BEFORE + BETWEEN, 32_768), earlier=vllm(BEFORE, 8192))
    assert marginals.prompt.tokens == sum(prompt for prompt, _ in BEFORE + BETWEEN)
    assert texts_by_code(marginals).keys() == {"engine_restarted"}


def test_engines_that_came_and_went_are_said() -> None:
    earlier = [vllm(BEFORE) + vllm(BEFORE, engine=1), "vllm:num_requests_running 0\n"]
    later = [vllm(BEFORE + BETWEEN), sglang(BETWEEN, vllm_edges(8192))]
    marginals = read(text=later, earlier=earlier)
    assert marginals.prompt.bins == bins_of([prompt for prompt, _ in BETWEEN * 2], vllm_edges(8192))
    found = texts_by_code(marginals)
    assert found.keys() == {"engine_started", "engine_is_gone"}
    assert found["engine_is_gone"].startswith('text 0, {engine="1",model_name="llama"}')
    assert found["engine_started"].startswith('text 1, {model_name="llama"}')


def test_a_window_without_requests_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        read(text=vllm(BEFORE), earlier=vllm(BEFORE))
    assert caught.value.faults[0].detail.startswith("no prompts were counted")


def test_each_pod_needs_both_scrapes() -> None:
    with pytest.raises(Refused) as caught:
        read(text=[vllm(BEFORE), vllm(BEFORE)], earlier=vllm(BEFORE))
    assert caught.value.faults[0].pointer == "/workload/earlier"


def test_a_fault_of_the_earlier_scrape_points_there() -> None:
    with pytest.raises(Refused) as caught:
        read(text=[vllm(BETWEEN)], earlier=[vllm(BEFORE).replace("} 1500.0", "} 1499.0", 1)])
    assert caught.value.faults[0].pointer == "/workload/earlier/0"


def test_reuse_of_sglang_is_of_all_its_sources() -> None:
    counters = [
        'sglang:prompt_tokens_total{model_name="llama"} 4000',
        'sglang:cached_tokens_total{cache_source="device",model_name="llama"} 500',
        'sglang:cached_tokens_total{cache_source="host",model_name="llama"} 300',
    ]
    marginals = read(text=sglang(BEFORE, more=counters))
    assert texts_by_code(marginals)["prefixes_were_reused"].startswith("20.0% of")


def test_reuse_is_of_the_window() -> None:
    def counters(queries: int, hits: int) -> list[str]:
        return [f"vllm:prefix_cache_queries_total {queries}", f"vllm:prefix_cache_hits_total {hits}"]

    marginals = read(
        text=vllm(BEFORE + BETWEEN, more=counters(3000, 1500)), earlier=vllm(BEFORE, more=counters(1000, 900))
    )
    assert texts_by_code(marginals)["prefixes_were_reused"].startswith("30.0% of")
