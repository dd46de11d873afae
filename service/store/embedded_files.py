"""What the embedded PostgreSQL keeps in the data folder, and who can reach it.

    headcount.lock       locked while a Headcount uses the folder (embedded.py)
    postgresql/          the cluster: mode 0700, of the server's user
    postgresql.log       what the server says; the one before it is postgresql.log.1
    programs-<version>/  only where the installed programs can't be reached (embedded_programs.py)
    run/                 the socket's folder: mode 0700, of the server's user; or a link to it

Only folders made here get a mode. `make_data_folder` apart, everything is called while the lock is held. OSErrors pass
through: embedded.py turns them into one readable line.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from service.errors import SetUpError
from service.store.embedded_programs import POSTGRESQL_MAJOR
from service.store.embedded_user import ServerUser, last_words, run

SUPERUSER = "postgres"
PORT = 5432
# The longest path of a socket, in bytes, is 107 on Linux and 103 on macOS.
_LONGEST_SOCKET_PATH = 103


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
        if path.exists():
            continue
        with suppress(FileExistsError):  # another Headcount's first start, at the same moment
            path.mkdir()
            # Not left to the umask: with 077, root would make a folder that PostgreSQL can't enter.
            path.chmod(0o755 if user else 0o700)
    if user and folder.stat().st_mode & 0o002:
        raise SetUpError(
            f"anybody can write to the data folder {folder}, so root can't trust what is in it: "
            f"set HEADCOUNT_DATA to a folder of its own, such as /var/lib/headcount"
        )


def has_cluster(folder: Path) -> bool:
    """Whether there is a cluster that this PostgreSQL can run; refuses one that it can't."""
    cluster = folder / "postgresql"
    try:
        version = (cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        if cluster.exists() and any(cluster.iterdir()):
            raise SetUpError(f"{cluster} is in the way: it isn't a PostgreSQL data folder; move it elsewhere") from None
        return False
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
    new = Path(tempfile.mkdtemp(prefix="postgresql.new-", dir=folder))
    try:
        _give(new, user)
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
            *([] if durable else ["--no-sync"]),
        ]
        status, output = run(command, user)
        if status != 0:
            raise SetUpError(f"PostgreSQL can't make its files in {folder}: {last_words(output)}")
        new.rename(folder / "postgresql")
    finally:
        shutil.rmtree(new, ignore_errors=True)


def socket_folder(folder: Path, user: ServerUser | None) -> Path:
    """Return the folder of the server's socket, which nobody but its user (and root) can enter, made when missing.

    That is `run/`. If its path is too long for a socket, or has a comma, which separates hosts in a DSN, it is a folder
    in /tmp that `run` links to, so that the next start finds a server left behind. That one has a random name, and is
    used only while it is a folder, private and of the server's user: nobody else can have put it there.
    """
    place = folder / "run"
    if len(os.fsencode(place / f".s.PGSQL.{PORT}")) <= _LONGEST_SOCKET_PATH and "," not in str(place):
        if not _is_private(place, user):
            _remove(place)
            place.mkdir(mode=0o700)
            _give(place, user)
        return place
    if place.is_symlink() and _is_private(place.readlink(), user):
        return place.readlink()
    _remove(place)
    short = Path(tempfile.mkdtemp(prefix="headcount-", dir="/tmp"))
    _give(short, user)
    place.symlink_to(short)
    return short


def remove_short_socket_folder(folder: Path) -> None:
    """Leave nothing in /tmp when the server has stopped."""
    place = folder / "run"
    if place.is_symlink():
        shutil.rmtree(place.readlink(), ignore_errors=True)
        place.unlink()


def _give(path: Path, user: ServerUser | None) -> None:
    if user:
        os.chown(path, user.uid, user.gid)


def _is_private(path: Path, user: ServerUser | None) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    status = path.stat()
    return status.st_uid == (user.uid if user else os.geteuid()) and status.st_mode & 0o077 == 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
