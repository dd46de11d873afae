"""Workloads of the catalog over HTTP."""

import httpx


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
