"""PostgreSQL stops, hangs and comes back under a running service."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from service.store.embedded import embedded_postgresql
from service.store.migrations import migrate
from tests.observations import KV, WEIGHTS
from tests.questions import REFERENCE
from tests.servers import FAST, throw_away_folder
from tests.services import Service, running_service

ANSWERS_WITHIN = 3.0


class Outage:
    """A service whose PostgreSQL can be stopped, hung and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self.dsn = self.start()

    def start(self) -> str:
        return self._running.enter_context(embedded_postgresql(self._folder, options=FAST))

    def stop(self) -> None:
        self._running.close()

    @contextmanager
    def hung(self) -> Iterator[None]:
        postmaster = psutil.Process(int((self._folder / "postgresql" / "postmaster.pid").read_text().split()[0]))
        processes = [postmaster, *postmaster.children()]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)


@pytest.fixture
def outage() -> Iterator[Outage]:
    with throw_away_folder() as folder:
        outage = Outage(folder / "data")
        try:
            migrate(outage.dsn)
            yield outage
        finally:
            outage.stop()


@pytest.fixture
def service(outage: Outage) -> Iterator[Service]:
    with running_service(HEADCOUNT_DATABASE_URL=outage.dsn) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


def recorded(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/plans", json=REFERENCE)


def assert_unavailable(client: httpx.Client) -> None:
    started = time.monotonic()
    response = recorded(client)
    assert time.monotonic() - started < ANSWERS_WITHIN
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/unavailable"
    assert int(response.headers["retry-after"]) > 0
    estimate = client.post("/v1/estimates", json=REFERENCE)
    assert (estimate.status_code, estimate.json()["users"]["worst_case"]) == (200, 53)
    assert client.post("/v1/pools", json=REFERENCE | {"workload": "azure_conv_2023"}).status_code == 200
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["database"]) == (503, False)
    assert client.get("/livez").status_code == 200
    assert client.get("/v1/gpus/h100-sxm-80gb").status_code == 200
    assert client.get("/v1/plans").status_code == 503
    observed = client.post("/v1/estimates", json=REFERENCE | {"reserve": "observed"})
    address = {"model": REFERENCE["model"], "gpu": REFERENCE["gpu"], "reserve": "observed"}
    in_address = client.get("/v1/estimates", params=address)
    recorded_start = client.post("/v1/observations", json={"question": REFERENCE, "fields": {"weights": WEIGHTS}})
    for refused in (observed, in_address, recorded_start, client.get("/v1/observations")):
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/unavailable")


def assert_recovers(client: httpx.Client) -> None:
    deadline = time.monotonic() + 10
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert recorded(client).status_code == 200


def test_while_postgresql_is_stopped_estimates_answer_and_plans_wait_for_it(
    outage: Outage, client: httpx.Client, service: Service
) -> None:
    before = recorded(client)
    assert before.status_code == 200
    assert client.get("/readyz").json() == {"ready": True, "database": True, "migrations": True, "catalog": True}
    outage.stop()
    assert_unavailable(client)
    outage.start()
    assert_recovers(client)
    assert recorded(client).content == before.content
    log = service.log.read_text()
    assert log.count("PostgreSQL is not available: ") == log.count("PostgreSQL is available again") == 1


def test_without_postgresql_what_was_recorded_before_is_still_offered(outage: Outage, client: httpx.Client) -> None:
    start_up = {"question": REFERENCE, "fields": {"weights": WEIGHTS, "kv_cache": KV}}
    assert client.post("/v1/observations", json=start_up).status_code == 201
    deadline = time.monotonic() + 10
    while "Headcount-Offered-Reserve" not in client.post("/v1/estimates", json=REFERENCE).headers:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    outage.stop()
    assert recorded(client).status_code == 503
    answer = client.post("/v1/estimates", json=REFERENCE)
    assert "reserve=observed, start-ups=1, low=3221225472," in answer.headers["Headcount-Offered-Reserve"]
    outage.start()


def test_while_postgresql_hangs_nothing_else_does(outage: Outage, client: httpx.Client) -> None:
    assert recorded(client).status_code == 200
    with outage.hung():
        assert_unavailable(client)
        with ThreadPoolExecutor(12) as threads:  # more than there are connections: none may be kept by the abandoned
            assert {response.status_code for response in threads.map(recorded, [client] * 12)} == {503}
    assert_recovers(client)


def test_every_connection_cut_at_once_goes_unnoticed(outage: Outage, client: httpx.Client) -> None:
    assert recorded(client).status_code == 200
    outage.stop()
    outage.start()
    assert recorded(client).status_code == 200
