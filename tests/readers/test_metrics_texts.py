"""Scraped texts: the histograms that the requests behind them give, and every contradiction refused by its place."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from service.capacity.workload import Bin
from service.errors import Refused
from tests.collected import FOLDER as COLLECTED
from tests.collected import collected
from tests.exposition import (
    SGLANG_EDGES,
    bins_of,
    histogram,
    read,
    requests_of,
    sglang,
    texts_by_code,
    vllm,
    vllm_edges,
)

FOLDER = Path(__file__).parent / "exposition"


def faults_of(**fields: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - fields of a workload
    with pytest.raises(Refused) as caught:
        read(**fields)
    return [(fault.pointer, fault.detail) for fault in caught.value.faults]


ONE = [(300, 20)] * 1000


def test_one_pod_gives_the_histogram_of_its_requests() -> None:
    requests = requests_of(3000, 1)
    prompts, outputs = [prompt for prompt, _ in requests], [output for _, output in requests]
    marginals = read(text=vllm(requests))
    assert marginals.prompt.bins == bins_of(prompts, vllm_edges(8192))
    assert marginals.output.bins == bins_of(outputs, vllm_edges(8192))
    assert (marginals.prompt.tokens, marginals.output.tokens) == (sum(prompts), sum(outputs))
    assert marginals.mean_held_tokens is None
    assert texts_by_code(marginals) == {
        "lengths_are_since_start": "One scrape: lengths are of all requests since the engines started."
    }


def test_a_real_looking_text_is_read_with_everything_else_in_it() -> None:
    """The file has these requests: (3, 1), (5, 8), (60, 200), (61, 1), (2000, 201), (9000, 5001) at 16,384 tokens."""
    marginals = read(text=(FOLDER / "vllm.txt").read_text())
    assert marginals.prompt.bins == (Bin(2, 5, 2), Bin(50, 100, 2), Bin(1000, 2000, 1), Bin(5000, 10000, 1))
    assert marginals.output.bins == (
        Bin(0, 1, 2),
        Bin(5, 10, 1),
        Bin(100, 200, 1),
        Bin(200, 500, 1),
        Bin(5000, 10000, 1),
    )
    assert (marginals.prompt.tokens, marginals.output.tokens) == (11_129, 5_412)
    # 0.0375 of 450,224 tokens for 4 requests.
    assert marginals.mean_held_tokens == pytest.approx(4220.85)
    found = texts_by_code(marginals)
    assert found.keys() == {
        "lengths_are_since_start", "mean_held_is_measured", "prefixes_were_reused", "few_requests"
    }  # fmt: skip
    assert "4,220.8 tokens at the instant of one scrape, which is no average" in found["mean_held_is_measured"]
    assert found["prefixes_were_reused"].startswith("45.0% of the prompts' tokens")
    assert found["few_requests"].startswith("Only 6 requests")


TRACES = sorted((COLLECTED / "traces").glob("*.histogram.json"))


@collected
@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.name.partition(".")[0])
def test_public_traces_read_back_as_they_would_have_been_exposed(file: Path) -> None:
    """Where requests lie in their bins, by the sum: 0.30 to 0.54 of the way up was published for these traces."""
    trace = json.loads(file.read_bytes())["vllm_125"]
    lines: list[str] = []
    for name, side in (("prompt", trace["prompt"]), ("generation", trace["output"])):
        family = f"vllm:request_{name}_tokens"
        buckets = zip(side["le"], side["cumulative"], strict=True)
        lines += [f'{family}_bucket{{le="{edge}"}} {count}' for edge, count in buckets]
        lines += [f"{family}_sum {side['sum']}", f"{family}_count {side['count']}"]
    marginals = read(text="\n".join(lines), max_model_len=trace["max_model_len"])
    for marginal, side in ((marginals.prompt, trace["prompt"]), (marginals.output, trace["output"])):
        edges = [int(edge) for edge in side["le"][:-1]]
        bounds, counts = pairwise([0, *edges, trace["max_model_len"]]), pairwise([0, *side["cumulative"]])
        bins = [Bin(*bound, after - before) for bound, (before, after) in zip(bounds, counts, strict=True)]
        assert marginal.bins == tuple(part for part in bins if part.count)
        assert marginal.tokens == side["sum"]
        lowest = sum(part.lower * part.count for part in marginal.bins)
        widths = sum(((part.upper or 0) - part.lower) * part.count for part in marginal.bins)
        assert 0.295 <= (side["sum"] - lowest) / widths <= 0.545


def test_openmetrics_with_exemplars_and_times_reads_the_same() -> None:
    text = (FOLDER / "vllm.txt").read_text()
    lines = [
        f'{line} 1763700000.123 # {{trace_id="x\\"y"}} 4.0 1763699999.5' if "_bucket{" in line else f"{line} 1763700000"
        for line in text.splitlines()
        if not line.startswith("#")
    ]
    assert read(text="\n".join([*lines, "# EOF", ""])) == read(text=text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('le="1.0"', 'le="1"'),
        ('le="5000.0"', 'le="5e+03"'),
        ("} 1000.0", "} 1e+03"),
        ("} 1000.0", "}\t1000 1763700000000"),
        ('model_name="llama"}', 'model_name="llama",}'),
        ('model_name="llama"', 'model_name="a\\\\b\\"c\\nd,{}= ü"'),
        ("\n", "\r\n"),
        ("\nvllm:", "\nvllm_"),
        ("vllm:request_prompt_tokens_bucket{", '{"vllm:request_prompt_tokens_bucket",'),
    ],
)
def test_other_ways_to_write_the_same_are_read_the_same(written: str, meant: str) -> None:
    text = vllm(ONE)
    assert written in text
    assert read(text=text.replace(written, meant)) == read(text=text)


def test_labels_in_another_order_are_the_same_series() -> None:
    text = vllm(ONE)
    turned = text.replace('engine="0",model_name="llama",le="500.0"', 'le="500.0",model_name="llama",engine="0"')
    assert turned != text
    assert read(text=turned) == read(text=text)


def test_sglang_is_read_at_its_own_edges_by_its_new_and_old_names() -> None:
    requests = requests_of(2000, 2, 200_000)
    text = sglang(requests)
    marginals = read(text=text)
    assert marginals.prompt.bins == bins_of([prompt for prompt, _ in requests], SGLANG_EDGES)
    assert marginals.output.bins == bins_of([output for _, output in requests], SGLANG_EDGES)
    old = text.replace("prompt_tokens_histogram", "request_prompt_tokens")
    old = old.replace("generation_tokens_histogram", "request_generation_tokens").replace("model_name", "name")
    assert read(text=old) == marginals


def test_engines_of_one_pod_and_pods_add_up() -> None:
    parts = [requests_of(700, seed) for seed in range(4)]
    texts = [
        vllm(parts[0]) + vllm(parts[1], engine=1),
        vllm(parts[2]) + vllm(parts[3], engine=1),
    ]
    together = read(text=vllm([request for part in parts for request in part]))
    assert read(text=texts) == together


def test_pods_of_other_longest_requests_add_up_by_what_both_know() -> None:
    short, long = requests_of(900, 5, 8192), requests_of(900, 6, 131_072)
    short += [(8000, 10), (8000, 10)]
    long += [(6000, 10), (9999, 10), (15_000, 10)]
    marginals = read(text=[vllm(short, 8192), vllm(long, 131_072)], max_model_len=[8192, 131_072])
    prompts = [prompt for prompt, _ in short + long]
    # (5000, 8192] of the one lies in (5000, 10000] of the other.
    assert marginals.prompt.bins == bins_of(prompts, vllm_edges(131_072))
    assert marginals.prompt.tokens == sum(prompts)
    assert "1" in texts_by_code(marginals)["edges_differ"]


def test_an_open_bin_below_edges_of_other_pods_needs_the_longest_request() -> None:
    texts = [vllm([*ONE, (8000, 10)]), vllm([*ONE, (90_000, 10)], 131_072)]
    ((pointer, detail),) = faults_of(text=texts)
    assert pointer == "/workload/max_model_len"
    assert "more than 5,000 tokens without an upper edge" in detail
    assert "lines 3 to 15" in detail
    closed = read(text=texts, max_model_len=[8192, 131_072])
    assert closed.prompt.bins == (Bin(200, 500, 2000), Bin(5000, 8192, 1), Bin(50_000, 100_000, 1))


def test_an_open_bin_that_all_pods_share_stays_open_or_ends_at_the_longest_request() -> None:
    texts = [vllm([*ONE, (8000, 10)]), vllm([*ONE, (7000, 10)])]
    assert read(text=texts).prompt.bins[-1] == Bin(5000, None, 2)
    assert read(text=texts, max_model_len=8192).prompt.bins[-1] == Bin(5000, 8192, 2)
    ((pointer, detail),) = faults_of(text=texts, max_model_len=4096)
    assert (pointer, "4,096 can't be the longest request" in detail) == ("/workload/max_model_len", True)
    ((pointer, _),) = faults_of(text=texts, max_model_len=[8192])
    assert pointer == "/workload/max_model_len"


def test_the_open_bin_is_said_above_5_percent_and_refused_above_20() -> None:
    def text(beyond: int) -> str:
        return vllm([(8000, 10)] * beyond + [(300, 10)] * (1000 - beyond))

    assert "much_is_in_the_open_bin" not in texts_by_code(read(text=text(50)))
    assert texts_by_code(read(text=text(51)))["much_is_in_the_open_bin"].startswith("5.1% of the prompts")
    assert "much_is_in_the_open_bin" in texts_by_code(read(text=text(200)))
    ((pointer, detail),) = faults_of(text=text(201))
    assert pointer == "/workload/text"
    assert "give max_model_len" in detail
    assert read(text=text(201), max_model_len=8192).prompt.bins[-1] == Bin(5000, 8192, 201)


def test_several_models_need_a_name() -> None:
    mine = requests_of(1500, 7)
    text = vllm(mine, model="mine") + vllm(ONE, model="other", engine=1)
    ((pointer, detail),) = faults_of(text=text)
    assert pointer == "/workload/model_name"
    assert "mine, other" in detail
    assert read(text=text, model_name="mine") == read(text=vllm(mine))
    ((pointer, detail),) = faults_of(text=text, model_name="third")
    assert (pointer, detail) == ("/workload/model_name", "no request is of third; models: mine, other")


CONTRADICTIONS = {
    "a count that is not the bucket of infinity": (
        'request_prompt_tokens_count{engine="0",model_name="llama"} 1000.0',
        'request_prompt_tokens_count{engine="0",model_name="llama"} 999.0',
        "line 16: _count is 999 and the bucket of +Inf counts 1,000",
    ),
    "counts that fall": ('le="2000.0"} 1000.0', 'le="2000.0"} 990.0', "line 13: its counts must not fall"),
    "no bucket of infinity": ('le="+Inf"', 'le="9999"', 'there is no bucket le="+Inf"'),
    "no count": ("request_prompt_tokens_count", "request_prompt_tokens_cnt", "it has no _count: the text may be cut"),
    "a sum above all bins": (
        'request_prompt_tokens_sum{engine="0",model_name="llama"} 300000.0',
        'request_prompt_tokens_sum{engine="0",model_name="llama"} 600000.0',
        "600,000 tokens can't be the sum of these bins, which hold 201,000 and 500,000",
    ),
    "a sum below all bins": (
        'request_prompt_tokens_sum{engine="0",model_name="llama"} 300000.0',
        'request_prompt_tokens_sum{engine="0",model_name="llama"} 190000.0',
        "190,000 tokens can't be the sum of these bins, which hold 201,000 and 500,000",
    ),
    "an edge that is none": ('le="2.0"', 'le="two"', "le='two' is no upper edge of a bucket"),
    "an edge that is not a number": ('le="2.0"', 'le="NaN"', "le='NaN' is no upper edge of a bucket"),
    "a negative edge": ('le="2.0"', 'le="-2.0"', "le='-2.0' is no upper edge of a bucket"),
    "an edge that comes twice": ('le="2.0"', 'le="1"', "lines 3 and 4 are of the same series"),
    "a count of NaN": ('le="1.0"} 0.0', 'le="1.0"} NaN', "line 3: nan is no count of requests or tokens"),
    "a negative count": ('le="1.0"} 0.0', 'le="1.0"} -1.0', "line 3: -1.0 is no count"),
    "a broken count": ('le="1.0"} 0.0', 'le="1.0"} 0.5', "line 3: 0.5 is no count"),
    "a count beyond all numbers": ('le="+Inf"} 1000.0', 'le="+Inf"} 1e300', "line 15: 1e+300 is no count"),
}


@pytest.mark.parametrize(("written", "wrong", "detail"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_series_that_contradicts_itself_is_refused_by_its_line(written: str, wrong: str, detail: str) -> None:
    text = vllm(ONE)
    assert written in text
    ((pointer, said),) = faults_of(text=[vllm(ONE), text.replace(written, wrong, 1)])
    assert pointer == "/workload/text/1"
    assert detail in said


def test_every_series_at_fault_is_named() -> None:
    text = vllm(ONE).replace('le="+Inf"} 1000.0', 'le="+Inf"} 1001.0')
    assert [pointer for pointer, _ in faults_of(text=[text, text])] == ["/workload/text/0"] * 2 + [
        "/workload/text/1"
    ] * 2


def test_a_sum_that_misses_by_little_is_taken_as_the_nearest_and_said() -> None:
    marginals = read(text=vllm(ONE).replace("} 300000.0", "} 200500.0"))
    assert marginals.prompt.tokens == 201_000
    assert "200,500" in texts_by_code(marginals)["sum_is_outside_of_the_bins"]


def test_requests_cancelled_before_their_first_token_count_as_of_one() -> None:
    marginals = read(text=vllm([*ONE, *[(300, 0)] * 20]))
    assert marginals.output.bins == (Bin(0, 1, 20), Bin(10, 20, 1000))


def test_prompts_and_outputs_that_are_not_of_the_same_requests_are_said_or_refused() -> None:
    def text(outputs: int) -> str:
        labels = 'engine="0",model_name="llama"'
        edges = vllm_edges(8192)
        lines = histogram("vllm:request_prompt_tokens", labels, [300] * 1000, edges)
        return "\n".join([*lines, *histogram("vllm:request_generation_tokens", labels, [20] * outputs, edges)])

    assert texts_by_code(read(text=text(998)))["counts_differ"].startswith("1,000 prompts and 998 outputs")
    ((_, detail),) = faults_of(text=text(899))
    assert "1,000 prompts and 899 outputs were counted: they can't be of the same requests" in detail
    ((_, detail),) = faults_of(text=text(0))
    assert detail.startswith("no outputs were counted")


@pytest.mark.parametrize("text", ["x", "\n\n", "# TYPE vllm:request_prompt_tokens histogram\n", "<html>no</html>"])
def test_a_text_without_lengths_is_refused(text: str) -> None:
    ((pointer, detail),) = faults_of(text=text)
    assert pointer == "/workload/text"
    assert "--collect-tokens-histogram" in detail


def test_a_pod_without_lengths_beside_others_is_said() -> None:
    marginals = read(text=[vllm(ONE), "vllm:num_requests_running 0\n"])
    assert texts_by_code(marginals)["text_without_lengths"] == "text 1 holds no histogram of lengths."


def test_a_contradiction_of_a_text_with_answers_or_without_either_is_refused() -> None:
    for fields in ({}, {"text": vllm(ONE), "result": {}}):
        assert faults_of(**fields)


def test_bucket_without_a_whole_number_in_it_is_refused() -> None:
    text = vllm(ONE).replace('le="500.0"', 'le="200.5"')
    ((_, detail),) = faults_of(text=text)
    assert "no length lies between 200 and 200.5, where it counts requests" in detail
