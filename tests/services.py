"""Running services for tests: the real command, on a port of its own, on loopback."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

STOPS_WITHIN = 20


class Service(msgspec.Struct, frozen=True):
    """A service that answers."""

    url: str
    process: subprocess.Popen[str]
    log: Path
    """What it writes to standard error."""


@contextmanager
def running_service(*arguments: str, **environment: str) -> Iterator[Service]:
    """Run `headcount serve` on a free port until the end of the block, and expect it to stop cleanly."""
    command = [sys.executable, "-m", "service.cli.main", "serve", "--port", "0", *arguments]
    with (
        NamedTemporaryFile(prefix="headcount-", suffix=".log") as log,
        subprocess.Popen(
            command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Service(_address(process), process, Path(log.name))
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(STOPS_WITHIN) == 0
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"http://\S+:\d+", line):
            return match[0]
    raise AssertionError(f"the service ended with {process.wait()}")
