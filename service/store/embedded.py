"""The embedded PostgreSQL: one server on one data folder, for as long as a Headcount runs.

    embedded_postgresql(folder)
      make the folder, lock it    a private parent and a second Headcount are refused; a killed one's lock is free
      ask the socket              a server that a killed Headcount left behind answers: it is used
      else start one              what a crash left is cleared or recovered from
    ... and stop it cleanly at the end

embedded_files.py has what is kept on disk, embedded_server.py the processes, embedded_programs.py where PostgreSQL
comes from, embedded_user.py whom it runs as. Whatever stands in the way is a SetUpError: one readable line.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from service.errors import SetUpError
from service.store.embedded_files import (
    PORT,
    has_cluster,
    make_cluster,
    make_data_folder,
    remove_short_socket_folder,
    socket_folder,
)
from service.store.embedded_programs import programs
from service.store.embedded_server import Cluster, Server, find, start
from service.store.embedded_user import ServerUser, server_user


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
    with _os_errors_as_one_line(folder):
        folder = folder.expanduser().resolve()
        user = server_user(folder)
        make_data_folder(folder, user)
    with _locked(folder), _without_libpq_variables():
        with _os_errors_as_one_line(folder):
            server = _find_or_start(folder, user, options or {})
        try:
            server.make_database()
            yield f"postgresql+psycopg://headcount@/headcount?host={quote(str(server.sockets), safe='')}&port={PORT}"
        finally:
            server.stop()
            remove_short_socket_folder(folder)


def _find_or_start(folder: Path, user: ServerUser | None, options: Mapping[str, str]) -> Server:
    cluster = Cluster(folder, user, socket_folder(folder, user))
    is_made = has_cluster(folder)
    if is_made and (server := find(cluster)):
        return server
    binaries = programs(folder, user)
    if not is_made:
        # Tests turn fsync off; flushing a new cluster would be their slowest part.
        make_cluster(folder, user, binaries, durable=options.get("fsync") != "off")
    return start(cluster, binaries, options)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. It goes with the open file, so it ends with the process, however that ends."""
    with _os_errors_as_one_line(folder):
        file = (folder / "headcount.lock").open("a+")
    with file:
        with _os_errors_as_one_line(folder):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise SetUpError(
                    f"the data folder {folder} is in use by another Headcount (process {holder}): "
                    f"stop that one, or set HEADCOUNT_DATA to another folder"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


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
def _os_errors_as_one_line(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename and str(error.filename) != str(folder) else ""
        raise SetUpError(
            f"the data folder {folder} can't be used: {error.strerror}{place}; "
            f"set HEADCOUNT_DATA to a folder that Headcount can write to"
        ) from error
