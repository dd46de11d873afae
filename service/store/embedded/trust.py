"""What a root Headcount trusts on the way to its data, and how files and folders there are opened.

Whoever can write to a folder can put a link in a file's place, and root would write through it. So nobody but root and
the server's user may be able to write to the data folder or replace it, and no link in it is followed. A data folder
of the server's user is that user's to change at any moment: what root does there, it does to what it holds open.
"""

import errno
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import SetUpError
from service.store.embedded.signals import signals_held_back
from service.store.embedded.user import ServerUser

# The files of ours and PostgreSQL's that are read are a few lines long.
_MOST_READ = 8192
_ELSEWHERE = "set HEADCOUNT_DATA to a folder of its own, such as /var/lib/headcount"


def refuse_untrusted(path: Path, folder: Path, user: ServerUser) -> None:
    """Refuse the data folder, or one above it, if anybody but root and the server's user can change what is in it.

    To be asked from the top down: a folder that passes can't be replaced once those above it have passed.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it has become a link", str(path))
    what = "what is in it" if path == folder else f"the data folder {folder}"
    if status.st_uid not in (0, user.uid):
        raise SetUpError(
            f"{path} belongs to {_name(status.st_uid)}, who could change {what}, so root can't trust it: "
            f"run Headcount as that user, or {_ELSEWHERE}"
        )
    # In a sticky folder, as /tmp is, only an owner can rename what is there, but anybody can add to it.
    is_safe_above = path != folder and status.st_mode & stat.S_ISVTX
    if status.st_mode & 0o022 and not is_safe_above:
        raise SetUpError(
            f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):04o}), and could change {what}, so root "
            f"can't trust it: chmod go-w {path} if nobody has, or {_ELSEWHERE}"
        )


def make_trusted(path: Path, mode: int) -> None:
    """Make a folder with this mode whatever the umask is; OSErrors pass through."""
    path.mkdir(mode=0o700)
    with opened_folder(path, os.geteuid()) as descriptor:
        os.fchmod(descriptor, mode)


def give(path: Path, user: ServerUser | None) -> None:
    """Make the server's user the owner of a folder that was just made; without one, that is so already."""
    if user:
        with opened_folder(path, os.geteuid()) as descriptor:
            os.fchown(descriptor, user.uid, user.gid)


@contextmanager
def unfinished_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Make a private folder with a name of its own, to be renamed once whole; otherwise nothing of it stays."""
    new: Path | None = None
    try:
        with signals_held_back():
            new = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        yield new
    finally:
        with signals_held_back():
            if new:
                shutil.rmtree(new, ignore_errors=True)


@contextmanager
def opened_folder(path: Path, owner: int) -> Iterator[int]:
    """Open a folder, not a link to one, of this owner; yield a descriptor that stands for it wherever it is moved."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if (found := os.fstat(descriptor).st_uid) != owner:
            raise SetUpError(f"{path} belongs to {_name(found)}, not to {_name(owner)}")
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: Path, flags: int, user: ServerUser | None) -> int:
    """Open a file of the data folder, made as mode 0600 with O_CREAT; return its descriptor. Links are refused.

    As root, so is a file that has another name elsewhere (a hard link) or that somebody else owns.
    """
    try:
        # O_NONBLOCK: a pipe in the file's place mustn't keep Headcount waiting. Files don't know it.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise SetUpError(f"{path} is a link, which Headcount doesn't follow in its data folder: remove it") from error
    status = os.fstat(descriptor)
    fault = ""
    if not stat.S_ISREG(status.st_mode):
        fault = "isn't a file"
    elif user and status.st_nlink > 1:
        fault = "has a second name elsewhere (a hard link), which root doesn't write to"
    elif user and status.st_uid not in (0, user.uid):
        fault = f"belongs to {_name(status.st_uid)}"
    if fault:
        os.close(descriptor)
        raise SetUpError(f"{path} {fault}: remove it")
    return descriptor


def read_file(path: Path, user: ServerUser | None) -> str:
    """Read a small file as `open_file` opens it; what isn't UTF-8 is replaced."""
    with os.fdopen(open_file(path, os.O_RDONLY, user), "rb") as file:
        return file.read(_MOST_READ).decode(errors="replace")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user with number {uid}"
