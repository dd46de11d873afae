"""`headcount serve` and `headcount migrate`: starts, stops, and every readable refusal."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from service.store.embedded import embedded_postgresql
from service.store.migrations import migrate
from tests.questions import REFERENCE
from tests.servers import FAST, connect, throw_away_database, throw_away_folder
from tests.services import Service, running_service

MEAN_2300 = REFERENCE | {"workload": {"kind": "mean", "tokens": 2300}}


def refused(*arguments: str, **environment: str) -> str:
    """The one line that a command prints which can't do its work."""
    command = [sys.executable, "-m", "service.cli.main", *arguments]
    result = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("headcount: ")
    return result.stderr.strip()


@pytest.fixture
def data() -> Iterator[Path]:
    with throw_away_folder() as folder:
        yield folder / "data"


def test_embedded_data_is_there_again_after_a_stop_and_after_kills(data: Path) -> None:
    with running_service(HEADCOUNT_DATA=str(data)) as service:
        first = httpx.post(f"{service.url}/v1/plans", json=MEAN_2300)
    assert (first.json()["users"]["worst_case"], first.json()["users"]["paged"]) == (53, 191)
    path = first.headers["content-location"]
    assert not (data / "postgresql" / "postmaster.pid").exists()

    with running_service(HEADCOUNT_DATA=str(data)) as service:
        assert httpx.get(service.url + path).content == first.content
        service.process.kill()  # PostgreSQL stays behind
        service.process.wait()
    with running_service(HEADCOUNT_DATA=str(data)) as service:
        assert httpx.get(service.url + path).content == first.content
        postmaster = int((data / "postgresql" / "postmaster.pid").read_text().split()[0])
        psutil.Process(postmaster).kill()
        service.process.kill()
        service.process.wait()
    # A process that lives and isn't PostgreSQL has the number now.
    file = data / "postgresql" / "postmaster.pid"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with running_service(HEADCOUNT_DATA=str(data)) as service:
        assert httpx.get(service.url + path).content == first.content


