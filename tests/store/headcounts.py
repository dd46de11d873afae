"""Headcounts in processes of their own, to be killed or to run as another user, and what their data folders hold."""

import json
import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from tests.servers import FAST, connect, python

# Starts as the tests' user, because Python may lie where nobody else can read it, and gives root up once all is
# imported. It prints its DSN or why there is none, and stops when it reads a line.
_HEADCOUNT = """
import json, os, signal, sys
from pathlib import Path
from service.errors import SetUpError
from service.store.embedded import embedded_postgresql
folder, options, uid, gid = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # as `headcount serve` does
try:
    with embedded_postgresql(folder, options=options) as dsn:
        print(dsn, flush=True)
        sys.stdin.readline()
except SetUpError as error:
    print(error)
"""


def headcount(
    folder: Path, *, uid: int | None = None, gid: int | None = None, packages: str = ""
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run a Headcount on a data folder, as another user if asked, with PostgreSQL's programs from `packages`."""
    user = os.geteuid() if uid is None else uid
    group = os.getegid() if gid is None else gid
    return python(_HEADCOUNT, folder, json.dumps(FAST), str(user), str(group), PYTHONPATH=packages)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def leave_behind(folder: Path, word: str) -> psutil.Process:
    """Have a Headcount start a server, keep a word and be killed; return the server's first process."""
    with headcount(folder) as process:
        keep(first_line(process), word)
        process.kill()
    return postmaster_of(folder)


def postmaster_of(folder: Path) -> psutil.Process:
    """Return the first process of the server that runs on a data folder."""
    return psutil.Process(int((folder / "postgresql" / "postmaster.pid").read_text().split()[0]))


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended, even if whoever is its parent by now hasn't taken notice."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def keep(dsn: str, word: str) -> None:
    with connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (word text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [word])


def kept(dsn: str) -> list[str]:
    with connect(dsn) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM kept ORDER BY word")]
