"""Recording start-ups over HTTP, listing residuals, and asking for the observed reserve."""

import hashlib
import json
from datetime import datetime
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from service.catalog.bundled import bundled_catalog
from service.catalog.planning import planned
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.observations import KV, LOG, LOGGED, WEIGHTS, of_generic
from tests.questions import REFERENCE

GIB = 2**30


def figures(observation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {figure["name"]: figure for figure in observation["comparison"]["figures"]}


def faults(response: httpx.Response) -> dict[str, str]:
    assert response.headers["content-type"].startswith("application/problem+json")
    return {error["pointer"]: error["detail"] for error in response.json()["errors"]}


def test_a_log_is_recorded_beside_the_plan_of_its_question(client: httpx.Client, rows: psycopg.Connection) -> None:
    # A plan of this test's own: the same start-up may have been told of the plain question before.
    sent = client.post("/v1/observations", json={"question": LOGGED | {"targets": {"users": 7}}, "log": LOG})
    observation = sent.json()
    assert sent.status_code == 201
    assert observation["observation_url"] == sent.headers["content-location"]
    assert client.get(observation["observation_url"]).content == sent.content
    found = figures(observation)
    plan = client.get(observation["plan_url"]).json()
    rungs = {rung["name"]: rung["value"] for rung in plan["ladder"]}
    for name, observed in (
        ("reported_capacity", round(79.19 * GIB)),
        ("weights", round(14.9889 * GIB)),
        ("kv_budget", 59_012_850_893),
    ):
        assert (found[name]["predicted"], found[name]["observed"]) == (rungs[name], observed)
        assert found[name]["difference"] == observed - rungs[name]
    # 0.9 of what it saw, less weights and cache.
    assert found["reserve"]["observed"] == pytest.approx(0.9 * 79.19 * GIB - 14.9889 * GIB - 59_012_850_893, abs=2)
    assert found["max_concurrency"]["observed"] == 54.96
    stored = rows.execute(
        "SELECT content, body, plan, model, gpu, engine, family, tensor_parallel FROM observations WHERE id = %s",
        [observation["observation"]],
    ).fetchone()
    assert stored is not None
    assert observation["observation"] == f"obs_{hashlib.sha256(stored[0]).hexdigest()}"
    assert stored[1:] == (
        sent.content, observation["plan"], LOGGED["model"], LOGGED["gpu"], "vllm@0.10", "attention", 1,
    )  # fmt: skip


def test_the_question_of_a_start_up_is_recorded_as_a_plan_with_a_decision(
    client: httpx.Client, rows: psycopg.Connection
) -> None:
    body = of_generic(1001)
    body["question"]["labels"] = {"team": "chat"}
    sent = client.post("/v1/observations", json=body)
    decision = sent.headers["headcount-decision"].removeprefix("dec_")
    found = rows.execute("SELECT plan, labels, source FROM decisions WHERE id = %s", [decision]).fetchone()
    assert found == (sent.json()["plan"], {"team": "chat"}, "api")
    assert client.post("/v1/plans", json=body["question"]).json()["plan"] == sent.json()["plan"]


def test_a_start_up_of_a_recorded_plan_makes_no_decision(client: httpx.Client, rows: psycopg.Connection) -> None:
    body = of_generic(1002)
    plan = client.post("/v1/plans", json=body["question"]).json()["plan"]
    sent = client.post("/v1/observations", json={"plan": plan, "fields": body["fields"]})
    assert (sent.status_code, sent.json()["plan"]) == (201, plan)
    assert "headcount-decision" not in sent.headers
    assert rows.execute("SELECT count(*) FROM decisions WHERE plan = %s", [plan]).fetchone() == (1,)


def test_the_same_start_up_told_again_is_the_same_observation(client: httpx.Client) -> None:
    body = of_generic(1003, max_concurrency=53.72)
    first = client.post("/v1/observations", json=body)
    again = client.post("/v1/observations", json=body)
    by_plan = client.post("/v1/observations", json={"plan": first.json()["plan"], "fields": body["fields"]})
    other = client.post("/v1/observations", json=of_generic(1003, max_concurrency=53.73))
    assert [first.status_code, again.status_code, by_plan.status_code, other.status_code] == [201, 200, 200, 201]
    assert first.content == again.content == by_plan.content
    assert other.json()["observation"] != first.json()["observation"]


def test_other_lines_around_a_start_up_make_no_other_observation(client: httpx.Client) -> None:
    first = client.post("/v1/observations", json={"question": LOGGED, "log": LOG})
    moved = client.post("/v1/observations", json={"question": LOGGED, "log": f"$ vllm serve\n\n{LOG}more\n"})
    assert moved.status_code == 200
    assert moved.content == first.content


@pytest.mark.parametrize(
    ("told", "otherwise", "fact"),
    [
        ("acme/llama-3.1-8b-instruct", "acme/a-tuning-of-it", {"name": "model", "value": "a-tuning-of-it"}),
        ("'max_model_len': 8192}", "'max_model_len': 8192, 'seed': 1, 'max_num_seqs': 256}", {"value": "256"}),
    ],
)
def test_the_same_figures_beside_another_fact_are_another_observation(
    client: httpx.Client, told: str, otherwise: str, fact: dict[str, str]
) -> None:
    # Or the second would be answered with the model of the first.
    question = LOGGED | {"levers": LOGGED["levers"] | {"max_num_seqs": 256}}
    first = client.post("/v1/observations", json={"question": question, "log": LOG}).json()
    second = client.post("/v1/observations", json={"question": question, "log": LOG.replace(told, otherwise)}).json()
    assert first["plan"] == second["plan"]
    assert first["observation"] != second["observation"]
    assert not any(fact.items() <= one.items() for one in first["facts"])
    assert any(fact.items() <= one.items() for one in second["facts"])


def test_the_log_itself_is_kept_nowhere(client: httpx.Client, rows: psycopg.Connection) -> None:
    log = LOG.replace("54.96x", "54.97x") + "INFO: HF_TOKEN=hf_NeverToBeKept\n"
    observation = client.post("/v1/observations", json={"question": LOGGED, "log": log}).json()
    assert observation["log_digest"] == hashlib.sha256(log.encode()).hexdigest()
    stored = rows.execute("SELECT observations::text FROM observations").fetchall()
    assert b"hf_NeverToBeKept".hex() not in repr(stored)
    assert b"api_server.py".hex() not in repr(stored)


def test_which_rung_is_off_most_is_said(client: httpx.Client) -> None:
    comparison = client.post("/v1/observations", json=of_generic(1004, kv_cache=KV + GIB)).json()["comparison"]
    assert (comparison["off_most"], comparison["off_by_bytes"]) == ("reserve", -GIB)
    assert comparison["summary"] == (
        "It started, as predicted. KV cache: 54.73 GiB where 53.73 GiB was predicted (+1.00 GiB). Furthest off is the"
        " reserve: 2.00 GiB where 3.00 GiB was predicted (-1.00 GiB)."
    )


def test_a_failed_start_is_an_observation_too(client: httpx.Client) -> None:
    body = of_generic(1005)
    sent = client.post("/v1/observations", json=body | {"fields": {"outcome": "failed"}}).json()
    assert (sent["outcome"], sent["comparison"]["predicted_to_start"]) == ("failed", True)
    assert (sent["comparison"]["verdict_held"], sent["comparison"]["figures"]) == (False, [])


def test_facts_that_contradict_the_question_are_named_and_nothing_is_recorded(
    client: httpx.Client, rows: psycopg.Connection
) -> None:
    levers = LOGGED["levers"] | {"max_model_len": 4096, "tensor_parallel": 2}
    response = client.post("/v1/observations", json={"question": LOGGED | {"levers": levers}, "log": LOG})
    assert response.status_code == 422
    assert set(faults(response)) == {"#/question/levers/max_model_len", "#/question/levers/tensor_parallel"}
    plan = client.post("/v1/plans", json=LOGGED | {"levers": levers}).json()["plan"]
    assert rows.execute("SELECT count(*) FROM decisions WHERE plan = %s", [plan]).fetchone() == (1,)
    by_plan = client.post("/v1/observations", json={"plan": plan, "log": LOG})
    assert {error["pointer"] for error in by_plan.json()["errors"]} == {"#/plan"}
    assert [error["detail"] for error in by_plan.json()["errors"]] == [
        "max_model_len: it was 8192 (line 4), and is 4096 here",
        "tensor_parallel: it was 1 (line 4), and is 2 here",
    ]
    assert rows.execute("SELECT count(*) FROM observations WHERE plan = %s", [plan]).fetchone() == (0,)


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"log": LOG}, 422, "#"),
        ({"plan": f"pln_{'0' * 64}", "log": LOG, "fields": {"outcome": "failed"}}, 422, "#"),
        ({"plan": f"pln_{'0' * 64}", "log": LOG}, 422, "#/plan"),
        ({"plan": "pln_1", "log": LOG}, 422, "#/plan"),
        ({"question": REFERENCE, "log": "hello"}, 422, "#/log"),
        ({"question": REFERENCE, "log": ""}, 422, "#/log"),
        ({"question": REFERENCE, "log": 7}, 422, "#/log"),
        ({"question": REFERENCE, "log": "a\0b"}, 400, "#/log"),
        ({"question": REFERENCE, "fields": {}}, 422, "#/fields"),
        ({"question": REFERENCE, "fields": {"weight": 1}}, 422, "#/fields/weight"),
        ({"question": REFERENCE, "fields": {"weights": "1 GB"}}, 422, "#/fields/weights"),
        ({"question": REFERENCE, "fields": {"gpu_blocks": 0}}, 422, "#/fields/gpu_blocks"),
        ({"question": REFERENCE | {"model": "no/such"}, "fields": {"weights": 1}}, 422, "#/question/model"),
        ({"question": REFERENCE | {"gpu": "mi308x"}, "fields": {"weights": 1}}, 422, "#/question/gpu"),
        ({"question": {"model": "a"}, "fields": {"weights": 1}}, 422, "#/question/gpu"),
        ({"question": REFERENCE, "fields": {"outcome": "failed"}, "note": ""}, 422, "#/note"),
    ],
)
def test_what_can_not_be_recorded_is_a_problem_with_its_place(
    client: httpx.Client, body: dict[str, Any], status: int, pointer: str
) -> None:
    response = client.post("/v1/observations", json=body)
    assert response.status_code == status
    assert pointer in faults(response)


