"""The embedded PostgreSQL: one server on one data folder, for as long as a Headcount runs.

    embedded_postgresql(folder)
      make the folder, lock it    a private parent and a second Headcount are refused; a killed one's lock is free
      ask the socket              a server that a killed Headcount left behind answers: it is used
      else start one              what a crash left is cleared or recovered from
    ... and stop it cleanly at the end

files.py has what is kept on disk, server.py the processes, programs.py where PostgreSQL
comes from, user.py whom it runs as, trust.py what root may open, signals.py when Ctrl-C may
come. Whatever stands in the way is a SetUpError: one readable line.
"""

import errno
import fcntl
import os
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from service.errors import SetUpError
from service.store.embedded.files import (
    PORT,
    full_disk,
    has_cluster,
    make_cluster,
    make_data_folder,
    remove_short_socket_folder,
    socket_folder,
)
from service.store.embedded.programs import programs
from service.store.embedded.server import Cluster, Server, find, start
from service.store.embedded.signals import signals_held_back
from service.store.embedded.trust import open_file
from service.store.embedded.user import ServerUser, server_user

# A Headcount that has the lock writes its number at once; the machine may be busy.
_NUMBER_SECONDS = 1.0
# Controls, and the two separators that break a line as well.
_UNREADABLE = frozenset({"Cc", "Zl", "Zp"})
_ANOTHER = "set HEADCOUNT_DATA to a folder that Headcount can write to"


class DataFolderInUse(SetUpError):
    """Another Headcount has the lock of the data folder."""


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return where the embedded PostgreSQL keeps its data: HEADCOUNT_DATA, or the usual place for this user."""
    if chosen := environment.get("HEADCOUNT_DATA"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/headcount")
    base = Path(environment.get("XDG_DATA_HOME", ""))
    # The XDG specification has a relative path ignored.
    if base.is_absolute():
        return base / "headcount"
    if home := environment.get("HOME"):
        return Path(home, ".local", "share", "headcount")
    raise SetUpError("HOME isn't set, so there is no usual place for the data: set HEADCOUNT_DATA to a folder")


@contextmanager
def embedded_postgresql(folder: Path, *, options: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run PostgreSQL on this data folder and yield the DSN of its database `headcount`; stop it cleanly at the end.

    `options` are settings of PostgreSQL, and go before Headcount's. Meanwhile this process has no PG* variables: libpq
    would mix a PGHOSTADDR or PGOPTIONS that is meant for another server into every connection to this one.
    """
    with _one_line(folder):
        folder = _resolved(folder)
        user = server_user(folder)
        make_data_folder(folder, user)
    with _locked(folder, user), _without_libpq_variables():
        cluster: Cluster | None = None
        servers: list[Server] = []
        try:
            with _one_line(folder):
                with signals_held_back():
                    cluster = Cluster(folder, user, socket_folder(folder, user))
                _find_or_start(cluster, options or {}, servers).make_database()
            yield _dsn(cluster)
        finally:
            # A second Ctrl-C, of somebody who doesn't want to wait, would leave PostgreSQL behind.
            with signals_held_back():
                for server in servers:
                    server.stop()
                if cluster:
                    remove_short_socket_folder(folder, cluster.sockets)


@contextmanager
def running_postgresql(folder: Path) -> Iterator[str]:
    """Yield the DSN of the server that another Headcount runs on this data folder; it is that one's to stop."""
    with _one_line(folder):
        folder = _resolved(folder)
        user = server_user(folder)
        cluster = Cluster(folder, user, socket_folder(folder, user))
        server = find(cluster)
    if server is None:
        raise SetUpError(f"the Headcount that uses the data folder {folder} has no PostgreSQL running: try again")
    with _without_libpq_variables():
        yield _dsn(cluster)


def _dsn(cluster: Cluster) -> str:
    return f"postgresql+psycopg://headcount@/headcount?host={quote(str(cluster.sockets), safe='')}&port={PORT}"


def _find_or_start(cluster: Cluster, options: Mapping[str, str], servers: list[Server]) -> Server:
    """Return the server that answers; it and any that didn't come to that are in `servers`."""
    is_made = has_cluster(cluster.folder, cluster.user)
    if is_made and (server := find(cluster)):
        servers.append(server)
        return server
    binaries = programs(cluster.folder, cluster.user)
    if not is_made:
        # Tests turn fsync off; flushing a new cluster would be their slowest part.
        make_cluster(cluster.folder, cluster.user, binaries, durable=options.get("fsync") != "off")
    return start(cluster, binaries, options, servers)


def _resolved(folder: Path) -> Path:
    """Return the folder's path without links, refusing a name that PostgreSQL or a DSN can't have."""
    try:
        folder = folder.expanduser()
        # Pythons differ in what a loop of links resolves to; here it is an OSError.
        with suppress(FileNotFoundError):
            folder.stat()
        folder = folder.resolve()
        text = os.fsencode(folder).decode()
    except UnicodeError:
        raise SetUpError(f"the path of the data folder {_shown(folder)} isn't UTF-8: {_ANOTHER}") from None
    except (ValueError, RuntimeError) as error:
        raise SetUpError(f"the data folder {_shown(folder)} can't be used: {error}; {_ANOTHER}") from error
    if any(unicodedata.category(character) in _UNREADABLE for character in text):
        raise SetUpError(f"the path of the data folder {_shown(folder)} has a control character in it: {_ANOTHER}")
    return folder


def _shown(folder: Path) -> str:
    """Return the path as one line, with ends of lines and bytes that aren't UTF-8 escaped."""
    return str(folder) if str(folder).isprintable() else repr(str(folder))


@contextmanager
def _locked(folder: Path, user: ServerUser | None) -> Iterator[None]:
    """Hold the folder's lock. It goes with the open file, so it ends with the process, however that ends."""
    with _one_line(folder):
        descriptor = open_file(folder / "headcount.lock", os.O_RDWR | os.O_CREAT, user)
    try:
        with _one_line(folder):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataFolderInUse(
                    f"the data folder {folder} is in use by another Headcount{_holder(descriptor)}: "
                    f"stop that one, or set HEADCOUNT_DATA to another folder"
                ) from None
            # In this order, so that at no moment there is no number.
            os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Name the process that has the lock, if it tells: there is an earlier one's number until it has written its."""
    deadline = time.monotonic() + _NUMBER_SECONDS
    while True:
        number = os.pread(descriptor, 20, 0).decode(errors="replace").partition("\n")[0]
        if number.isdecimal() and psutil.pid_exists(int(number)):
            return f" (process {number})"
        if time.monotonic() > deadline:
            return ""
        time.sleep(0.02)


@contextmanager
def _without_libpq_variables() -> Iterator[None]:
    taken = {name: value for name, value in os.environ.items() if name.startswith("PG")}
    for name in taken:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(taken)


@contextmanager
def _one_line(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetUpError(full_disk(folder, why)) from error
        place = f" ({error.filename})" if error.filename and str(error.filename) != str(folder) else ""
        raise SetUpError(f"the data folder {_shown(folder)} can't be used: {why}{place}; {_ANOTHER}") from error
