"""Start-ups of the same deployment are offered as its reserve to whoever leaves that to the engine."""

import json
import time
from typing import Any

import httpx

from tests.observations import KV, of_generic

GIB = 2**30
HEADER = "headcount-offered-reserve"


def told(client: httpx.Client, *start_ups: dict[str, Any]) -> list[str]:
    """Record start-ups and wait until they are offered."""
    made = [client.post("/v1/observations", json=one) for one in start_ups]
    assert {one.status_code for one in made} == {201}, [one.text for one in made]
    newest = made[-1].json()["observation"]
    deadline = time.monotonic() + 10
    while newest not in offer(client, start_ups[-1]["question"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return [one.json()["observation"] for one in made]


def offer(client: httpx.Client, question: dict[str, Any], **levers: object) -> str:
    """What is offered beside an estimate; nothing is an empty text."""
    response = client.post("/v1/estimates", json=question | {"levers": question["levers"] | levers})
    assert response.status_code == 200, response.text
    header: str = response.headers.get(HEADER, "")
    return header


def test_a_recorded_start_up_is_offered_and_no_number_changes(client: httpx.Client) -> None:
    question = of_generic(8001)["question"]
    plain = client.post("/v1/estimates", json=question)
    plan = client.post("/v1/plans", json=question)
    assert HEADER not in plain.headers
    assert HEADER not in plan.headers
    (observation,) = told(client, of_generic(8001, kv_cache=KV + GIB))
    recorded_on = client.get(f"/v1/observations/{observation}").json()["recorded_at"][:10]
    address = {"model": question["model"], "gpu": question["gpu"]} | question["levers"]
    # 3 GiB less the one that the cache had more.
    amount = "low=2147483648, best=2147483648, high=2147483648"
    expected = f'reserve=observed, start-ups=1, {amount}, on="{recorded_on}", newest="{observation}"'
    for response, before in (
        (client.post("/v1/estimates", json=question), plain),
        (client.get("/v1/estimates", params=address), plain),
        (client.post("/v1/plans", json=question), plan),
    ):
        assert response.headers[HEADER] == expected
        assert response.content == before.content
    assert plain.json()["ladder"][3]["value"] == 3 * GIB


def test_asking_with_what_is_offered_gives_what_is_offered(client: httpx.Client) -> None:
    made = told(client, *(of_generic(8002, kv_cache=KV + more) for more in (0, 2 * GIB, -GIB)))
    question = of_generic(8002)["question"]
    lever, *amounts = offer(client, question).split(", ")
    assert lever == "reserve=observed"
    assert amounts[:4] == ["start-ups=3", f"low={GIB}", f"best={3 * GIB}", f"high={4 * GIB}"]
    asked = client.post("/v1/estimates", json=question | {"reserve": "observed"})
    rung = asked.json()["ladder"][3]
    assert (rung["low"], rung["value"], rung["high"]) == (GIB, 3 * GIB, 4 * GIB)
    assert asked.json()["inputs"]["observed_reserve"] == {"observation": made[-1], "start_ups": 3}


def test_a_question_that_says_its_reserve_or_needs_none_is_offered_nothing(client: httpx.Client) -> None:
    told(client, of_generic(8003))
    question = of_generic(8003)["question"]
    assert "start-ups=1" in offer(client, question)
    assert not offer(client, question | {"reserve": "observed"})
    assert not offer(client, question, reserve_bytes=3 * GIB)
    assert not offer(client, question, kv_cache_memory_bytes=50 * GIB)


def test_start_ups_of_other_deployments_are_not_offered(client: httpx.Client) -> None:
    told(client, of_generic(8004))
    question = of_generic(8004)["question"]
    assert "start-ups=1" in offer(client, question, max_model_len=4096)
    for other in (
        {"model": "meta-llama/Llama-3.1-70B-Instruct", "levers": question["levers"] | {"weight_dtype": "int4"}},
        {"gpu": "h200-sxm-141gb"},
        {"engine": "vllm@0.10"},
    ):
        assert not offer(client, question | other)
    assert not offer(client, question, tensor_parallel=2)
    assert not offer(client, question, max_num_seqs=8005)
    assert not offer(client, question, enforce_eager=True)


def test_a_start_up_that_is_told_of_two_plans_is_offered_once(client: httpx.Client) -> None:
    again = of_generic(8006)
    again["question"]["targets"] = {"users": 7}
    told(client, of_generic(8006), again)
    assert "start-ups=1" in offer(client, of_generic(8006)["question"])


def test_of_an_engine_without_releases_those_of_the_newests_version_are_offered(client: httpx.Client) -> None:
    versions = (("0.2.0", 0), ("0.5.9", GIB), ("0.5.20", GIB + 2))
    told(client, *(of_generic(8007, kv_cache=KV + more, version=version) for version, more in versions))
    assert f"start-ups=2, low={2 * GIB - 2}, best={2 * GIB - 1}" in offer(client, of_generic(8007)["question"])


def test_a_start_up_that_does_not_say_what_was_kept_back_is_not_offered(client: httpx.Client) -> None:
    silent = of_generic(8008, weights=None)
    assert client.post("/v1/observations", json=silent).status_code == 201
    told(client, of_generic(8009))  # later ones are known by now
    assert not offer(client, silent["question"])


def test_models_given_inline_are_offered_their_own_start_ups(client: httpx.Client) -> None:
    config = json.loads(
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512,'
        ' "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 1000,'
        ' "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "tie_word_embeddings": true}'
    )

    def question(layers: int) -> dict[str, Any]:
        levers = {"max_num_seqs": 8010}
        return {
            "model": {"config": config | {"num_hidden_layers": layers}}, "gpu": "h100-sxm-80gb", "levers": levers,
        }  # fmt: skip

    told(client, {"question": question(2), "fields": {"weights": 10**7, "kv_cache": 70 * 10**9}})
    assert not offer(client, question(3))
