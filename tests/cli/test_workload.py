"""`headcount workload scrape`: metrics of running engines, fetched by the caller, as a workload for a question."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from service.cli.main import main
from tests.exposition import read, requests_of, vllm
from tests.hostile_servers import reply, server_that_sends

FIRST, LATER = requests_of(1500, 31), requests_of(1200, 32)
NOISE = ["python_info 1.0", 'vllm:request_success_total{engine="0"} 5.0']


@contextmanager
def pod(*texts: str, paths: list[str] | None = None) -> Iterator[str]:
    """The address of a pod whose metrics are these texts, one after the other, the last from then on."""
    waiting = list(texts)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if paths is not None:
                paths.append(self.path)
            body = (waiting.pop(0) if len(waiting) > 1 else waiting[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def scrape(*arguments: str, capsys: pytest.CaptureFixture[bytes]) -> tuple[Any, str]:
    """The workload printed and what was said of it."""
    status = main(["workload", "scrape", *arguments])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out), err.decode()


def refused(*arguments: str, capsys: pytest.CaptureFixture[bytes], status: int = 2) -> str:
    assert main(["workload", "scrape", *arguments]) == status
    out, err = capsys.readouterr()
    assert out == b""
    return err.decode().strip()


def fields(workload: dict[str, Any]) -> dict[str, Any]:
    assert workload.pop("kind") == "prometheus"
    return workload


def test_the_lengths_of_one_pod_are_a_workload_that_can_be_posted(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    paths: list[str] = []
    with pod(vllm(FIRST, more=NOISE), paths=paths) as url:
        workload, said = scrape(url, capsys=capsysbinary)
    assert paths == ["/metrics"]
    assert "python_info" not in workload["text"][0]
    assert "#" not in workload["text"][0]
    assert read(**fields(workload)) == read(text=vllm(FIRST))
    mean = sum(prompt for prompt, _ in FIRST) / 1500
    assert said.startswith(f"1,500 requests of {mean:,.0f} tokens of prompt and ")
    assert "  - lengths_are_since_start: One scrape" in said


def test_several_pods_are_scraped_twice_and_one_started_again(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with pod(vllm(FIRST), vllm(FIRST + LATER)) as steady, pod(vllm(FIRST), vllm(LATER)) as again:
        workload, said = scrape(f"{steady}/metrics", f"{again}/own?x=1", "--twice", "0.1", capsys=capsysbinary)
    together = vllm(LATER * 2)
    marginals = read(**fields(workload))
    assert (marginals.prompt, marginals.output) == (read(text=together).prompt, read(text=together).output)
    assert "engine_restarted: text 1," in said


def test_what_an_engine_says_can_not_steer_the_terminal(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    steering = vllm(LATER, model="a\x1b[2J")
    with pod(vllm(FIRST, model="a\x1b[2J"), steering) as url:
        _, said = scrape(url, "--twice", "0.1", capsys=capsysbinary)
    assert 'model_name="a\\x1b[2J"} started again' in said


def test_it_is_written_to_a_file_that_plan_takes(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "workload.json"
    with pod(vllm(FIRST, model="mine") + vllm(LATER, model="other")) as url:
        options = ("--model", "mine", "--max-model-len", "8192", "-o", str(file))
        assert main(["workload", "scrape", url, *options]) == 0
    assert capsysbinary.readouterr().out == b""
    workload = json.loads(file.read_bytes())
    assert (workload["model_name"], workload["max_model_len"]) == ("mine", 8192)
    assert read(**fields(workload)) == read(text=vllm(FIRST), max_model_len=8192)


def test_pods_that_take_other_longest_requests_say_so_one_by_one(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = vllm([*FIRST, (8000, 10)], 8192), vllm([*LATER, (90_000, 10)], 131_072)
    with pod(texts[0]) as short, pod(texts[1]) as long:
        line = refused(short, long, capsys=capsysbinary)
        assert line.startswith("headcount: --max-model-len: is needed: lines ")
        options = ("--max-model-len", "8192", "--max-model-len", "131072")
        workload, _ = scrape(short, long, *options, capsys=capsysbinary)
    assert read(**fields(workload)) == read(text=list(texts), max_model_len=[8192, 131_072])


def test_what_is_wrong_names_the_url_or_the_option(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    wrong = vllm(FIRST).replace("} 1500.0", "} 1501.0", 1)
    with pod(vllm(FIRST)) as sound, pod(wrong) as contradicting:
        line = refused(sound, contradicting, capsys=capsysbinary)
        assert line.startswith(f"headcount: {contradicting}: vllm:request_prompt_tokens{{")
        assert "_count is 1,500 and the bucket of +Inf counts 1,501" in line
        line = refused(sound, "--model", "other", capsys=capsysbinary)
        assert line == "headcount: --model: no request is of other; models: llama"
        line = refused(sound, "--max-model-len", "5000", capsys=capsysbinary)
        assert line.startswith("headcount: --max-model-len: 5,000 can't be the longest request")
        line = refused(sound, "-o", str(tmp_path), status=1, capsys=capsysbinary)
        assert line == f"headcount: {tmp_path} can't be written: Is a directory"
    for seconds in ("0", "nan", "1e9"):
        line = refused("http://127.0.0.1:1", "--twice", seconds, capsys=capsysbinary)
        assert line == "headcount: --twice: must be seconds, more than 0 and at most 604,800"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/metrics", "127.0.0.1:8000", "file:///etc/passwd", "http://", "x"])
def test_only_web_addresses_are_fetched(url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    line = refused(url, capsys=capsysbinary)
    assert line == f"headcount: URL: {url!r} is not the URL of metrics, such as http://127.0.0.1:8000/metrics"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(404, "no"), "answered 404 and not with metrics"),
        (
            reply(302, "", "Location: http://127.0.0.1:1/"),
            "a redirect that is not followed; it leads to http://127.0.0.1:1/",
        ),
        (reply(200, "<html>hello</html>"), "exposes no metric of vLLM or SGLang"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe", "answered with what is no text (byte 0)"),
        (reply(200, 'vllm:num_requests_running{a="\0"} 1'), "answered with U+0000"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (17 * 2**20), "answered with more than 16 MiB"),
        (b"", "does not answer: Server disconnected"),
    ],
)
def test_a_pod_that_answers_otherwise_is_one_line(
    answer: bytes, said: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with server_that_sends(answer) as url:
        line = refused(url.replace("//", "//me:secret@"), status=1, capsys=capsysbinary)
    assert line.startswith(f"headcount: {url} ")
    assert said in line
    assert "secret" not in line


def test_a_pod_that_is_slow_ends_in_time(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.fetching.ANSWER_WITHIN", 0.5)
    with server_that_sends(*[bytes([byte]) for byte in b"HTTP/1.1 200 OK"], pause=0.1) as url:
        assert refused(url, status=1, capsys=capsysbinary) == f"headcount: {url} does not answer within 0.5 seconds"


def test_nothing_answers(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    line = refused("http://127.0.0.1:1", status=1, capsys=capsysbinary)
    assert line == "headcount: http://127.0.0.1:1 does not answer: All connection attempts failed"
