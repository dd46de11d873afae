"""Splitting off long requests over HTTP."""

import httpx
import psycopg
import pytest

from service.catalog.bundled import bundled_catalog
from service.catalog.planning import compare_pools
from service.readers import strict_json
from service.readers.question import AskedPools
from tests.questions import REFERENCE

LONG = REFERENCE | {"levers": {"max_model_len": 131_072}, "workload": "mooncake_conversation"}


def test_a_split_is_answered_off_the_record(client: httpx.Client, rows: psycopg.Connection) -> None:
    counted = "SELECT (SELECT count(*) FROM plans), (SELECT count(*) FROM decisions)"
    before = rows.execute(counted).fetchone()
    response = client.post("/v1/pools", json=LONG)
    assert response.status_code == 200
    assert response.headers["headcount-catalog-revision"].isdigit()
    assert rows.execute(counted).fetchone() == before
    answer = response.json()
    assert answer["split"]["split_at"] == answer["best"]
    assert answer["inputs"]["workload"]["key"] == "mooncake_conversation"
    assert answer["buys_nothing"] is (answer["nothing"] is not None)


def test_the_service_answers_what_this_process_answers(client: httpx.Client) -> None:
    for more in ({}, {"split_at": 32_768}, {"split_at": 32_768, "route_by": "prompt", "risk": 0.05, "tau": 0.02}):
        response = client.post("/v1/pools", json=LONG | more)
        here = strict_json.decode(httpx.Request("POST", "/", json=LONG | more).content, AskedPools)
        assert response.content == compare_pools(here, bundled_catalog())


def test_mixed_pools_are_those_of_an_estimate(client: httpx.Client) -> None:
    at_risk = {one["risk"]: one["users"] for one in client.post("/v1/estimates", json=LONG).json()["users"]["at_risk"]}
    assert client.post("/v1/pools", json=LONG).json()["mixed"]["users"]["value"] == at_risk[0.01]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"workload": {"kind": "mean", "tokens": 5}}, "#/workload"),
        ({"workload": {"kind": "total", "bins": [{"upper": 5, "count": 1}]}}, "#/workload"),
        ({"workload": None}, "#/workload"),
        ({"workload": "nope"}, "#/workload"),
        ({"split_at": 0}, "#/split_at"),
        ({"route_by": "output"}, "#/route_by"),
        ({"targets": {"users": 5}}, "#/targets"),
        ({"levers": {"max_model_len": 200_000}}, "#/levers/max_model_len"),
    ],
)
def test_what_can_not_be_split_is_a_problem_that_points_at_it(
    client: httpx.Client, changes: dict[str, object], pointer: str
) -> None:
    response = client.post("/v1/pools", json=LONG | changes)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_a_question_without_lengths_is_told_that_they_are_missing(client: httpx.Client) -> None:
    response = client.post("/v1/pools", json=REFERENCE)
    assert response.status_code == 422
    assert "workload" in response.json()["errors"][0]["detail"]
