"""Facts of a start-up that contradict the question that it is said to be of: another start-up than was asked about.

What a log doesn't state contradicts nothing, and is named: a reserve that is learned stands on what was stated.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from service.capacity.gpu import compute_capability
from service.capacity.memory import memory_of
from service.capacity.question import Question
from service.capacity.reserve_kinds import cache_family, weight_format
from service.capacity.resolve_dtype import kv_dtype
from service.catalog.entries import Catalog
from service.errors import Fault
from service.readers.observation import Reading, checkpoint_name
from service.readers.start_up_log.facts import Deployment, StartUpLog

_SAME_CARD = 20
"""Cards of one name differ by up to a hundredth; one that shows a twentieth more or less is another card."""

_LEVERS = (
    "max_model_len",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "decode_context_parallel",
    "max_num_seqs",
    "max_num_batched_tokens",
    "speculative_tokens",
    "enforce_eager",
)
"""Levers that logs state under the same name, in the same numbers."""

_UNQUANTISED = frozenset({"bf16", "fp16", "fp32"})

_KV_DTYPES = {
    "auto": "auto",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


def contradictions(question: Question, reading: Reading, catalog: Catalog) -> list[Fault]:
    """List each fact that says something else, with the place in the question that it contradicts."""
    faults = [*_engine(question, reading, catalog), *_card(question, reading)]
    if reading.log is not None:
        told = reading.log.deployment
        faults += [*_model(question, told, catalog), *_levers(question, told), *_formats(question, told)]
        faults += _windows(question, reading.log)
    return faults


def not_stated(reading: Reading) -> tuple[str, ...]:
    """Name what the start-up doesn't say of its deployment, in the names of the question."""
    told = Deployment() if reading.log is None else reading.log.deployment
    said = {name for name in Deployment.__struct_fields__ if getattr(told, name) is not None}
    if told.memory_fraction is not None:
        said.add("gpu_memory_utilization")
    if reading.observed.version is not None:
        said.add("version")
    names = ("version", "model", *_LEVERS, "gpu_memory_utilization", "kv_cache_dtype")
    return tuple(name for name in names if name not in said)


def _engine(question: Question, reading: Reading, catalog: Catalog) -> Iterator[Fault]:
    """The release by its version: the catalog's closest one, as 0.11.0 has an entry beside 0.11."""
    asked, version = question.engine.key, reading.observed.version
    name = asked.partition("@")[0] if reading.log is None else reading.log.engine
    if version is None:
        if name != asked.partition("@")[0]:
            yield Fault("/engine", f"the log is of {name}, the question of {asked}")
        return
    numbers = _numbers(version)
    fitting = [
        key
        for key in catalog.engines.keys
        if key.partition("@")[0] == name
        and numbers[: len(_numbers(key.partition("@")[2]))] == _numbers(key.partition("@")[2])
    ]
    closest = max(fitting, key=len, default=None)
    if closest != asked:
        planned = "no release of the catalog" if closest is None else closest
        yield Fault("/engine", f"it was {name} {version}, which is {planned}; the question is of {asked}")


def _card(question: Question, reading: Reading) -> Iterator[Fault]:
    seen = reading.observed.reported_capacity
    if seen is None:
        return
    known = memory_of(question).bytes.best
    if abs(seen.best - known) * _SAME_CARD > known:
        yield Fault("/gpu", f"the engine saw {seen.best:,} B of memory, and {question.gpu.key} shows {known:,} B")


def _model(question: Question, told: Deployment, catalog: Catalog) -> Iterator[Fault]:
    """A name can be anything, a folder too: it contradicts where it is another model's, or this one's and more.

    A model that is given inline has no name of its own.
    """
    if told.model is None or question.model.version is None:
        return
    name, asked = checkpoint_name(told.model.value), question.model.key.rpartition("/")[2]
    bare, own = _bare(name), _bare(asked)
    others = {_bare(key.rpartition("/")[2]) for key in catalog.models.keys}
    if bare != own and (bare in others or own in bare):
        yield Fault(
            "/model", f"the log loads {name!r} (line {told.model.line}), the question is of {question.model.key}"
        )


def _levers(question: Question, told: Deployment) -> Iterator[Fault]:
    levers = question.levers
    for name in _LEVERS:
        seen, here = getattr(told, name), getattr(levers, name)
        # Null: the engine has no default, and nothing is predicted from it.
        if seen is not None and here is not None and seen.value != here:
            yield Fault(f"/levers/{name}", f"it was {seen.value} (line {seen.line}), and is {here} here")
    share = told.memory_fraction
    if share is not None and levers.kv_cache_memory_bytes is None:
        asked = Decimal(repr(levers.gpu_memory_utilization))
        # Some engines print the nearest number in 32 bits.
        if abs(share.value - asked) > Decimal("0.00005"):
            yield Fault(
                "/levers/gpu_memory_utilization", f"it was {share.value} (line {share.line}), and is {asked} here"
            )
    caching = told.enable_prefix_caching
    if caching is not None and cache_family(question.model.spec.caches.value) == "state":
        asked_for = levers.enable_prefix_caching
        if caching.value != asked_for:
            place = "/levers/enable_prefix_caching"
            yield Fault(place, f"it was {caching.value} (line {caching.line}), and is {asked_for} here")


def _windows(question: Question, log: StartUpLog) -> Iterator[Fault]:
    """The window in the lines of the concurrency and of a refusal, where no argument states it."""
    if log.deployment.max_model_len is not None:
        return
    here = question.levers.max_model_len
    told = [(seen.value.max_model_len, seen.line) for seen in log.concurrencies]
    told += [(one.max_model_len, one.line) for one in log.failures if one.max_model_len is not None]
    for window, line in told:
        if window != here:
            yield Fault("/levers/max_model_len", f"it was {window} (line {line}), and is {here} here")
            return


def _formats(question: Question, told: Deployment) -> Iterator[Fault]:
    levers, model = question.levers, question.model.spec
    seen = told.kv_cache_dtype
    capability = compute_capability(question.gpu.spec)

    def resolved(dtype: str) -> str:
        return kv_dtype(dtype, model, question.engine.spec, None if capability is None else capability[0]).dtype

    if seen is not None and seen.value in _KV_DTYPES:
        was, here = resolved(_KV_DTYPES[seen.value]), resolved(levers.kv_cache_dtype)
        if was != here:
            yield Fault("/levers/kv_cache_dtype", f"it was {seen.value} (line {seen.line}), and is {here} here")
    scheme, weights = told.quantization, weight_format(model, levers)
    if scheme is not None and weights in _UNQUANTISED:
        detail = f"the log loads weights quantised by {scheme.value} (line {scheme.line}), and they are {weights} here"
        yield Fault("/model", detail)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 10, 2) of 0.10.2rc1+cu128."""
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
