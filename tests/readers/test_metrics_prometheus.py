"""A real Prometheus between the engines and the reader: its answers are posted as they are."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, start_http_server

from service.errors import Refused
from tests.exposition import Requests, bins_of, read, requests_of, vllm_edges
from tests.programs import need

SIDES = ("vllm:request_prompt_tokens", "vllm:request_generation_tokens")


class Engine:
    """What one engine counts, exposed by the client library that it uses."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sides = [
            Histogram(name, "Lengths.", ["model_name"], registry=self.registry, buckets=vllm_edges(8192)).labels(
                "llama"
            )
            for name in SIDES
        ]
        gauges = {"vllm:num_requests_running": 8, "vllm:kv_cache_usage_perc": 0.25}
        for name, value in gauges.items():
            Gauge(name, "Now.", ["model_name"], registry=self.registry).labels("llama").set(value)
        info = {"block_size": "16", "num_gpu_blocks": "4000"}
        Gauge("vllm:cache_config_info", "Fixed.", info, registry=self.registry).labels(*info.values()).set(1)

    def finish(self, requests: Requests) -> None:
        for request in requests:
            for side, length in zip(self._sides, request, strict=True):
                side.observe(length)


@contextmanager
def prometheus_over(engines: list[Engine], folder: Path) -> Iterator[httpx.Client]:
    """A client of a Prometheus that scrapes these engines each second."""
    program = need("prometheus", debian="prometheus")
    served = [start_http_server(0, addr="127.0.0.1", registry=engine.registry) for engine in engines]
    targets = [f"127.0.0.1:{server.server_port}" for server, _ in served]
    (folder / "prometheus.yml").write_text(
        f"scrape_configs: [{{job_name: engines, scrape_interval: 1s, static_configs: [{{targets: {targets}}}]}}]"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(program),
        "--config.file=prometheus.yml",
        f"--web.listen-address={address}",
        "--storage.tsdb.path=data",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://{address}") as client:
                yield client
        finally:
            process.terminate()
            for server, thread in served:
                server.shutdown()
                server.server_close()
                thread.join()


def answer(client: httpx.Client, query: str) -> Any:  # noqa: ANN401 - any JSON
    return client.get("/api/v1/query", params={"query": query}).json()


def until(client: httpx.Client, query: str, value: float) -> None:
    """Wait until an answer has a value."""
    for _ in range(60):
        # Not there yet, or it says in plain text that it isn't ready.
        with suppress(httpx.TransportError, json.JSONDecodeError):
            if [float(element["value"][1]) for element in answer(client, query)["data"]["result"]] == [value]:
                return
        time.sleep(0.5)
    pytest.fail(f"{query} is not {value} after 30 seconds")


def test_what_prometheus_scraped_and_answers_is_what_the_requests_were(tmp_path: Path) -> None:
    engines = [Engine(), Engine()]
    parts = [requests_of(1500, 21), requests_of(1500, 22)]
    together = parts[0] + parts[1]
    # Python's client answers a Prometheus of this age with underscores for colons.
    prompt, output = (f"{{__name__=~'{name.replace(':', '[:_]')}_bucket'}}" for name in SIDES)
    with prometheus_over(engines, tmp_path) as client:
        counts = f"{{__name__=~'{SIDES[1].replace(':', '[:_]')}_count'}}"
        until(client, f"count({counts} == 0)", 2)
        for engine, requests in zip(engines, parts, strict=True):
            engine.finish(requests)
        until(client, f"count({counts} == 1500)", 2)
        counted = {
            "prompt": answer(client, f"sum by (le) ({prompt})"),
            "output": answer(client, f"sum by (le) ({output})"),
        }
        figures = {
            "prompt_sum": answer(client, f"sum({{__name__=~'{SIDES[0].replace(':', '[:_]')}_sum'}})"),
            "kv_usage": answer(client, "avg_over_time({__name__=~'vllm[:_]kv_cache_usage_perc'}[1m])"),
            "running": answer(client, "avg_over_time({__name__=~'vllm[:_]num_requests_running'}[1m])"),
            "capacity": answer(client, "{__name__=~'vllm[:_]cache_config_info'}"),
        }
        increased = {
            "prompt": answer(client, f"sum by (le) (increase({prompt}[1m]))"),
            "output": answer(client, f"sum by (le) (increase({output}[1m]))"),
        }
        failed = answer(client, "sum by (le) (")

    marginals = read(result={**counted, **figures})
    prompts, outputs = [prompt for prompt, _ in together], [output for _, output in together]
    assert marginals.prompt.bins == bins_of(prompts, vllm_edges(8192))
    assert marginals.output.bins == bins_of(outputs, vllm_edges(8192))
    assert marginals.prompt.tokens == sum(prompts)
    assert marginals.mean_held_tokens == pytest.approx(2000)

    # `increase` extrapolates all buckets of a pod by one factor: shares nearly stay, counts don't.
    shares = read(result=increased).prompt.bins
    total = sum(part.count for part in shares)
    assert [(part.lower, part.upper) for part in shares] == [(part.lower, part.upper) for part in marginals.prompt.bins]
    for part, exact in zip(shares, marginals.prompt.bins, strict=True):
        assert part.count / total == pytest.approx(exact.count / 3000, abs=5 / 1000)

    assert failed["status"] == "error"
    with pytest.raises(Refused, match=r"Prometheus answered with an error: bad_data: .*parse error"):
        read(result={**counted, "prompt": failed})
