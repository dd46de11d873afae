"""`headcount observe`: a log beside a recorded plan, as a person runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hostile_servers import problem, reply, server_that_sends
from tests.observations import LOG, LOGGED
from tests.start_up_logs import FOLDER

FILE = str(FOLDER / "vllm-0.10.2-llama-3.1-8b-h100.log")


def observe(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "service.cli.main", "observe", *arguments]
    return subprocess.run(
        command, env=os.environ | {"COLUMNS": "120"}, input=given, capture_output=True, check=False, timeout=60
    )


def refused(*arguments: str, status: int = 2, given: bytes | None = None) -> str:
    result = observe(*arguments, given=given)
    assert (result.returncode, result.stdout) == (status, b"")
    assert b"Traceback" not in result.stderr
    return result.stderr.decode().strip()


@pytest.fixture
def plan(client: httpx.Client) -> str:
    identity: str = client.post("/v1/plans", json=LOGGED).json()["plan"]
    return identity


def recorded(client: httpx.Client, plan: str, log: str = LOG) -> dict[str, Any]:
    observation: dict[str, Any] = client.post("/v1/observations", json={"plan": plan, "log": log}).json()
    return observation


def test_a_comparison_is_a_sentence_and_a_table(client: httpx.Client, service_url: str, plan: str) -> None:
    result = observe(FILE, "--plan", plan, "--server", service_url)
    assert result.returncode == 0
    observation = recorded(client, plan)
    printed = result.stdout.decode()
    assert " ".join(printed.split()).startswith(observation["comparison"]["summary"])
    position = 0
    for part in ("reported capacity", "79.19 GiB", "weights", "14.99 GiB", "reserve",
                 "kv budget", "54.96 GiB", "bytes per window", "1.00 GiB", "as printed", "max concurrency", "54.96",
                 "printed tokens", "450,224", "Not stated by the log: ", observation["observation"]):  # fmt: skip
        position = printed.index(part, position)
    assert max(len(line) for line in printed.splitlines()) <= 120


def test_json_is_exactly_what_the_service_returns(client: httpx.Client, service_url: str, plan: str) -> None:
    printed = observe(FILE, "--plan", plan, "--server", service_url, "--json").stdout
    assert printed == client.get(recorded(client, plan)["observation_url"]).content


def test_a_log_is_read_from_standard_input(client: httpx.Client, service_url: str, plan: str) -> None:
    result = observe("-", "--plan", plan, "--server", service_url, "--json", given=LOG.encode())
    assert json.loads(result.stdout) == recorded(client, plan)


def test_bytes_that_are_no_text_hinder_nothing(service_url: str, plan: str) -> None:
    given = b"\xff\xfe\0\x1b[31mhello\n" + LOG.encode()
    result = observe("-", "--plan", plan, "--server", service_url, given=given)
    assert result.returncode == 0, result.stderr


def test_what_is_wrong_is_a_line_for_each_fault(service_url: str, plan: str, tmp_path: Path) -> None:
    server = ("--server", service_url)
    missing = f"pln_{'0' * 64}"
    assert refused(FILE, "--plan", missing, *server) == f"headcount: plan: there is no plan {missing}"
    assert (
        refused(FILE, "--plan", "7", *server) == "headcount: plan: expected `str` matching regex '^pln_[0-9a-f]{64}$'"
    )
    assert refused("-", "--plan", plan, *server, given=b"hello\n").startswith(
        "headcount: log: not an engine's start-up log: none of its lines was found"
    )
    other = LOG.replace("max_seq_len=8192", "max_seq_len=4096").replace("data_parallel_size=1", "data_parallel_size=2")
    assert refused("-", "--plan", plan, *server, given=other.encode()).splitlines() == [
        "headcount: plan: max_model_len: it was 4096 (line 4), and is 8192 here",
        "headcount: plan: data_parallel: it was 2 (line 4), and is 1 here",
    ]
    assert refused(str(tmp_path / "none"), "--plan", plan, status=1) == (
        f"headcount: {tmp_path / 'none'} can't be read: No such file or directory"
    )


def test_a_log_that_is_too_long_is_not_sent(plan: str, tmp_path: Path) -> None:
    file = tmp_path / "long.log"
    with file.open("wb") as log:
        log.truncate(2**34)  # of nothing, and no more than a few MiB of it are read
    line = refused(str(file), "--plan", plan, "--server", "http://127.0.0.1:1")
    assert line == "headcount: log: takes more than 4,194,304 bytes as JSON: cut it after the lines of the start-up"


@pytest.mark.parametrize(
    ("filling", "bytes_of_json"), [(b"\x1b", 6), (b"\n", 2), (b"\xff", 3), (b"\0", 3), ("\u00e9".encode(), 2)], ids=repr
)
def test_what_is_sent_is_never_too_large_for_the_server(
    service_url: str, plan: str, filling: bytes, bytes_of_json: int
) -> None:
    # The longest log of such bytes that is sent is read; of one more nothing is sent.
    left = 2**22 + 2 - len(json.dumps(LOG))
    longest = LOG.encode() + b" " * (left % bytes_of_json) + filling * (left // bytes_of_json)
    sent = observe("-", "--plan", plan, "--server", service_url, given=longest)
    assert sent.returncode == 0, sent.stderr
    line = refused("-", "--plan", plan, "--server", service_url, given=longest + b" ")
    assert line == "headcount: log: takes more than 4,194,304 bytes as JSON: cut it after the lines of the start-up"


def test_a_server_that_is_away_is_one_line(plan: str) -> None:
    line = refused(FILE, "--plan", plan, "--server", "http://127.0.0.1:1", status=1)
    assert line == "headcount: http://127.0.0.1:1 does not answer: All connection attempts failed"


@pytest.mark.parametrize(
    ("answer", "status", "line"),
    [
        (problem(503, detail="PostgreSQL is away"), 1, "URL answered 503: PostgreSQL is away"),
        (reply(200, "{}"), 1, "URL answered 200, and not as a Headcount does"),
        (reply(201, '{"observation": "x"}'), 1, "URL answered 201, and not as a Headcount does"),
        (reply(204, ""), 1, "URL answered 204, and not as a Headcount does"),
    ],
)
def test_a_server_that_can_not_record_is_one_line(plan: str, answer: bytes, status: int, line: str) -> None:
    with server_that_sends(answer) as url:
        printed = refused(FILE, "--plan", plan, "--server", url, status=status)
        assert printed == f"headcount: {line.replace('URL', url)}"


def test_what_a_server_says_can_not_steer_the_terminal(client: httpx.Client, plan: str) -> None:
    observation = recorded(client, plan)
    observation["notes"] = ["a\x1b[2Jb"]
    with server_that_sends(reply(200, json.dumps(observation))) as url:
        assert b"a\\x1b[2Jb" in observe(FILE, "--plan", plan, "--server", url).stdout
