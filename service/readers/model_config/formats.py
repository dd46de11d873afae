"""The format of quantised weights and the scales beside them, from a `quantization_config` and its method."""

from collections.abc import Callable, Mapping

import msgspec

from service.capacity.dtypes import SCALES, ElementDtype, Scales, width
from service.errors import Fault, Refused
from service.readers.model_config.fields import Fields
from service.readers.model_config.quantisation_fields import HARMLESS, groups_of, refuse_sparse, refuse_unpacked

_WHOLE_ROWS = -1
_SMALL_GROUP = 32
_USUAL_GROUP = 128
_SCALE, _WIDE_SCALE = 16, 32
_BLOCK = 128 * 128


class Format(msgspec.Struct, frozen=True):
    """One format of numbers, with what a checkpoint keeps beside them."""

    dtype: ElementDtype
    scales: Scales | None = None
    """Null: what the format comes with."""
    assumed: str | None = None
    """What the configuration doesn't say of the width, and what is taken for it."""


def format_of(section: Fields, method: str | None, row: int) -> Format:
    """Read the format of quantised weights. A scale for each row of a matrix counts as one for every `row` numbers.

    Raises:
        Refused: the method, or its format, isn't known.
    """
    known = "modelopt" if method is None and section.has("quant_algo") else method
    if known is None or known not in _METHODS:
        shown = f"'{method[:60]}'" if method else "no method"
        detail = f"{shown} isn't a quantisation that is known here: {', '.join(_METHODS)}"
        raise Refused(Fault(section.at("quant_method"), detail))
    section.harmless |= HARMLESS[known]
    return _METHODS[known](section, row)


def _with(dtype: ElementDtype, bits: int, numbers: int, assumed: str | None = None) -> Format:
    """A format with so many bits of scales; not said again where it comes with as many."""
    scales = Scales(bits, numbers)
    return Format(dtype, None if dtype in SCALES and width(dtype, scales) == width(dtype) else scales, assumed)


def _integers(section: Fields, row: int, bits: int, *, zero_points: bool, usual: int) -> Format:
    """Whole numbers with a 16-bit scale, and perhaps a zero point as wide as a number, for each group or row.

    The index by which GPTQ orders columns isn't counted: 0.2 % of a file, and engines drop what they don't need.
    """
    if bits not in (4, 8):
        raise Refused(Fault(section.at("bits"), f"weights of {bits} bits aren't known: 4 or 8"))
    stated = section.has("group_size")
    group = section.count("group_size", least=_WHOLE_ROWS) if stated else usual
    if group == 0:
        raise Refused(Fault(section.at("group_size"), "a group of 0 numbers isn't one: -1 stands for whole rows"))
    assumed = f"no group size is stated: {usual} taken" if not stated and usual != _WHOLE_ROWS else None
    numbers = row if group == _WHOLE_ROWS else group
    small: ElementDtype = "int4_g32" if numbers <= _SMALL_GROUP else "int4"
    return _with("int8" if bits == 8 else small, _SCALE + bits * zero_points, numbers, assumed)  # noqa: PLR2004


def _packed_integers(section: Fields, row: int) -> Format:
    """AWQ, GPTQ and AutoRound store zero points whether or not they are used."""
    bits = section.count("bits", most=64)
    return _integers(section, row, bits, zero_points=True, usual=_USUAL_GROUP)


def _auto_round(section: Fields, row: int) -> Format:
    if section.text("data_type") not in (None, "int"):
        raise Refused(Fault(section.at("data_type"), "only whole numbers (int) are known of auto-round"))
    return _packed_integers(section, row)


def _fp8(section: Fields, _: int) -> Format:
    """A 32-bit scale for each block, or one for a whole matrix."""
    block = section.counts("weight_block_size", most=2**20)
    if not block:
        return Format("fp8")
    if len(block) != 2 or 0 in block:  # noqa: PLR2004
        raise Refused(Fault(section.at("weight_block_size"), "weight_block_size has to be the two sides of a block"))
    return Format("fp8", Scales(_WIDE_SCALE, block[0] * block[1]))


