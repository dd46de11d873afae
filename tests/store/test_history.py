"""History is append-only in the database itself: tried with real rows, as the tables' owner."""

import httpx
import psycopg
import pytest
from psycopg import sql

from tests.questions import REFERENCE
from tests.servers import connect


@pytest.fixture
def plan(client: httpx.Client) -> str:
    """The id of a recorded plan of which a start-up is recorded too."""
    document = {"question": REFERENCE, "fields": {"outcome": "failed"}}
    recorded: str = client.post("/v1/observations", json=document).json()["plan"]
    return recorded


CHANGES = [
    ("plans", "UPDATE plans SET verdict = 'unlikely' WHERE id = %(plan)s"),
    ("plans", "DELETE FROM plans WHERE id = %(plan)s"),
    ("plans", "TRUNCATE plans CASCADE"),
    ("decisions", "UPDATE decisions SET labels = '{}' WHERE plan = %(plan)s"),
    ("decisions", "DELETE FROM decisions WHERE plan = %(plan)s"),
    ("decisions", "TRUNCATE decisions"),
    ("observations", "UPDATE observations SET reserve = 0 WHERE plan = %(plan)s"),
    ("observations", "DELETE FROM observations WHERE plan = %(plan)s"),
    ("observations", "TRUNCATE observations"),
    ("catalog_versions", "UPDATE catalog_versions SET note = 'x' WHERE key = 'h100-sxm-80gb'"),
    ("catalog_versions", "DELETE FROM catalog_versions WHERE key = 'h100-sxm-80gb'"),
    ("catalog_versions", "TRUNCATE catalog_versions CASCADE"),
]


@pytest.mark.parametrize(("table", "change"), CHANGES, ids=[change.partition(" WHERE")[0] for _, change in CHANGES])
def test_a_change_of_history_fails(rows: psycopg.Connection, plan: str, table: str, change: str) -> None:
    before = rows.execute(sql.SQL("SELECT * FROM {} ORDER BY 1").format(sql.Identifier(table))).fetchall()
    assert before
    with pytest.raises(psycopg.errors.RestrictViolation, match="is append-only"):
        rows.execute(change, {"plan": plan})
    assert rows.execute(sql.SQL("SELECT * FROM {} ORDER BY 1").format(sql.Identifier(table))).fetchall() == before


def test_a_session_that_calls_itself_a_replica_changes_no_history(shared_database: str, plan: str) -> None:
    as_superuser = shared_database.replace("//headcount@", "//postgres@")
    with connect(as_superuser) as connection:
        connection.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute("DELETE FROM decisions WHERE plan = %s", [plan])
