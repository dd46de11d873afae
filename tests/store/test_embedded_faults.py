"""Paths, disks and locks that the embedded PostgreSQL can't work with: one readable line each."""

import fcntl
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.errors import SetUpError
from service.store.embedded import embedded_postgresql
from tests.programs import need
from tests.servers import FAST, throw_away_folder

_MB = 1024 * 1024


@pytest.fixture
def parent() -> Iterator[Path]:
    with throw_away_folder() as folder:
        yield folder


@pytest.fixture
def small_disk(parent: Path) -> Iterator[Path]:
    """Mount a file system of 90 MB, enough for a cluster."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        [need("mount", debian="mount"), "-t", "tmpfs", "-o", "size=90m,mode=755", "tmpfs", parent],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a container without the right to mount can't have a small disk: {mounted.stderr.strip()}")
    try:
        yield parent
    finally:
        subprocess.run([need("umount", debian="mount"), parent], check=True)


def fill(disk: Path, *, leave: int) -> None:
    """Fill a disk but for `leave` bytes."""
    status = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize - leave)


def refused(folder: Path) -> str:
    with pytest.raises(SetUpError) as error:
        embedded_postgresql(folder, options=FAST).__enter__()
    said = str(error.value)
    assert said.isprintable()
    return said


def test_a_loop_of_links_is_one_readable_line(parent: Path) -> None:
    (parent / "loop").symlink_to(parent / "loop")
    for folder in (parent / "loop", parent / "loop" / "data"):
        assert refused(folder) == (
            f"the data folder {folder} can't be used: Too many levels of symbolic links; "
            f"set HEADCOUNT_DATA to a folder that Headcount can write to"
        )


def test_a_path_that_is_not_utf_8_is_one_readable_line(parent: Path) -> None:
    folder = parent / os.fsdecode(b"caf\xe9")
    assert refused(folder) == (
        f"the path of the data folder '{parent}/caf\\udce9' isn't UTF-8: "
        f"set HEADCOUNT_DATA to a folder that Headcount can write to"
    )
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "shown"), [("a\nb", r"a\nb"), ("a\rb", r"a\rb"), ("a\x1bb", r"a\x1bb"), ("a\x7fb", r"a\x7fb")]
)
def test_a_path_with_a_control_character_is_one_readable_line(name: str, shown: str, parent: Path) -> None:
    assert refused(parent / name) == (
        f"the path of the data folder '{parent}/{shown}' has a control character in it: "
        f"set HEADCOUNT_DATA to a folder that Headcount can write to"
    )
    assert list(parent.iterdir()) == []


def test_a_link_to_such_a_path_is_refused_too(parent: Path) -> None:
    (parent / "link").symlink_to(parent / "a\nb")
    assert "has a control character in it" in refused(parent / "link")


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("~nosuchuser/data", "Could not determine home directory"),
        ("/dev/a\0b", "embedded null byte"),
        ("/dev/" + "d" * 300, "File name too long"),
        ("/dev/null/data", "Not a directory"),
        ("/proc/headcount", "No such file or directory"),
    ],
)
def test_a_path_that_cannot_be_is_one_readable_line(folder: str, why: str) -> None:
    assert why in refused(Path(folder))


def test_letters_of_any_script_spaces_and_quotes_are_no_fault(parent: Path) -> None:
    with embedded_postgresql(parent / """données 数据 'a' "b" %41 \\""", options=FAST) as dsn:
        assert dsn.startswith("postgresql+psycopg://headcount@/headcount?host=")


def test_a_first_start_on_a_full_disk_says_so_and_leaves_nothing(small_disk: Path) -> None:
    fill(small_disk, leave=20 * _MB)
    said = refused(small_disk / "data")
    assert f"the disk of {small_disk}/data is full (" in said
    assert "set HEADCOUNT_DATA to a folder on another disk. PostgreSQL can't make its files" in said
    assert [path.name for path in sorted((small_disk / "data").iterdir())] == ["headcount.lock", "run"]


def test_a_later_start_on_a_full_disk_says_so_and_the_data_stays_good(small_disk: Path) -> None:
    with embedded_postgresql(small_disk / "data", options=FAST):
        pass
    fill(small_disk, leave=0)
    assert f"the disk of {small_disk}/data is full (" in refused(small_disk / "data")
    (small_disk / "filler").unlink()
    with embedded_postgresql(small_disk / "data", options=FAST):
        pass


def test_a_disk_without_room_for_a_single_file_says_so(small_disk: Path) -> None:
    (small_disk / "data").mkdir()
    fill(small_disk, leave=0)
    assert refused(small_disk / "data").startswith(f"the disk of {small_disk}/data is full (")


def hold_lock(folder: Path) -> int:
    """Lock a data folder as another Headcount does that hasn't written its number yet."""
    lock = os.open(folder / "headcount.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_a_headcount_that_has_not_written_its_number_yet_is_waited_for(parent: Path) -> None:
    lock = hold_lock(parent)
    writing = threading.Timer(0.2, os.pwrite, (lock, f"{os.getpid()}\n".encode(), 0))
    writing.start()
    assert f"is in use by another Headcount (process {os.getpid()}): stop that one" in refused(parent)
    writing.join()
    os.close(lock)


@pytest.mark.parametrize("left", [b"", b"4194305\n", b"-1\n", b"words\n"])
def test_a_headcount_whose_number_stays_unknown_is_not_numbered(left: bytes, parent: Path) -> None:
    lock = hold_lock(parent)
    # Above the largest number that Linux gives, or none at all.
    os.write(lock, left)
    assert f"the data folder {parent} is in use by another Headcount: stop that one" in refused(parent)
    os.close(lock)


def test_the_lock_has_this_process_number_and_nothing_of_an_earlier_one(parent: Path) -> None:
    (parent / "headcount.lock").write_text("123456789\nmore")
    with embedded_postgresql(parent, options=FAST):
        assert (parent / "headcount.lock").read_text() == f"{os.getpid()}\n"
