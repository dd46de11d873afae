"""`headcount plan`, as a person runs it."""

import gzip
import json
import os
import pty
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli.main import main
from service.readers.flat_question import LEVERS
from tests.hostile_servers import problem, reply, server_that_sends
from tests.observations import KV, of_generic
from tests.questions import REFERENCE

LLAMA = ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb")


def headcount(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli.main", *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )


def refused(*arguments: str, status: int = 2) -> str:
    """What a refused command prints: one line, unless a question has several faults."""
    result = headcount(*arguments)
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.strip()


def refused_here(capsys: pytest.CaptureFixture[str], *arguments: str, status: int) -> str:
    """The same without a process of its own, where there are many cases of one thing."""
    assert main(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.strip()


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


def test_what_would_fit_and_what_would_not_help_is_said() -> None:
    result = headcount("plan", *LLAMA, "--max-model-len", "8192", "--set", "kv-cache-memory-bytes=1000000000")
    # 10^9 // (16 x 131,072 B) = 476 blocks of 16 tokens; one window takes 1 GiB.
    assert (
        "\nWould fit with\n  max_model_len of at most 7,616\n\nWould not help\n  gpu_memory_utilization:"
        " kv_cache_memory_bytes sets the cache, so no share is used; it would have to be 1,073,741,824 B\n"
    ) in result.stdout


def test_what_the_engine_prints_is_rounded_once() -> None:
    arguments = ("Qwen/Qwen3.5-35B-A3B", "h200-sxm-141gb", "--engine", "vllm@0.19", "--max-model-len", "10240")
    levers = ("--set", "weight_dtype=fp8", "--set", "kv_cache_memory_bytes=96550865182")
    # 4,464 blocks, 13 to a window: 343.3846, which with six digits is 343.385.
    assert "\n  printed at start-up: 343.38x" in headcount("plan", *arguments, *levers).stdout


def test_json_is_exactly_what_the_service_returns(client: httpx.Client, service_url: str) -> None:
    arguments = ("plan", *LLAMA, "--max-model-len", "8192", "--json", "--set", "kv_cache_dtype=fp8")
    body = REFERENCE | {"levers": {"max_model_len": 8192, "kv_cache_dtype": "fp8"}}
    expected = client.post("/v1/estimates", json=body).text
    assert headcount(*arguments).stdout == expected
    assert headcount(*arguments, "--server", service_url).stdout == expected


def test_an_interval_is_printed_with_its_ends_and_the_verdict() -> None:
    arguments = ("plan", *LLAMA, "--max-model-len", "8192", "--engine", "vllm@0.16")
    answer = json.loads(headcount(*arguments, "--json").stdout)
    _, _, block = headcount(*arguments).stdout.partition("\nInterval (verdict: fits)\n")
    ends, budget, tokens, users = (line.split() for line in block.splitlines()[:4])
    assert ends == ["at", "worst", "most", "likely", "at", "best"]
    interval = answer["interval"]
    for row, key, unit in ((tokens, "tokens", 1), (users, "users_worst_case", 1), (budget[:-1], "budget_bytes", 2**30)):
        numbers = [float(word.replace(",", "")) for word in row if word[0].isdigit()]
        low, best, high = (interval[key][end] / unit for end in ("low", "best", "high"))
        assert numbers == pytest.approx([low, best, high], abs=0.005)
        assert low < best < high
    # A flat reserve has none.
    assert "Interval" not in headcount("plan", *LLAMA, "--max-model-len", "8192").stdout


def test_levers_are_set_by_name() -> None:
    result = headcount("plan", *LLAMA, "--json", "--max-model-len", "8192", "--set", "kv-heads=32")
    assert json.loads(result.stdout)["users"]["worst_case"] == 13


@pytest.mark.parametrize("value", ["true", "false"])
def test_every_switch_is_set_by_a_word(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    switches = ("expert_parallel", "enable_prefix_caching", "enforce_eager", "language_model_only")
    for switch in switches:
        experts = ("Qwen/Qwen3-30B-A3B", "h200-sxm-141gb", "--json", "--engine", "vllm@0.22")
        assert main(("plan", *experts, "--set", f"{switch}={value}")) == 0
        assert capsys.readouterr().err == ""


def test_a_workload_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_text('{"kind": "rows", "rows": [[100, 50]]}')
    result = headcount("plan", *LLAMA, "--json", "--workload", str(file))
    assert json.loads(result.stdout)["workload"]["mean_held_tokens"] == 124.5


def test_a_workload_is_named_by_its_key(service_url: str, client: httpx.Client) -> None:
    arguments = ("plan", *LLAMA, "--max-model-len", "8192", "--workload", "azure_conv_2023")
    expected = client.post("/v1/estimates", json=REFERENCE | {"workload": "azure_conv_2023"}).text
    assert headcount(*arguments, "--json").stdout == expected
    assert headcount(*arguments, "--json", "--server", service_url).stdout == expected
    assert "\nWorkload azure_conv_2023 version 1 (joint, confidence medium): " in headcount(*arguments).stdout


def test_a_workload_file_may_name_a_version(tmp_path: Path) -> None:
    file = tmp_path / "workload"
    file.write_text('{"key": "azure_conv_2023", "version": 1}')
    result = headcount("plan", *LLAMA, "--json", "--workload", str(file))
    assert json.loads(result.stdout)["inputs"]["workload"]["version"] == 1


def test_a_name_is_a_file_where_there_is_one_and_else_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service_url: str
) -> None:
    monkeypatch.chdir(tmp_path)

    def asked(*arguments: str) -> dict[str, Any]:
        assert main(("plan", *LLAMA, "--json", *arguments)) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    for name in ("lengths", "azure_conv_2023"):
        Path(name).write_text('{"kind": "rows", "rows": [[100, 50]]}')
    assert asked("--workload", "lengths")["workload"]["kind"] == "rows"
    assert asked("--workload", "./azure_conv_2023")["workload"]["kind"] == "rows"
    assert refused_here(capsys, "plan", *LLAMA, "--workload", "azure_conv_2023", status=2) == (
        "headcount: --workload: azure_conv_2023 is a workload of the catalog and a file here: for the file write"
        " ./azure_conv_2023, or rename it"
    )
    assert refused_here(capsys, "plan", *LLAMA, "--workload", "azure-conv-2023", status=2).startswith(
        "headcount: --workload: there is no file azure-conv-2023, and no such workload; the nearest: azure_conv_2023, "
    )
    missing = refused_here(capsys, "plan", *LLAMA, "--workload", "lengths.json", status=1)
    assert missing == "headcount: lengths.json can't be read: No such file or directory"
    # A server may know more workloads than this release.
    asked_there = ("plan", *LLAMA, "--workload", "our_chat", "--server", service_url)
    assert refused_here(capsys, *asked_there, status=2).startswith(
        "headcount: workload: there is no workload 'our_chat' in the catalog; the nearest: "
    )


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    assert refused("plan", "nope/nope", "h100-sxm-80gb").startswith(
        "headcount: model: there is no model 'nope/nope' in the catalog; the nearest: "
    )
    assert refused("plan", *LLAMA, "--workload", str(tmp_path), status=1) == (
        f"headcount: {tmp_path} can't be read: Is a directory"
    )
    assert refused("plan", *LLAMA, "--max-model-len", "8k") == "headcount: max_model_len: must be a number, not '8k'"
    assert refused("plan", *LLAMA, "--set", "kv_cache_dtyp=fp8").startswith(
        "headcount: --set: there is no lever 'kv_cache_dtyp'; levers: max_model_len, "
    )
    assert refused("plan", *LLAMA, "--set", "fp8") == "headcount: --set: 'fp8' is not LEVER=VALUE"
    assert refused("plan", *LLAMA, "--set", "tensor_parallel=3").endswith("legal sizes: 1, 2, 4, 8, 16, 32")
    assert refused("plan", *LLAMA, "--max-model-len", "1", "--set", "max_model_len=2") == (
        "headcount: max_model_len: comes twice; write it once"
    )


def test_each_fault_has_a_line_that_names_its_place() -> None:
    lines = refused("plan", *LLAMA, "--set", "block_size=0", "--set", "kv_heads=0").splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == ["block_size", "kv_heads"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"", "empty: send one JSON document"),
        (b"\xff", "not UTF-8 (byte 0)"),
        (b'{"kind":}', "not JSON: Expecting value at line 1, column 9"),
        (b'{"kind": "mean", "tokens": 1}, "risk": 0.1', "not JSON: Extra data at line 1, column 30"),
        (b'{"kind": "mean", "tokens": 1, "tokens": 2}', "workload.tokens: comes twice; write it once"),
        (b'{"kind": "rows", "rows": [[0, 50]]}', "workload.rows.0.0: expected `int` >= 1"),
        (b'{"kind": "total", "bins": [{"count": 1, "upper": 1e999}]}', "workload.bins.0.upper: number out of range"),
        (b'{"kind": "mean", "tokens": 1, "\\u001b[2J": 2}', "workload.\\x1b[2J: there is no field \\x1b[2J here"),
    ],
)
def test_a_workload_file_that_is_wrong_is_named_with_the_place(
    tmp_path: Path, body: bytes, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workload.json"
    file.write_bytes(body)
    printed = refused_here(capsys, "plan", *LLAMA, "--workload", str(file), status=2)
    assert printed.startswith(f"headcount: {file}: {line}")
    assert printed.count("\n") == 0


def test_a_server_that_refuses_is_repeated_as_if_asked_here(service_url: str) -> None:
    for question in (("nope/nope", "h100-sxm-80gb"), (*LLAMA, "--set", "tensor_parallel=3")):
        assert refused("plan", *question, "--server", service_url) == refused("plan", *question)


def test_what_was_observed_is_asked_of_a_server(client: httpx.Client, service_url: str) -> None:
    assert client.post("/v1/observations", json=of_generic(7001, kv_cache=KV + 2**30)).status_code in {200, 201}
    question = (*LLAMA, "--max-model-len", "8192", "--set", "max_num_seqs=7001", "--reserve", "observed")
    printed = headcount("plan", *question, "--server", service_url, "--json").stdout
    body = of_generic(7001)["question"] | {"reserve": "observed"}
    assert printed.encode() == client.post("/v1/estimates", json=body).content
    assert json.loads(printed)["ladder"][3]["value"] == 2 * 2**30
    assert refused("plan", *question) == (
        "headcount: reserve: start-ups are stored by a server, and none is asked here"
    )
    assert refused("plan", *LLAMA, "--reserve", "measured") == "headcount: reserve: 'measured' is none of: observed"


def offering(offer: str) -> bytes:
    """What a server sends that offers something beside an answer."""
    answer = headcount("plan", *LLAMA, "--json").stdout
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer.encode())}\r\nHeadcount-Offered-Reserve: {offer}\r\n\r\n"
    return head.encode() + answer.encode()


