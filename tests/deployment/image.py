"""The Dockerfile's steps, taken by hand where there is no container engine to take them.

They are read from the Dockerfile itself, so that the two can't part. What is below /src and /opt in the image lies
below a folder here, and the image's own Python is this machine's.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.programs import need, skip

top = Path(__file__).parents[2]

# A container with a read-only root: a mount namespace in which all that is mounted is read-only and /tmp is new, and
# in it a user that is nobody else's, without groups, capabilities and ways to get any.
SEAL = r"""
mount -t tmpfs -o mode=1777 tmpfs /tmp
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r place; do
    [ "$place" = /tmp ] || mount -o remount,bind,ro "$(printf %b "$place")"
done
user=$1; shift
exec setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups --inh-caps=-all --bounding-set=-all \
    --no-new-privs "$@"
"""


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Read (instruction, what follows it) pairs, comments left out and continued lines joined."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


class Image(msgspec.Struct, frozen=True):
    """What the Dockerfile made, below `folder`, and how it says to run it."""

    folder: Path
    environment: dict[str, str]
    user: str
    command: list[str]
    healthcheck: list[str]

    def start(self, command: list[str], environment: dict[str, str], *, port: int = 8750) -> subprocess.Popen[str]:
        """Start a command as a container would, but on a port of loopback alone."""
        listening = {"0.0.0.0": "127.0.0.1"}  # noqa: S104 -- what is replaced
        command = [listening.get(word, word).replace("8750", str(port)) for word in command]
        unshare = str(need("unshare", debian="util-linux"))
        sealed = [unshare, "--mount", "--propagation", "private", "/bin/sh", "-euc", SEAL, "seal", self.user]
        return subprocess.Popen(
            [*sealed, *command],
            cwd="/",
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def build(folder: Path) -> Image:
    """Take the steps of the Dockerfile in order. `folder` must be new, and not below /tmp."""
    python = system_python()
    (folder / "programs").mkdir()
    (folder / "programs/python").symlink_to(python)

    def here(text: str) -> str:
        return re.sub(r"(?<![\w.])/(src|opt)\b", rf"{folder}/\1", text)

    workdir = folder
    settings: dict[str, str] = {}
    for instruction, rest in instructions((top / "Dockerfile").read_text()):
        match instruction:
            case "WORKDIR":
                workdir = Path(here(rest))
                workdir.mkdir(parents=True)
            case "COPY":
                copy(*here(rest).split(), workdir=workdir)
            case "RUN":
                run(here(rest), workdir=workdir, programs=folder / "programs")
            case "FROM" | "ENV" | "USER" | "EXPOSE" | "HEALTHCHECK" | "CMD":
                settings[instruction] = here(rest)
            case _:
                raise NotImplementedError(instruction)
    assert settings["EXPOSE"] == "8750"
    return Image(
        folder=folder,
        environment=dict(pair.split("=", 1) for pair in shlex.split(settings["ENV"])),
        user=settings["USER"],
        command=json.loads(settings["CMD"]),
        healthcheck=json.loads(settings["HEALTHCHECK"].partition(" CMD ")[2]),
    )


def copy(*words: str, workdir: Path) -> None:
    """Take a COPY step: of what .dockerignore lets through, or of what an earlier stage built."""
    *sources, target = words
    if sources[0] == "--from=build":
        assert sources[1] == target, "a virtual environment can't be moved"
        assert Path(target).exists()
        return
    for source in sources:
        assert f"!{source}" in (top / ".dockerignore").read_text().splitlines()
        if (top / source).is_dir():
            shutil.copytree(top / source, workdir / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(top / source, workdir / target)


def run(command: str, *, workdir: Path, programs: Path) -> None:
    """Take a RUN step, in which `python` is the image's."""
    done = subprocess.run(
        ["/bin/sh", "-euc", command],
        cwd=workdir,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def system_python() -> Path:
    """Find a Python that users other than root can run too, as the image's own can be run."""
    if sys.platform != "linux" or os.geteuid() != 0:
        skip("only root, on Linux, can make a mount namespace in which everything is read-only")
    python = Path("/usr/bin/python3")
    asked = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    if not python.exists() or subprocess.run([python, "-c", asked], capture_output=True, check=False).returncode != 0:
        skip(f"{python} is missing, too old or without venv: the Debian package python3-venv brings it")
    return python
