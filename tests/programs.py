"""Programs that a test needs beside Python: found, or the test skips and says what to install."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def need(program: str, *, debian: str) -> Path:
    """Find `program`, or skip the test naming the Debian package that brings it."""
    # Debian keeps the server programs of PostgreSQL off the PATH, one folder a release.
    releases = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    places = [os.environ.get("PATH", os.defpath), *(str(folder) for folder in reversed(releases))]
    found = shutil.which(program, path=os.pathsep.join(places))
    if found is None:
        skip(f"{program} is not installed: the Debian package {debian} brings it")
    return Path(found)


def skip(reason: str) -> NoReturn:
    """Skip the test, or fail it where CI=true: there, everything that the tests need has to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
