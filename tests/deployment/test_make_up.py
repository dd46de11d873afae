"""`make up` on machines that are not ready, and from the first run to Ctrl-C, with a stub in the service's place."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import need

top = Path(__file__).parents[2]

STUB = """
import os, signal, sys, time

def drain(*_):
    time.sleep(0.5)
    os.write(1, b"drained\\n")  # not print: the signal may come while main() is inside its own
    sys.exit(0)

def main():
    signal.signal(signal.SIGINT, drain)
    signal.signal(signal.SIGTERM, drain)
    print("serving", *sys.argv[1:], flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project like this one: its Makefile and its metadata, a stub, and of its lock what installs a project."""
    folder = tmp_path_factory.mktemp("headcount")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(top / name, folder)
    shutil.copytree(top / "scripts", folder / "scripts")
    for name in ("service/cli", "migrations"):
        (folder / name).mkdir(parents=True)
    (folder / "service/cli/main.py").write_text(STUB)
    entries = re.split(r"^(?=[a-z])", (top / "requirements.lock").read_text(), flags=re.MULTILINE)
    # An entry says below its hashes whom it is there for.
    (folder / "requirements.lock").write_text("".join(entry for entry in entries if "hatchling" in entry))
    return folder


def test_an_environment_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "kept").write_text("a file of somebody else's environment")
    (tmp_path / "linked").symlink_to("shared")
    result = subprocess.run(
        [top / "scripts/venv.sh", tmp_path / "linked", "requirements.lock"],
        cwd=top, env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == (
        f"headcount: {tmp_path / 'linked'} is a symbolic link: remove it, and an environment is made here\n"
    )
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["kept"]


def start(project: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start make the way a terminal does: as the first of a process group of its own."""
    outside = {
        name: value for name, value in os.environ.items() if name not in {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    return subprocess.Popen(
        [need("make", debian="make"), "up", *arguments],
        cwd=project,
        env=outside | {"LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has them, and all that they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )


def serve_and_stop(project: Path, *arguments: str, stop: signal.Signals = signal.SIGINT) -> tuple[list[str], str]:
    """Run `make up` until it serves, stop it as Ctrl-C does, and answer what it said on stdout and on stderr."""
    make = start(project, f"PYTHON={sys.executable}", *arguments)
    assert make.stdout is not None
    served = make.stdout.readline().strip()
    if stop == signal.SIGINT:
        os.killpg(make.pid, stop)
    else:
        make.send_signal(stop)
    rest, said = make.communicate(timeout=30)
    assert make.returncode == -stop, said
    return [served, *rest.splitlines()], said


def complaint(project: Path, python: Path | str) -> str:
    """Run a `make up` that has to fail, and answer its one line (make adds a line of its own below)."""
    make = start(project, f"PYTHON={python}")
    printed, said = make.communicate(timeout=30)
    assert make.returncode != 0
    assert printed == ""
    line, makes_own = said.splitlines()
    assert makes_own.startswith("make: *** ")
    return line


def python_where(folder: Path, statement: str) -> Path:
    """Write a `python3` that runs `statement` before all else."""
    (folder / "sitecustomize.py").write_text(f"import sys\n{statement}\n")
    program = folder / "python3"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return program


def test_a_python_that_is_too_old_is_named_with_its_version_in_one_line(project: Path, tmp_path: Path) -> None:
    python = python_where(tmp_path, "sys.version_info = (3, 9, 2, 'final', 0)")
    assert complaint(project, python) == (
        f"headcount: Python 3.11 or newer is needed, and {python} is 3.9.2: name a newer one with PYTHON=... after make"
    )
    assert not (project / ".venv").exists()


def test_a_python_without_venv_is_one_line_that_names_the_debian_package(project: Path, tmp_path: Path) -> None:
    python = python_where(tmp_path, "sys.modules['ensurepip'] = None")
    assert complaint(project, python) == (
        f"headcount: {python} has no venv module: on Debian and Ubuntu the package python3-venv brings it"
    )
    assert not (project / ".venv").exists()


def test_a_missing_python_is_one_line(project: Path) -> None:
    assert complaint(project, "python3.99") == (
        "headcount: there is no python3.99 here: install Python 3.11 or newer, or name yours with PYTHON=... after make"
    )


def test_the_first_run_installs_and_serves_and_the_next_one_only_serves(project: Path) -> None:
    printed, said = serve_and_stop(project)
    assert printed == ["serving serve", "drained"]
    assert said == ("Installing what requirements.lock pins into .venv: about half a minute, more on a slow line\n")
    printed, said = serve_and_stop(project, "ARGS=--port 9000")
    assert printed == ["serving serve --port 9000", "drained"]
    assert said == ""


def test_a_sigterm_to_make_reaches_the_service_which_drains(project: Path) -> None:
    printed, _ = serve_and_stop(project, stop=signal.SIGTERM)
    assert printed == ["serving serve", "drained"]


def test_an_environment_that_was_left_half_made_is_made_again(project: Path) -> None:
    serve_and_stop(project)
    (project / ".venv/bin/headcount").unlink()
    (project / ".venv/headcount-fingerprint").unlink()
    printed, said = serve_and_stop(project)
    assert printed == ["serving serve", "drained"]
    assert said.startswith("Installing what requirements.lock pins")


def test_another_lock_is_installed_though_its_time_of_change_is_older(project: Path) -> None:
    serve_and_stop(project)
    lock = project / "requirements.lock"
    lock.write_text("# another\n" + lock.read_text())
    os.utime(lock, (0, 0))
    _, said = serve_and_stop(project)
    assert said.startswith("Installing what requirements.lock pins")
