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

_4_BITS = frozenset({"int4", "int4_g32"})
_SCHEMES = {
    **dict.fromkeys(("fp8", "fbgemm_fp8", "ptpc_fp8", "w8a8_fp8", "mxfp8", "modelopt_mxfp8"), frozenset({"fp8"})),
    **dict.fromkeys(("modelopt_fp4", "nvfp4", "petit_nvfp4"), frozenset({"nvfp4"})),
    **dict.fromkeys(("modelopt", "modelopt_mixed"), frozenset({"fp8", "nvfp4"})),
    **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), frozenset({"mxfp4"})),
    **dict.fromkeys(("awq", "awq_marlin"), _4_BITS),
    **dict.fromkeys(("gptq", "gptq_marlin", "bitsandbytes", "moe_wna16", "auto-round", "inc"), _4_BITS | {"int8"}),
    **dict.fromkeys(("w8a8_int8", "experts_int8"), frozenset({"int8"})),
}
"""The formats that schemes of quantisation keep weights in. Any other (compressed-tensors, GGUF) may be of any."""


def contradicted_formats(question: Question, log: StartUpLog) -> Iterator[Fault]:
    """List the formats of the cache and of the weights that were others, with the line that says so."""
    told = log.deployment
    yield from _of_cache(question, told)
    weights = weight_format(question.model.spec, question.levers)
    formats = _formats(question)
    place = "/model" if question.levers.weight_dtype == "auto" else "/levers/weight_dtype"
    scheme, plain = told.quantization, log.unquantised
    if weights is None:
        return
    if weights not in _UNQUANTISED:
        if plain is not None and scheme is None:
            yield Fault(place, f"the log loads unquantised weights (line {plain.line}), and they are {weights} here")
        elif scheme is not None and formats.isdisjoint(_SCHEMES.get(scheme.value, formats)):
            yield Fault(
                place, f"the log loads weights of {scheme.value} (line {scheme.line}), and they are {weights} here"
            )
    elif scheme is not None:
        detail = f"the log loads weights quantised by {scheme.value} (line {scheme.line}), and they are {weights} here"
        yield Fault("/model", detail)
    elif told.dtype is not None and told.dtype.value != "auto":
        wide = told.dtype.value in _WIDE
        if wide != (weights == "fp32"):
            place = "/levers/weight_dtype"
            yield Fault(place, f"it was {told.dtype.value} (line {told.dtype.line}), and is {weights} here")


def _formats(question: Question) -> set[str]:
    """Every format that a part of the weights is in."""
    found = question.model.spec.weights
    return set() if found is None else {part.loaded_as(question.levers.weight_dtype) for part in found.value}


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
