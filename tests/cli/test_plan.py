"""`headcount plan`, as a person runs it."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.questions import REFERENCE

LLAMA = ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb")


def headcount(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def refused(*arguments: str) -> str:
    """The one line that a refused command prints."""
    result = headcount(*arguments)
    assert result.returncode != 0
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.strip()


def test_the_reference_ladder_is_a_table() -> None:
    result = headcount("plan", *LLAMA, "--max-model-len", "8192", "--mean-tokens", "2300")
    assert result.returncode == 0
    # The parts that a reader looks for, in the order of the steps.
    position = 0
    for part in (
        "79.65 GiB",
        "71.68 GiB",
        "14.96 GiB",
        "3.00 GiB",
        "53.73 GiB",
        "128 KiB",
        "1.00 GiB",
        "53 worst case, 191 paged",
    ):
        position = result.stdout.index(part, position)
    assert max(len(line) for line in result.stdout.splitlines()) <= 120


def test_json_is_exactly_what_the_service_returns(client: httpx.Client, service_url: str) -> None:
    arguments = ("plan", *LLAMA, "--max-model-len", "8192", "--json", "--set", "kv_cache_dtype=fp8")
    body = REFERENCE | {"levers": {"max_model_len": 8192, "kv_cache_dtype": "fp8"}}
    expected = client.post("/v1/estimates", json=body).text
    assert headcount(*arguments).stdout == expected
    assert headcount(*arguments, "--server", service_url).stdout == expected


def test_levers_are_set_by_name() -> None:
    result = headcount("plan", *LLAMA, "--json", "--max-model-len", "8192", "--set", "kv-heads=32")
    assert json.loads(result.stdout)["users"]["worst_case"] == 13


def test_a_workload_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_text('{"kind": "rows", "rows": [[100, 50]]}')
    result = headcount("plan", *LLAMA, "--json", "--workload", str(file))
    assert json.loads(result.stdout)["workload"]["mean_held_tokens"] == 124.5


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_text('{"kind": "rows", "rows": [[0, 50]]}')
    assert refused("plan", "nope/nope", "h100-sxm-80gb").startswith(
        "headcount: model: there is no model 'nope/nope' in the catalog; the nearest: "
    )
    assert refused("plan", *LLAMA, "--workload", str(file)).startswith(
        "headcount: workload.rows.0.0: Expected `int` >= 1"
    )
    assert refused("plan", *LLAMA, "--workload", str(tmp_path)).endswith("can't be read: Is a directory")
    assert refused("plan", *LLAMA, "--max-model-len", "8k") == "headcount: max_model_len: must be a number, not '8k'"
    assert refused("plan", *LLAMA, "--set", "kv_cache_dtyp=fp8").startswith(
        "headcount: --set: 'kv_cache_dtyp=fp8' is not"
    )
    assert refused("plan", *LLAMA, "--set", "tensor_parallel=3").endswith("legal sizes: 1, 2, 4, 8, 16, 32")
    assert refused("plan", *LLAMA, "--max-model-len", "1", "--set", "max_model_len=2") == (
        "headcount: max_model_len: comes twice; write it once"
    )


def test_a_server_that_does_not_answer_or_refuses_is_one_line(service_url: str) -> None:
    assert "does not answer" in refused("plan", *LLAMA, "--server", "http://127.0.0.1:1")
    assert "does not answer" in refused("plan", *LLAMA, "--server", "not a url")
    assert "answered 422" in refused("plan", "nope/nope", "x", "--server", service_url)


@pytest.mark.parametrize(
    "arguments", [(), ("plan",), ("fly",), ("serve", "--port", "70000"), ("serve", "--workers", "0")]
)
def test_a_wrong_command_line_is_explained(arguments: tuple[str, ...]) -> None:
    result = headcount(*arguments)
    assert result.returncode == 2
    assert "usage: headcount" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_reader_that_goes_away_is_not_an_error_message() -> None:
    command = [sys.executable, "-m", "service.cli.main", "plan", *LLAMA]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
