"""Which number format each group of weights is kept in, from `quantization_config`."""

from collections.abc import Callable, Mapping

import msgspec

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.errors import Fault, NotPlannedYet, Refused
from service.readers.model_config.fields import Fields
from service.readers.model_config.left_out import QUANTISED, left_out_of
from service.readers.model_config.quantisation_fields import (
    HARMLESS,
    ROUNDING,
    groups_of,
    open_observer,
    refuse_sparse,
)
from service.readers.model_config.tally import Role

MODEL_DTYPES: Mapping[str, ElementDtype] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "bf16",  # engines load 32-bit checkpoints in 16 bits
    "half": "fp16",
}
_NEVER: frozenset[Role] = frozenset({"norms and routers", "per-layer embeddings"})
_GROUP_SMALL = 64
"""INT4 groups of up to so many numbers count as groups of 32: the larger figure."""


class Quantisation(msgspec.Struct, frozen=True):
    """The formats of a checkpoint's weights and what is left out of them."""

    plain: ElementDtype
    """The format of everything that isn't quantised."""
    quantised: ElementDtype | None = None
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


def read_quantisation(
    section: Fields | None, plain: ElementDtype, expert_dtype: str | None, *, experts_only: bool
) -> Quantisation:
    """Read the formats; without a `quantization_config` all is kept in the model's dtype.

    Raises:
        Refused: the method, or its format, isn't known.
    """
    if section is None:
        return Quantisation(plain)
    method = section.text("quant_method")
    quantised = _format(section, method)
    four_bits = quantised in ("int4", "int4_g32", "nvfp4", "mxfp4")
    left_out = left_out_of(section)
    if method == "mxfp4" or (experts_only and four_bits and not left_out):
        left_out = dict.fromkeys(QUANTISED - {"experts"}, None)
    stated = section.text("expert_dtype") or expert_dtype
    if stated not in (None, "fp4", "fp8"):
        raise Refused(
            Fault(section.at("expert_dtype"), f"experts in '{stated[:40] if stated else ''}' aren't known: fp4 or fp8")
        )
    return Quantisation(plain, quantised, "mxfp4" if stated == "fp4" else None, left_out, method or "modelopt")


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


def _integers(section: Fields, bits: int) -> ElementDtype:
    if bits == 8:  # noqa: PLR2004
        return "int8"
    if bits != 4:  # noqa: PLR2004
        raise Refused(Fault(section.at("bits"), f"weights of {bits} bits aren't known: 4 or 8"))
    group = section.raw("group_size")
    small = isinstance(group, int) and 0 < group <= _GROUP_SMALL
    return "int4_g32" if small else "int4"


def _modelopt(section: Fields) -> ElementDtype:
    known: Mapping[str, ElementDtype] = {
        "FP8": "fp8",
        "FP8_PB_WO": "fp8",
        "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
        "NVFP4": "nvfp4",
        "NVFP4_AWQ": "nvfp4",
        "W4A16_AWQ": "int4",
        "W4A8_AWQ": "int4",
        "MXFP4": "mxfp4",
    }
    groups_of(section)
    algorithm = section.text("quant_algo") or ""
    if algorithm not in known:
        raise Refused(Fault(section.at("quant_algo"), f"'{algorithm[:60]}' isn't a quantisation that is known here"))
    return known[algorithm]


def _modelopt_fp4(section: Fields) -> ElementDtype:
    groups_of(section)
    return "nvfp4"


def _compressed_tensors(section: Fields) -> ElementDtype:
    """The format of every group. Groups of several formats would need the layers that each is for."""
    refuse_sparse(section)
    groups = groups_of(section)
    if not groups:
        raise Refused(Fault(section.at("config_groups"), "config_groups is missing: it says what weights are kept in"))
    packing = section.text("format") or ""
    formats = {_group_format(weights, group.text("format") or packing) for group, weights in groups}
    if len(formats) > 1:
        raise Refused(
            Fault(section.at("config_groups"), f"several formats in one checkpoint ({', '.join(sorted(formats))})")
        )
    return formats.pop()


def _group_format(weights: Fields, packing: str) -> ElementDtype:
    bits, kind = weights.count("num_bits", most=64), weights.text("type")
    if kind == "int":
        return _integers(weights, bits)
    if kind == "float" and bits == 8:  # noqa: PLR2004
        return "fp8"
    if kind == "float" and bits == 4:  # noqa: PLR2004
        return "mxfp4" if packing.startswith("mxfp4") or weights.raw("group_size") == 32 else "nvfp4"  # noqa: PLR2004
    raise Refused(Fault(weights.pointer, f"weights of {bits} bits of type {kind} aren't known"))


def _auto_round(section: Fields) -> ElementDtype:
    if section.text("data_type") not in (None, "int"):
        raise Refused(Fault(section.at("data_type"), "only whole numbers (int) are known of auto-round"))
    return _integers(section, section.count("bits", most=64))


_METHODS: Mapping[str, Callable[[Fields], ElementDtype]] = {
    "fp8": lambda _: "fp8",
    "fbgemm_fp8": lambda _: "fp8",
    "awq": lambda section: _integers(section, section.count("bits", most=64)),
    "gptq": lambda section: _integers(section, section.count("bits", most=64)),
    "auto-round": _auto_round,
    "compressed-tensors": _compressed_tensors,
    "mxfp4": lambda _: "mxfp4",
    "bitsandbytes": lambda section: "int4" if section.flag("load_in_4bit") else "int8",
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt_fp4,
}
"""The methods that are known. ModelOpt's own file names its algorithm only."""


def _format(section: Fields, method: str | None) -> ElementDtype:
    known = "modelopt" if method is None and section.has("quant_algo") else method
    if known is None or known not in _METHODS:
        shown = f"'{method[:60]}'" if method else "no method"
        detail = f"{shown} isn't a quantisation that is known here: {', '.join(_METHODS)}"
        raise Refused(Fault(section.at("quant_method"), detail))
    section.harmless |= HARMLESS[known]
    return _METHODS[known](section)
