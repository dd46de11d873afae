"""Debian's PostgreSQL on loopback and behind a password: a database as operators give it, unlike the embedded one."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.programs import need

PASSWORD = "p@ss:w/rd"  # noqa: S105 -- of servers that live for one test; it would break a URL if it stood in one


@contextmanager
def debian_postgresql() -> Iterator[str]:
    """Run the newest installed release; yield the DSN of an empty database `headcount`, without the password."""
    programs = need("initdb", debian="postgresql").parent
    folder = Path(tempfile.mkdtemp(prefix="headcount-test-"))
    try:
        (folder / "password").write_text(PASSWORD)
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
        made = as_postgres(
            programs / "initdb",
            "--username=headcount",
            "--auth=scram-sha-256",
            f"--pwfile={folder}/password",
            f"--pgdata={folder}/data",
        )
        assert made.wait(timeout=60) == 0
        port = free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off"}
        server = as_postgres(
            programs / "postgres", f"-D{folder}/data", *(f"--{name}={value}" for name, value in settings.items())
        )
        try:
            create_database(port)
            yield f"postgresql+psycopg://headcount@127.0.0.1:{port}/headcount"
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown: sessions are ended
            server.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def as_postgres(program: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a program of PostgreSQL as the user that its Debian package made: as root it refuses to run."""
    return subprocess.Popen(
        [program, *arguments], user="postgres", group="postgres", extra_groups=[], cwd="/", stdout=subprocess.DEVNULL
    )


def create_database(port: int) -> None:
    """Create the database as soon as the server, which has just been started, takes it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with psycopg.connect(
                host="127.0.0.1", port=port, user="headcount", password=PASSWORD, dbname="postgres", autocommit=True
            ) as connection:
                connection.execute("CREATE DATABASE headcount")
                return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def free_port() -> int:
    """Find a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
