"""Answers of Prometheus' HTTP API: classic histograms by `le`, native ones, and the figures beside them."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.capacity.workload import Bin
from service.errors import InvalidDocument, Refused
from tests.exposition import read, texts_by_code

Answer = dict[str, Any]


def vector(*elements: Mapping[str, Any]) -> Answer:
    return {"status": "success", "data": {"resultType": "vector", "result": list(elements)}}


def by_le(counts: Mapping[str, str], **labels: str) -> Answer:
    return vector(*({"metric": labels | {"le": le}, "value": [1763700000.5, count]} for le, count in counts.items()))


def single(value: str, **labels: str) -> Answer:
    return vector({"metric": labels, "value": [1763700000, value]})


def native(count: str, total: str, *buckets: list[Any]) -> Answer:
    return vector({"metric": {}, "histogram": [1763700000, {"count": count, "sum": total, "buckets": list(buckets)}]})


PROMPT = by_le({"100": "1000.2", "1": "0", "+Inf": "2000.6", "1000": "1999.7"})
OUTPUT = by_le({"1": "0", "100": "2000.6", "+Inf": "2000.6"})


def refused(**result: Answer) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        read(result=result)
    (fault,) = caught.value.faults
    return fault.pointer, fault.detail


def test_counts_by_le_are_read_in_any_order_and_rounded_as_they_add_up() -> None:
    marginals = read(result={"prompt": PROMPT, "output": OUTPUT})
    assert marginals.prompt.bins == (Bin(1, 100, 1000), Bin(100, 1000, 1000), Bin(1000, None, 1))
    assert marginals.output.bins == (Bin(1, 100, 2001),)
    assert (marginals.prompt.tokens, marginals.output.tokens) == (None, None)
    assert (marginals.mean_held_tokens, marginals.found) == (None, ())


def test_sums_and_gauges_come_beside() -> None:
    where = {"instance": "pod-1:8000", "engine": "0"}
    marginals = read(
        result={
            "prompt": PROMPT,
            "output": OUTPUT,
            "prompt_sum": single("400000.4"),
            "output_sum": single("60000"),
            "kv_usage": single("0.5", **where),
            "running": single("16.5", **where),
            "capacity": single("1", __name__="vllm:cache_config_info", block_size="16", num_gpu_blocks="4125", **where),
        }
    )
    assert (marginals.prompt.tokens, marginals.output.tokens) == (400_000, 60_000)
    assert marginals.mean_held_tokens == 2000


def test_each_pod_by_itself_adds_up_too() -> None:
    pods = [by_le({"100": "990", "+Inf": "1000"}, pod=f"pod-{number}")["data"]["result"] for number in range(2)]
    marginals = read(result={"prompt": vector(*pods[0], *pods[1]), "output": by_le({"100": "2000", "+Inf": "2000"})})
    assert marginals.prompt.bins == (Bin(0, 100, 1980), Bin(100, None, 20))


def test_counts_that_fall_slightly_are_kept_at_what_came_before_and_said() -> None:
    prompt = by_le({"100": "1000.2", "200": "999.9", "1000": "1999.7", "+Inf": "1999.7"})
    marginals = read(result={"prompt": prompt, "output": by_le({"100": "2000", "+Inf": "2000"})})
    assert marginals.prompt.bins == (Bin(0, 100, 1000), Bin(200, 1000, 1000))
    assert "by up to 0.3" in texts_by_code(marginals)["counts_were_repaired"]


def test_counts_that_fall_by_far_contradict_each_other() -> None:
    prompt = by_le({"100": "1000", "200": "900", "1000": "2000", "+Inf": "2000"})
    pointer, detail = refused(prompt=prompt, output=OUTPUT)
    assert pointer == "/workload/result/prompt/data/result"
    assert "fall by 100 from one edge to the next" in detail


def test_a_bucket_of_nan_counts_in_the_next_and_is_said() -> None:
    prompt = by_le({"100": "1000", "200": "NaN", "1000": "2000", "+Inf": "2000"})
    marginals = read(result={"prompt": prompt, "output": by_le({"100": "2000", "+Inf": "2000"})})
    assert marginals.prompt.bins == (Bin(0, 100, 1000), Bin(100, 1000, 1000))
    assert texts_by_code(marginals)["buckets_are_not_a_number"].startswith("1 of 4 buckets were NaN")


def changed(number: int, **fields: object) -> Answer:
    """OUTPUT with one element changed."""
    elements = list(OUTPUT["data"]["result"])
    elements[number] = {**elements[number], **fields}
    return vector(*elements)


@pytest.mark.parametrize(
    ("prompt", "pointer", "detail"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "", "bad_data: parse error"),
        ({"status": "error"}, "", "Prometheus answered with an error"),
        (vector(), "/data/result", "is empty"),
        ({"status": "success"}, "/data/result", "is empty"),
        (by_le({"1": "0", "100": "NaN", "+Inf": "NaN"}), "/data/result", 'no number at le="+Inf"'),
        (by_le({"1": "0", "100": "5"}), "/data/result", 'no number at le="+Inf"'),
        (changed(1, value=[1, "-3"]), "/data/result/1/value/1", "-3 is no count of requests"),
        (changed(1, value=[1, "+Inf"]), "/data/result/1/value/1", "inf is no count of requests"),
        (changed(1, value=[1, "five"]), "/data/result/1/value/1", "'five' is not a number"),
        (changed(1, metric={"le": "1"}), "/data/result/1", "is another series of the same labels: sum by (le)"),
        (changed(1, metric={}), "/data/result/1/metric/le", "is no upper edge"),
        (changed(1, metric={"le": "NaN"}), "/data/result/1/metric/le", "is no upper edge"),
        (by_le({"+Inf": "0", "1": "0"}), "", "no prompts were counted"),
    ],
)
def test_an_answer_that_says_no_lengths_is_refused_by_its_place(prompt: Answer, pointer: str, detail: str) -> None:
    at, said = refused(prompt=prompt, output=OUTPUT)
    assert at == f"/workload/result/prompt{pointer}"
    assert detail in said


def test_other_kinds_of_result_are_refused() -> None:
    matrix = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}}
    pointer, detail = refused(prompt=matrix, output=OUTPUT)
    assert pointer == "/workload/result/prompt/data/resultType"
    assert "'matrix' is none of: vector" in detail


def test_several_models_are_not_added_up() -> None:
    answers = [by_le({"100": "600", "+Inf": "1000"}, model_name=name)["data"]["result"] for name in ("a", "b")]
    pointer, detail = refused(prompt=vector(*answers[0], *answers[1]), output=OUTPUT)
    assert pointer == "/workload/result/prompt/data/result"
    assert "2 models together" in detail


def test_what_prometheus_warns_of_is_said_and_what_else_it_adds_let_pass() -> None:
    prompt = {**PROMPT, "warnings": ["partial answer"], "infos": ["x"], "stats": {"seriesFetched": "3"}}
    assert texts_by_code(read(result={"prompt": prompt, "output": OUTPUT})) == {"prometheus_warned": "partial answer"}


def test_a_native_histogram_is_read_by_the_rules_of_its_buckets() -> None:
    prompt = native("2000", "52000", [3, "-1e-128", "1e-128", "10"], [0, "1", "2", "90"], [1, "3", "5", "100"],
                    [2, "5", "8", "800"], [3, "20", "40", "500"], [0, "64", "76.10925536017416", "500"])  # fmt: skip
    marginals = read(result={"prompt": prompt, "output": by_le({"100": "2000", "+Inf": "2000"})})
    assert marginals.prompt.bins == (
        Bin(0, 1, 10),  # zero tokens count as one
        Bin(1, 2, 90),
        Bin(2, 4, 100),  # [3, 5)
        Bin(5, 7, 800),  # (5, 8)
        Bin(19, 40, 500),  # [20, 40]
        Bin(64, 76, 500),
    )
    assert marginals.prompt.tokens == 52_000


def test_a_classic_histogram_kept_as_native_is_read_at_its_edges() -> None:
    """With custom buckets: the first begins at -Inf, the last ends at +Inf."""
    buckets = [[0, "-Inf", "100", "999.6"], [0, "100", "200", "900"], [0, "500", "+Inf", "100.9"]]
    marginals = read(result={"prompt": native("2000.5", "300000", *buckets), "output": OUTPUT})
    assert marginals.prompt.bins == (Bin(0, 100, 1000), Bin(100, 200, 900), Bin(500, None, 100))
    closed = read(result={"prompt": native("2000.5", "300000", *buckets), "output": OUTPUT}, max_model_len=8192)
    assert closed.prompt.bins[-1] == Bin(500, 8192, 100)


@pytest.mark.parametrize(
    ("histogram", "pointer", "detail"),
    [
        (native("9", "9", [0, "1", "2", "8"]), "/count", "is 9, and its buckets count 8"),
        (native("NaN", "9", [0, "1", "2", "8"]), "/count", "is NaN"),
        (native("8", "9", [0, "1.1", "1.9", "8"]), "/buckets/0", "no length lies between 1.1 and 1.9"),
        (native("8", "9", [0, "-4", "-2", "8"]), "/buckets/0", "no length lies between -4 and -2"),
        (native("8", "9", [0, "5", "2", "8"]), "/buckets/0", "no length lies between 5 and 2"),
        (native("8", "9", [0, "NaN", "2", "8"]), "/buckets/0", "no length lies between NaN and 2"),
        (native("8", "9", [0, "1", "2", "-8"]), "/buckets/0/3", "-8 is no count of requests"),
        (native("8", "9", [0, "1", "2", "NaN"]), "/buckets/0/3", "NaN is no count of requests"),
        (native("8", "9", [0, "x", "2", "8"]), "/buckets/0/1", "'x' is not a number"),
        (native("8", "90", [0, "1", "2", "8"]), "", "90 tokens can't be the sum of these bins, which hold 16 and 16"),
    ],
)
def test_a_native_histogram_that_contradicts_itself_is_refused(histogram: Answer, pointer: str, detail: str) -> None:
    at, said = refused(prompt=histogram, output=OUTPUT)
    assert at == f"/workload/result/prompt/data/result/0/histogram/1{pointer}"
    assert detail in said


def test_native_and_classic_buckets_side_by_side_are_refused() -> None:
    both = vector(*native("8", "16", [0, "1", "2", "8"])["data"]["result"], *PROMPT["data"]["result"])
    pointer, detail = refused(prompt=both, output=OUTPUT)
    assert pointer == "/workload/result/prompt/data/result/1"
    assert "ask for one of the two" in detail


def test_sums_and_gauges_that_are_no_figures_are_refused() -> None:
    at = "/workload/result"
    assert (
        refused(prompt=PROMPT, output=OUTPUT, prompt_sum=single("NaN"))[0] == f"{at}/prompt_sum/data/result/0/value/1"
    )
    assert refused(prompt=PROMPT, output=OUTPUT, output_sum=single("9e9"))[0] == f"{at}/output_sum/data/result"
    histogram = native("8", "16", [0, "1", "2", "8"])
    assert refused(prompt=PROMPT, output=OUTPUT, prompt_sum=histogram)[0] == f"{at}/prompt_sum/data/result/0"
    part = {"kv_usage": single("0.25"), "running": single("3")}
    with pytest.raises(InvalidDocument, match="give all three") as caught:
        read(result={"prompt": PROMPT, "output": OUTPUT, **part})
    assert caught.value.faults[0].pointer == at
    usage = {"kv_usage": single("25"), "running": single("3"), "capacity": single("1000")}
    assert refused(prompt=PROMPT, output=OUTPUT, **usage)[0] == f"{at}/kv_usage/data/result/0"
    sides = {"prompt": native("2000", "4000", [0, "1", "2", "2000"]), "output": OUTPUT}
    assert refused(**sides, prompt_sum=single("4000"))[0] == f"{at}/prompt_sum"
