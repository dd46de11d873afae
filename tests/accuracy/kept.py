"""What ranks kept back at start-ups: everything that the overheads of the bundled engines are fitted to."""

from collections.abc import Iterator
from functools import cache

import msgspec

from service.capacity.planner import plan
from service.capacity.question import Question
from service.capacity.reserve_fit import Started, kept_back
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers.question import AskedLevers, AskedQuestion
from tests.accuracy.deployments import Deployed, Filled, deployments

_GIB = 2**30
ERAS = (("0.6", "0.7"), ("0.8", "0.10"), ("0.11", "0.16"), ("0.17", "0.19"), ("0.20", "0.33"))
"""Releases of vLLM that share a rule."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank kept back, in bytes, and the releases that this says something of."""

    question: Question
    bytes: int
    informs: frozenset[str]
    """Keys of engines."""


@cache
def catalog() -> Catalog:
    return Catalog(1, bundled_versions())


def asked(one: Deployed) -> Question:
    """What a caller would ask of a deployment."""
    return resolve(AskedQuestion(model=one.model, gpu=one.gpu, engine=one.engine, levers=one.levers), catalog())


def between(first: str, last: str) -> frozenset[str]:
    """The bundled releases of vLLM from one to another."""
    keys = (entry.key for entry in bundled_versions() if entry.kind == "engines" and entry.key.startswith("vllm@"))
    return frozenset(key for key in keys if minor_of(first) <= minor_of(key) <= minor_of(last))


def era_of(key: str) -> frozenset[str]:
    """All releases that share a rule with one."""
    return next(keys for keys in (between(*era) for era in ERAS) if key in keys)


def minor_of(release: str) -> int:
    """Its minor version, which orders releases: 0.19 after 0.6."""
    return int(release.removeprefix("vllm@").split(".")[1])


@cache
def observed() -> tuple[Kept, ...]:
    """Everything that overheads are fitted to."""
    return (*_from_logs(), *_from_cells(), *_from_filled())


def _from_logs() -> Iterator[Kept]:
    for one in (*deployments().deployments, *deployments().fitted_only):
        if not one.fitted:
            continue
        question = asked(one)
        answer = plan(question)
        weights = answer.ladder[2].value if one.weights_gib is None else int(one.weights_gib * _GIB)
        printed = one.printed
        if printed.kv_gib is not None:
            cache_bytes = int(printed.kv_gib * _GIB)
        elif printed.concurrency is not None:
            cache_bytes = int(printed.concurrency * answer.ladder[6].value)
        else:
            assert printed.tokens is not None
            cache_bytes = printed.tokens * answer.kv_cache.bytes_per_token
        yield Kept(
            question=question,
            bytes=kept_back(Started(question, weights, cache_bytes)),
            informs=era_of(one.engine) if one.informs is None else between(*one.informs),
        )


def _from_cells() -> Iterator[Kept]:
    for cell in deployments().cells:
        levers = AskedLevers(tensor_parallel=cell.tensor_parallel, max_model_len=8192, max_num_batched_tokens=8192)
        question = resolve(
            AskedQuestion(model=cell.model, gpu="h200-sxm-141gb", engine=cell.engine, levers=levers), catalog()
        )
        yield Kept(question=question, bytes=cell.middle, informs=era_of(cell.engine))


def _from_filled() -> Iterator[Kept]:
    """Users are whole: the cache of the last one's window may lie anywhere between none and all of it."""
    for one in deployments().tensorrt_llm:
        question = filled(one)
        answer = plan(question)
        cache_bytes = int((one.users + 0.5) * answer.ladder[6].value)
        started = Started(question, answer.ladder[2].value, cache_bytes)
        yield Kept(question=question, bytes=kept_back(started), informs=frozenset({question.engine.key}))


def filled(one: Filled) -> Question:
    """What a caller would ask of a measurement of TensorRT-LLM."""
    levers = AskedLevers(
        tensor_parallel=one.tensor_parallel,
        max_model_len=one.max_model_len,
        max_num_batched_tokens=one.max_num_batched_tokens,
        gpu_memory_utilization=one.fraction,
    )
    return resolve(AskedQuestion(model=one.model, gpu=one.gpu, engine="tensorrt-llm", levers=levers), catalog())