def test_the_printed_curl_works_as_printed(data: Path) -> None:
    command = [sys.executable, "-m", "service.cli.main", "serve", "--port", "0"]
    environment = os.environ | {"HEADCOUNT_DATA": str(data)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        printed = next(line for line in process.stdout if line.strip().startswith("curl"))
        answer = subprocess.run(shlex.split(printed), capture_output=True, check=True, timeout=60).stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert (json.loads(answer)["users"]["worst_case"], json.loads(answer)["users"]["paged"]) == (53, 191)
    assert not (data / "postgresql" / "postmaster.pid").exists()


def test_a_port_that_is_taken_is_one_line_and_starts_nothing(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        line = refused("serve", "--port", port, HEADCOUNT_DATA=str(data))
    assert line == (
        f"headcount: can't listen on 127.0.0.1 port {port}: Address already in use;"
        ' choose another with --port (make up ARGS="--port N")'
    )
    assert not data.exists()


def test_a_data_folder_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused("serve", "--port", "0", HEADCOUNT_DATA=str(file))


def test_a_database_that_can_not_be_reached_is_one_line_without_its_password() -> None:
    line = refused("serve", "--port", "0", HEADCOUNT_DATABASE_URL="postgresql://me:secret@127.0.0.1:1/x")
    assert line.startswith("headcount: the database x on 127.0.0.1:1 can't be used: ")
    assert "secret" not in line
    line = refused("serve", "--port", "0", HEADCOUNT_DATABASE_URL="postgresql://127.0.0.1:1/x?user=me&password=secret")
    assert "secret" not in line


def test_an_option_that_the_driver_does_not_know_is_one_line() -> None:
    for option in ("foo=bar", "prepare_threshold=x"):
        line = refused("migrate", HEADCOUNT_DATABASE_URL=f"postgresql://me@127.0.0.1:1/x?{option}")
        assert line.startswith("headcount: the database x on 127.0.0.1:1 can't be used: ")


def test_a_host_that_is_none_is_one_line() -> None:
    for host in ("..", "a" * 300):
        assert refused("serve", "--host", host, "--port", "0").startswith(f"headcount: can't listen on {host} port 0: ")


def test_a_url_of_another_kind_is_one_line() -> None:
    assert "must begin with postgresql://" in refused("migrate", HEADCOUNT_DATABASE_URL="mysql://u:p@h/d")
    assert "is not a URL" in refused("migrate", HEADCOUNT_DATABASE_URL="nonsense")


def test_a_database_behind_is_one_line_until_it_is_migrated(server: str) -> None:
    with throw_away_database(server) as dsn:
        line = refused("serve", "--port", "0", HEADCOUNT_DATABASE_URL=dsn)
        assert line == "headcount: the database's schema is empty and this release needs 0004: run `headcount migrate`"
        command = [sys.executable, "-m", "service.cli.main", "migrate"]
        environment = os.environ | {"HEADCOUNT_DATABASE_URL": dsn}
        for expected in (
            "schema: empty -> 0004\ncatalog: 357 bundled entries published\n",
            "database: schema and catalog are this release's\n",
        ):
            result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
            assert result.stdout == expected
        with running_service(HEADCOUNT_DATABASE_URL=dsn) as service:
            assert httpx.post(f"{service.url}/v1/plans", json=REFERENCE).status_code == 200


def test_a_schema_that_this_release_does_not_know_is_one_line(database: str) -> None:
    with connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for command in (("serve", "--port", "0"), ("migrate",)):
        line = refused(*command, HEADCOUNT_DATABASE_URL=database)
        assert line.startswith("headcount: the database's schema is 9999, which this release doesn't know: ")


def test_two_migrations_at_once_publish_once(server: str) -> None:
    with throw_away_database(server) as dsn:
        command = [sys.executable, "-m", "service.cli.main", "migrate"]
        environment = os.environ | {"HEADCOUNT_DATABASE_URL": dsn}
        both = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [process.wait(60) for process in both] == [0, 0]
        with connect(dsn) as connection:
            found = connection.execute("SELECT max(version), max(revision), count(*) FROM catalog_versions").fetchone()
            head = connection.execute("SELECT revision FROM catalog_head").fetchone()
    assert found == (1, 1, 357)
    assert head == (1,)


def test_several_workers_serve_and_a_killed_one_is_replaced(database: str) -> None:
    with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=database) as service:
        answers = {httpx.post(f"{service.url}/v1/plans", json=REFERENCE).content for _ in range(6)}
        assert len(answers) == 1
        before = workers_of(service)
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        deadline = time.monotonic() + 30
        while len(after := workers_of(service) - {min(before)}) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert max(before) in after
        assert httpx.post(f"{service.url}/v1/plans", json=REFERENCE).status_code == 200


def workers_of(service: Service) -> set[int]:
    """The process ids of the workers, without the helper process that the standard library starts beside them."""
    found = set()
    for child in psutil.Process(service.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # a killed one, not yet waited for
            if any("spawn_main" in part for part in child.cmdline()):
                found.add(child.pid)
    return found


def test_workers_of_a_killed_service_leave_the_port(database: str) -> None:
    with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=database) as service:
        workers = workers_of(service)
        service.process.kill()
        service.process.wait()
        deadline = time.monotonic() + 15
        while any(psutil.pid_exists(worker) for worker in workers):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        port = int(service.url.rpartition(":")[2])
        socket.create_server(("127.0.0.1", port)).close()


def test_a_closed_terminal_stops_the_service_and_postgresql(data: Path) -> None:
    with running_service(HEADCOUNT_DATA=str(data)) as service:
        service.process.send_signal(signal.SIGHUP)
        assert service.process.wait(20) == 0
    assert not (data / "postgresql" / "postmaster.pid").exists()


def test_a_worker_that_starts_while_postgresql_is_away_estimates() -> None:
    with throw_away_folder() as folder:
        running = ExitStack()
        dsn = running.enter_context(embedded_postgresql(folder / "data", options=FAST))
        try:
            migrate(dsn)
            with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=dsn) as service:
                running.close()
                os.kill(min(workers_of(service)), signal.SIGKILL)
                time.sleep(3)
                statuses = {httpx.post(f"{service.url}/v1/estimates", json=REFERENCE).status_code for _ in range(20)}
                assert statuses == {200}
                dsn = running.enter_context(embedded_postgresql(folder / "data", options=FAST))
                deadline = time.monotonic() + 20
                while {httpx.get(f"{service.url}/readyz").status_code for _ in range(10)} != {200}:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
                recorded = {httpx.post(f"{service.url}/v1/plans", json=REFERENCE).status_code for _ in range(10)}
                assert recorded == {200}
        finally:
            running.close()


def test_plans_recorded_at_once_are_one_plan(database: str) -> None:
    migrate(database)
    with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=database) as service:
        body = json.dumps(REFERENCE)
        script = (
            "import httpx, sys\n"
            "with httpx.Client() as client:\n"
            "    for _ in range(25):\n"
            "        client.post(sys.argv[1], content=sys.argv[2]).raise_for_status()\n"
        )
        command = [sys.executable, "-c", script, f"{service.url}/v1/plans", body]
        callers = [subprocess.Popen(command) for _ in range(4)]
        assert [caller.wait(60) for caller in callers] == [0, 0, 0, 0]
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM plans").fetchone() == (1,)
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM decisions").fetchone() == (100, 100)
