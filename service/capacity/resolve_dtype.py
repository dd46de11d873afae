"""Which number format the cache ends up in, and why."""

from service.capacity.answer import Assumed
from service.capacity.figures import Figure

_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


def kv_dtype(asked: str, model_dtype: Figure[str] | None) -> tuple[str, Assumed | None]:
    """Resolve `auto` by the model's own dtype, never by the dtype of its weights.

    32-bit checkpoints are loaded in 16 bits by engines, and a checkpoint that names no dtype is one of 16 bits in
    practice: both resolve to bf16.
    """
    if asked != "auto":
        return asked, None
    if model_dtype is None:
        reason = "auto: the checkpoint names no dtype, and 16 bits is what engines then use"
        return "bf16", Assumed("kv_cache_dtype", "bf16", reason)
    resolved = _NAMES.get(model_dtype.value, "bf16")
    return resolved, Assumed("kv_cache_dtype", resolved, f"auto: the model's dtype is {model_dtype.value}")