def test_a_log_of_four_mebibytes_is_read_and_a_larger_one_refused(client: httpx.Client) -> None:
    chatter = "INFO 09-23 18:12:40 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs\n"
    written = len(json.dumps(LOG)) - 2
    log = LOG + chatter * ((2**22 - written) // (len(chatter) + 1))  # of two characters, `\n`, is the end of a line
    whole = log + " " * (2**22 + 2 - len(json.dumps(log)))
    assert client.post("/v1/observations", json={"question": LOGGED, "log": whole}).status_code in {200, 201}
    longer = client.post("/v1/observations", json={"question": LOGGED, "log": f"{whole} "})
    assert faults(longer) == {
        "#/log": "takes more than 4,194,304 bytes as JSON: cut it after the lines of the start-up"
    }


def test_of_a_body_that_is_too_large_the_log_is_to_be_cut(client: httpx.Client) -> None:
    # One character each, six bytes of JSON: fewer characters than a log may have bytes.
    log = LOG + "\x1b" * 900_000
    response = client.post("/v1/observations", json={"question": LOGGED, "log": log})
    assert response.status_code == 413
    assert "5 MiB (5,242,880 bytes)" in response.json()["detail"]
    assert faults(response) == {
        "#/log": "may take at most 4,194,304 bytes as JSON: cut it after the lines of the start-up"
    }


def test_a_body_that_is_no_json_is_refused(client: httpx.Client) -> None:
    headers = {"Content-Type": "text/plain"}
    assert client.post("/v1/observations", content=LOG, headers=headers).status_code == 415


def listed(client: httpx.Client, **parameters: str | int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str | int] = {}
    while True:
        page = client.get("/v1/observations", params=parameters | cursor).json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_residuals_are_listed_newest_first_page_by_page_and_each_once(client: httpx.Client) -> None:
    recorded = [
        client.post("/v1/observations", json=of_generic(2000 + number, kv_cache=KV - number)).json()["observation"]
        for number in range(5)
    ]
    found = listed(client, limit=2, engine="generic")
    names = [row["observation"] for row in found]
    assert names[:5] == recorded[::-1]
    assert len(names) == len(set(names))
    assert [row["kv_budget_difference"] for row in found[:5]] == [-4, -3, -2, -1, 0]
    assert [row["reserve_difference"] for row in found[:5]] == [4, 3, 2, 1, 0]
    times = [datetime.fromisoformat(row["recorded_at"]) for row in found]
    assert times == sorted(times, reverse=True)


def test_a_row_holds_the_columns_of_the_contract_in_order(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(2100, max_concurrency=54.0, version=None))
    row = listed(client, limit=1000)[0]
    assert ", ".join(row) == (
        "observation, recorded_at, plan, model, gpu, engine, version, family, tensor_parallel, outcome,"
        " predicted_to_start, kv_budget_bytes, kv_budget_difference, kv_budget_in_interval, max_concurrency,"
        " max_concurrency_difference, weights_difference, reserve_bytes, reserve_difference, off_most, off_by_bytes,"
        " summary"
    )
    assert (row["reserve_bytes"], row["max_concurrency_difference"], row["family"]) == (3 * GIB, 0.2754, "attention")


def test_each_filter_leaves_what_equals_it(client: httpx.Client) -> None:
    latent = of_generic(2200)
    latent["question"] |= {"model": "deepseek-ai/DeepSeek-V2-Lite-Chat", "gpu": "h200-sxm-141gb"}
    latent["question"]["levers"]["tensor_parallel"] = 2
    made = client.post("/v1/observations", json=latent)
    assert made.status_code in {200, 201}, made.text
    client.post("/v1/observations", json=of_generic(2201))
    for name, value in (
        ("model", "deepseek-ai/DeepSeek-V2-Lite-Chat"),
        ("gpu", "h200-sxm-141gb"),
        ("family", "latent"),
        ("tensor_parallel", 2),
    ):
        found = listed(client, **{name: value})
        assert {row[name] for row in found} == {value}
        assert made.json()["observation"] in {row["observation"] for row in found}
    assert listed(client, family="latent", engine="vllm@0.33") == []
    assert {row["family"] for row in listed(client)} >= {"latent", "attention"}


@pytest.mark.parametrize("name", ["engine", "gpu", "model"])
@pytest.mark.parametrize(
    "text", ["' OR '1'='1", "'; DROP TABLE observations; --", "%", "_", "\\", "generic'--", '"', "ü"]
)
def test_a_filter_is_a_value_and_never_sql(client: httpx.Client, name: str, text: str) -> None:
    client.post("/v1/observations", json=of_generic(2300))
    assert client.get("/v1/observations", params={name: text}).json() == {"items": [], "next_cursor": None}
    assert listed(client, engine="generic")


@pytest.mark.parametrize(
    "parameters",
    [
        {"family": "attention' OR 1=1"},
        {"model": ""},
        {"gpu": "x" * 201},
        {"tensor_parallel": "1 OR 1=1"},
        {"tensor_parallel": "0"},
        {"tensor_parallel": "99999999999"},
        {"limit": "0"},
        {"cursor": "x"},
        {"plan": "1"},
    ],
)
def test_a_wrong_list_parameter_is_named(client: httpx.Client, parameters: dict[str, str]) -> None:
    response = client.get("/v1/observations", params=parameters)
    assert response.status_code == 400
    assert [error["parameter"] for error in response.json()["errors"]] == list(parameters)


def test_a_cursor_is_of_its_own_list(client: httpx.Client) -> None:
    for number in (2401, 2402):
        client.post("/v1/observations", json=of_generic(number))
    for mine, other in (("observations", "plans"), ("plans", "observations")):
        cursor = client.get(f"/v1/{mine}", params={"limit": 1}).json()["next_cursor"]
        assert client.get(f"/v1/{mine}", params={"cursor": cursor}).status_code == 200
        assert client.get(f"/v1/{other}", params={"cursor": cursor}).status_code == 400


def test_an_observation_that_does_not_exist_is_404(client: httpx.Client) -> None:
    for observation in (f"obs_{'0' * 64}", "obs_x", "a%00b"):
        assert client.get(f"/v1/observations/{observation}").status_code == 404


def observed(client: httpx.Client, sequences: int, route: str = "estimates", **levers: object) -> httpx.Response:
    question = of_generic(sequences)["question"] | {"reserve": "observed"}
    question["levers"] |= levers
    return client.post(f"/v1/{route}", json=question)


def test_a_reserve_that_nobody_observed_is_a_problem(client: httpx.Client) -> None:
    question = of_generic(1)["question"] | {"reserve": "observed", "gpu": "h20-96gb", "engine": "vllm@0.12"}
    for route in ("plans", "estimates"):
        response = client.post(f"/v1/{route}", json=question)
        assert response.status_code == 422, response.text
        assert faults(response) == {
            "#/reserve": "no start-up of meta-llama/Llama-3.1-8B-Instruct on h20-96gb with vllm@0.12 at"
            " tensor_parallel 1 is recorded that says what was kept back; POST /v1/observations records one"
        }


def test_an_observed_reserve_is_used_and_named(client: httpx.Client) -> None:
    made = client.post("/v1/observations", json=of_generic(3001, kv_cache=KV + GIB)).json()
    answer = observed(client, 3001).json()
    rung = answer["ladder"][3]
    assert (rung["value"], rung["certainty"]) == (2 * GIB, "measured")
    assert rung["source"] == f"observation {made['observation']} of {made['recorded_at'][:10]}"
    assert answer["ladder"][4]["value"] == KV + GIB
    assert answer["inputs"]["observed_reserve"] == {"observation": made["observation"], "start_ups": 1}


def test_an_observed_reserve_is_asked_for_in_an_address_too(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(3017, kv_cache=KV + GIB))
    question = of_generic(3017)["question"]
    address = {"model": question["model"], "gpu": question["gpu"], "reserve": "observed"} | question["levers"]
    got = client.get("/v1/estimates", params=address)
    assert got.content == observed(client, 3017).content
    assert got.json()["ladder"][3]["value"] == 2 * GIB
    for changed, status in (
        ({"reserve": "measured"}, 400),
        ({"reserve": ""}, 400),
        ({"reserve_bytes": "1"}, 422),
        ({"max_num_seqs": "3018"}, 422),
    ):
        refused = client.get("/v1/estimates", params=address | changed)
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (status, "reserve")


def test_an_observed_reserve_stands_in_place_of_a_rule(client: httpx.Client) -> None:
    assert client.post("/v1/observations", json={"question": LOGGED, "log": LOG}).status_code in {200, 201}
    for route in ("estimates", "plans"):
        response = client.post(f"/v1/{route}", json=LOGGED | {"reserve": "observed"}, timeout=20)
        assert response.status_code in {200, 201}, response.text
        answer = response.json()
        assert answer["ladder"][3]["operands"][0]["name"] == "observed_reserve"
        # The rule had no say in it, and where its constant comes from explains nothing.
        assert "reserve_bytes" not in {one["name"] for one in answer["assumed"]}


def test_with_an_observed_reserve_the_cache_that_was_seen_comes_out(client: httpx.Client) -> None:
    # The weights took a gibibyte more than is planned, and the card showed a little less.
    fields = {"weights": WEIGHTS + GIB, "kv_cache": KV - GIB // 2, "reported_capacity": "79.19 GiB"}
    assert client.post("/v1/observations", json=of_generic(3015, **fields)).status_code == 201
    ladder = observed(client, 3015).json()["ladder"]
    assert (ladder[2]["value"], ladder[3]["value"], ladder[4]["value"]) == (WEIGHTS, 7 * GIB // 2, KV - GIB // 2)
    assert "beside the weights of step 3 and the KV cache that was printed" in ladder[3]["formula"]


def test_start_ups_of_other_releases_are_not_mixed(client: httpx.Client) -> None:
    for version, more in (("0.2.0", 0), ("0.5.9", GIB), ("0.5.20", GIB + 2)):
        made = client.post("/v1/observations", json=of_generic(3016, kv_cache=KV + more, version=version))
        assert made.status_code == 201
    answer = observed(client, 3016).json()
    assert answer["inputs"]["observed_reserve"]["start_ups"] == 2
    assert answer["ladder"][3]["value"] == 2 * GIB - 1


def test_another_window_asks_for_the_same_reserve(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(3002, kv_cache=KV + GIB))
    assert observed(client, 3002, max_model_len=4096).json()["ladder"][3]["value"] == 2 * GIB


def test_start_ups_under_other_conditions_are_not_used_in_silence(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(3003))
    # The newest of this model, card, release and tensor parallel ran 3,003 sequences.
    detail = faults(observed(client, 3004))["#/reserve"]
    assert "are recorded, but with max_num_seqs 3003 and not 3004: their reserve is another" in detail


def test_several_start_ups_are_a_middle_and_a_range(client: httpx.Client) -> None:
    for more in (0, 2 * GIB, -GIB):
        made = client.post("/v1/observations", json=of_generic(3005, kv_cache=KV + more)).json()
    answer = observed(client, 3005).json()
    rung = answer["ladder"][3]
    assert (rung["low"], rung["value"], rung["high"]) == (GIB, 3 * GIB, 4 * GIB)
    assert answer["inputs"]["observed_reserve"] == {"observation": made["observation"], "start_ups": 3}
    assert answer["interval"]["budget_bytes"] == {"low": KV - GIB, "best": KV, "high": KV + 2 * GIB}


def test_a_start_up_that_is_told_of_two_plans_counts_once(client: httpx.Client) -> None:
    for targets in (None, {"users": 7}):
        body = of_generic(3008, kv_cache=KV + GIB)
        body["question"]["targets"] = targets
        assert client.post("/v1/observations", json=body).status_code == 201
    assert observed(client, 3008).json()["inputs"]["observed_reserve"]["start_ups"] == 1


def test_a_recorded_plan_keeps_the_reserve_that_it_was_made_with(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(3006, kv_cache=KV + GIB))
    first = observed(client, 3006, "plans")
    client.post("/v1/observations", json=of_generic(3006, kv_cache=KV + 2 * GIB))
    second = observed(client, 3006, "plans")
    assert first.json()["plan"] != second.json()["plan"]
    assert client.get(first.json()["plan_url"]).content == first.content
    plain = client.post("/v1/plans", json=of_generic(3006)["question"]).json()
    assert plain["inputs"]["observed_reserve"] is None
    assert plain["ladder"][3]["value"] == 3 * GIB


def test_a_plan_made_with_an_observed_reserve_can_be_observed(client: httpx.Client) -> None:
    client.post("/v1/observations", json=of_generic(3007, kv_cache=KV + GIB))
    plan = observed(client, 3007, "plans").json()["plan"]
    fields = of_generic(3007, kv_cache=KV + GIB)["fields"]
    found = client.post("/v1/observations", json={"plan": plan, "fields": fields}).json()
    assert figures(found)["reserve"]["difference"] == 0


# A token is 128 KiB, and ten cards are 793.3 GiB as this engine sees them at most: 6,498,714 tokens.
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Available KV cache memory: -81.00 GiB", "can't lack for a KV cache"),
        ("GPU KV cache size: 6,500,000 tokens", "6,500,000 tokens can't fit"),
        ("# GPU blocks: 406250", "406,250 blocks can't fit"),
    ],
)
def test_what_a_log_says_of_a_card_that_can_not_be_is_refused(client: httpx.Client, line: str, words: str) -> None:
    log = f"INFO vLLM API server version 0.10.2\nINFO {line}\n"
    response = client.post("/v1/observations", json={"question": LOGGED, "log": log})
    assert words in faults(response)["#/question/gpu"]


# 0.9 of 85,520,809,984 B less the weights leave 60,908,206,489 B, and a hundredth of the card is 855,208,099.
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"kv_cache": 80 * GIB}, "/gpu"),
        ({"kv_cache": 5400 * GIB}, "/gpu"),
        ({"weights": "999999999 GiB"}, "/model"),
        ({"weights": 0, "kv_cache": 0}, "/model"),
        ({"weights": 2 * WEIGHTS + 1}, "/model"),
        ({"weights": WEIGHTS // 2 - 1}, "/model"),
        ({"kv_cache": 0}, ""),
        ({"kv_cache": 61_763_414_589}, "/levers/gpu_memory_utilization"),
        ({"kv_cache": None, "weights": "200000 MiB"}, "/model"),
        # A window is 1 GiB, and ten cards are 796 GiB.
        ({"max_concurrency": 537.4}, "/model"),
        ({"max_concurrency": 5.36}, "/model"),
        ({"kv_cache": None, "max_concurrency": 797}, "/gpu"),
    ],
    ids=str,
)
def test_figures_that_can_not_be_are_refused(client: httpx.Client, fields: dict[str, Any], place: str) -> None:
    response = client.post("/v1/observations", json=of_generic(3009, **fields))
    assert response.status_code == 422, response.text
    assert f"#/question{place}" in faults(response)
    detail = faults(observed(client, 3009))["#/reserve"]
    assert "are recorded, but" in detail or "is recorded" in detail


