"""The start-up lines of TensorRT-LLM: its C++ runtime (0.5 to 0.21) and its PyTorch back end (0.17 to 1.2).

The PyTorch back end starts with a small KV cache, runs the model to see how much memory is left, and makes the KV cache
anew. The first one's figures look alike, and are no answer: they are left out.
"""

import re

from service.readers.start_up_log.common import OUT_OF_MEMORY
from service.readers.start_up_log.printed import AMOUNT, COUNT
from service.readers.start_up_log.rules import ArgumentsLine, Engine, Expected, Fact, Marker, Rule

_BUILT = ("engine_built", True)
_PROFILE = " in memory usage profiling: "
_PEAK = "Peak memory during memory usage profiling"
_ALLOCATED = "for max tokens in paged KV cache ("
_PAGED = "max tokens in paged kv cache: total: "
_LIMITS = re.compile(
    rf"max_seq_len=(?P<resolved_max_model_len>{COUNT}), max_num_requests={COUNT}, "
    rf"max_num_tokens=(?P<resolved_max_num_batched_tokens>{COUNT})"
    rf"(?:, max_batch_size=(?P<resolved_max_num_seqs>{COUNT}))?(?!\d)"
)

_MEMORY = (
    Rule(_PROFILE, re.compile(rf"model weights \(inside torch\){_PROFILE}(?P<weights>{AMOUNT}) GiB")),
    Rule(_PROFILE, re.compile(rf"during inference \(inside torch\){_PROFILE}(?P<activation>{AMOUNT}) GiB")),
    Rule(_PROFILE, re.compile(rf"NCCL and CUDA graphs\){_PROFILE}(?P<non_torch>{AMOUNT}) GiB")),
    Rule(_PEAK, re.compile(rf"\(torch \+ non-torch\): (?P<peak>{AMOUNT}) GiB")),
    Rule(_PEAK, re.compile(rf"calculating max tokens: (?P<available_kv_cache>{AMOUNT}) GiB")),
    Rule(_PEAK, re.compile(r"fraction is set (?P<resolved_memory_fraction>[0-9](?:\.[0-9]{1,20})?),")),
    Rule(_PEAK, re.compile(r"kv size(?: per token)? is (?P<bytes_per_token>[0-9]{1,12})(?:\.0)?\. ")),
    Rule(_PEAK, re.compile(rf"device total memory (?P<device_total>{AMOUNT}) GiB")),
    Rule(_PEAK, re.compile(rf"tmp kv_mem (?P<temporary_kv_cache>{AMOUNT}) GiB")),
    Rule(_PEAK, re.compile(rf"memory during profiling (?P<temporary_kv_cache>{AMOUNT}) GiB")),
    Rule(_ALLOCATED, re.compile(rf"Allocated (?P<kv_cache>{AMOUNT}) GiB for max")),
    Rule(_ALLOCATED, re.compile(rf"paged KV cache \((?P<kv_cache_tokens>{COUNT})\)")),
    Rule("Number of tokens per block: ", re.compile(rf"per block: (?P<block_size>{COUNT})\.")),
    Rule("Max KV cache ", re.compile(rf"(?:pages|blocks) per sequence: (?P<blocks_per_sequence>{COUNT})(?!\d)")),
    Rule("Max KV cache blocks", re.compile(rf"primary blocks=(?P<gpu_blocks>{COUNT}), secondary")),
    Rule("Max KV cache blocks", re.compile(rf"secondary blocks=(?P<cpu_blocks>{COUNT})(?!\d)")),
    Rule("max_seq_len=", _LIMITS),
    # beside the failure that names the component
    Rule("Total GPU memory (GiB): ", re.compile(rf"memory \(GiB\): (?P<device_total>{AMOUNT})(?![\d.])")),
)

