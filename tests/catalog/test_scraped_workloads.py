"""What engines count, planned: low confidence and a bracket, narrower where it was measured what requests hold."""

from typing import Any

import msgspec

from service.catalog.bundled import bundled_catalog
from service.catalog.planning import estimate
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.exposition import requests_of, vllm

GAUGES = (
    'vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.4',
    'vllm:num_requests_running{engine="0",model_name="llama"} 200',
    'vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="440112"} 1',
)


def answer(*gauges: str) -> dict[str, Any]:
    document = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "h100-sxm-80gb",
        "levers": {"max_model_len": 8192},
        "workload": {"kind": "prometheus", "text": vllm(requests_of(3000, 41), more=gauges), "max_model_len": 8192},
    }
    asked = strict_json.convert(document, AskedQuestion)
    answered: dict[str, Any] = msgspec.json.decode(estimate(asked, bundled_catalog()).answer_bytes)
    return answered


def test_a_scrape_is_planned_and_a_measured_mean_narrows_its_bracket() -> None:
    alone, measured = answer(), answer(*GAUGES)
    assert alone["workload"]["confidence"] == "low"
    codes = {caveat["code"] for caveat in measured["caveats"]}
    assert codes >= {"marginals_only", "lengths_are_since_start", "mean_held_is_measured"}
    wide, narrow = (found["occupancy"]["bracket"] for found in (alone, measured))
    assert narrow["high"] - narrow["low"] < wide["high"] - wide["low"]
