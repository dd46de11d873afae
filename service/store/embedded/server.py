"""The processes of the embedded PostgreSQL: found again, started, waited for, stopped.

A number in `postmaster.pid` proves nothing: after a crash it may be any process's. So the server itself is asked, and a
process counts as this cluster's only if it is a `postgres` that works in it. No other process is ever signalled.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from service.errors import SetUpError
from service.store.embedded.files import (
    PORT,
    SUPERUSER,
    clear_sockets,
    failure,
    log_from,
    log_size_after_rotation,
    log_to_write,
)
from service.store.embedded.signals import signals_held_back
from service.store.embedded.trust import opened_folder, read_file
from service.store.embedded.user import ServerUser, last_words, spawn, uid_of

# Recovery after a crash reads at most max_wal_size: seconds on any disk.
START_SECONDS = 120.0
STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02

_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    # Containers give /dev/shm 64 MB, which parallel queries overflow.
    "dynamic_shared_memory_type": "mmap",
    # A quarter of PostgreSQL's default: less disk for a small database, and a shorter recovery.
    "max_wal_size": "256MB",
    # Not the machine's: what a query answers must not depend on where it runs.
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A line every five minutes that nobody reads.
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class Cluster:
    """The cluster of a locked data folder: whom its server runs as and where its socket is."""

    folder: Path
    user: ServerUser | None
    sockets: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own data folder."""
        return self.folder / "postgresql"

    @property
    def log(self) -> Path:
        """The file with what the server says."""
        return self.folder / "postgresql.log"


@dataclass(frozen=True)
class Server:
    """A server: its first process, which is our child unless it was left behind, and its cluster."""

    postmaster: psutil.Process
    child: subprocess.Popen[bytes] | None
    cluster: Cluster

    def make_database(self) -> None:
        """Make the role and the database `headcount`, or what an earlier kill left to make of the two.

        The role owns the database and isn't a superuser, who could read and write the machine's files.
        """
        try:
            with _connect(self.cluster.sockets) as connection:
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'headcount'").fetchone():
                    connection.execute("CREATE ROLE headcount LOGIN")
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'headcount'").fetchone():
                    connection.execute("CREATE DATABASE headcount OWNER headcount")
        except psycopg.Error as error:
            words = last_words(str(error))
            raise failure(self.cluster.folder, f"PostgreSQL can't make the database headcount: {words}") from error

    def stop(self) -> None:
        """End all sessions and write everything (SIGINT); if that hangs, end at once (SIGQUIT) and leave a recovery."""
        for number in (signal.SIGINT, signal.SIGQUIT):
            with suppress(psutil.NoSuchProcess):
                self.postmaster.send_signal(number)
            deadline = time.monotonic() + STOP_SECONDS
            while _is_alive(self.postmaster) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if not _is_alive(self.postmaster):
                if self.child:
                    self.child.wait()
                return
        raise SetUpError(f"PostgreSQL (process {self.postmaster.pid}) doesn't stop; what was committed is safe")


def find(cluster: Cluster) -> Server | None:
    """Return the server that a killed Headcount left behind, waiting for it if it is just coming up or going down."""
    deadline = time.monotonic() + START_SECONDS
    postmaster = _answering(cluster)
    while postmaster is None and (left := _left_behind(cluster)):
        if time.monotonic() > deadline:
            raise SetUpError(
                f"PostgreSQL (process {left.pid}), left behind on {cluster.folder} by an earlier run, doesn't answer: "
                f"end that process"
            )
        time.sleep(_POLL_SECONDS)
        postmaster = _answering_if_ready(cluster)
    return Server(postmaster, None, cluster) if postmaster else None


def start(cluster: Cluster, binaries: Path, options: Mapping[str, str], started: list[Server]) -> Server:
    """Start a server on a cluster that has none and return it when it answers: after recovery, if there was a crash.

    `binaries` is the folder of the program; `options` are settings that go before ours. Every server goes to `started`
    in the moment that there is one, so that whoever stops those leaves none, whatever ends the wait.
    """
    _clear(cluster)
    command = _command(cluster, binaries, options)
    deadline = time.monotonic() + START_SECONDS
    while True:
        said_before = log_size_after_rotation(cluster.log, cluster.user)
        if server := _launch(cluster, command, deadline, started):
            return server
        words = last_words(log_from(cluster.log, cluster.user, said_before))
        # Sessions of a killed server take a moment to notice that it is gone, and hold its memory until then.
        if "pre-existing shared memory block" not in words or time.monotonic() > deadline:
            raise failure(
                cluster.folder, f"PostgreSQL doesn't start on {cluster.folder}: {words} (its log is {cluster.log})"
            )
        time.sleep(10 * _POLL_SECONDS)


