"""What a root Headcount refuses on the way to its data, so that no other user can make it write elsewhere."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from service.errors import SetUpError
from service.store.embedded import embedded_postgresql
from service.store.embedded import server as embedded_server
from service.store.embedded.files import make_data_folder
from service.store.embedded.server import Cluster, find
from service.store.embedded.trust import give, open_file
from service.store.embedded.user import ServerUser
from tests.servers import FAST, throw_away_folder

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be made to write where others can't")


@pytest.fixture
def parent() -> Iterator[Path]:
    with throw_away_folder() as folder:
        yield folder


@pytest.fixture
def victim(parent: Path) -> Path:
    """Return a file beside the data folder `hc` that nothing may be written to."""
    (parent / "hc").mkdir()
    victim = parent / "victim"
    victim.write_text("untouched")
    return victim


def start(folder: Path) -> None:
    with embedded_postgresql(folder, options=FAST):
        pass


def refused(folder: Path) -> str:
    with pytest.raises(SetUpError) as error:
        start(folder)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


@as_root
def test_a_data_folder_of_another_user_is_refused(victim: Path, parent: Path) -> None:
    folder = parent / "hc"
    (folder / "headcount.lock").symlink_to(victim)
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    assert refused(folder) == (
        f"{folder} belongs to nobody, who could change what is in it, so root can't trust it: "
        f"run Headcount as that user, or set HEADCOUNT_DATA to a folder of its own, such as /var/lib/headcount"
    )
    assert victim.read_text() == "untouched"


@as_root
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_data_folder_that_others_can_write_to_is_refused_and_keeps_its_mode(mode: int, parent: Path) -> None:
    parent.chmod(mode)
    assert refused(parent) == (
        f"others can write to {parent} (mode {mode:04o}), and could change what is in it, so root can't trust it: "
        f"chmod go-w {parent} if nobody has, or set HEADCOUNT_DATA to a folder of its own, such as /var/lib/headcount"
    )
    assert parent.stat().st_mode & 0o7777 == mode
    assert list(parent.iterdir()) == []


@as_root
@pytest.mark.parametrize("name", ["data", "more/data"])
def test_a_parent_that_others_can_write_to_is_refused(name: str, parent: Path) -> None:
    parent.chmod(0o777)
    assert refused(parent / name).startswith(
        f"others can write to {parent} (mode 0777), and could change the data folder {parent / name}, so root can't"
    )
    assert list(parent.iterdir()) == []


@as_root
def test_a_parent_of_another_user_is_refused(parent: Path) -> None:
    os.chown(parent, NOBODY.pw_uid, NOBODY.pw_gid)
    assert refused(parent / "data").startswith(
        f"{parent} belongs to nobody, who could change the data folder {parent}/data, so root can't trust it"
    )
    assert list(parent.iterdir()) == []


@as_root
def test_a_sticky_parent_that_anybody_can_write_to_is_trusted(parent: Path) -> None:
    parent.chmod(0o1777)
    start(parent / "data")


@pytest.mark.parametrize("name", ["headcount.lock", "postgresql.log"])
def test_a_link_in_place_of_a_file_is_refused_and_not_written_through(name: str, victim: Path, parent: Path) -> None:
    file = parent / "hc" / name
    file.symlink_to(victim)
    assert refused(parent / "hc") == f"{file} is a link, which Headcount doesn't follow in its data folder: remove it"
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize("name", ["headcount.lock", "postgresql.log"])
def test_a_link_to_nothing_makes_nothing(name: str, parent: Path) -> None:
    (parent / "hc").mkdir()
    (parent / "hc" / name).symlink_to(parent / "new")
    assert "is a link" in refused(parent / "hc")
    assert not (parent / "new").exists()


def test_a_link_in_place_of_the_older_log_is_replaced(victim: Path, parent: Path) -> None:
    (parent / "hc" / "postgresql.log").write_text("x" * 1_100_000)
    (parent / "hc" / "postgresql.log.1").symlink_to(victim)
    start(parent / "hc")
    assert (parent / "hc" / "postgresql.log.1").stat().st_size == 1_100_000
    assert victim.read_text() == "untouched"


@as_root
@pytest.mark.parametrize("name", ["headcount.lock", "postgresql.log"])
def test_root_writes_to_no_file_that_has_a_second_name(name: str, victim: Path, parent: Path) -> None:
    (parent / "hc" / name).hardlink_to(victim)
    assert "has a second name elsewhere (a hard link), which root doesn't write to: remove it" in refused(parent / "hc")
    assert victim.read_text() == "untouched"


@as_root
def test_root_writes_to_no_file_of_another_user(parent: Path) -> None:
    file = parent / "postgresql.log"
    file.touch()
    os.chown(file, NOBODY.pw_uid, NOBODY.pw_gid)
    assert refused(parent) == f"{file} belongs to nobody: remove it"
    assert file.read_text() == ""


@pytest.mark.parametrize("name", ["headcount.lock", "postgresql.log"])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(name: str, parent: Path) -> None:
    os.mkfifo(parent / name)
    # Opened for writing only, a pipe that nobody reads is an error already.
    assert refused(parent).startswith((f"{parent / name} isn't a file", f"the data folder {parent} can't be used"))


@as_root
def test_links_in_the_folder_of_the_servers_user_are_not_followed_either(victim: Path, parent: Path) -> None:
    folder = parent / "hc"
    (folder / "postgresql").mkdir()
    (folder / "headcount.lock").symlink_to(victim)
    for path in (folder, folder / "postgresql"):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    assert "headcount.lock is a link" in refused(folder)
    assert victim.read_text() == "untouched"


@as_root
def test_a_link_in_place_of_a_folder_gives_nothing_away(parent: Path) -> None:
    (parent / "roots").mkdir()
    (parent / "new").symlink_to(parent / "roots")
    with pytest.raises(OSError, match="Not a directory"):
        give(parent / "new", ServerUser(NOBODY.pw_uid, NOBODY.pw_gid))
    assert (parent / "roots").stat().st_uid == 0


@as_root
def test_a_folder_of_another_user_is_not_given_away(parent: Path) -> None:
    os.chown(parent, NOBODY.pw_uid, NOBODY.pw_gid)
    with pytest.raises(SetUpError, match=f"{parent} belongs to nobody, not to root"):
        give(parent, ServerUser(1, 1))


@as_root
def test_no_process_of_root_is_taken_for_the_server_on_the_servers_word(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:

        class LyingConnection:
            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def execute(self, _query: str) -> SimpleNamespace:
                return SimpleNamespace(fetchall=lambda: [(str(parent), child.pid)])

        monkeypatch.setattr(embedded_server, "_connect", lambda _sockets: LyingConnection())
        with pytest.raises(SetUpError, match="isn't a PostgreSQL that Headcount started"):
            find(Cluster(parent, ServerUser(NOBODY.pw_uid, NOBODY.pw_gid), parent))
        child.communicate(b"\n")


def test_files_made_in_the_data_folder_are_private(parent: Path) -> None:
    os.close(open_file(parent / "new", os.O_RDWR | os.O_CREAT, None))
    assert (parent / "new").stat().st_mode & 0o7777 == 0o600


def test_a_headcount_that_is_not_root_may_use_what_others_can_write_to(parent: Path) -> None:
    parent.chmod(0o777)
    make_data_folder(parent, None)
    assert parent.stat().st_mode & 0o7777 == 0o777
