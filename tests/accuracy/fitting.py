"""The overheads of the bundled engines, fitted again to start-ups: to all of them, or to all but some."""

from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from service.capacity.engine import Engine
from service.capacity.planner import plan
from service.capacity.question import Pinned, Question
from service.capacity.reserve_fit import Started, kept_back, refit_from
from service.capacity.reserve_rules import Measured, Overhead, Profiled
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
    return frozenset(key for key in keys if _minor(first) <= _minor(key) <= _minor(last))


def era_of(key: str) -> frozenset[str]:
    """All releases that share a rule with one."""
    return next(keys for keys in (between(*era) for era in ERAS) if key in keys)


def _minor(release: str) -> int:
    """Order the releases: 0.19 after 0.6."""
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


def fitted(engine: Pinned[Engine], without: Callable[[Kept], bool], source: str) -> Engine:
    """One release with its overheads fitted to what says something of it, but for what is left out.

    A kind whose start-ups are all left out is no longer known. For one of any card, cache and model the nearest number
    of ranks stands in; otherwise, or where no start-up of the release's rule is left, the same kind of the nearest
    release with another rule that has one; and a special kind that no release knows is dropped.
    """
    fit, known = _fit(engine, without, source)
    overheads = tuple(_if_known(one, known, engine.key, without, source) for one in fit.overheads)
    kept = tuple(one for one in overheads if one is not None)
    return msgspec.structs.replace(engine.spec, reserve_rule=msgspec.structs.replace(fit, overheads=kept))


def _fit(
    engine: Pinned[Engine], without: Callable[[Kept], bool], source: str
) -> tuple[Profiled | Measured, tuple[Overhead, ...]]:
    """A release's rule fitted to the start-ups that are left, and the kinds that any of them is of."""
    rule = engine.spec.reserve_rule
    assert isinstance(rule, Profiled | Measured)
    used = [one for one in observed() if engine.key in one.informs and not without(one)]
    fit = refit_from(rule, ((one.question, one.bytes) for one in used), source)
    assert isinstance(fit, Profiled | Measured)
    return fit, tuple(one for one in fit.overheads if one.source == source)


def _if_known(
    overhead: Overhead, known: tuple[Overhead, ...], key: str, without: Callable[[Kept], bool], source: str
) -> Overhead | None:
    if overhead in known or overhead.logs == 0:
        return overhead
    stands_in: Overhead | None = None
    if _is_plain(overhead):
        plain = [one for one in known if _is_plain(one)]
        stands_in = min(plain, key=lambda one: abs(one.tensor_parallel[0] - overhead.tensor_parallel[0]), default=None)
    if stands_in is None:
        stands_in = _elsewhere(overhead, key, without, source)
    if stands_in is None:
        return overhead if _is_plain(overhead) else None
    return msgspec.structs.replace(overhead, low=stands_in.low, best=stands_in.best, high=stands_in.high, logs=0)


def _elsewhere(overhead: Overhead, key: str, without: Callable[[Kept], bool], source: str) -> Overhead | None:
    """The same kind in the nearest release with another rule that a start-up of it is left of."""
    if not key.startswith("vllm@"):
        return None
    others = {one.question.engine.key for one in observed() if not era_of(key) & one.informs and not without(one)}
    for other in sorted((one for one in others if one.startswith("vllm@")), key=lambda one: _distance(one, key)):
        _, known = _fit(catalog().engines.pinned(other, None), without, source)
        same = [one for one in known if _kind(one) == _kind(overhead)]
        if same:
            return same[0]
    return None


def _distance(one: str, other: str) -> tuple[int, str]:
    return abs(_minor(one) - _minor(other)), one


def _kind(overhead: Overhead) -> tuple[object, ...]:
    return (overhead.cards, overhead.caches, overhead.experts, overhead.weights, overhead.tensor_parallel)


def _is_plain(overhead: Overhead) -> bool:
    """Whether it is of any card, cache, model and format, at some number of ranks."""
    return not (overhead.cards or overhead.caches or overhead.weights) and overhead.experts is None
