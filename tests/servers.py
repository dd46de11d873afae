"""Throw-away PostgreSQL servers and databases for tests: the embedded server, without its flushing to disk."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from service.store.embedded import embedded_postgresql

REPOSITORY = Path(__file__).resolve().parents[1]
# A test's data needn't outlive the machine's power; with synchronous_commit off, it wouldn't outlive a kill either.
FAST = {"fsync": "off", "full_page_writes": "off"}


@contextmanager
def throw_away_folder() -> Iterator[Path]:
    """Make a folder for one test that the server's user can enter, unlike pytest's, which are the caller's alone."""
    folder = Path(tempfile.mkdtemp(prefix="headcount-test-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def throw_away_server() -> Iterator[str]:
    """Run a server on a new data folder; yield the DSN of its empty database `headcount`."""
    with throw_away_folder() as folder, embedded_postgresql(folder / "data", options=FAST) as dsn:
        yield dsn


@contextmanager
def throw_away_database(server: str, *, template: str = "template1") -> Iterator[str]:
    """Make a database as a copy of `template` on a server, given by a DSN of it; yield the new database's DSN.

    It belongs to the role of the given DSN. Nothing may be connected to the template when this is called.
    """
    name = f"test_{uuid4().hex}"
    owner = make_url(server).username
    with superuser(server) as connection:
        connection.execute(f'CREATE DATABASE {name} OWNER "{owner}" TEMPLATE "{template}"'.encode())
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with superuser(server) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def connect(dsn: str) -> psycopg.Connection:
    """Open a session with a DSN of SQLAlchemy's form."""
    return psycopg.connect(dsn.replace("postgresql+psycopg://", "postgresql://"), autocommit=True)


def superuser(dsn: str) -> psycopg.Connection:
    """Open a session as the superuser of the embedded server whose DSN this is."""
    return connect(make_url(dsn).set(username="postgres", database="postgres").render_as_string(hide_password=False))


@contextmanager
def python(code: str, *arguments: str | Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code that can import `service` in a process of its own, which is killed at the end if need be."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    places = [environment.pop("PYTHONPATH", ""), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        command,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
