"""What the embedded PostgreSQL keeps in the data folder, and who can reach it.

    headcount.lock       locked while a Headcount uses the folder (postgresql.py)
    postgresql/          the cluster: mode 0700, of the server's user
    postgresql.log       what the server says; the one before it is postgresql.log.1
    programs-<version>/  only where the installed programs can't be reached (programs.py)
    run/                 the socket's folder: mode 0700, of the server's user; or a link to it

Only folders made here get a mode. `make_data_folder` apart, everything is called while the lock is held. OSErrors pass
through: postgresql.py turns them into one readable line. How files are opened, and why so, is in trust.py.
"""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from service.errors import SetUpError
from service.store.embedded.programs import POSTGRESQL_MAJOR
from service.store.embedded.signals import signals_held_back
from service.store.embedded.trust import (
    give,
    make_trusted,
    open_file,
    opened_folder,
    read_file,
    refuse_untrusted,
    unfinished_folder,
)
from service.store.embedded.user import ServerUser, last_words, run, uid_of

SUPERUSER = "postgres"
PORT = 5432
# The longest path of a socket, in bytes, is 107 on Linux and 103 on macOS.
_LONGEST_SOCKET_PATH = 103
_SOCKET_FILES = (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock")
_SHORT_PREFIX = "headcount-"
_SHORT_PARENT = Path("/tmp")  # noqa: S108 -- the names in it are random, and checked before they are used
# A failed PostgreSQL gives back what it was about to write: a file of its log has 16 MB, and recovery writes several.
_FULL_BELOW = 64 * 1024 * 1024
_LOG_BYTES = 1024 * 1024


def make_data_folder(folder: Path, user: ServerUser | None) -> None:
    """Make the data folder, a resolved path, and its missing parents; refuse one that the server couldn't work in."""
    chain = (*reversed(folder.parents), folder)
    if user and (closed := user.first_closed_folder(chain)):
        raise SetUpError(
            f"{closed} is private (mode {closed.stat().st_mode & 0o7777:04o}), and PostgreSQL, which doesn't run as "
            f"root, can't reach the data folder {folder}: set HEADCOUNT_DATA to a folder elsewhere, such as "
            f"/var/lib/headcount"
        )
    for path in chain:
        if not path.exists():
            # FileExistsError: another Headcount's first start, at the same moment. Not left to the umask: with 077,
            # root would make a folder that PostgreSQL can't enter.
            with suppress(FileExistsError), signals_held_back():
                make_trusted(path, 0o755 if user else 0o700)
        if user:
            refuse_untrusted(path, folder, user)


def has_cluster(folder: Path, user: ServerUser | None) -> bool:
    """Whether there is a cluster that this PostgreSQL can run; refuses one that it can't."""
    cluster = folder / "postgresql"
    try:
        version = read_file(cluster / "PG_VERSION", user).strip()
    except FileNotFoundError:
        if not cluster.exists() or not any(cluster.iterdir()):
            return False
        version = ""
    if not version.isdigit():
        raise SetUpError(f"{cluster} is in the way: it isn't a PostgreSQL data folder; move it elsewhere")
    if version != str(POSTGRESQL_MAJOR):
        raise SetUpError(
            f"{cluster} was made by PostgreSQL {version}, and this Headcount brings PostgreSQL {POSTGRESQL_MAJOR}: "
            f"dump it with the Headcount that made it and restore it here, or set HEADCOUNT_DATA to another folder"
        )
    return True


def make_cluster(folder: Path, user: ServerUser | None, binaries: Path, *, durable: bool) -> None:
    """Make the cluster and give it its name when it is whole, so that a kill leaves none or a whole one.

    Sorting is PostgreSQL's own C.UTF-8, the same on every machine. Whoever reaches the socket is trusted, because the
    socket's folder keeps others out (`socket_folder`) and there is no other way in. `durable` flushes it all to disk.
    """
    for leftover in folder.glob("postgresql.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # A new name each time: an initdb whose Headcount was killed may still be writing to the old one.
    with unfinished_folder("postgresql.new-", folder) as new:
        give(new, user)
        command = [
            str(binaries / "initdb"),
            f"--pgdata={new}",
            f"--username={SUPERUSER}",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            # What a failure leaves is removed here, after a look at how full the disk was.
            "--no-clean",
            *([] if durable else ["--no-sync"]),
        ]
        status, output = run(command, user)
        if status != 0:
            raise failure(folder, f"PostgreSQL can't make its files in {folder}: {last_words(output)}")
        new.rename(folder / "postgresql")


def failure(folder: Path, line: str) -> SetUpError:
    """Return the error that this line is: after the reason that PostgreSQL may not have named, a full disk."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < _FULL_BELOW:
        room = f"{free // 1024**2} MB free"
    elif disk.f_files and not disk.f_favail:
        room = "no file more fits on it"
    else:
        return SetUpError(line)
    return SetUpError(f"{full_disk(folder, room)}. {line}")


def full_disk(folder: Path, room: str) -> str:
    """Return the sentence about a full disk."""
    return f"the disk of {folder} is full ({room}): make room, or set HEADCOUNT_DATA to a folder on another disk"


def socket_folder(folder: Path, user: ServerUser | None) -> Path:
    """Return the folder of the server's socket, which nobody but its user (and root) can enter, made when missing.

    That is `run/`. If its path is too long for a socket, or has a comma, which separates hosts in a DSN, it is a folder
    in /tmp that `run` links to, so that the next start finds a server left behind. That one has a random name, and is
    used only while it is a folder, private and of the server's user: nobody else can have put it there.
    """
    place = folder / "run"
    if len(os.fsencode(place / _SOCKET_FILES[0])) <= _LONGEST_SOCKET_PATH and "," not in str(place):
        if not _is_private(place, user):
            _remove_sockets(place)
            place.mkdir(mode=0o700)
            give(place, user)
        return place
    if _is_short_link(place) and _is_private(place.readlink(), user):
        return place.readlink()
    _remove_sockets(place)
    short = Path(tempfile.mkdtemp(prefix=_SHORT_PREFIX, dir=_SHORT_PARENT))
    give(short, user)
    place.symlink_to(short)
    return short


def remove_short_socket_folder(folder: Path, sockets: Path) -> None:
    """Leave nothing in /tmp when no server runs; a folder with a socket in it stays, for the next start to find."""
    if sockets != folder / "run":
        with suppress(OSError):
            sockets.rmdir()
            (folder / "run").unlink()


def clear_sockets(sockets: Path, owner: int) -> None:
    """Remove the sockets that a killed server left in its private folder; this user's folder, and nothing else."""
    with opened_folder(sockets, owner) as descriptor:
        for name in _SOCKET_FILES:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)


def log_to_write(log: Path, user: ServerUser | None) -> IO[bytes]:
    """Open the server's log at its end, made when missing."""
    return os.fdopen(open_file(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, user), "ab")


def log_size_after_rotation(log: Path, user: ServerUser | None) -> int:
    """Put a long log aside; return how many bytes the log has now."""
    with log_to_write(log, user) as file:
        size = os.fstat(file.fileno()).st_size
    if size <= _LOG_BYTES:
        return size
    # A link in the place of the older log is replaced, not followed.
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def log_from(log: Path, user: ServerUser | None, position: int) -> str:
    """Read what the server has said since its log had so many bytes."""
    with os.fdopen(open_file(log, os.O_RDONLY, user), "rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")


def _is_private(path: Path, user: ServerUser | None) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid_of(user) and status.st_mode & 0o077 == 0


def _is_short_link(place: Path) -> bool:
    if not place.is_symlink():
        return False
    short = place.readlink()
    return short.parent == _SHORT_PARENT and short.name.startswith(_SHORT_PREFIX)


def _remove_sockets(place: Path) -> None:
    """Remove what is in the place of the socket's folder, unless it is something else's, as /run and /var/run are."""
    try:
        if _is_short_link(place):
            place.unlink()
        else:
            clear_sockets(place, place.lstat().st_uid)
            place.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SetUpError(f"{place} is in the way: Headcount keeps its socket there; move it elsewhere") from error