_C_PLUS_PLUS = (
    Rule("TRTGptModel ", re.compile("TRTGptModel"), says=_BUILT),
    Rule(
        "Loaded engine size: ",
        re.compile(rf"engine size: (?P<weights>{AMOUNT}) MiB"),
        unit="MiB",
        decimals=0,
        says=_BUILT,
    ),
    Rule(
        _PAGED, re.compile(rf"total: (?P<device_total>{AMOUNT}) GiB, available: (?P<free_after_weights>{AMOUNT}) GiB")
    ),
    Rule("in KV cache primary pool: ", re.compile(rf"primary pool: (?P<gpu_blocks>{COUNT})(?!\d)")),
    Rule("in KV cache secondary pool: ", re.compile(rf"secondary pool: (?P<cpu_blocks>{COUNT})(?!\d)")),
    Rule("tokens per block: ", re.compile(rf", tokens per block: (?P<block_size>{COUNT})(?!\d)")),
    Rule("bytes for k/v cache", re.compile(r"Allocate (?P<kv_cache>[0-9]{1,15}) bytes"), unit="bytes", says=_BUILT),
    Rule("tokens in paged KV cache.", re.compile(rf"Using (?P<kv_cache_tokens>{COUNT}) tokens"), says=_BUILT),
    Rule("TRTGptModel maxBatchSize: ", re.compile(rf"maxBatchSize: (?P<resolved_max_num_seqs>{COUNT})(?!\d)")),
    Rule("TRTGptModel maxSequenceLen: ", re.compile(rf"SequenceLen: (?P<resolved_max_model_len>{COUNT})(?!\d)")),
    Rule("TRTGptModel maxNumTokens: ", re.compile(rf"NumTokens: (?P<resolved_max_num_batched_tokens>{COUNT})(?!\d)")),
    Rule("Engine version ", re.compile(r"Engine version (?P<version>[0-9][\w.+-]{1,80}) found")),
)

_FAILURES = (
    Rule(
        "Executor creation failed due to insufficient GPU",
        re.compile("Executor creation failed due to insufficient GPU memory"),
        fails="out_of_memory",
    ),
    Rule("in kvCache", re.compile(r"Impossible to fit (?:in )?any sequence in kvCache"), fails="no_kv_cache_memory"),
)

_ARGUMENTS = {
    "model": ("model", "model_path"),
    "dtype": ("dtype",),
    "quantization": ("quant_config.quant_algo",),
    "kv_cache_dtype": ("kv_cache_config.dtype", "kv_cache_dtype"),
    "max_model_len": ("max_seq_len",),
    "tensor_parallel": ("tensor_parallel_size",),
    "pipeline_parallel": ("pipeline_parallel_size",),
    "memory_fraction": ("kv_cache_config.free_gpu_memory_fraction", "free_gpu_memory_fraction"),
    "max_num_seqs": ("max_batch_size",),
    "max_num_batched_tokens": ("max_num_tokens",),
    "block_size": ("kv_cache_config.tokens_per_block", "tokens_per_block"),
    "expert_parallel": ("moe_expert_parallel_size",),
    "enable_lora": ("enable_lora",),
    "max_loras": ("lora_config.max_loras",),
    "max_lora_rank": ("lora_config.max_lora_rank",),
    "speculative": ("speculative_config",),
    "speculative_tokens": ("speculative_config.max_draft_len",),
    "enable_prefix_caching": ("kv_cache_config.enable_block_reuse", "enable_block_reuse"),
}

_PROVISIONAL = frozenset(
    {
        "kv_cache",
        "kv_cache_tokens",
        "block_size",
        "blocks_per_sequence",
        "gpu_blocks",
        "cpu_blocks",
        "resolved.max_model_len",
        "resolved.max_num_batched_tokens",
        "resolved.max_num_seqs",
    }
)


def settle(facts: list[Fact]) -> list[Fact]:
    """Leave out the figures of the KV cache that is only there while profiling.

    Those after the profile are final; so are all where an engine that was built before is loaded, which profiles
    nothing, and where the server got ready without a profile.
    """
    profiled = min((fact.line for fact in facts if fact.field == "peak"), default=None)
    if profiled is None and any(fact.field in {"ready", "engine_built"} for fact in facts):
        return facts
    return [fact for fact in facts if fact.field not in _PROVISIONAL or (profiled is not None and fact.line > profiled)]


TENSORRT_LLM = Engine(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    markers=(Marker("] TensorRT-LLM version: ", repeated=True), Marker("] TensorRT LLM version: ", repeated=True)),
    ready=("Application startup complete", "Uvicorn running on", "successfully loaded 'tensorrt_llm'"),
    rules=(
        Rule("] TensorRT", re.compile(r"TensorRT[- ]LLM version: v?(?P<version>[0-9][\w.+-]{1,80})")),
        *_MEMORY,
        *_C_PLUS_PLUS,
        *_FAILURES,
        *OUT_OF_MEMORY,
    ),
    arguments=(
        # on the same line, or on the next
        ArgumentsLine("LLM Args:", "asked", _ARGUMENTS),
        ArgumentsLine("engine args: ", "asked", _ARGUMENTS),
    ),
    expected=(
        Expected("version", ("version",)),
        Expected("weights", ("weights",)),
        Expected("memory left for the KV cache", ("available_kv_cache", "free_after_weights", "kv_cache")),
        Expected("final KV cache size", ("kv_cache_tokens",)),
        Expected("tokens per block", ("block_size",)),
        Expected("end of the start-up", ("ready",)),
    ),
    signs=("TensorRT-LLM version", "for max tokens in paged KV cache", _PEAK),
    settle=settle,
)
