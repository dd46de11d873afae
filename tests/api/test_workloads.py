"""Workloads of the catalog over HTTP: read, asked with, recorded."""

import httpx
import psycopg
import pytest

from tests.questions import REFERENCE

CONVERSATION = REFERENCE | {"workload": "azure_conv_2023"}


def test_all_workloads_are_listed(client: httpx.Client) -> None:
    items = client.get("/v1/workloads").json()["items"]
    assert [item["key"] for item in items] == [
        "azure_code_2023",
        "azure_conv_2023",
        "claude_code_agentic",
        "mooncake_conversation",
        "servegen_deepseek_r1",
        "servegen_m_large",
        "servegen_m_small",
        "sharegpt_multiturn_300",
    ]
    assert items[1]["url"] == "/v1/workloads/azure_conv_2023/versions/1"


def test_a_workload_comes_with_licence_attribution_and_lengths_that_can_be_asked_with(client: httpx.Client) -> None:
    entry = client.get("/v1/workloads/azure_conv_2023").json()
    spec = entry["spec"]
    assert entry["version"] == 1
    assert spec["licence"] == "CC-BY-4.0"
    assert "Patel et al., Splitwise" in spec["attribution"]
    assert spec["requests"]["value"] == 19_366
    inline = client.post("/v1/estimates", json=REFERENCE | {"workload": spec["lengths"]["value"]})
    named = client.post("/v1/estimates", json=CONVERSATION)
    assert inline.json()["users"] == named.json()["users"]


def test_versions_are_listed_and_read(client: httpx.Client) -> None:
    entry = "/v1/workloads/sharegpt_multiturn_300"
    (version,) = client.get(f"{entry}/versions").json()["items"]
    assert version["url"] == f"{entry}/versions/1"
    assert client.get(version["url"]).content == client.get(entry).content
    for missing in ("2", "0", "x"):
        assert client.get(f"{entry}/versions/{missing}").status_code == 404


def test_a_workload_that_is_not_there_is_404_and_names_the_nearest(client: httpx.Client) -> None:
    response = client.get("/v1/workloads/azure_conv")
    assert response.status_code == 404
    assert "azure_conv_2023" in response.json()["detail"]


def test_an_unknown_workload_of_a_question_is_a_problem_with_the_nearest_keys(client: httpx.Client) -> None:
    for path in ("/v1/estimates", "/v1/plans"):
        problem = client.post(path, json=REFERENCE | {"workload": "azure_conv"})
        assert problem.status_code == 422
        assert problem.json()["type"] == "/problems/unknown-workload"
        assert problem.json()["errors"][0]["pointer"] == "#/workload"
        assert problem.json()["nearest"][0] == "azure_conv_2023"
    assert client.get("/problems/unknown-workload").status_code == 200


def test_a_plan_names_the_version_of_its_workload_and_the_record_refers_to_it(
    client: httpx.Client, rows: psycopg.Connection
) -> None:
    entry = client.get("/v1/workloads/azure_conv_2023").json()
    answer = client.post("/v1/plans", json=CONVERSATION).json()
    assert answer["inputs"]["workload"] == {"key": "azure_conv_2023", "version": 1, "digest": entry["digest"]}
    # 78.33 blocks held against 77.12 of the rows, which fit 356.
    assert answer["users"]["paged"] == 351
    found = rows.execute(
        "SELECT kind, key, version FROM plans JOIN catalog_versions ON catalog_versions.id = workload_version"
        " WHERE plans.id = %s",
        [answer["plan"]],
    ).fetchone()
    assert found == ("workloads", "azure_conv_2023", 1)


def test_a_plan_of_lengths_given_inline_refers_to_no_version(client: httpx.Client, rows: psycopg.Connection) -> None:
    answer = client.post("/v1/plans", json=REFERENCE | {"workload": {"kind": "mean", "tokens": 1234}}).json()
    assert answer["inputs"]["workload"] is None
    found = rows.execute("SELECT workload_version FROM plans WHERE id = %s", [answer["plan"]]).fetchone()
    assert found == (None,)


def test_a_start_up_is_compared_with_a_plan_that_names_its_workload(client: httpx.Client) -> None:
    question = REFERENCE | {"workload": {"key": "azure_conv_2023", "version": 1}}
    fields = {"kv_cache": "53.70 GiB", "weights": "14.96 GiB"}
    response = client.post("/v1/observations", json={"question": question, "fields": fields})
    assert response.status_code in {200, 201}, response.text
    plan = client.post("/v1/plans", json=question).json()["plan"]
    assert response.json()["plan"] == plan
    again = client.post("/v1/observations", json={"plan": plan, "fields": fields | {"kv_cache": "53.71 GiB"}})
    assert again.status_code in {200, 201}, again.text


def test_an_address_names_a_workload_and_its_version(client: httpx.Client) -> None:
    query = {"model": REFERENCE["model"], "gpu": REFERENCE["gpu"], "max_model_len": "8192"}
    for more in ({}, {"workload_version": "1"}):
        got = client.get("/v1/estimates", params=query | {"workload": "azure_conv_2023"} | more)
        assert got.content == client.post("/v1/estimates", json=CONVERSATION).content


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"workload": "nope"}, "workload"),
        ({"workload": "azure_conv_2023", "workload_version": "9"}, "workload_version"),
        ({"workload_version": "1"}, "workload_version"),
        ({"workload": "azure_conv_2023", "mean_tokens": "5"}, "workload"),
        ({"mean_tokens": "200000"}, "mean_tokens"),
        ({"workload": "claude_code_agentic", "max_model_len": "512"}, "workload"),
    ],
)
def test_a_parameter_of_the_workload_that_is_wrong_is_named(
    client: httpx.Client, parameters: dict[str, str], named: str
) -> None:
    query = {"model": REFERENCE["model"], "gpu": REFERENCE["gpu"]} | parameters
    response = client.get("/v1/estimates", params=query)
    assert response.status_code == 422
    assert [error["parameter"] for error in response.json()["errors"]] == [named]
