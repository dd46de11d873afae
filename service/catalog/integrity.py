"""What has to hold for every catalog entry, bundled or written later: functions that list the faults of one.

No fault means that the entry is consistent and in the right units, not that its figures are true: for that each one
carries a source. A rule stands here for a mistake that has been made elsewhere, and its limits leave room for cards
and checkpoints that don't exist yet.
"""

import math
import re
from collections.abc import Collection, Iterator

import msgspec

from service.capacity.cache import KeysAndValues
from service.capacity.figures import Figure
from service.capacity.gpu import Gpu
from service.capacity.model import Model, WeightPart

_GPU_KEY = re.compile(r"[a-z0-9.-]+")
_MODEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")

_UNSURE = re.compile(r"recalled|from memory|by analogy|uncertain|unverified|to be verified", re.IGNORECASE)
"""What a source says when nobody has read the figure again."""

_MEMORY_SHARE = (0.90, 1.08)
"""Reported bytes over nominal GB x 10^9. A nominal GB that means GiB gives 1.074; less the 1/16 that inline ECC of
GDDR6 takes it gives 1.007, and a decimal GB less the same 0.94. A device's memory taken for its package's (0.5), or
MiB, KiB or GB taken for bytes, lie far outside."""

_VISIBLE_SHARE = 0.90
"""The least of the reported bytes that a process sees. A laptop of 24 GB shows 0.936, all other cards more."""

_DOUBLE = 2.1
"""Halving the width of a number doubles the dense rate, and no more; printed figures are rounded (L40S: 2.02).
A figure with 2:4 sparsity beside a dense one is 4 times as high."""

_LEAST = {"rope_dim": 0, "row_width": 0, "index_row_width": 0}
"""Parts of a cache's shape that may be 0; all others are at least 1."""

_WIDTHS = (0.5, 64)
"""Channels of one token inside a feed-forward layer over those outside. Of all models it is 1.6 to 14; one expert's
width taken for that of all that a token goes to is a quarter or less."""

_FP4_GAIN = 3.1
"""Blackwell Ultra has 3 times the rate in 4 bits that it has in 8; with 2:4 sparsity every 4-bit figure is 4 times
its card's dense 8-bit figure or more."""


def gpu_faults(key: str, spec: Gpu) -> list[str]:
    """List what is wrong with a GPU: its key, units, sources, memory or rates."""
    return [
        *key_faults(key, _GPU_KEY, "small letters, digits, dots and dashes"),
        *figure_faults(spec),
        *_memory_faults(spec),
        *_visible_faults(spec),
        *_rate_faults(spec),
    ]


def model_faults(key: str, spec: Model) -> list[str]:
    """List what is wrong with a model: its key, units, sources, heads or parameters."""
    return [
        *key_faults(key, _MODEL_KEY, "owner/name"),
        *figure_faults(spec),
        *_cache_faults(spec),
        *_width_faults(spec),
        *_parameter_faults(spec),
    ]


def key_faults(key: str, form: re.Pattern[str], said: str) -> Iterator[str]:
    """Keys are typed by people and stand in URLs and file names."""
    if not form.fullmatch(key):
        yield f"key {key!r}: the form is {said}"


def _figures(spec: msgspec.Struct) -> Iterator[tuple[str, Figure[object]]]:
    """Walk every figure of a struct and of the structs in it, with its path."""
    for name in spec.__struct_fields__:
        value = getattr(spec, name)
        if isinstance(value, Figure):
            yield name, value
        elif isinstance(value, msgspec.Struct):
            yield from ((f"{name}.{inner}", figure) for inner, figure in _figures(value))


def figure_faults(spec: msgspec.Struct, may_be_zero: Collection[str] = ()) -> Iterator[str]:
    """Unknown is null, never zero; a figure says on one line where it is from, and how far to trust that."""
    for path, figure in _figures(spec):
        value = figure.value
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and not (value > 0 or (value == 0 and path in may_be_zero))
        ):
            yield f"{path}: {value} is not positive; what isn't known is null"
        elif isinstance(value, float) and math.isinf(value):
            yield f"{path}: {value} is no measure"
        if not figure.source.strip() or "\n" in figure.source:
            yield f"{path}: a source is one line that isn't empty"
        if _UNSURE.search(figure.source) and figure.confidence != "low":
            yield f"{path}: the source is unsure ({figure.source}), so the confidence is low"


def _memory_faults(spec: Gpu) -> Iterator[str]:
    """Bytes of one device, against the vendor's size of the whole package."""
    if spec.devices_per_package < 1:
        yield f"devices_per_package: {spec.devices_per_package} is not positive"
    memory = spec.reported_memory
    if memory is None:
        return
    low, high = _MEMORY_SHARE
    nominal = spec.nominal_memory_gb.value * 10**9
    package = memory.bytes.value * spec.devices_per_package
    if not low * nominal <= package <= high * nominal:
        yield (
            f"reported_memory.bytes: {memory.bytes.value} x {spec.devices_per_package} device(s) is not "
            f"{low} to {high} times the nominal {spec.nominal_memory_gb.value} GB"
        )
    if memory.certainty == "assumed" and memory.bytes.confidence != "low":
        yield "reported_memory.bytes: no card printed it, so the confidence is low"


