"""Real request lengths, posted as they are: the Azure LLM inference traces of 2023 (CC-BY-4.0, Patel et al.)."""

import json
from typing import Any

import httpx
import psycopg
import pytest

from tests.collected import collected
from tests.questions import REFERENCE
from tests.traces import recorded


def rows_of(trace: str) -> dict[str, object]:
    return {"kind": "rows", "rows": recorded(trace).tolist()}


def planned(client: httpx.Client, workload: object) -> dict[str, Any]:
    response = client.post("/v1/plans", json=REFERENCE | {"workload": workload})
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    return document


@collected
def test_the_rows_of_the_conversation_trace_fit_356_users_on_average(
    client: httpx.Client, rows: psycopg.Connection
) -> None:
    workload = rows_of("azure_conv_2023")
    answer = planned(client, workload)
    assert answer["users"]["paged"] == 356
    held = answer["workload"]
    assert held["requests"] == 19_366
    assert held["rejected_share"] == pytest.approx(1 / 19_366, rel=1e-5)
    assert round(held["mean_held_tokens"], 2) == 1226.36
    assert round(held["mean_held_blocks"], 2) == 77.12
    stored = rows.execute("SELECT question FROM plans WHERE id = %s", [answer["plan"]]).fetchone()
    assert stored is not None
    assert json.loads(stored[0])["workload"] == {"kind": "rows", "ordered": False, "rows": workload["rows"]}


@collected
def test_the_rows_of_the_code_trace_fit_205_users_on_average(client: httpx.Client) -> None:
    assert planned(client, rows_of("azure_code_2023"))["users"]["paged"] == 205


def test_the_histogram_of_the_conversation_trace_lands_within_5_percent_of_its_rows(client: httpx.Client) -> None:
    paged = planned(client, "azure_conv_2023")["users"]["paged"]
    # Three bins per octave put the mean held at 78.33 blocks against 77.12 of the rows.
    assert paged == 351
    assert abs(paged - 356) / 356 < 0.05