def _bitsandbytes(section: Fields, row: int) -> Format:
    """A 32-bit scale for 64 numbers, or one of 8 bits and a 32-bit one for 256 of these."""
    four, eight = (_loads(section, name) for name in ("load_in_4bit", "load_in_8bit"))
    if four == eight:
        detail = f"{'both' if four else 'neither'} of load_in_4bit and load_in_8bit are true: it has to be one of them"
        raise Refused(Fault(section.at("load_in_4bit"), detail))
    if eight:
        if section.flag("llm_int8_has_fp16_weight"):
            raise Refused(Fault(section.at("llm_int8_has_fp16_weight"), "weights of 8 bits beside 16 aren't known"))
        return Format("int8", Scales(_WIDE_SCALE, row))
    stated = section.has("bnb_4bit_use_double_quant")
    assumed = None if stated else "whether scales are quantised too isn't stated: taken as not"
    if section.flag("bnb_4bit_use_double_quant"):
        return Format("int4", Scales(256 * 8 + _WIDE_SCALE, 256 * 64))
    return Format("int4", Scales(_WIDE_SCALE, 64), assumed)


def _loads(section: Fields, name: str) -> bool:
    """A switch of bitsandbytes, which is written with and without an underscore before it."""
    stated = section.flag(name, otherwise=section.flag(f"_{name}"))
    if section.flag(f"_{name}", otherwise=stated) != stated:
        raise Refused(Fault(section.at(name), f"{name} and _{name} disagree"))
    return stated


def _modelopt_fp4(section: Fields, _: int) -> Format:
    groups_of(section, whole=True)
    return Format("nvfp4")


def _modelopt(section: Fields, row: int) -> Format:
    groups_of(section, whole=True)
    algorithm = section.text("quant_algo") or ""
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ"):
        return _integers(section, row, 4, zero_points=False, usual=_USUAL_GROUP)
    known: Mapping[str, Format] = {
        "FP8": Format("fp8"),
        "FP8_PB_WO": Format("fp8", Scales(_WIDE_SCALE, _BLOCK)),
        "FP8_PER_CHANNEL_PER_TOKEN": Format("fp8", Scales(_WIDE_SCALE, row)),
        "NVFP4": Format("nvfp4"),
        "NVFP4_AWQ": Format("nvfp4"),
        "MXFP4": Format("mxfp4"),
    }
    if algorithm not in known:
        raise Refused(Fault(section.at("quant_algo"), f"'{algorithm[:60]}' isn't a quantisation that is known here"))
    return known[algorithm]


def _compressed_tensors(section: Fields, row: int) -> Format:
    """The format of every group. Groups of several formats would need the layers that each is for."""
    refuse_sparse(section)
    groups = groups_of(section)
    if not groups:
        raise Refused(Fault(section.at("config_groups"), "config_groups is missing: it says what weights are kept in"))
    refuse_unpacked(section, groups)
    packing = section.text("format") or ""
    formats = [_group_format(weights, group.text("format") or packing, row) for group, weights in groups]
    if any(other != formats[0] for other in formats):
        said = ", ".join(sorted({one.dtype for one in formats}))
        raise Refused(Fault(section.at("config_groups"), f"several formats in one checkpoint ({said})"))
    return formats[0]


def _group_format(weights: Fields, packing: str, row: int) -> Format:
    """Integers are symmetric, and scales are one for each row, unless the group says otherwise."""
    bits, kind = weights.count("num_bits", most=64), weights.text("type")
    if kind == "int":
        asymmetric = not weights.flag("symmetric", otherwise=True)
        return _integers(weights, row, bits, zero_points=asymmetric, usual=_WHOLE_ROWS)
    if kind == "float" and bits == 8:  # noqa: PLR2004
        match weights.text("strategy"):
            case "tensor":
                return Format("fp8")
            case "block":
                high, wide = weights.counts("block_structure", most=2**20, length=2) or (128, 128)
                return Format("fp8", Scales(_SCALE, max(1, high * wide)))
            case _:
                return Format("fp8", Scales(_SCALE, weights.count_or("group_size", row, least=1)))
    if kind == "float" and bits == 4:  # noqa: PLR2004
        mx = packing.startswith("mxfp4") or weights.raw("group_size") == 32  # noqa: PLR2004
        return Format("mxfp4" if mx else "nvfp4")
    raise Refused(Fault(weights.pointer, f"weights of {bits} bits of type {kind} aren't known"))


_METHODS: Mapping[str, Callable[[Fields, int], Format]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _, row: Format("fp8", Scales(_WIDE_SCALE, row)),
    "awq": _packed_integers,
    "gptq": _packed_integers,
    "auto-round": _auto_round,
    "compressed-tensors": _compressed_tensors,
    "mxfp4": lambda _, __: Format("mxfp4"),
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt_fp4,
}
"""The methods that are known. ModelOpt's own file names its algorithm only."""