def _visible_faults(spec: Gpu) -> Iterator[str]:
    """What a process sees is most of what the driver reports, and never more."""
    visible, reported = spec.visible_memory, spec.reported_memory
    if visible is None or reported is None:
        if (visible is None) != (reported is None):
            yield "visible_memory: it is null exactly where reported_memory is"
        return
    value, all_of_it = visible.bytes.value, reported.bytes.value
    if not visible.low <= value <= visible.high:
        yield f"visible_memory.bytes: {value} is not from low, {visible.low}, to high, {visible.high}"
    if visible.high > all_of_it:
        yield f"visible_memory.high: {visible.high} is more than the reported {all_of_it}"
    if visible.low < _VISIBLE_SHARE * all_of_it:
        yield f"visible_memory.low: {visible.low} is under {_VISIBLE_SHARE} times the reported {all_of_it}"
    if visible.certainty == "assumed" and visible.bytes.confidence != "low":
        yield "visible_memory.bytes: no card printed it, so the confidence is low"


def _rate_faults(spec: Gpu) -> Iterator[str]:
    """Dense rates, each against the rate of the next wider number.

    Vendors print rates with 2:4 sparsity, which are twice the dense ones, and one of them among dense ones stands
    out. A card whose rates are all doubled doesn't, nor one that isn't faster in 8 bits though it has them.
    """
    # GeForce halves every rate that accumulates in FP32, and integers and 4-bit numbers aren't among those.
    halved = 2 if "GeForce" in spec.name else 1
    # Numbers that are only converted on the way in gain no speed.
    fp8_gain = 1.0 if spec.fp8_native is False else _DOUBLE
    bf16, fp8 = spec.dense_bf16_tflops, spec.dense_fp8_tflops
    for name, narrow, wide, gain in (
        ("dense_fp8_tflops", fp8, bf16, fp8_gain),
        ("dense_int8_tops", spec.dense_int8_tops, bf16, _DOUBLE * halved),
        ("dense_fp4_tflops", spec.dense_fp4_tflops, fp8, _FP4_GAIN * halved),
    ):
        if narrow is not None and wide is not None and narrow.value > gain * wide.value:
            limit = f"{gain} x {wide.value}, the wider dense rate"
            yield f"{name}: {narrow.value} is over {limit}, as a sparse figure would be"


def _cache_faults(spec: Model) -> Iterator[str]:
    """A KV head serves a whole number of query heads; mixing the two up is the commonest mistake there is."""
    if not spec.caches.value:
        yield "caches: a model that caches nothing can't be planned"
    for cache in (*spec.caches.value, *(() if spec.draft_caches is None else spec.draft_caches.value)):
        kind, shape = str(cache.__struct_config__.tag), msgspec.structs.asdict(cache)
        at = shape.pop("at", ())
        for name, value in shape.items():
            if isinstance(value, int) and not isinstance(value, bool) and value < _LEAST.get(name, 1):
                yield f"caches: {name} of {kind} is {value}"
        if isinstance(cache, KeysAndValues) and spec.query_heads.value % max(1, cache.kv_heads):
            yield f"caches: {cache.kv_heads} KV heads don't divide {spec.query_heads.value} query heads"
        if at and sum(len(range(*layers)) for layers in at) != cache.layers:
            yield f"caches: {kind} names other than its {cache.layers} layers"


def _width_faults(spec: Model) -> Iterator[str]:
    """A feed-forward layer is wider than what goes into it, all experts of one token together."""
    width, hidden = spec.feed_forward_width, spec.hidden_size
    least, most = _WIDTHS
    if width and hidden and not least * hidden.value <= width.value <= most * hidden.value:
        yield f"feed_forward_width: {width.value} is not {least} to {most} times the hidden size, {hidden.value}"


def _parameter_faults(spec: Model) -> Iterator[str]:
    """Parameters are counted, not in billions, and every one of them is in a part of the weights."""
    parameters, weights = spec.parameters, spec.weights
    if parameters and spec.vocab_size and spec.hidden_size:
        embeddings = spec.vocab_size.value * spec.hidden_size.value
        if parameters.value < embeddings:
            yield f"parameters: {parameters.value} is less than the embeddings alone, {embeddings}"
    if weights is None:
        return
    if any(part.parameters < 1 for part in weights.value):
        yield "weights: every part has parameters"
    if any(part.scales is not None and min(part.scales.bits, part.scales.numbers) < 1 for part in weights.value):
        yield "weights: scales are bits for so many numbers, both at least 1"
    if any(min(part.expert_shape or (1,)) < 1 for part in weights.value):
        yield "weights: the sides of an expert are at least 1"
    if len({part.name for part in weights.value}) < len(weights.value):
        yield "weights: two parts have the same name"
    if parameters and _total(weights.value) < parameters.value:
        yield f"weights: the parts have {_total(weights.value)} parameters, the text decoder {parameters.value}"


def _total(parts: tuple[WeightPart, ...]) -> int:
    return sum(part.parameters for part in parts)