def _launch(cluster: Cluster, command: list[str], deadline: float, started: list[Server]) -> Server | None:
    """Start the server once and wait until it answers; None if it ended instead."""
    with log_to_write(cluster.log, cluster.user) as output, signals_held_back():
        child = spawn(command, cluster.user, output)
        server = Server(psutil.Process(child.pid), child, cluster)
        started.append(server)
    while child.poll() is None:
        if _answering_if_ready(cluster):
            # Should it die while we run, nobody else takes note of its end, and without that its number stays taken:
            # whoever starts it by hand is told that it still runs.
            threading.Thread(target=child.wait, daemon=True).start()
            return server
        if time.monotonic() > deadline:
            raise failure(
                cluster.folder,
                f"PostgreSQL isn't ready on {cluster.folder} in {START_SECONDS:.0f} s (its log is {cluster.log})",
            )
        time.sleep(_POLL_SECONDS)
    return None


def _command(cluster: Cluster, binaries: Path, options: Mapping[str, str]) -> list[str]:
    # In quotes, because the setting is a list.
    sockets = '"{}"'.format(str(cluster.sockets).replace('"', '""'))
    settings = {**_SETTINGS, "unix_socket_directories": sockets, **options}
    switches = (part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
    return [str(binaries / "postgres"), "-D", str(cluster.data), *switches]


def _connect(sockets: Path) -> psycopg.Connection:
    return psycopg.connect(
        host=str(sockets), port=PORT, user=SUPERUSER, dbname=SUPERUSER, connect_timeout=3, autocommit=True
    )


def _answering(cluster: Cluster) -> psutil.Process | None:
    """Ask whoever listens on the socket: the first process of the server of this cluster, None if nobody answers."""
    try:
        with _connect(cluster.sockets) as connection:
            [(data, session)] = connection.execute(
                "SELECT current_setting('data_directory'), pg_backend_pid()"
            ).fetchall()
            postmaster = psutil.Process(session).parent()
    except psycopg.OperationalError:
        return None
    except psutil.NoSuchProcess:
        postmaster = None
    # What a server says of itself may be a lie, and it is a process that root would end.
    if postmaster is None or postmaster.uids().real != uid_of(cluster.user):
        raise SetUpError(f"whatever answers in {cluster.sockets} isn't a PostgreSQL that Headcount started: end it")
    if not Path(data).is_dir() or not cluster.data.samefile(data):
        raise SetUpError(f"the PostgreSQL that answers in {cluster.sockets} runs on {data}, not on {cluster.data}")
    return postmaster


def _answering_if_ready(cluster: Cluster) -> psutil.Process | None:
    """As `_answering`, but not before the server says that it is ready: it would log each question as an error."""
    ready = _pid_file(cluster)[-1:] == ["ready"]
    return _answering(cluster) if ready else None


def _pid_file(cluster: Cluster) -> list[str]:
    """Read postmaster.pid: the process (below 0 for a single-user server) first, the state of the server last."""
    try:
        lines = read_file(cluster.data / "postmaster.pid", cluster.user).splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines]


def _named_process(cluster: Cluster) -> psutil.Process | None:
    """Return the living process whose number is in postmaster.pid, whatever it is."""
    first = (_pid_file(cluster) or [""])[0]
    try:
        return psutil.Process(abs(int(first)))
    except (ValueError, psutil.NoSuchProcess):
        return None


def _left_behind(cluster: Cluster) -> psutil.Process | None:
    """Return the process in postmaster.pid if it is a living `postgres` that works in this cluster."""
    process = _named_process(cluster)
    try:
        if process is None or process.name() != "postgres":
            return None
        try:
            ours = cluster.data.samefile(process.cwd())
        except (psutil.AccessDenied, PermissionError):
            # Containers keep the folders of another user's processes from root too; the command line is open to all.
            ours = str(cluster.data) in process.cmdline()
    except (psutil.NoSuchProcess, FileNotFoundError):
        return None
    return process if ours else None


def _clear(cluster: Cluster) -> None:
    """Remove what would keep a server from starting although none runs: numbers of other processes, an empty file.

    A number that no process has is left to PostgreSQL, which then looks for sessions that still hold its memory.
    """
    owner = uid_of(cluster.user)
    if _named_process(cluster) or not (_pid_file(cluster) or [""])[0].lstrip("-").isdigit():
        with opened_folder(cluster.data.resolve(), owner) as descriptor, suppress(FileNotFoundError):
            os.unlink("postmaster.pid", dir_fd=descriptor)
    # The socket's lock file has the same number in it.
    clear_sockets(cluster.sockets, owner)


def _is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs; one that ended and that nobody has asked about doesn't."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
