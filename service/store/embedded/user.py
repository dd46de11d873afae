"""Whom the embedded PostgreSQL runs as, and how its programs are started.

PostgreSQL doesn't run as root, so a root Headcount runs it as an unprivileged user. What that user can't reach is
copied (`programs.py`) or refused (`files.py`), never opened: a folder is private for a reason.
"""

import errno
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service.errors import SetUpError
from service.store.embedded.signals import signals_held_back

_OS_USER = "headcount-pg"
# What useradd ends with when the name is taken: by another Headcount's first start, at the same moment.
_NAME_TAKEN = 9


@dataclass(frozen=True)
class ServerUser:
    """The unprivileged OS user that PostgreSQL runs as when Headcount runs as root."""

    uid: int
    gid: int

    def is_granted(self, wanted: int, path: Path) -> bool:
        """Whether the mode of a file or folder, its parents aside, grants `wanted`: 4 read, 2 write, 1 run or enter."""
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & wanted == wanted

    def first_closed_folder(self, paths: Iterable[Path]) -> Path | None:
        """Return the first of these folders that exists and that this user can't enter."""
        return next((path for path in paths if path.is_dir() and not self.is_granted(1, path)), None)

    def reaches(self, path: Path, wanted: int) -> bool:
        """Whether this user can enter every folder above an existing file and has `wanted` on the file."""
        return self.first_closed_folder(path.parents) is None and self.is_granted(wanted, path)


def server_user(folder: Path) -> ServerUser | None:
    """Return whom PostgreSQL runs as on this data folder, made when missing; None unless Headcount is root.

    A cluster that is there keeps its owner: the number of a user differs between machines.
    """
    if os.geteuid() != 0:
        return None
    with suppress(FileNotFoundError, NotADirectoryError):
        if (owner := (folder / "postgresql").stat()).st_uid != 0:
            return ServerUser(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(_OS_USER)
    except KeyError:
        _make_os_user()
        entry = pwd.getpwnam(_OS_USER)
    return ServerUser(entry.pw_uid, entry.pw_gid)


def _make_os_user() -> None:
    useradd = shutil.which("useradd", path=f"/usr/sbin:/sbin:{os.defpath}")
    if useradd is None:
        raise SetUpError(
            f"PostgreSQL doesn't run as root, and there is no useradd to make a user for it: "
            f"make a user {_OS_USER}, or run Headcount as another user than root"
        )
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _OS_USER]
    # To the end: an interrupted one would leave /etc/passwd locked.
    with signals_held_back():
        status, output = run(command, None)
    if status not in (0, _NAME_TAKEN):
        raise SetUpError(
            f"PostgreSQL doesn't run as root, and the user {_OS_USER} can't be made for it: {last_words(output)}"
        )


def uid_of(user: ServerUser | None) -> int:
    """Return the number of the user that PostgreSQL runs as; None is this process's."""
    return user.uid if user else os.geteuid()


def spawn(command: list[str], user: ServerUser | None, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program with nothing of the caller's: no environment, working folder or terminal.

    Its own session keeps the terminal's Ctrl-C away from it: the service drains first and then stops it. The caller's
    working folder may be one that the user can't enter. LC_ALL keeps messages in English: `postgresql.py` reads one.
    """
    return subprocess.Popen(  # noqa: S603 -- no shell, and every program is named in the store's own modules
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env={"LC_ALL": "C", "PATH": os.defpath},
        start_new_session=True,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )


def run(command: list[str], user: ServerUser | None) -> tuple[int, str]:
    """Run a program as `spawn` does; return its exit status and all that it printed.

    Interrupted, it is killed with all that it started, and has written its last when this returns.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with signals_held_back():
            process = spawn(command, user, subprocess.PIPE)
        output, _ = process.communicate()
    except BaseException:
        with signals_held_back():
            if process and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            if process and process.stdout:
                with process.stdout as stdout:
                    # Its end is the end of the last process that can print, not just of the first.
                    if not stdout.closed:
                        stdout.read()
                process.wait()
        raise
    return process.returncode, output.decode(errors="replace")


def last_words(output: str) -> str:
    """Return the line that says why a program ended: that the disk is full, else its last complaint or last line.

    A full disk is the first of several complaints, and the last one is about something else.
    """
    complaints: list[str] = re.findall(r"(?:PANIC|FATAL|ERROR|error): +(.*)", output)
    full = [complaint for complaint in complaints if os.strerror(errno.ENOSPC) in complaint]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return (full or complaints or lines or ["it said nothing"])[-1]
