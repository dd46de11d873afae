"""Users at a risk over HTTP and on the command line, for a published workload."""

from typing import Any

import httpx
import pytest

from service.cli.main import main
from tests.questions import REFERENCE

CONVERSATION = REFERENCE | {"workload": "azure_conv_2023"}


def test_an_estimate_with_a_named_workload_counts_users_at_each_risk_and_explains_them(client: httpx.Client) -> None:
    response = client.post("/v1/estimates", json=CONVERSATION | {"risk": 0.02})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    counts = {one["risk"]: one["users"] for one in answer["users"]["at_risk"]}
    # 27,508 blocks: the middles of the histogram's bins fit 326 at 1 % by an independent method.
    assert counts[0.01] == 326
    assert list(counts) == [0.05, 0.02, 0.01, 0.001]
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    occupancy = answer["occupancy"]
    assert occupancy["users"]["value"] == counts[0.02]
    assert occupancy["overflow"]["value"] <= 0.02 < occupancy["overflow_with_one_more"]["value"]
    assert occupancy["guaranteed"]["value"] <= counts[0.02] <= occupancy["mean_fit"]["value"] == 351
    recommended = answer["users"]["recommended_max_num_seqs"]
    assert recommended == min(counts[0.02], occupancy["with_drift"]["value"]) == occupancy["recommended"]["value"]
    assert [point["users"] for point in occupancy["curve"]] == sorted(point["users"] for point in occupancy["curve"])
    for name in ("users", "overflow", "guaranteed", "with_drift", "mean_fit", "open_loop", "recommended"):
        number = occupancy[name]
        assert number["unit"], name
        assert number["formula"], name
        assert number["source"], name
        assert number["certainty"] in {"exact", "measured", "assumed"}, name


def test_the_same_is_asked_in_an_address(client: httpx.Client) -> None:
    query = {
        "model": REFERENCE["model"],
        "gpu": REFERENCE["gpu"],
        "max_model_len": "8192",
        "workload": "azure_conv_2023",
        "risk": "0.02",
        "users": "320",
        "basis": "at_risk",
    }
    response = client.get("/v1/estimates", params=query)
    assert response.status_code == 200, response.text
    body = CONVERSATION | {"risk": 0.02, "targets": {"users": 320, "basis": "at_risk"}}
    assert response.content == client.post("/v1/estimates", json=body).content
    assert response.json()["fits"]


def test_a_row_of_a_plan_holds_the_users_at_its_risk(client: httpx.Client) -> None:
    plan = client.post("/v1/plans", json=CONVERSATION).json()["plan"]
    rows = client.get("/v1/plans", params={"limit": 50}).json()["items"]
    row = next(row for row in rows if row["plan"] == plan)
    assert (row["risk"], row["users_at_risk"]) == (0.01, 326)
    assert row["recommended_max_num_seqs"] == 292


def test_lengths_as_strange_as_they_can_be_written_are_answered(client: httpx.Client) -> None:
    most = 2**31 - 1
    for workload in (
        {"kind": "joint", "prompt_edges": [0, most], "output_edges": [0, most], "counts": [[0, 0, 1]]},
        {"kind": "joint", "prompt_edges": [0, None], "output_edges": [0, None], "counts": [[0, 0, 2**53 - 1]]},
        {"kind": "total", "bins": [{"upper": most, "count": 1}]},
        {"kind": "rows", "rows": [[1, 1], [most, most]]},
    ):
        response = client.post("/v1/estimates", json=REFERENCE | {"workload": workload})
        assert response.status_code == 200, response.text
        assert response.json()["occupancy"]["users"]["value"] > 0


def test_the_command_line_prints_the_curve(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (REFERENCE["model"], REFERENCE["gpu"], "--max-model-len", "8192", "--workload", "azure_conv_2023")
    assert main(("plan", *arguments)) == 0
    printed = capsys.readouterr().out
    assert "\nUsers at a risk: 333 at 0.05, 326 at 0.01, 318 at 0.001\n" in printed
    lines = printed.partition("\nOverflow by users of one pool\n")[2].partition("\n\n")[0].splitlines()
    curve = [(int(line.split()[0]), float(line.split()[1].removesuffix("%"))) for line in lines]
    assert len(curve) >= 5
    assert [users for users, _ in curve] == sorted(users for users, _ in curve)
    assert [tail for _, tail in curve] == sorted(tail for _, tail in curve)
    at = dict(curve)
    assert at[326] <= 1
    assert at[351] == pytest.approx(50, abs=5)
    # The last bar is the longest: 32 columns.
    assert lines[-1].count("█") == 32
