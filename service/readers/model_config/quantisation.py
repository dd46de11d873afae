"""Which groups of weights are kept in which format, from `quantization_config`."""

from collections.abc import Mapping

import msgspec

from service.capacity.dtypes import ElementDtype, KvCacheDtype, Scales
from service.errors import Fault, NotPlannedYet, Refused
from service.readers.model_config.fields import Fields
from service.readers.model_config.formats import format_of
from service.readers.model_config.left_out import QUANTISED, left_out_of
from service.readers.model_config.quantisation_fields import ROUNDING, open_observer
from service.readers.model_config.tally import Role

MODEL_DTYPES: Mapping[str, ElementDtype] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "bf16",  # engines load 32-bit checkpoints in 16 bits
    "half": "fp16",
}
_NEVER: frozenset[Role] = frozenset(
    {"norms and routers", "per-layer embeddings", "expert biases", "expert output biases"}
)


class Quantisation(msgspec.Struct, frozen=True):
    """The formats of a checkpoint's weights and what is left out of them."""

    plain: ElementDtype
    """The format of everything that isn't quantised."""
    quantised: ElementDtype | None = None
    scales: Scales | None = None
    """What is kept beside quantised numbers; null: what their format comes with."""
    assumed: str | None = None
    """What the configuration doesn't say of their width, and what is taken for it."""
    experts: ElementDtype | None = None
    """The routed experts' own format, where it is another."""
    left_out: Mapping[Role, frozenset[int] | None] = {}
    """Layers in which a group isn't quantised; null: in none of them."""
    method: str | None = None

    def of(self, role: Role, layer: int) -> ElementDtype:
        """The format of a group in one layer."""
        out = self.left_out.get(role, frozenset())
        if self.quantised is None or role in _NEVER or out is None or layer in out:
            return self.plain
        return self.experts if role == "experts" and self.experts is not None else self.quantised

    def scales_of(self, dtype: ElementDtype) -> Scales | None:
        """The scales of a group that is kept in a format."""
        return self.scales if dtype == self.quantised else None


def read_quantisation(
    section: Fields | None, plain: ElementDtype, expert_dtype: str | None, *, experts_only: bool, hidden: int
) -> Quantisation:
    """Read the formats; without a `quantization_config` all is kept in the model's dtype.

    A scale for each row of a matrix counts as one for every `hidden` numbers.

    Raises:
        Refused: the method, or its format, isn't known.
    """
    if section is None:
        return Quantisation(plain)
    method = section.text("quant_method")
    found = format_of(section, method, hidden)
    four_bits = found.dtype in ("int4", "int4_g32", "nvfp4", "mxfp4")
    left_out = left_out_of(section)
    if method == "mxfp4" or (experts_only and four_bits and not left_out):
        left_out = dict.fromkeys(QUANTISED - {"experts"}, None)
    stated = section.text("expert_dtype") or expert_dtype
    if stated not in (None, "fp4", "fp8"):
        raise Refused(
            Fault(section.at("expert_dtype"), f"experts in '{stated[:40] if stated else ''}' aren't known: fp4 or fp8")
        )
    return Quantisation(
        plain=plain,
        quantised=found.dtype,
        scales=found.scales,
        assumed=found.assumed,
        experts="mxfp4" if stated == "fp4" else None,
        left_out=left_out,
        method=method or "modelopt",
    )


def kv_cache_scheme(section: Fields | None) -> tuple[KvCacheDtype, str] | None:
    """The format that the checkpoint declares for its cache, and the field that says so.

    Raises:
        NotPlannedYet: it declares one that isn't planned.
    """
    if section is None:
        return None
    scheme = section.section("kv_cache_scheme", ROUNDING)
    open_observer(scheme)
    algorithm = section.text("kv_cache_quant_algo")
    if algorithm is not None:
        known: Mapping[str, KvCacheDtype] = {"FP8": "fp8", "NVFP4": "nvfp4"}
        if algorithm not in known:
            raise NotPlannedYet(
                Fault(section.at("kv_cache_quant_algo"), f"a cache in '{algorithm[:40]}' isn't planned yet")
            )
        return known[algorithm], "kv_cache_quant_algo"
    if scheme is None:
        return None
    bits, kind = scheme.count("num_bits", most=64), scheme.text("type")
    if (bits, kind) == (8, "float"):
        return "fp8", "kv_cache_scheme"
    if (bits, kind) == (4, "float"):
        return "nvfp4", "kv_cache_scheme"
    raise NotPlannedYet(Fault(scheme.pointer, f"a cache of {bits} bits of type {kind} isn't planned yet"))
