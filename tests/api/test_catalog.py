"""Reads of the catalog."""

import httpx
import pytest


def test_all_gpus_and_models_are_listed(client: httpx.Client) -> None:
    gpus = client.get("/v1/gpus").json()["items"]
    models = client.get("/v1/models").json()["items"]
    assert len(gpus) == 65
    assert len(models) == 252
    assert [gpu["key"] for gpu in gpus] == sorted(gpu["key"] for gpu in gpus)


def test_every_figure_comes_with_its_source_and_confidence(client: httpx.Client) -> None:
    gpu = client.get("/v1/gpus/h100-sxm-80gb").json()
    assert gpu["version"] == 1
    memory = gpu["spec"]["reported_memory"]
    assert memory["bytes"]["value"] == 85_520_809_984
    assert memory["bytes"]["source"]
    assert memory["bytes"]["confidence"] == "high"
    visible = gpu["spec"]["visible_memory"]
    assert visible["low"] <= visible["bytes"]["value"] == 85_018_877_624 <= visible["high"]  # 79.18 GiB
    assert visible["certainty"] == "measured"
    assert visible["bytes"]["source"]
    model = client.get("/v1/models/meta-llama/Llama-3.1-8B-Instruct").json()
    assert model["spec"]["caches"]["value"] == [
        {"kind": "full", "layers": 32, "kv_heads": 8, "key_dim": 128, "value_dim": 128}
    ]
    assert model["spec"]["parameters"]["value"] == 8_030_261_248


@pytest.mark.parametrize("entry", ["/v1/gpus/h100-sxm-80gb", "/v1/models/meta-llama/Llama-3.1-8B-Instruct"])
def test_versions_are_listed_and_read(client: httpx.Client, entry: str) -> None:
    (version,) = client.get(f"{entry}/versions").json()["items"]
    assert version["url"] == f"{entry}/versions/1"
    assert client.get(version["url"]).content == client.get(entry).content
    for missing in ("2", "0", "x", "01x", "9" * 30):
        assert client.get(f"{entry}/versions/{missing}").status_code == 404


def test_an_entry_that_is_not_there_is_404_and_names_the_nearest(client: httpx.Client) -> None:
    response = client.get("/v1/gpus/h100")
    assert response.status_code == 404
    assert "h100-sxm-80gb" in response.json()["detail"]
