"""Asking on the record, over HTTP, against a running service and a real PostgreSQL."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from service.catalog.bundled import bundled_catalog
from service.catalog.planning import planned
from service.catalog.row import row_of
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.questions import REFERENCE

MEAN_2300 = REFERENCE | {"workload": {"kind": "mean", "tokens": 2300}}


def decisions_of(rows: psycopg.Connection, plan: str) -> list[tuple[Any, ...]]:
    found = rows.execute(
        "SELECT id, answer_digest, verdict, source, request_id, trace_id, labels, catalog_revision"
        " FROM decisions WHERE plan = %s ORDER BY id",
        [plan],
    )
    return found.fetchall()


def test_the_reference_question_is_answered_with_eight_rungs(client: httpx.Client) -> None:
    response = client.post("/v1/plans", json=MEAN_2300)
    answer = response.json()
    assert response.status_code == 200
    assert (answer["users"]["worst_case"], answer["users"]["paged"]) == (53, 191)
    assert [rung["shown"] for rung in answer["ladder"]] == [
        "79.65 GiB",
        "71.68 GiB",
        "14.96 GiB",
        "3.00 GiB",
        "53.73 GiB",
        "128 KiB",
        "1.00 GiB",
        "53 worst case, 191 paged",
    ]


def test_sent_stored_and_read_answers_are_the_same_bytes(client: httpx.Client, rows: psycopg.Connection) -> None:
    sent = client.post("/v1/plans", json=MEAN_2300)
    plan = sent.json()["plan"]
    read = client.get(f"/v1/plans/{plan}")
    stored = rows.execute("SELECT question, answer, answer_digest FROM plans WHERE id = %s", [plan]).fetchone()
    assert stored is not None
    question, answer, digest = stored
    assert sent.content == read.content == answer
    assert digest == hashlib.sha256(answer).hexdigest()
    assert plan == f"pln_{hashlib.sha256(question).hexdigest()}"
    assert sent.headers["content-location"] == sent.json()["plan_url"] == f"/v1/plans/{plan}"
    assert read.headers["etag"] == f'"{digest}"'


def test_the_same_question_twice_is_one_plan_and_two_decisions(client: httpx.Client, rows: psycopg.Connection) -> None:
    question = REFERENCE | {"levers": {"max_model_len": 4001}}
    first, second = client.post("/v1/plans", json=question), client.post("/v1/plans", json=question)
    plan = first.json()["plan"]
    assert first.content == second.content
    assert rows.execute("SELECT count(*) FROM plans WHERE id = %s", [plan]).fetchone() == (1,)
    found = [f"dec_{row[0]}" for row in decisions_of(rows, plan)]
    assert found == [response.headers["headcount-decision"] for response in (first, second)]


def test_a_stored_plan_wins_over_what_would_be_answered_now(client: httpx.Client, rows: psycopg.Connection) -> None:
    question = REFERENCE | {"levers": {"max_model_len": 4004}}
    plan = planned(strict_json.convert(question, AskedQuestion), bundled_catalog())
    # As an earlier build might have recorded it.
    at = datetime.now(UTC)
    row = msgspec.json.encode(row_of(plan.id, at, plan.question, plan.answer))
    client.post("/v1/plans", json=REFERENCE)
    rows.execute(
        "INSERT INTO plans (id, question, answer, answer_digest, row, model_version, gpu_version, engine_version,"
        " planner, created_at, model, gpu, engine, verdict) SELECT %s, %s, %s, 'd', %s, model_version, gpu_version,"
        " engine_version, planner, %s, model, gpu, engine, verdict FROM plans LIMIT 1",
        [plan.id, plan.question_bytes, b'{"said": "before"}', row, at],
    )
    assert client.post("/v1/plans", json=question).content == b'{"said": "before"}'
    assert client.get(f"/v1/plans/{plan.id}").content == b'{"said": "before"}'


def test_other_key_order_and_written_defaults_are_the_same_plan(client: httpx.Client) -> None:
    written_out = {
        "targets": None,
        "risk": 0.01,
        "levers": {"weight_dtype": "auto", "block_size": 16, "max_model_len": 8192, "gpu_memory_utilization": 0.90},
        "engine": {"version": 1, "key": "generic"},
        "gpu": {"key": "h100-sxm-80gb", "version": 1},
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "labels": {"team": "chat"},
    }
    plain = client.post("/v1/plans", json=REFERENCE)
    assert client.post("/v1/plans", json=written_out).content == plain.content


def test_a_decision_says_when_who_and_what(client: httpx.Client, rows: psycopg.Connection) -> None:
    question = REFERENCE | {"levers": {"max_model_len": 4002}, "labels": {"team": "chat", "a.b-c_d": "ü"}}
    headers = {
        "X-Request-Id": "deploy-42",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    response = client.post("/v1/plans", json=question, headers=headers)
    assert response.headers["x-request-id"] == "deploy-42"
    ((_, digest, verdict, source, request_id, trace_id, labels, revision),) = decisions_of(
        rows, response.json()["plan"]
    )
    assert digest == hashlib.sha256(response.content).hexdigest()
    assert (verdict, source, request_id) == ("fits", "api", "deploy-42")
    assert trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert labels == {"team": "chat", "a.b-c_d": "ü"}
    assert str(revision) == response.headers["headcount-catalog-revision"] == "1"


@pytest.mark.parametrize(
    "traceparent",
    [
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x" * 5000,
    ],
)
def test_an_invalid_trace_is_no_trace(client: httpx.Client, rows: psycopg.Connection, traceparent: str) -> None:
    question = REFERENCE | {"levers": {"max_model_len": 4003}}
    response = client.post("/v1/plans", json=question, headers={"traceparent": traceparent})
    assert response.status_code == 200
    assert decisions_of(rows, response.json()["plan"])[-1][5] is None


def test_a_deployment_that_does_not_fit_is_an_answer(client: httpx.Client) -> None:
    response = client.post("/v1/plans", json=REFERENCE | {"model": "meta-llama/Llama-3.1-70B-Instruct"})
    assert response.status_code == 200
    assert response.json()["fits"] is False
    assert len(response.json()["ladder"]) == 8


def test_a_known_etag_is_answered_with_304(client: httpx.Client) -> None:
    plan = client.post("/v1/plans", json=REFERENCE).json()["plan_url"]
    etag = client.get(plan).headers["etag"]
    assert client.get(plan, headers={"If-None-Match": f'"other", {etag}'}).status_code == 304
    assert client.get(plan, headers={"If-None-Match": '"other"'}).status_code == 200


def test_plans_are_listed_newest_first_page_by_page_and_each_once(client: httpx.Client) -> None:
    recorded = [
        client.post("/v1/plans", json=REFERENCE | {"levers": {"max_model_len": 5000 + n}}).json()["plan"]
        for n in range(5)
    ]
    listed: list[str] = []
    cursor: str | None = None
    while True:
        page = client.get("/v1/plans", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        listed += [row["plan"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(listed) == len(set(listed))
    assert listed[:5] == recorded[::-1]


def test_a_row_holds_the_columns_of_the_contract_in_order(client: httpx.Client) -> None:
    client.post("/v1/plans", json=MEAN_2300 | {"levers": {"max_model_len": 8191, "kv_cache_dtype": "fp8"}})
    row = client.get("/v1/plans", params={"limit": 1}).json()["items"][0]
    assert ", ".join(row) == (
        "plan, created_at, model, gpu, gpus, engine, max_model_len, kv_cache_dtype, tensor_parallel, fits, verdict,"
        " summary, users_worst_case, users_paged, risk, users_at_risk, recommended_max_num_seqs, max_concurrency,"
        " kv_budget_bytes, bytes_per_token, binding, planner"
    )
    assert (row["users_worst_case"], row["users_paged"], row["kv_cache_dtype"]) == (107, 382, "fp8")
    assert (row["kv_budget_bytes"], row["bytes_per_token"], row["planner"]) == (57_686_981_017, 65_536, 3)


@pytest.mark.parametrize(
    "parameters",
    [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"cursor": "!"}, {"cursor": "eA=="}, {"page": "2"}],
)
def test_a_wrong_list_parameter_is_named(client: httpx.Client, parameters: dict[str, str]) -> None:
    response = client.get("/v1/plans", params=parameters)
    assert response.status_code == 400
    assert [error["parameter"] for error in response.json()["errors"]] == list(parameters)


def test_a_plan_that_does_not_exist_is_404(client: httpx.Client) -> None:
    for plan in (f"pln_{'0' * 64}", "pln_x", "a%00b"):
        assert client.get(f"/v1/plans/{plan}").status_code == 404