def test_what_a_server_offers_is_printed_with_how_to_ask_for_it() -> None:
    newest = f"obs_{'7' * 64}"
    amounts = f"low={2**30}, best={2 * 2**30}, high={4 * 2**30}"
    plain = headcount("plan", *LLAMA, COLUMNS="200").stdout
    with server_that_sends(
        offering(f'reserve=observed, start-ups=3, {amounts}, on="2026-11-30", newest="{newest}"')
    ) as url:
        printed = headcount("plan", *LLAMA, "--server", url, COLUMNS="200").stdout
        as_json = headcount("plan", *LLAMA, "--server", url, "--json").stdout
    assert printed.startswith(plain)
    assert " ".join(printed.removeprefix(plain).split()) == (
        "Observed - 3 start-ups of this deployment kept 2.00 GiB (1.00 GiB to 4.00 GiB) back, the newest"
        f" {newest} of 2026-11-30: --reserve observed takes that at step 4"
    )
    assert as_json == headcount("plan", *LLAMA, "--json").stdout


@pytest.mark.parametrize("offer", ["", "reserve=guessed", "\x1b[2J", "reserve=observed, start-ups=" + "9" * 5000])
def test_an_offer_of_another_form_is_not_printed(offer: str) -> None:
    with server_that_sends(offering(offer)) as url:
        result = headcount("plan", *LLAMA, "--server", url)
    assert "Observed" not in result.stdout
    assert "\x1b" not in result.stdout + result.stderr


