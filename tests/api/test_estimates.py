"""Asking off the record."""

import httpx
import psycopg

from service.catalog.bundled import bundled_catalog
from service.catalog.planning import estimate
from tests.questions import REFERENCE, asked

MEAN_2300 = REFERENCE | {"workload": {"kind": "mean", "tokens": 2300}}


def test_an_estimate_is_the_plans_answer_without_its_name(client: httpx.Client) -> None:
    plan = client.post("/v1/plans", json=MEAN_2300).json()
    assert client.post("/v1/estimates", json=MEAN_2300).json() == plan | {"plan": None, "plan_url": None}


def test_an_estimate_is_recorded_nowhere(client: httpx.Client, rows: psycopg.Connection) -> None:
    question = REFERENCE | {"levers": {"max_model_len": 6001}}
    counted = "SELECT (SELECT count(*) FROM plans), (SELECT count(*) FROM decisions)"
    before = rows.execute(counted).fetchone()
    assert client.post("/v1/estimates", json=question).status_code == 200
    assert rows.execute(counted).fetchone() == before


def test_an_estimate_in_an_address_is_the_same_bytes(client: httpx.Client) -> None:
    query = {
        "model": REFERENCE["model"],
        "gpu": REFERENCE["gpu"],
        "gpu_version": "1",
        "max_model_len": "8192",
        "mean_tokens": "2300",
        "kv_cache_dtype": "fp8",
        "gpu_memory_utilization": "0.9",
        "users": "382",
        "basis": "paged",
    }
    body = MEAN_2300 | {
        "levers": {"max_model_len": 8192, "kv_cache_dtype": "fp8"},
        "targets": {"users": 382, "basis": "paged"},
    }
    got = client.get("/v1/estimates", params=query)
    assert got.content == client.post("/v1/estimates", json=body).content
    assert got.json()["fits"] is True


def test_the_service_answers_what_this_process_answers(client: httpx.Client) -> None:
    here = estimate(asked(workload={"kind": "mean", "tokens": 2300}), bundled_catalog())
    assert client.post("/v1/estimates", json=MEAN_2300).content == here.answer_bytes


def test_a_wrong_parameter_is_named(client: httpx.Client) -> None:
    query = {"model": REFERENCE["model"], "gpu": REFERENCE["gpu"]}

    def named(**parameters: str) -> tuple[int, list[str]]:
        response = client.get("/v1/estimates", params=query | parameters)
        return response.status_code, [error["parameter"] for error in response.json()["errors"]]

    assert named(max_model_len="8k") == (400, ["max_model_len"])
    assert named(max_model_len="0") == (400, ["max_model_len"])
    assert named(max_model_length="5") == (400, ["max_model_length"])
    assert named(engine_version="1") == (422, ["engine_version"])
    assert named(basis="paged") == (422, ["basis"])
    assert named(gpu="nope") == (422, ["gpu"])
    assert named(gpu_version="9") == (422, ["gpu_version"])
    assert named(mean_tokens="200000") == (422, ["mean_tokens"])
    assert named(tensor_parallel="3") == (422, ["tensor_parallel"])
    twice = client.get(f"/v1/estimates?model={query['model']}&gpu={query['gpu']}&gpu=x")
    assert (twice.status_code, twice.json()["errors"][0]["parameter"]) == (400, "gpu")
