"""The embedded PostgreSQL through first starts, later starts and stops, with real servers."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url

from service.errors import SetUpError
from service.store.embedded import data_folder, embedded_postgresql
from service.store.embedded.user import run
from tests.servers import FAST, connect, superuser, throw_away_database, throw_away_folder
from tests.store.headcounts import has_ended, headcount, keep, kept, postmaster_of


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Path, str]]:
    """Run a server for the tests that only look at it; return its data folder and DSN."""
    with throw_away_folder() as parent, embedded_postgresql(parent / "data", options=FAST) as dsn:
        yield parent / "data", dsn


@pytest.fixture
def new_folder() -> Iterator[Path]:
    with throw_away_folder() as parent:
        yield parent / "data"


def test_a_second_start_has_the_data_of_the_first_under_the_same_dsn(new_folder: Path) -> None:
    with embedded_postgresql(new_folder, options=FAST) as first:
        keep(first, "kept")
    with embedded_postgresql(new_folder, options=FAST) as second:
        assert kept(second) == ["kept"]
    assert first == second


def test_a_warm_start_takes_less_than_two_seconds(folder: Path) -> None:
    before = time.monotonic()
    with embedded_postgresql(folder):
        assert time.monotonic() - before < 2


def test_the_server_stops_with_the_service(folder: Path) -> None:
    with embedded_postgresql(folder, options=FAST):
        postmaster = postmaster_of(folder)
    assert has_ended(postmaster)
    assert not (folder / "postgresql" / "postmaster.pid").exists()
    assert list((folder / "run").iterdir()) == []


def test_the_server_stops_when_the_service_fails(folder: Path) -> None:
    def fail() -> None:
        with embedded_postgresql(folder, options=FAST):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not (folder / "postgresql" / "postmaster.pid").exists()


def test_a_second_service_on_the_same_folder_is_refused_by_name(running: tuple[Path, str]) -> None:
    folder, dsn = running
    with pytest.raises(SetUpError, match=rf"{folder} is in use by another Headcount \(process {os.getpid()}\)"):
        embedded_postgresql(folder, options=FAST).__enter__()
    keep(dsn, "the first still works")


def test_two_folders_are_served_at_once(new_folder: Path) -> None:
    with ExitStack() as stack:
        for name in ("one", "two"):
            keep(stack.enter_context(embedded_postgresql(new_folder / name, options=FAST)), name)
    with embedded_postgresql(new_folder / "two", options=FAST) as dsn:
        assert kept(dsn) == ["two"]


def test_the_terminals_interrupt_does_not_reach_the_server(running: tuple[Path, str]) -> None:
    postmaster = postmaster_of(running[0]).pid
    assert os.getpgid(postmaster) == postmaster
    assert os.getsid(postmaster) == postmaster


def test_an_interrupt_while_the_server_starts_stops_it(folder: Path) -> None:
    with headcount(folder) as process:
        while not (folder / "postgresql" / "postmaster.pid").exists():
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    assert not (folder / "postgresql" / "postmaster.pid").exists()


def test_settings_of_libpq_meant_for_another_server_do_not_leak_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = {
        "PGDATA": "/nowhere",
        "PGHOST": "localhost",
        "PGHOSTADDR": "127.0.0.1",
        "PGPORT": "1",
        "PGUSER": "somebody",
        "PGDATABASE": "something",
        "PGOPTIONS": "-c default_transaction_read_only=on",
        "PGSERVICE": "nowhere",
        "LC_ALL": "tr_TR.UTF-8",
        "TZ": "Asia/Tokyo",
    }
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)
    with embedded_postgresql(folder, options=FAST) as dsn:
        keep(dsn, "kept")
        with connect(dsn) as connection:
            assert connection.execute("SHOW timezone").fetchone() == ("UTC",)
    assert os.environ["PGPORT"] == "1"


def test_programs_get_nothing_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    _, output = run(["/usr/bin/env"], None)
    assert output.splitlines() == ["LC_ALL=C", f"PATH={os.defpath}"]


def test_text_sorts_alike_on_every_machine(running: tuple[Path, str]) -> None:
    with connect(running[1]) as connection:
        settings = connection.execute(
            "SELECT datlocprovider, datlocale, pg_encoding_to_char(encoding)"
            " FROM pg_database WHERE datname = current_database()"
        )
        assert settings.fetchone() == ("b", "C.UTF-8", "UTF8")
        assert connection.execute("SELECT upper('é')").fetchone() == ("É",)


def test_the_service_is_no_superuser(running: tuple[Path, str]) -> None:
    with connect(running[1]) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("off",)
        connection.execute("ALTER ROLE headcount SET statement_timeout = '5s'")


def test_data_is_flushed_to_disk_outside_of_tests(folder: Path) -> None:
    with embedded_postgresql(folder) as dsn, connect(dsn) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}".encode()).fetchone() == ("on",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW dynamic_shared_memory_type").fetchone() == ("mmap",)


def test_data_of_another_release_is_refused(new_folder: Path) -> None:
    (new_folder / "postgresql").mkdir(parents=True)
    (new_folder / "postgresql" / "PG_VERSION").write_text("17\n")
    with pytest.raises(SetUpError, match="was made by PostgreSQL 17, and this Headcount brings PostgreSQL 18"):
        embedded_postgresql(new_folder, options=FAST).__enter__()


def test_a_folder_with_something_else_in_it_is_refused_and_kept(new_folder: Path) -> None:
    (new_folder / "postgresql").mkdir(parents=True)
    (new_folder / "postgresql" / "thesis.txt").write_text("years")
    with pytest.raises(SetUpError, match="postgresql is in the way: it isn't a PostgreSQL data folder"):
        embedded_postgresql(new_folder, options=FAST).__enter__()
    assert (new_folder / "postgresql" / "thesis.txt").read_text() == "years"


def test_an_empty_folder_in_its_place_is_not_in_the_way(new_folder: Path) -> None:
    (new_folder / "postgresql").mkdir(parents=True)
    with embedded_postgresql(new_folder, options=FAST) as dsn:
        keep(dsn, "kept")


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with pytest.raises(SetUpError, match=r"doesn't start on .*: .*max_connections.* \(its log is .*\)"):
        embedded_postgresql(folder, options={**FAST, "max_connections": "none"}).__enter__()


def test_a_long_log_is_put_aside_at_the_next_start(folder: Path) -> None:
    (folder / "postgresql.log").write_text("x" * 1_100_000)
    with embedded_postgresql(folder, options=FAST):
        assert (folder / "postgresql.log").stat().st_size < 10_000
    assert (folder / "postgresql.log.1").stat().st_size == 1_100_000


def test_a_database_of_ones_own_is_a_copy_and_gone_afterwards(running: tuple[Path, str]) -> None:
    _, server = running
    with throw_away_database(server) as template:
        keep(template, "kept")
        with throw_away_database(server, template=str(make_url(template).database)) as dsn:
            assert kept(dsn) == ["kept"]
    with superuser(server) as connection:
        databases = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test%'").fetchall()
    assert databases == []


@pytest.mark.parametrize(
    ("uid", "environment", "place"),
    [
        (0, {}, "/var/lib/headcount"),
        (0, {"HOME": "/home/someone", "XDG_DATA_HOME": "/home/someone/share"}, "/var/lib/headcount"),
        (0, {"HEADCOUNT_DATA": "/srv/headcount"}, "/srv/headcount"),
        (1000, {"HOME": "/home/ada"}, "/home/ada/.local/share/headcount"),
        (1000, {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/headcount"),
        (1000, {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/headcount"),
        (1000, {"HOME": "/home/ada", "HEADCOUNT_DATA": "/srv/headcount"}, "/srv/headcount"),
    ],
)
def test_data_has_its_usual_place(
    uid: int, environment: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert data_folder(environment) == Path(place)


def test_without_a_home_the_place_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetUpError, match="set HEADCOUNT_DATA"):
        data_folder({})