def test_a_server_that_does_not_answer_is_one_line() -> None:
    line = refused("plan", *LLAMA, "--server", "http://me:secret@127.0.0.1:1/", status=1)
    assert line == "headcount: http://127.0.0.1:1 does not answer: All connection attempts failed"


@pytest.mark.parametrize("server", ["localhost:8761", "not a url", "", "http://", "http://a:99999", "http://a/?b"])
def test_what_is_no_url_is_said_with_one_that_is(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused_here(capsys, "plan", *LLAMA, "--server", server, status=2) == (
        f"headcount: --server: {server!r} is not a server's URL, such as http://127.0.0.1:8750"
    )


@pytest.mark.parametrize("output", [(), ("--json",)])
@pytest.mark.parametrize("body", ["<html>", "", "{}", "[1]", '{"a":' * 100_000, '{"fits": true}'])
def test_another_kind_of_server_is_one_line(
    body: str, output: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with server_that_sends(reply(200, body)) as url:
        line = refused_here(capsys, "plan", *LLAMA, "--server", url, *output, status=1)
    assert line == f"headcount: {url} answered 200, and not as a Headcount does"


@pytest.mark.parametrize(
    ("answer", "status", "line"),
    [
        (problem(503, detail="PostgreSQL is away"), 1, "URL answered 503: PostgreSQL is away"),
        (problem(413, detail="too large"), 2, "URL answered 413: too large"),
        (problem(422, errors=[{"detail": "no", "pointer": "#/gpu"}]), 2, "gpu: no"),
        (reply(404, "<html>"), 1, "URL answered 404, and not as a Headcount does"),
        (reply(502, ""), 1, "URL answered 502, and not as a Headcount does"),
        (
            reply(307, "", "Location: https://x.example/"),
            1,
            "URL answered 307, a redirect that is not followed; it leads to https://x.example/",
        ),
        (b"nonsense\r\n\r\n", 1, "URL does not answer: illegal status line: bytearray(b'nonsense')"),
    ],
)
def test_a_status_says_whose_fault_it_is(
    answer: bytes, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_that_sends(answer) as url:
        printed = refused_here(capsys, "plan", *LLAMA, "--server", url, status=status)
        assert printed == f"headcount: {line.replace('URL', url)}"


def test_an_answer_without_end_is_not_kept() -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n"
    with server_that_sends(endless, *[b"[" * 2**20] * 40) as url:
        line = refused("plan", *LLAMA, "--server", url, status=1)
    assert line == f"headcount: {url} answered with more than 16 MiB, and not as a Headcount does"


def test_a_packed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(b" " * 2**26)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    with server_that_sends(head.encode() + packed) as url:
        line = refused("plan", *LLAMA, "--server", url, status=1)
    assert line == f"headcount: {url} answered 200, and not as a Headcount does"


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"])
def test_an_answer_in_single_bytes_ends_in_time(
    begun: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("service.cli.fetching.ANSWER_WITHIN", 0.5)
    slow = [bytes([byte]) for byte in b"HTTP/1.1 200 OK"]
    with server_that_sends(begun, *slow, pause=0.1) as url:
        line = refused_here(capsys, "plan", *LLAMA, "--server", url, status=1)
    assert line == f"headcount: {url} does not answer within 0.5 seconds"


def test_what_a_server_says_can_not_steer_the_terminal() -> None:
    answer = headcount("plan", *LLAMA, "--json").stdout
    steering = json.dumps(json.loads(answer) | {"summary": "a\x1b[2Jb\u202ec\nd 8 \u00d7 2"})
    with server_that_sends(reply(200, steering)) as url:
        shown = headcount("plan", *LLAMA, "--server", url, PYTHONIOENCODING="utf-8")
        in_ascii = headcount("plan", *LLAMA, "--server", url, PYTHONIOENCODING="ascii")
        exact = headcount("plan", *LLAMA, "--server", url, "--json")
    assert shown.stdout.startswith("a\\x1b[2Jb\\u202ec\\nd 8 \u00d7 2\n")
    assert in_ascii.stdout.startswith("a\\x1b[2Jb\\u202ec\\nd 8 \\xd7 2\n")
    assert exact.stdout == steering
    with server_that_sends(problem(400, detail="a\x1b[2J\nb")) as url:
        assert refused("plan", *LLAMA, "--server", url) == f"headcount: {url} answered 400: a\\x1b[2J\\nb"


def test_what_an_argument_says_can_not_steer_the_terminal() -> None:
    assert refused("plan", *LLAMA, "\x1b[2J\n").endswith("error: unrecognized arguments: \\x1b[2J\\n")
    assert refused("plan", *LLAMA, "--workload", "\x1b", status=1) == (
        "headcount: \\x1b can't be read: No such file or directory"
    )
    assert refused("plan", "\udcff", "x") == "headcount: model: is not text in this terminal's encoding"


@pytest.mark.parametrize(
    "arguments", [(), ("plan",), ("fly",), ("serve", "--port", "70000"), ("serve", "--workers", "0")]
)
def test_a_wrong_command_line_is_explained(arguments: tuple[str, ...]) -> None:
    result = headcount(*arguments)
    assert result.returncode == 2
    assert "usage: headcount" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("port", ["-1", "1e3", "8_0", "9" * 5000])
def test_a_port_that_is_none_is_one_line_after_the_usage(port: str) -> None:
    line = refused("serve", f"--port={port}").splitlines()[-1]
    assert line == (f"headcount serve: error: argument --port: {port[:40]!r} is not a whole number from 0 to 65535")


def test_help_explains_every_lever() -> None:
    lines = headcount("plan", "--help", COLUMNS="200").stdout.partition("levers:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if line[:3].strip()] == list(LEVERS)
    assert max(len(line) for line in lines) <= 100
    text = " ".join(" ".join(lines).split())
    assert "[auto, bf16, fp16, fp32, fp8, fp8_ds_mla, fp8_per_token_head," in text
    assert "[a number above 0 up to 1]" in text
    assert "tensor_parallel GPUs that share one model" in text
    assert "[a whole number from 1 up to 4096]" in text


@pytest.mark.parametrize("arguments", [("plan", *LLAMA), ("plan", *LLAMA, "--json"), ("--version",)])
@pytest.mark.parametrize(
    ("unbuffered", "output", "line"),
    [
        ("", ">&-", "standard output is closed"),
        ("", ">/dev/full", "standard output can't be written: No space left on device"),
        ("1", ">/dev/full", "standard output can't be written: No space left on device"),
    ],
)
def test_output_that_can_not_be_written_is_one_line(
    arguments: tuple[str, ...], unbuffered: str, output: str, line: str
) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'service.cli.main', *arguments])} {output}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    result = subprocess.run(
        ["/bin/sh", "-c", command], env=environment, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stderr) == (1, f"headcount: {line}\n")


def test_a_narrow_terminal_cuts_no_figure() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli.main", "plan", *LLAMA, "--set", "data_parallel=4096"],
        env=os.environ | {"COLUMNS": "20", "TERM": "xterm"},
        stdout=theirs,
    ) as process:
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # Linux's way to say that the other end is closed
            while part := os.read(ours, 4096):
                printed += part
        assert process.wait(60) == 0
    os.close(ours)
    text = printed.decode()
    assert "\u2026" not in text
    for figure in ("79.65 GiB", "53.73 GiB", "128 KiB", "12,288 worst case"):
        assert figure in text


def test_planning_imports_neither_the_web_nor_the_database() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "service.cli.main", "plan", *LLAMA]
    imported = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    modules = {line.rpartition("|")[2].strip() for line in imported.splitlines()}
    assert "msgspec" in modules
    assert modules.isdisjoint({"asyncio", "httpx", "litestar", "sqlalchemy", "psycopg", "uvicorn"})


def test_a_reader_that_goes_away_is_not_an_error_message() -> None:
    command = [sys.executable, "-m", "service.cli.main", "plan", *LLAMA]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
