"""`headcount workload from` as a process of its own, on DuckDB or on Spark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.programs import need, skip
from tests.servers import REPOSITORY

_SPARK = REPOSITORY / ".venv-spark"


def run(*arguments: str | Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "service.cli.main", "workload", "from", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, cwd=REPOSITORY)


def reduced(*arguments: str | Path, python: str | Path = sys.executable) -> tuple[dict[str, Any], list[str]]:
    """The workload that was printed, and what was said beside it."""
    result = run(*arguments, python=python)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), said(result)


def said(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command itself says on standard error, without what Java does."""
    foreign = ("WARN", "log4j", "Setting default log level", "To adjust logging level")
    return [line for line in result.stderr.splitlines() if not any(part in line for part in foreign)]


def spark() -> Path:
    """The Python of an environment with PySpark, or the test skips and says how to make one."""
    need("java", debian="default-jre-headless")
    if not (_SPARK / "headcount-fingerprint").exists():
        skip("PySpark is not installed here: `make spark-environment` brings it")
    return _SPARK / "bin" / "python"
