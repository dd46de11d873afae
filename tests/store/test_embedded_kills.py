"""What kills leave of the embedded PostgreSQL, and what the next start makes of it: real servers, real signals."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from service.errors import SetUpError
from service.store.embedded import embedded_postgresql
from service.store.embedded import server as embedded_server
from service.store.embedded.signals import signals_held_back
from tests.servers import FAST, throw_away_folder
from tests.store.headcounts import first_line, has_ended, headcount, keep, kept, leave_behind, postmaster_of


@pytest.fixture
def new_folder() -> Iterator[Path]:
    with throw_away_folder() as parent:
        yield parent / "data"


@contextmanager
def sleeping_as_the_owner_of(folder: Path) -> Iterator[psutil.Process]:
    """Run a process that isn't PostgreSQL as the server's user: PostgreSQL itself sees through another user's."""
    owner = (folder / "postgresql").stat()
    as_root = os.geteuid() == 0
    with subprocess.Popen(
        ["/bin/sleep", "60"],
        cwd="/",
        user=owner.st_uid if as_root else None,
        group=owner.st_gid if as_root else None,
        extra_groups=[] if as_root else None,
    ) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def processes_on(folder: Path) -> list[str]:
    """List the programs of PostgreSQL that were started on a data folder and still run."""
    return [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] in {"initdb", "postgres"} and str(folder) in " ".join(process.info["cmdline"] or [])
    ]


def write_pid(file: Path, pid: int) -> None:
    """Put another number into a lock file of PostgreSQL's, as if its own had been given to another process."""
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(f"{pid}\n" + "".join(lines[1:]))


def test_a_killed_server_is_recovered_by_the_next_start(folder: Path) -> None:
    with embedded_postgresql(folder, options=FAST) as dsn:
        keep(dsn, "kept")
        postmaster_of(folder).kill()
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]


def test_the_server_of_a_killed_service_is_found_used_and_stopped(folder: Path) -> None:
    left = leave_behind(folder, "kept")
    assert not has_ended(left)
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]
        assert postmaster_of(folder) == left
    assert has_ended(left)


def test_service_and_server_may_be_killed_together(folder: Path) -> None:
    left = leave_behind(folder, "kept")
    left.kill()
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]
        assert postmaster_of(folder) != left


def test_the_number_of_a_foreign_living_process_is_not_believed(folder: Path) -> None:
    left = leave_behind(folder, "kept")
    left.kill()
    with sleeping_as_the_owner_of(folder) as foreign:
        write_pid(folder / "postgresql" / "postmaster.pid", foreign.pid)
        write_pid(folder / "run" / ".s.PGSQL.5432.lock", foreign.pid)
        with embedded_postgresql(folder, options=FAST) as dsn:
            assert kept(dsn) == ["kept"]
        assert not has_ended(foreign)


def test_the_server_of_another_folder_is_not_taken_for_this_one(folder: Path) -> None:
    leave_behind(folder, "kept").kill()
    with embedded_postgresql(folder.with_name("other"), options=FAST):
        other = postmaster_of(folder.with_name("other"))
        write_pid(folder / "postgresql" / "postmaster.pid", other.pid)
        with embedded_postgresql(folder, options=FAST) as dsn:
            assert kept(dsn) == ["kept"]
        assert not has_ended(other)


def test_a_running_server_is_found_whatever_number_stands_in_its_file(folder: Path) -> None:
    left = leave_behind(folder, "kept")
    with sleeping_as_the_owner_of(folder) as foreign:
        write_pid(folder / "postgresql" / "postmaster.pid", foreign.pid)
        with embedded_postgresql(folder, options=FAST) as dsn:
            assert kept(dsn) == ["kept"]
        assert not has_ended(foreign)
    assert has_ended(left)


def test_an_empty_pid_file_is_not_in_the_way(folder: Path) -> None:
    with embedded_postgresql(folder, options=FAST) as dsn:
        keep(dsn, "kept")
    (folder / "postgresql" / "postmaster.pid").touch()
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]


def test_a_server_left_behind_that_does_not_answer_is_named_and_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave_behind(folder, "kept")
    left.suspend()
    monkeypatch.setattr(embedded_server, "START_SECONDS", 0.1)
    try:
        with pytest.raises(SetUpError, match=rf"PostgreSQL \(process {left.pid}\), left behind .*, doesn't answer"):
            embedded_postgresql(folder, options=FAST).__enter__()
    finally:
        monkeypatch.undo()
        left.resume()
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]
    assert has_ended(left)


def test_sessions_that_outlive_a_killed_server_are_waited_for(folder: Path) -> None:
    left = leave_behind(folder, "kept")
    session = left.children()[0]
    session.suspend()
    left.kill()
    resume = threading.Timer(1, session.resume)
    resume.start()
    try:
        with embedded_postgresql(folder, options=FAST) as dsn:
            assert has_ended(session)
            assert kept(dsn) == ["kept"]
    finally:
        resume.join()
    assert "pre-existing shared memory block" in (folder / "postgresql.log").read_text()


def test_a_first_start_that_is_killed_leaves_nothing_half_made(new_folder: Path) -> None:
    with headcount(new_folder) as process:
        # initdb writes the version file before anything else, and has most of its work ahead of it then.
        while not list(new_folder.glob("postgresql.new-*/PG_VERSION")):
            assert process.poll() is None
            time.sleep(0.002)
        [initdb, *_] = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        assert not (new_folder / "postgresql").exists()
    with embedded_postgresql(new_folder, options=FAST) as dsn:
        keep(dsn, "kept")
    psutil.wait_procs([initdb], timeout=10)
    with embedded_postgresql(new_folder, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "moment",
    [
        "headcount.lock",
        "postgresql.new-*",
        "postgresql.new-*/PG_VERSION",
        "postgresql.new-*/global/pg_control",
        "postgresql",
        "postgresql.log",
        "postgresql/postmaster.pid",
        "run/.s.PGSQL.5432",
    ],
)
def test_a_first_start_that_is_interrupted_leaves_nothing_running_or_half_made(
    moment: str, number: signal.Signals, new_folder: Path
) -> None:
    with headcount(new_folder) as process:
        while not list(new_folder.glob(moment)):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        process.wait(timeout=20)
    assert processes_on(new_folder) == []
    assert list(new_folder.glob("postgresql.new-*")) == []
    assert not (new_folder / "postgresql" / "postmaster.pid").exists()
    assert not list((new_folder / "run").glob(".*"))


def test_an_interrupted_start_with_a_short_socket_leaves_nothing_in_tmp(new_folder: Path) -> None:
    folder = new_folder.with_name("d" * 100)
    with headcount(folder) as process:
        while not list(folder.glob("postgresql.new-*/PG_VERSION")):
            assert process.poll() is None
            time.sleep(0.001)
        short = (folder / "run").readlink()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    assert not short.exists()
    assert not (folder / "run").is_symlink()


def test_signals_held_back_come_at_the_end_and_only_once() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with signals_held_back():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert came == []
        assert came == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert came == [signal.SIGTERM, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_server_that_is_killed_while_headcount_runs_can_be_started_by_hand(folder: Path) -> None:
    with headcount(folder) as process:
        first_line(process)
        postmaster = postmaster_of(folder)
        postmaster.kill()
        deadline = time.monotonic() + 10
        # As a zombie it would keep its number, which PostgreSQL's lock file names.
        while psutil.pid_exists(postmaster.pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
