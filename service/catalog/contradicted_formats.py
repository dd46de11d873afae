"""Number formats that a start-up log states otherwise than the question."""

from collections.abc import Iterator

from service.capacity.cache import LatentAttention
from service.capacity.cache.compressed import LatentVector
from service.capacity.gpu import compute_capability
from service.capacity.model import Model
from service.capacity.question import Question
from service.capacity.reserve_kinds import weight_format
from service.capacity.resolve_dtype import kv_dtype
from service.errors import Fault
from service.readers.start_up_log.facts import Deployment, StartUpLog

_UNQUANTISED = frozenset({"bf16", "fp16", "fp32"})

_WIDE = frozenset({"float32", "float"})
"""Names of the 32 bits that weights, and a cache that follows them, may be asked to be loaded in."""

_KV_DTYPES = {
    "auto": "auto",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_inc": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
    "float8_e5m2fnuz": "fp8",
    "fp8_ds_mla": "fp8_ds_mla",
    "nvfp4_ds_mla": "nvfp4_ds_mla",
    "fp8_per_token_head": "fp8_per_token_head",
    "int8_per_token_head": "int8_per_token_head",
    "int4_per_token_head": "int4_per_token_head",
    "nvfp4": "nvfp4",
    "nvfp4_4over6": "nvfp4",
}
"""What engines call the formats of a cache. Any other name is of a format that no question can ask for."""


def contradicted_formats(question: Question, log: StartUpLog) -> Iterator[Fault]:
    """List the formats of the cache and of the weights that were others, with the line that says so."""
    told = log.deployment
    yield from _of_cache(question, told)
    weights = weight_format(question.model.spec, question.levers)
    place = "/model" if question.levers.weight_dtype == "auto" else "/levers/weight_dtype"
    scheme, plain = told.quantization, log.unquantised
    if weights is None:
        return
    if weights not in _UNQUANTISED:
        if plain is not None and scheme is None:
            yield Fault(place, f"the log loads unquantised weights (line {plain.line}), and they are {weights} here")
    elif scheme is not None:
        detail = f"the log loads weights quantised by {scheme.value} (line {scheme.line}), and they are {weights} here"
        yield Fault("/model", detail)
    elif told.dtype is not None and told.dtype.value != "auto":
        wide = told.dtype.value in _WIDE
        if wide != (weights == "fp32"):
            place = "/levers/weight_dtype"
            yield Fault(place, f"it was {told.dtype.value} (line {told.dtype.line}), and is {weights} here")


def _of_cache(question: Question, told: Deployment) -> Iterator[Fault]:
    seen, model = told.kv_cache_dtype, question.model.spec
    if seen is None:
        return
    capability = compute_capability(question.gpu.spec)

    def resolved(dtype: str) -> str:
        found = kv_dtype(dtype, model, question.engine.spec, None if capability is None else capability[0]).dtype
        return "fp8" if found == "fp8_ds_mla" and _scaled(model) else found

    here = resolved(question.levers.kv_cache_dtype)
    follows = told.dtype is not None and told.dtype.value in _WIDE and seen.value == "auto"
    was = "fp32" if follows else resolved(_KV_DTYPES.get(seen.value, seen.value))
    if was != here:
        shown = "float32, as the weights," if follows else seen.value
        yield Fault("/levers/kv_cache_dtype", f"it was {shown} (line {seen.line}), and is {here} here")


def _scaled(model: Model) -> bool:
    """Whether the record with scales is what fp8 means: kernels of sparse and of compressed attention know no other."""
    return any(
        isinstance(cache, LatentVector) or (isinstance(cache, LatentAttention) and cache.sparse)
        for cache in model.caches.value
    )