QWEN: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "gpu": "h100-sxm-80gb",
    "engine": "vllm@0.14",
    "levers": {"max_model_len": 8192},
}
"""A window takes 1.125 GiB: 8,192 tokens of 2 x 8 x 128 x 2 bytes in each of 36 layers."""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kv_cache": "0.01 GiB"}, "it takes 1.13 GiB, and there were 0.01 GiB"),
        ({"kv_cache": "0.10 GiB", "kv_cache_tokens": 400, "max_concurrency": 0.05}, "0.05 of one does"),
        ({"kv_cache_tokens": 400}, "there were 400 tokens"),
        (
            {"kv_cache": "40 GiB", "kv_cache_tokens": 100, "max_concurrency": 9.99},
            "100 tokens and a cache of 40.00 GiB",
        ),
        ({"kv_cache_tokens": 100, "max_concurrency": 9.99}, "100 tokens and a concurrency of 9.99"),
        ({"kv_cache": "50 GiB", "kv_cache_tokens": 9000}, "9,000 tokens and a cache of 50.00 GiB"),
    ],
    ids=str,
)
def test_what_got_ready_held_a_window_and_does_not_contradict_itself(
    client: httpx.Client, fields: dict[str, Any], words: str
) -> None:
    told = {"question": QWEN, "fields": {"weights": "15.27 GiB"} | fields}
    found = faults(client.post("/v1/observations", json=told))
    assert words in found["#/question/levers/max_model_len"]
    # A start that failed may have had as little; then that is why.
    if "contradict" not in found["#/question/levers/max_model_len"]:
        failed = told | {"fields": told["fields"] | {"outcome": "failed"}}
        assert client.post("/v1/observations", json=failed).status_code == 201


