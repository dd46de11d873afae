"""The README's examples, run as they stand against a running service."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[f"example {number}" for number in range(len(EXAMPLES))])
def test_an_example_prints_what_the_readme_shows(service_url: str, command: str, output: str) -> None:
    here = command.replace("http://127.0.0.1:8750", service_url)
    here = here.replace(".venv/bin/headcount", f"{sys.executable} -m service.cli.main").replace(
        "python3", sys.executable
    )
    result = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", here],
        env=os.environ | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stdout == output


def test_the_readme_shows_the_whole_way() -> None:
    assert len(EXAMPLES) == 12
    for part in ("make up", "make test", "/v1/plans", "headcount plan", "headcount observe", "HEADCOUNT_DATABASE_URL"):
        assert part in README
