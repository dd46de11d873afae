"""Which number format the cache ends up in, and what decided."""

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.engine import Engine
from service.capacity.errors import Fault, UnsupportedCombination
from service.capacity.figures import Figure
from service.capacity.model import Model

_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


class Resolved(msgspec.Struct, frozen=True):
    """A number format and, where nobody asked for it, why it is this one."""

    dtype: str
    reason: str | None


def activation_dtype(dtype: Figure[str] | None) -> str:
    """The format that a model runs in: 32-bit checkpoints, and those that name none, are loaded in 16 bits."""
    return "bf16" if dtype is None else _NAMES.get(dtype.value, "bf16")


def kv_dtype(asked: str, model: Model, engine: Engine, generation: int | None) -> Resolved:
    """Resolve `auto`: the checkpoint's own scheme, then what the engine turns to by itself, then the model's dtype.

    The dtype of the weights never decides. `generation` is the major number of the card's compute capability.
    """
    if asked != "auto":
        return Resolved(asked, None)
    if model.kv_cache_scheme is not None:
        scheme = model.kv_cache_scheme
        return Resolved(scheme.value, f"auto: the checkpoint declares {scheme.value} for its cache ({scheme.source})")
    rules = engine.block_rules
    for default in () if rules is None else rules.dtype_defaults:
        if (default.architecture, default.generation) == (model.architecture, generation):
            return Resolved(default.dtype, f"auto: the engine keeps {model.architecture} so on this card")
    if model.dtype is None:
        return Resolved("bf16", "auto: the checkpoint names no dtype, and 16 bits is what engines then use")
    return Resolved(activation_dtype(model.dtype), f"auto: the model's dtype is {model.dtype.value}")


def check_formats(caches: tuple[CacheKind, ...], dtype: str, model_key: str) -> None:
    """Refuse a format that one of the caches can't be kept in, with those that all can."""
    choices = [set(cache.formats) for cache in caches if cache.formats is not None]
    if not all(dtype in formats for formats in choices):
        common = sorted(set.intersection(*choices))
        detail = f"the cache of {model_key} can't be kept in {dtype}; formats: {', '.join(common)}"
        raise UnsupportedCombination(Fault("/levers/kv_cache_dtype", detail))