@pytest.mark.parametrize("fields", [{"max_concurrency": 1.0}, {"max_concurrency": 0.999}, {"kv_cache": "1.13 GiB"}])
def test_one_window_is_enough_to_get_ready(client: httpx.Client, fields: dict[str, Any]) -> None:
    assert client.post("/v1/observations", json={"question": QWEN, "fields": fields}).status_code == 201


def test_sglang_gets_ready_with_less_than_a_window(client: httpx.Client) -> None:
    told = {"question": QWEN | {"engine": "sglang"}, "fields": {"kv_cache": "0.90 GiB"}}
    assert client.post("/v1/observations", json=told).status_code == 201


def test_where_the_card_was_printed_less_than_nothing_can_not_be_kept_back(client: httpx.Client) -> None:
    # 0.9 of 79.18 GiB is 71.26, and 15.27 and 56.10 are 71.37; the digits stand for 0.0145 less at most.
    fields = {"weights": "15.27 GiB", "kv_cache": "56.10 GiB"}
    told = {"question": QWEN, "fields": fields | {"reported_capacity": "79.18 GiB"}}
    found = faults(client.post("/v1/observations", json=told))
    assert "0.11 GiB more than this share" in found["#/question/levers/gpu_memory_utilization"]
    assert client.post("/v1/observations", json=told | {"fields": fields}).status_code == 201


