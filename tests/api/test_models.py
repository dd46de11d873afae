"""Models that are read from a config.json: alone, and inline in a question."""

import copy
from typing import Any

import httpx
import psycopg
import pytest

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
INLINE: dict[str, Any] = {
    "model": {"config": LLAMA_8B},
    "gpu": "h100-sxm-80gb",
    "levers": {"max_model_len": 8192},
}


def errors(response: httpx.Response) -> list[tuple[str, str]]:
    assert response.status_code == 422, response.text
    return [(error["pointer"], error["detail"]) for error in response.json()["errors"]]


def test_a_config_is_read_to_caches_and_parameters_each_with_its_source(client: httpx.Client) -> None:
    found = client.post("/v1/models/read", json={"config": LLAMA_8B}).json()
    assert (found["key"], len(found["digest"])) == ("inline/LlamaForCausalLM", 64)
    assert found["spec"]["parameters"]["value"] == 8_030_261_248
    assert found["spec"]["caches"]["value"] == [
        {"kind": "full", "layers": 32, "kv_heads": 8, "key_dim": 128, "value_dim": 128}
    ]
    assert found["spec"]["caches"]["source"] == "layers, heads and widths of the config.json"


def test_configs_that_mean_the_same_have_the_same_digest(client: httpx.Client) -> None:
    other = {"bos_token_id": 1, **dict(reversed(LLAMA_8B.items()))}
    one, same = (client.post("/v1/models/read", json={"config": config}).json() for config in (LLAMA_8B, other))
    assert one["digest"] == same["digest"]


def test_a_question_with_a_config_is_answered_like_the_catalogs_model(client: httpx.Client) -> None:
    inline = client.post("/v1/estimates", json=INLINE).json()
    known = client.post("/v1/estimates", json=INLINE | {"model": "meta-llama/Llama-3.1-8B-Instruct"}).json()
    assert inline["users"]["worst_case"] == known["users"]["worst_case"] == 53
    assert inline["kv_cache"] == known["kv_cache"]
    assert inline["inputs"]["model"]["version"] is None


def test_a_plan_of_an_inline_model_is_recorded_by_what_was_read(client: httpx.Client, rows: psycopg.Connection) -> None:
    first = client.post("/v1/plans", json=INLINE).json()["plan"]
    renamed = copy.deepcopy(INLINE)
    renamed["model"]["config"]["bos_token_id"] = 7
    assert client.post("/v1/plans", json=renamed).json()["plan"] == first
    wider = copy.deepcopy(INLINE)
    wider["model"]["config"]["num_key_value_heads"] = 16
    assert client.post("/v1/plans", json=wider).json()["plan"] != first
    stored = rows.execute("SELECT model, model_version FROM plans WHERE id = %s", [first]).fetchone()
    assert stored == ("inline/LlamaForCausalLM", None)
    assert client.get(f"/v1/plans/{first}").json()["plan"] == first


def test_the_size_of_the_files_replaces_what_the_shapes_give(client: httpx.Client) -> None:
    sized = copy.deepcopy(INLINE)
    sized["model"]["weight_bytes"] = 20 * 2**30
    assert client.post("/v1/estimates", json=sized).json()["ladder"][2]["bytes"] == 20 * 2**30


@pytest.mark.parametrize(("path", "inside"), [("/v1/models/read", "#/config"), ("/v1/estimates", "#/model/config")])
def test_what_can_not_be_read_is_pointed_at(client: httpx.Client, path: str, inside: str) -> None:
    config = LLAMA_8B | {"num_key_value_heads": 0}
    body = {"config": config} if path.endswith("read") else INLINE | {"model": {"config": config}}
    assert [pointer for pointer, _ in errors(client.post(path, json=body))] == [f"{inside}/num_key_value_heads"]


@pytest.mark.parametrize(
    "invented",
    [
        {"model_type": "zebra", "architectures": ["ZebraForCausalLM"], "num_stripes": 12},
        {"model_type": "quantum_attention", "architectures": ["QuantumForCausalLM"], "entangled_heads": 4},
        {"model_type": "slot_memory", "architectures": ["SlotMemoryForCausalLM"], "memory_slots": 64},
    ],
)
def test_an_invented_architecture_is_refused_with_what_was_understood_and_what_was_not(
    client: httpx.Client, invented: dict[str, Any]
) -> None:
    found = errors(client.post("/v1/models/read", json={"config": LLAMA_8B | invented}))
    text = " ".join(detail for _, detail in found)
    (unknown,) = [name for name in invented if name not in {"model_type", "architectures"}]
    assert "num_hidden_layers 32" in text
    assert "num_key_value_heads 8" in text
    assert invented["model_type"] in text
    assert f"#/config/{unknown}" in {pointer for pointer, _ in found} or unknown in text


def test_a_known_architecture_with_an_unknown_field_of_the_cache_is_refused(client: httpx.Client) -> None:
    found = errors(client.post("/v1/models/read", json={"config": LLAMA_8B | {"kv_compression_ratio": 4}}))
    assert [pointer for pointer, _ in found] == ["#/config/kv_compression_ratio"]


@pytest.mark.parametrize(("path", "inside"), [("/v1/models/read", "#/config"), ("/v1/estimates", "#/model/config")])
@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"architectures": ["MyInventedForCausalLM"]}, "/architectures/0"),
        ({"model_type": "my_invented"}, "/model_type"),
        ({"auto_map": {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}}, "/auto_map/AutoModelForCausalLM"),
        ({"rope_scaling": {"rope_type": "llama3", "kv_compression_ratio": 4}}, "/rope_scaling/kv_compression_ratio"),
        (
            {"quantization_config": {"quant_method": "fp8", "kv_compression_ratio": 4}},
            "/quantization_config/kv_compression_ratio",
        ),
    ],
)
def test_a_name_or_a_nested_field_that_nobody_knows_is_refused_with_what_was_understood(
    client: httpx.Client, path: str, inside: str, change: dict[str, Any], pointer: str
) -> None:
    config = LLAMA_8B | change
    body = {"config": config} if path.endswith("read") else INLINE | {"model": {"config": config}}
    ((found, detail),) = errors(client.post(path, json=body))
    assert found == f"{inside}{pointer}"
    assert "understood were num_hidden_layers 32, num_attention_heads 32, num_key_value_heads 8" in detail


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"key": "a/b"},
        {"version": 1},
        {"key": "a/b", "version": 1, "config": LLAMA_8B},
        {"key": "a/b", "version": 1, "parameters": 5},
        {"config": LLAMA_8B, "version": 1},
        {"parameters": 5},
    ],
)
def test_a_model_is_a_pinned_key_or_a_config_and_never_both(client: httpx.Client, model: dict[str, Any]) -> None:
    ((pointer, detail),) = errors(client.post("/v1/estimates", json=INLINE | {"model": model}))
    assert pointer == "#/model"
    assert detail.startswith("a model is key and version, or config")


def test_engines_are_listed_and_read(client: httpx.Client) -> None:
    keys = [entry["key"] for entry in client.get("/v1/engines").json()["items"]]
    assert keys[0] == "generic"
    assert "vllm@0.33" in keys
    spec = client.get("/v1/engines/vllm@0.33").json()["spec"]
    assert spec["block_rules"]["null_block"] is True
    assert spec["reserve_bytes"] is None
