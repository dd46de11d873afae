"""A database that answers and can't be worked with: 503 and a readiness fault, never a fault of the service."""

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.questions import REFERENCE
from tests.servers import connect, superuser
from tests.services import Service, running_service


@pytest.fixture
def service(database: str) -> Iterator[Service]:
    with running_service(HEADCOUNT_DATABASE_URL=database) as service:
        assert httpx.post(f"{service.url}/v1/plans", json=REFERENCE).status_code == 200
        yield service


def cut(database: str) -> None:
    """End the service's sessions, so that what was set for the role or the database is in force."""
    with superuser(database) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [database.rpartition("/")[2].partition("?")[0]],
        )


@pytest.mark.parametrize(
    "change",
    [
        "ALTER DATABASE {database} SET default_transaction_read_only = on",
        "TRUNCATE catalog_head",
        "ALTER TABLE plans RENAME TO elsewhere",
    ],
)
def test_what_can_not_be_recorded_is_503(service: Service, database: str, change: str) -> None:
    name = database.rpartition("/")[2].partition("?")[0]
    with connect(database) as connection:
        connection.execute(change.replace("{database}", name).encode())
    cut(database)
    response = httpx.post(f"{service.url}/v1/plans", json=REFERENCE)
    assert (response.status_code, response.json()["type"]) == (503, "/problems/unavailable")
    assert response.headers["retry-after"]
    assert "plans" not in response.json()["detail"]
    assert httpx.post(f"{service.url}/v1/estimates", json=REFERENCE).status_code == 200


def test_a_caller_that_goes_away_is_no_fault_of_the_service(service: Service) -> None:
    address = urlsplit(service.url)
    head = b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    for _ in range(3):
        with socket.create_connection((str(address.hostname), address.port or 0)) as connection:
            connection.sendall(head)
    deadline = time.monotonic() + 10
    while service.log.read_text().count("the caller closed the connection") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "ERROR" not in service.log.read_text()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER DATABASE {database} SET default_transaction_read_only = on",
        "UPDATE alembic_version SET version_num = '9999'",
        "INSERT INTO alembic_version VALUES ('0000')",
        "DROP TABLE alembic_version",
    ],
)
def test_what_is_not_ready_says_so(service: Service, database: str, change: str) -> None:
    assert httpx.get(f"{service.url}/readyz").status_code == 200
    name = database.rpartition("/")[2].partition("?")[0]
    with connect(database) as connection:
        connection.execute(change.replace("{database}", name).encode())
    cut(database)
    response = httpx.get(f"{service.url}/readyz")
    assert (response.status_code, response.json()["ready"]) == (503, False)