@pytest.mark.parametrize(
    "fields",
    [{"weights": 2 * WEIGHTS, "kv_cache": KV // 2}, {"weights": WEIGHTS // 2}, {"kv_cache": 61_763_414_587}],
    ids=str,
)
def test_figures_that_are_only_far_off_are_recorded(client: httpx.Client, fields: dict[str, Any]) -> None:
    assert client.post("/v1/observations", json=of_generic(3013, **fields)).status_code == 201


def test_what_was_kept_back_is_below_nothing_only_by_what_cards_differ(client: httpx.Client) -> None:
    made = client.post("/v1/observations", json=of_generic(3014, kv_cache=61_763_414_587))
    assert figures(made.json())["reserve"]["observed"] == -855_208_098
    assert (
        "is recorded" in faults(observed(client, 3014))["#/reserve"]
        or "are recorded, but" in (faults(observed(client, 3014))["#/reserve"])
    )


def insert_plan(rows: psycopg.Connection, plan: str, question: bytes | None, answer: bytes | None) -> None:
    """Store a plan as another build might have; question and answer are a stored one's where they are null."""
    rows.execute(
        "INSERT INTO plans (id, question, answer, answer_digest, row, model_version, gpu_version, engine_version,"
        " planner, created_at, model, gpu, engine, verdict) SELECT %(plan)s, coalesce(%(question)s, question),"
        " coalesce(%(answer)s, answer), 'd', convert_to(replace(convert_from(row, 'UTF8'), id, %(plan)s), 'UTF8'),"
        " model_version, gpu_version, engine_version, planner, now(), model, gpu, engine, verdict FROM plans"
        " WHERE model = %(model)s AND gpu = 'h100-sxm-80gb' AND engine = 'generic' LIMIT 1",
        {"plan": plan, "question": question, "answer": answer, "model": LOGGED["model"]},
    )


def test_a_start_up_is_held_against_the_stored_answer(client: httpx.Client, rows: psycopg.Connection) -> None:
    body = of_generic(3011)
    made = planned(strict_json.convert(body["question"], AskedQuestion), bundled_catalog())
    # As an earlier build might have recorded it: one byte more of everything in step 3.
    weights = msgspec.structs.replace(made.answer.ladder[2], value=WEIGHTS + 1)
    ladder = (*made.answer.ladder[:2], weights, *made.answer.ladder[3:])
    answer = msgspec.json.encode(msgspec.structs.replace(made.answer, ladder=ladder))
    client.post("/v1/plans", json=REFERENCE)
    insert_plan(rows, made.id, made.question_bytes, answer)
    found = client.post("/v1/observations", json=body).json()
    assert (found["plan"], figures(found)["weights"]["predicted"]) == (made.id, WEIGHTS + 1)


def test_a_plan_of_another_shape_can_not_be_observed(client: httpx.Client, rows: psycopg.Connection) -> None:
    client.post("/v1/plans", json=REFERENCE)
    for number, (question, answer) in enumerate(((b"{}", None), (None, b'{"said": "before"}'))):
        plan = f"pln_{number + 0xABC:064x}"
        insert_plan(rows, plan, question, answer)
        response = client.post("/v1/observations", json={"plan": plan, "fields": {"outcome": "failed"}})
        assert "was made by another release and can't be compared" in faults(response)["#/plan"]


def test_models_given_inline_share_no_reserve(client: httpx.Client) -> None:
    config = json.loads(
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512,'
        ' "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 1000,'
        ' "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "tie_word_embeddings": true}'
    )

    def question(layers: int) -> dict[str, Any]:
        return {"model": {"config": config | {"num_hidden_layers": layers}}, "gpu": "h100-sxm-80gb"}

    fields = {"weights": 10**7, "kv_cache": 70 * 10**9}
    made = client.post("/v1/observations", json={"question": question(2), "fields": fields})
    assert made.status_code == 201
    same = client.post("/v1/estimates", json=question(2) | {"reserve": "observed"})
    assert same.json()["inputs"]["observed_reserve"]["observation"] == made.json()["observation"]
    assert client.post("/v1/estimates", json=question(3) | {"reserve": "observed"}).status_code == 422


def test_only_the_word_observed_is_a_reserve(client: httpx.Client) -> None:
    response = client.post("/v1/estimates", json=REFERENCE | {"reserve": "measured"})
    assert faults(response) == {"#/reserve": "'measured' is none of: observed"}
