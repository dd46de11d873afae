"""What a workload costs: lengths that are new, and lengths seen before, against a bare endpoint.

The yardstick is a Litestar endpoint that decodes the same body and answers a constant, asked over loopback in the same
run. Costs are of weighing the lengths in this process, and of what else they make of a `plan()` once they
are weighed; ratios are of medians.

    make benchmark
"""

import gc
import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection

import msgspec
import numpy as np
import uvicorn
from litestar import Litestar, Request, post
from litestar.datastructures import State

from service.capacity.deployment import Deployment, deploy
from service.capacity.occupancy_answer import crowds_in_each
from service.capacity.planner import plan
from service.capacity.pool_lengths import held_in_each, running_of
from service.capacity.question import Question
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
    catalog = bundled_catalog()
    workloads = {
        "64 bins": [_bins(number) for number in range(_ROUNDS)],
        "64 cells": [_cells(number) for number in range(_ROUNDS)],
        "20,000 rows": [_rows(number) for number in range(_ROUNDS)],
        "64 bins again": [_bins(0)],
        "64 cells again": [_cells(0)],
    }
    print(f"NumPy FFT of 65,536 values: {statistics.median(_timed(_fft()) for _ in range(_ROUNDS)) * 1e3:.3f} ms")
    with _bare_endpoint(msgspec.json.encode(_REFERENCE | {"workload": _bins(0)})) as ask:
        for name, written in workloads.items():
            asked = [strict_json.convert(_REFERENCE | {"workload": one}, AskedQuestion) for one in written]
            with_lengths = [resolve(question, catalog) for question in asked]
            without = resolve(strict_json.convert(_REFERENCE, AskedQuestion), catalog)
            if len(with_lengths) == 1:
                with_lengths *= _ROUNDS
                plan(with_lengths[0])
            # Rows that wait for their turn are many objects: looking for garbage in them isn't what is measured.
            gc.collect()
            gc.freeze()
            deployment = deploy(without)
            # In turn, so that all see the machine in the same state.
            turns = [
                (
                    _timed(ask),
                    _timed(partial(_weigh, question, deployment)),
                    _timed(partial(plan, question)),
                    _timed(partial(plan, without)),
                )
                for question in with_lengths
            ]
            bare, weighed, known, without_any = (statistics.median(column) for column in zip(*turns, strict=True))
            verdict = "within" if weighed / bare <= _BARS[name] else "NOT WITHIN"
            print(
                f"{name:16} {weighed * 1e3:7.3f} ms beside {bare * 1e3:.3f} ms of the bare endpoint:"
                f" {weighed / bare:5.2f} x, {verdict} {_BARS[name]:g} x; and what explains them in a plan"
                f" {(known - without_any) / bare:5.2f} x"
            )


def _weigh(question: Question, deployment: Deployment) -> None:
    """Weigh a workload's lengths in every pool: all that its histogram costs."""
    assert question.workload is not None
    running = running_of(question, deployment.window)
    held_in_each((rank.pool for rank in deployment.ranks), question.workload, running)
    crowds_in_each(question, deployment)


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


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextmanager
def _bare_endpoint(body: bytes) -> Iterator[Callable[[], object]]:
    """Asks the bare endpoint, which is served by a process of its own, on a connection that stays."""
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
        yield ask
        connection.close()
        server.terminate()
        server.join()


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
