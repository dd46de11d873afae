"""What a running request held: cache in use over requests running, where both are stated of the same engine."""

import pytest

from service.errors import Refused
from tests.exposition import read, sglang, texts_by_code, vllm

ONE = [(3000, 20)] * 1000


def gauges(usage: float, running: int, *, engine: int = 0, name: str = "kv_cache_usage_perc") -> list[str]:
    labels = f'engine="{engine}",model_name="llama"'
    return [f"vllm:{name}{{{labels}}} {usage}", f"vllm:num_requests_running{{{labels}}} {running}"]


def info(engine: int = 0, **fields: object) -> str:
    labels = {"block_size": 16, "cache_dtype": "auto", "engine": engine, **fields}
    written = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"vllm:cache_config_info{{{written}}} 1.0"


@pytest.mark.parametrize("name", ["kv_cache_usage_perc", "gpu_cache_usage_perc"])
def test_vllm_states_a_share_and_its_capacity(name: str) -> None:
    more = [*gauges(0.25, 8, name=name), info(kv_cache_size_tokens=64_000, num_gpu_blocks=5000)]
    marginals = read(text=vllm(ONE, more=more))
    assert marginals.mean_held_tokens == 2000
    assert "a prefix that requests share counts once" in texts_by_code(marginals)["mean_held_is_measured"]


def test_older_releases_state_blocks() -> None:
    more = [*gauges(0.25, 10), info(kv_cache_size_tokens="None", num_gpu_blocks=5000)]
    marginals = read(text=vllm(ONE, more=more))
    assert marginals.mean_held_tokens == 2000
    assert "blocks x block size: right for models with one kind" in texts_by_code(marginals)["mean_held_is_measured"]


def test_it_is_a_ratio_of_sums_over_engines_pods_and_scrapes() -> None:
    def pod(usage: float, running: int, size: int) -> str:
        return vllm(ONE, more=[*gauges(usage, running), info(kv_cache_size_tokens=size)])

    two = vllm(ONE, engine=0, more=[*gauges(0.5, 10), info(kv_cache_size_tokens=10_000)])
    two += vllm(ONE, engine=1, more=[*gauges(0.1, 2, engine=1), info(1, kv_cache_size_tokens=20_000)])
    assert read(text=two).mean_held_tokens == pytest.approx(7000 / 12)
    assert read(text=[two, pod(0.5, 38, 26_000)]).mean_held_tokens == pytest.approx(20_000 / 50)
    later = vllm(ONE * 2, more=[*gauges(0.8, 10), info(kv_cache_size_tokens=10_000)])
    marginals = read(text=later, earlier=pod(0.2, 40, 10_000))
    assert marginals.mean_held_tokens == pytest.approx(10_000 / 50)
    assert "over the instants of two scrapes" in texts_by_code(marginals)["mean_held_is_measured"]


def test_sglang_states_tokens_or_a_share_of_them() -> None:
    running, size = (
        'sglang:num_running_reqs{model_name="llama"} 5',
        'sglang:max_total_num_tokens{model_name="llama"} 20000',
    )
    used = 'sglang:num_used_tokens{model_name="llama"} 6000'
    share = 'sglang:token_usage{model_name="llama"} 0.25'
    assert read(text=sglang(ONE, more=[running, size, used, share])).mean_held_tokens == 1200
    assert read(text=sglang(ONE, more=[running, size, share])).mean_held_tokens == 1000


def test_nothing_is_held_while_nothing_runs() -> None:
    marginals = read(text=vllm(ONE, more=[*gauges(0.0, 0), info(kv_cache_size_tokens=64_000)]))
    assert marginals.mean_held_tokens is None
    assert texts_by_code(marginals).keys() == {"lengths_are_since_start"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (gauges(0.25, 8), "the tokens of the cache are not stated"),
        ([*gauges(0.25, 8), info(num_gpu_blocks="None")], "the tokens of the cache are not stated"),
        ([*gauges(0.25, 8), info(engine=1, kv_cache_size_tokens=9)], "the tokens of the cache are not stated"),
        (
            [*gauges(0.25, 8), 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="64000"} 1',
             'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="32000"} 1'],
            "more than one cache has the labels",
        ),
        ([gauges(0.25, 8)[0], info(kv_cache_size_tokens=64_000)], "no running requests are counted"),
    ],
)  # fmt: skip
def test_what_cannot_be_paired_is_said(more: list[str], why: str) -> None:
    marginals = read(text=vllm(ONE, more=more))
    assert marginals.mean_held_tokens is None
    assert why in texts_by_code(marginals)["mean_held_is_unknown"]


@pytest.mark.parametrize(
    ("usage", "running"), [("25.0", "8"), ("-0.1", "8"), ("NaN", "8"), ("0.25", "NaN"), ("0.2", "-1")]
)
def test_impossible_gauges_are_refused(usage: str, running: str) -> None:
    more = [*gauges(0.5, 8), info(kv_cache_size_tokens=64_000)]
    more = [more[0].replace("0.5", usage), more[1].replace("} 8", f"}} {running}"), more[2]]
    with pytest.raises(Refused) as caught:
        read(text=vllm(ONE, more=more))
    assert caught.value.faults[0].pointer == "/workload/text"
    assert caught.value.faults[0].detail.startswith("line 39: " if running == "8" else "line 40: ")


def test_a_mean_beyond_the_longest_request_is_left_out_and_said() -> None:
    """As where blocks of several kinds of cache are counted together."""
    more = [*gauges(0.9, 10), info(num_gpu_blocks=100_000)]
    marginals = read(text=vllm(ONE, more=more))
    assert marginals.mean_held_tokens is None
    assert "144,000.0 tokens for each running request are more" in texts_by_code(marginals)["mean_held_is_unknown"]
    assert read(text=vllm([*ONE, (8000, 20)], more=more)).mean_held_tokens == 144_000  # nobody said how long it was
