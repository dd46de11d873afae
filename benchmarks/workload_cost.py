"""What a workload costs: a plan with lengths, without them, and with lengths seen before, against a bare endpoint.

The yardstick is a Litestar endpoint that decodes the same body and answers a constant, asked over loopback in the same
run. Costs are the difference that the lengths make to `plan()`, in this process; ratios are of medians.

    make benchmark
"""

import gc
import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import cycle

import msgspec
import numpy as np
import uvicorn
from litestar import Litestar, Request, post
from litestar.datastructures import State

from service.capacity.planner import plan
from service.catalog.bundled import bundled_catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion

_ROUNDS = 60
_REFERENCE = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100-sxm-80gb",
    "levers": {"max_model_len": 8192},
}
_BARS = {"64 bins": 6.0, "64 cells": 6.0, "20,000 rows": 20.0, "64 bins again": 0.3, "64 cells again": 0.3}


def main() -> None:
    """Print the ratios beside their bars, with the times that they are made of."""
    bins = _bins(0)
    bare = _bare_endpoint(msgspec.json.encode(_REFERENCE | {"workload": bins}))
    catalog = bundled_catalog()

    def cost(workloads: list[dict[str, object]]) -> float:
        """Seconds that the lengths add to a plan; of the same ones again, where there is only one workload."""
        asked = [strict_json.convert(_REFERENCE | {"workload": one}, AskedQuestion) for one in workloads]
        with_lengths = cycle([resolve(question, catalog) for question in asked])
        # Rows that wait for their turn are many objects: looking through them for garbage isn't what is measured.
        gc.collect()
        gc.freeze()
        without = resolve(strict_json.convert(_REFERENCE, AskedQuestion), catalog)
        return _median(lambda: plan(next(with_lengths))) - _median(lambda: plan(without))

    costs = {
        "64 bins": cost([_bins(number) for number in range(_ROUNDS)]),
        "64 cells": cost([_cells(number) for number in range(_ROUNDS)]),
        "20,000 rows": cost([_rows(number) for number in range(_ROUNDS)]),
        "64 bins again": cost([bins]),
        "64 cells again": cost([_cells(0)]),
    }
    print(f"bare endpoint, the body of 64 bins: {bare * 1e3:.3f} ms")
    print(f"NumPy FFT of 65,536 values: {_median(_fft()) * 1e3:.3f} ms")
    for name, seconds in costs.items():
        ratio = seconds / bare
        verdict = "within" if ratio <= _BARS[name] else "NOT WITHIN"
        print(f"{name:16} {seconds * 1e3:8.3f} ms {ratio:7.2f} x bare, {verdict} {_BARS[name]:g} x")


def _bins(number: int) -> dict[str, object]:
    uppers = np.unique(np.round(np.geomspace(16, 8192, 64)).astype(int)).tolist()
    return {"kind": "total", "bins": [{"upper": upper, "count": 100 + upper % 37 + number} for upper in uppers]}


def _cells(number: int) -> dict[str, object]:
    edges = [0, *np.round(np.geomspace(32, 4096, 8)).astype(int).tolist()]
    counts = [[i, j, 10 + (7 * i + 3 * j) % 90 + number] for i in range(8) for j in range(8)]
    return {"kind": "joint", "prompt_edges": edges, "output_edges": edges, "counts": counts}


def _rows(number: int) -> dict[str, object]:
    chance = np.random.default_rng(number)
    prompts = np.clip(chance.lognormal(6.5, 1.0, 20_000), 1, 7000).astype(int)
    outputs = np.clip(chance.lognormal(5.0, 0.9, 20_000), 1, 1000).astype(int)
    return {"kind": "rows", "rows": np.stack([prompts, outputs], axis=1).tolist()}


def _fft() -> Callable[[], object]:
    values = np.random.default_rng(2).random(65_536)
    return lambda: np.fft.rfft(values)


def _median(run: Callable[[], object]) -> float:
    """Seconds of the middle run."""
    found = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def _bare_endpoint(body: bytes) -> float:
    """Seconds of a request to the bare endpoint in a process of its own, on a connection that stays."""
    context = multiprocessing.get_context("spawn")
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = context.Process(target=_serve, args=(listening,), daemon=True)
        server.start()
        connection = HTTPConnection(*listening.getsockname())

        def ask() -> None:
            connection.request("POST", "/bare", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == HTTPStatus.OK, response.status
            response.read()

        ask()
        seconds = _median(ask)
        connection.close()
        server.terminate()
        server.join()
    return seconds


def _serve(listening: socket.socket) -> None:
    """Serve an endpoint that decodes its body and answers a constant."""
    decoder = msgspec.json.Decoder(AskedQuestion)

    @post("/bare", status_code=HTTPStatus.OK)
    async def bare(request: Request[None, None, State]) -> dict[str, bool]:
        decoder.decode(await request.body())
        return {"fits": True}

    application = Litestar([bare], openapi_config=None)
    uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
