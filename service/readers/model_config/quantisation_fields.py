"""What stands in a `quantization_config` beside the format: how numbers were rounded, and for which modules."""

from collections.abc import Mapping, Sequence

from service.errors import Fault, Refused
from service.readers.model_config.fields import Fields

_MOST_GROUPS = 64

ROUNDING = (
    frozenset({"num_bits", "type", "group_size"})  # read where they say what is kept
    | {"actorder", "block_structure", "dynamic", "observer", "scale_dtype", "strategy", "symmetric", "zp_dtype"}
)
"""How a group of numbers was rounded, and the formats of scales, which are among what nobody counts apart."""
_OBSERVER = frozenset({"averaging_constant", "grid", "maxshrink", "norm", "patience"})
"""How the largest numbers were looked for before rounding."""
_SPARSITY = frozenset({"global_sparsity", "ignore", "registry_requires_subclass", "sparsity_structure", "targets"})
"""Which weights are zero, where zeros are kept like any other number."""

_CALIBRATION = frozenset(
    {"batch_size", "damp_percent", "dataset", "desc_act", "static_groups", "sym", "true_sequential"}
)
HARMLESS: Mapping[str, frozenset[str]] = {
    "fp8": frozenset({"activation_scheme", "fmt", "scale_fmt", "weight_block_size"}),
    "fbgemm_fp8": frozenset({"activation_scale_ub"}),
    "awq": frozenset({"backend", "exllama_config", "group_size", "zero_point"}),
    "gptq": _CALIBRATION
    | {"backend", "cache_block_outputs", "checkpoint_format", "exllama_config", "group_size", "is_marlin_format"}
    | {"max_input_length", "meta", "model_file_base_name", "model_name_or_path", "pack_dtype", "tokenizer"}
    | {"use_cuda_fp16", "use_exllama", "block_name_to_quantize", "module_name_preceding_first_block"},
    "auto-round": _CALIBRATION
    | {"act_bits", "act_data_type", "act_dynamic", "act_group_size", "act_sym", "amp", "backend", "group_size"}
    | {"block_name_to_quantize", "enable_minmax_tuning", "enable_norm_bias_tuning", "enable_quanted_input"}
    | {"gradient_accumulate_steps", "iters", "low_cpu_mem_usage", "low_gpu_mem_usage", "lr", "minmax_lr", "nsamples"}
    | {"not_use_best_mse", "packing_format", "scale_dtype", "seqlen", "to_quant_block_names", "train_bs"},
    "compressed-tensors": frozenset({"format", "global_compression_ratio", "quantization_status"}),
    "mxfp4": frozenset(),
    "bitsandbytes": frozenset({"_load_in_4bit", "_load_in_8bit", "load_in_4bit", "load_in_8bit"})
    | {"bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant"}
    | {"llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_threshold"},
    "modelopt": frozenset({"group_size", "has_zero_point", "pre_quant_scale", "producer", "quant_algo"}),
    "modelopt_fp4": frozenset({"group_size", "has_zero_point", "pre_quant_scale", "producer", "quant_algo"}),
}
"""Fields of each method that say how numbers were rounded or are multiplied, and not in what they are kept."""


def groups_of(section: Fields, *, whole: bool = False) -> Sequence[tuple[Fields, Fields]]:
    """The groups of `config_groups`, each with what is said of its weights.

    `whole`: the method says elsewhere what all weights are kept in, and a group needn't name its modules.

    Raises:
        Refused: a group doesn't say that, or is for some modules only, which nobody can count.
    """
    groups = section.section("config_groups")
    if groups is None or not groups.names():
        return ()
    if len(groups.names()) > _MOST_GROUPS:
        raise Refused(Fault(groups.pointer, f"config_groups has to have at most {_MOST_GROUPS} groups"))
    found = []
    for name in groups.names():
        group = groups.section(name)
        weights = group.section("weights", ROUNDING) if group is not None else None
        if group is None or weights is None:
            raise Refused(Fault(groups.at(name), "this group doesn't say what its weights are kept in"))
        targets = group.items("targets")
        if "Linear" not in targets and (targets or group.has("targets") or not whole):
            raise Refused(
                Fault(group.at("targets"), "a group of some modules only can't be counted: only of all Linear")
            )
        for numbers in (weights, *(group.section(f"{side}_activations", ROUNDING) for side in ("input", "output"))):
            open_observer(numbers)
        found.append((group, weights))
    return found


def open_observer(numbers: Fields | None) -> None:
    """Know what looked for the largest numbers, where anything did."""
    if numbers is not None:
        numbers.section("observer_kwargs", _OBSERVER)


_ON_DISK = frozenset(
    {"float-quantized", "int-quantized", "mixed-precision", "mxfp4-pack-quantized", "naive-quantized"}
    | {"nvfp4-pack-quantized", "pack-quantized"}
)
"""How numbers of few bits lie in files. `dense` and `fakequant` are numbers of 16 bits that are only rounded."""
_WHOLE_BYTES = frozenset({"int-quantized", "naive-quantized"})
_KEPT = frozenset({"compressed", "frozen"})
"""Stages after which weights may lie in files as their format says."""


def refuse_unpacked(section: Fields, groups: Sequence[tuple[Fields, Fields]]) -> None:
    """Refuse weights that aren't kept in as few bits as they are rounded to: nobody counts those.

    Where no format is stated, the numbers are taken to be kept in their bits.
    """
    status = section.text("quantization_status")
    if status is not None and status not in _KEPT:
        detail = f"weights in the stage '{status[:40]}' aren't kept in their bits yet: compressed or frozen"
        raise Refused(Fault(section.at("quantization_status"), detail))
    outer = section.text("format")
    for place, weights in ((section, None), *groups):
        packing = place.text("format")
        if packing is not None and packing not in _ON_DISK:
            detail = f"weights that lie in files as '{packing[:40]}' aren't known: {', '.join(sorted(_ON_DISK))}"
            raise Refused(Fault(place.at("format"), detail))
        few = weights is not None and weights.raw("num_bits") == 4 and weights.raw("type") == "int"  # noqa: PLR2004
        if few and (packing or outer) in _WHOLE_BYTES:
            holder = place if packing else section
            raise Refused(Fault(holder.at("format"), "numbers of 4 bits in a byte each aren't known"))


def refuse_sparse(section: Fields) -> None:
    """Refuse weights that are kept without their zeros: nobody counts how many are left."""
    sparse = section.section("sparsity_config", _SPARSITY)
    if sparse is not None and sparse.text("format") not in (None, "dense"):
        raise Refused(Fault(sparse.at("format"), "weights that are kept without their zeros aren't known"))
