"""Schemathesis against the running service, all checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_schemathesis_finds_no_failure_and_a_third_of_the_plans_are_answered(
    service_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{service_url}/openapi.json",
        "--checks",
        "all",
    ]
    result = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout[-20_000:]
    counts = re.findall(r"^generated plans: (\d+), of which 200: (\d+) .*$", result.stdout, re.MULTILINE)
    generated, answered = map(int, counts[-1])
    with capsys.disabled():
        print(f"\nSchemathesis: {generated} generated plans, {answered} answered with 200 ({answered / generated:.0%})")
    assert 3 * answered >= generated > 100
