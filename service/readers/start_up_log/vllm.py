"""The start-up lines of vLLM 0.3 to 0.33, of its first engine (V0, up to 0.10) and its second (V1, from 0.6)."""

import re

from service.readers.start_up_log.common import OUT_OF_MEMORY
from service.readers.start_up_log.printed import AMOUNT, COUNT, SIZE
from service.readers.start_up_log.rules import ArgumentsLine, Engine, Expected, Marker, Rule

_SHARE = r"[0-9]{1,3}(?:\.[0-9]{1,12})?"

_WEIGHTS_AND_CACHE = (
    # 0.3 to 0.7: `Loading model weights took 14.9888 GB`; 0.7 and 0.8: `Model loading took 14.9888 GB and 7.2 seconds`;
    # then GiB; from 0.10: `Model loading took 14.99 GiB memory and 7.2 seconds`
    Rule("weights took ", re.compile(rf"Loading model weights took (?P<weights>{AMOUNT}) Gi?B")),
    Rule("Model loading took ", re.compile(rf"Model loading took (?P<weights>{AMOUNT}) Gi?B")),
    Rule("Available KV cache", re.compile(rf"Available KV cache memory: (?P<available_kv_cache>{AMOUNT}) GiB")),
    Rule(
        "GiB memory for KV Cache as specified by",
        re.compile(
            rf"Initial free memory (?P<device_free>{AMOUNT}) GiB, reserved (?P<available_kv_cache>{AMOUNT}) GiB"
        ),
        says=("cache_set_by_hand", True),
    ),
    Rule(
        " blocks: ",
        re.compile(
            rf"# (?!CPU)[A-Za-z]{{2,8}} blocks: (?P<gpu_blocks>{COUNT})(?!\d|,\d)"
            rf"(?:, # CPU blocks: (?P<cpu_blocks>{COUNT})(?!\d))?"
        ),
    ),
    Rule(
        "KV cache size: ", re.compile(rf"KV cache size: (?P<kv_cache_tokens>{COUNT}) tokens"), without="host KV cache"
    ),
    Rule(
        "Maximum concurrency for ",
        re.compile(
            rf"Maximum concurrency for (?P<concurrencies_window>{COUNT}) tokens per request: "
            rf"(?P<concurrencies>{SIZE})x"
        ),
        without="host KV cache",
    ),
    Rule("host KV cache", re.compile(rf"host KV cache size: (?P<kv_cache_tokens_with_host>{COUNT}) tokens")),
    Rule(
        "host KV cache",
        re.compile(
            rf"Maximum concurrency for (?P<concurrencies_with_host_window>{COUNT}) tokens per request: "
            rf"(?P<concurrencies_with_host>{SIZE})x"
        ),
    ),
    Rule("Setting attention block size", re.compile(rf"attention block size to (?P<block_size>{COUNT}) tokens")),
    Rule("Padding mamba page", re.compile(rf"mamba page size by (?P<state_page_padding_percent>{_SHARE})%")),
)

_PROFILE = (
    # 0.6.3 and 0.6.4, one line
    Rule("Memory profiling results", re.compile(rf"total_gpu_memory=(?P<device_total>{AMOUNT})GiB")),
    Rule("Memory profiling results", re.compile(rf"peak_torch_memory=(?P<peak>{AMOUNT})GiB")),
    Rule("Memory profiling results", re.compile(rf"non_torch_memory=(?P<non_torch>{AMOUNT})GiB")),
    Rule("Memory profiling results", re.compile(rf"kv_cache_size=(?P<available_kv_cache>{AMOUNT})GiB")),
    Rule(
        "Memory profiling results", re.compile(rf"memory_utilization=(?P<resolved_memory_fraction>{_SHARE})(?![\d.])")
    ),
    # 0.6.5 to 0.10, V0, several lines
    Rule(
        "total_gpu_memory (",
        re.compile(
            rf"total_gpu_memory \((?P<device_total>{AMOUNT})GiB\) x gpu_memory_utilization "
            rf"\((?P<resolved_memory_fraction>{_SHARE})\) = (?P<requested>{AMOUNT})GiB"
        ),
    ),
    Rule("model weights take ", re.compile(rf"model weights take (?P<weights>{AMOUNT})GiB")),
    Rule("non_torch_memory takes ", re.compile(rf"non_torch_memory takes (?P<non_torch>{AMOUNT})GiB")),
    Rule("activation peak memory", re.compile(rf"activation peak memory takes (?P<activation>{AMOUNT})GiB")),
    Rule("reserved for KV Cache", re.compile(rf"reserved for KV Cache is (?P<available_kv_cache>{AMOUNT})GiB")),
    # V1, at the level DEBUG
    Rule(
        "Initial free memory: ",
        re.compile(
            rf"Initial free memory: (?P<device_free>{AMOUNT}) GiB; Requested memory: "
            rf"(?P<resolved_memory_fraction>{_SHARE}) \(util\), (?P<requested>{AMOUNT}) GiB"
        ),
    ),
    Rule("Total non KV cache memory", re.compile(rf"non KV cache memory: (?P<non_kv_cache>{AMOUNT})GiB")),
    Rule("torch peak memory increase", re.compile(rf"torch peak memory increase: (?P<activation>{AMOUNT})GiB")),
    Rule("non-torch forward increase", re.compile(rf"non-torch forward increase memory: (?P<non_torch>{AMOUNT})GiB")),
    Rule("; weights memory: ", re.compile(rf"; weights memory: (?P<weights>{AMOUNT})GiB")),
    # V1 from 0.10.2: one line after the graphs
    Rule(
        "Free memory on device",
        re.compile(
            rf"Free memory on device(?: \S{{1,20}})? \((?P<device_free>{AMOUNT})/(?P<device_total>{AMOUNT}) GiB\)"
            r" on startup"
        ),
    ),
    Rule(
        "Desired GPU memory utilization is",
        re.compile(
            rf"utilization is \((?P<resolved_memory_fraction>{_SHARE}), (?P<requested>{AMOUNT}) GiB\)\. Actual usage"
        ),
    ),
    Rule("GiB for weight", re.compile(rf"Actual usage is (?P<weights>{AMOUNT}) GiB for weight")),
    Rule("GiB for consumed memory", re.compile(rf"usage is (?P<weights_and_non_torch>{AMOUNT}) GiB for consumed")),
    Rule("GiB for peak activation", re.compile(rf", (?P<activation>{AMOUNT}) GiB for peak activation")),
    Rule("GiB for non-torch memory", re.compile(rf", (?P<non_torch>{AMOUNT}) GiB for non-torch memory")),
    Rule("GiB for CUDAGraph memory", re.compile(rf", and (?P<cuda_graphs>{AMOUNT}) GiB for CUDAGraph memory")),
    Rule(
        "kv cache memory in use is",
        re.compile(rf"kv cache memory in use is (?P<kv_cache>{AMOUNT}|[0-9]{{1,15}}) (?P<kv_cache_unit>GiB|bytes)"),
    ),
)

_GRAPHS = (
    Rule("Graph capturing finished", re.compile(rf"in [0-9]{{1,9}} secs, took (?P<cuda_graphs>{AMOUNT}) GiB")),
    Rule("Estimated CUDA graph memory", re.compile(rf"graph memory: (?P<cuda_graphs_estimated>{AMOUNT}) GiB total")),
    Rule(
        "CUDA graph pool memory: ",
        re.compile(
            rf"pool memory: (?P<cuda_graphs>{AMOUNT}) GiB \(actual\), "
            rf"(?P<cuda_graphs_estimated>{AMOUNT}) GiB \(estimated\)"
        ),
    ),
    Rule(
        "CUDA graph memory profiling is enabled",
        re.compile(
            rf"The current --gpu-memory-utilization=(?P<resolved_memory_fraction>{_SHARE}) is equivalent to "
            rf"--gpu-memory-utilization=(?P<equivalent_memory_fraction>{_SHARE}) without"
        ),
        says=("cuda_graphs_in_budget", True),
    ),
    Rule(
        "CUDA graph memory profiling will be enabled",
        re.compile(rf"gpu-memory-utilization from (?P<resolved_memory_fraction>{_SHARE}) to"),
        says=("cuda_graphs_in_budget", False),
    ),
)

_FAILURES = (
    Rule(
        "To serve at least one request",
        re.compile(
            rf"max seq len \((?P<max_model_len>{COUNT})\), \(?(?P<needed>{SIZE}) GiB KV cache is needed, which is "
            rf"larger than the available KV cache memory \((?P<available>{AMOUNT}) GiB\)"
            r"(?:\. Based on the available memory, {1,2}the estimated maximum model length is "
            rf"(?P<longest_model_len>{COUNT})\.)?"
        ),
        fails="window_too_long",
    ),
    Rule(
        "that can be stored in KV cache",
        re.compile(
            rf"max seq len \((?P<max_model_len>{COUNT})\) is larger than the maximum number of tokens that can be "
            rf"stored in KV cache \((?P<kv_cache_tokens>{COUNT})\)"
        ),
        fails="window_too_long",
    ),
    Rule("No available memory", re.compile("No available memory for the cache blocks"), fails="no_kv_cache_memory"),
    Rule(
        "less than desired GPU memory utilization",
        re.compile(
            rf"\((?P<available>{AMOUNT})/(?P<total>{AMOUNT}) GiB\) on startup is less than desired GPU memory "
            rf"utilization \((?P<memory_fraction>{_SHARE}), (?P<needed>{SIZE}) GiB\)"
        ),
        fails="device_not_free",
    ),
)

_VERSION = (
    Rule("vLLM API server version ", re.compile(r"server version v?(?P<version>[\w.+-]{1,80})")),
    # from about 0.15 a banner
    Rule("█  version ", re.compile(r"█  version v?(?P<version>[\w.+-]{1,80})")),
    Rule("LLM engine (v", re.compile(r"LLM engine \(v(?P<version>[\w.+-]{1,80})\)")),
    # early releases of the second engine say the same, from another file
    Rule(
        "LLM engine",
        re.compile(r"(?:llm_engine\.py:[0-9]{1,5}\] Initializing an|Initializing a V0) LLM engine"),
        says=("first_engine", True),
    ),
    Rule("with config: ", re.compile(", quantization=None[,)]"), says=("unquantised", True)),
    Rule("init engine (profile", re.compile("init engine"), says=("initialised", True)),
    Rule("Chunked prefill is enabled", re.compile(r"batched_tokens=(?P<resolved_max_num_batched_tokens>[0-9]{1,9})\.")),
    Rule("Using max model len ", re.compile(rf"max model len (?P<resolved_max_model_len>{COUNT})(?![\d,])")),
)

_ARGUMENTS = {
    "model": ("model_tag", "model"),
    "dtype": ("dtype",),
    "quantization": ("quantization",),
    "kv_cache_dtype": ("kv_cache_dtype",),
    "max_model_len": ("max_seq_len", "max_model_len"),
    "tensor_parallel": ("tensor_parallel_size",),
    "pipeline_parallel": ("pipeline_parallel_size",),
    "data_parallel": ("data_parallel_size",),
    "decode_context_parallel": ("decode_context_parallel_size",),
    "memory_fraction": ("gpu_memory_utilization",),
    "max_num_seqs": ("max_num_seqs",),
    "max_num_batched_tokens": ("max_num_batched_tokens",),
    "block_size": ("block_size",),
    "expert_parallel": ("enable_expert_parallel",),
    "enable_lora": ("enable_lora",),
    "max_loras": ("max_loras",),
    "max_lora_rank": ("max_lora_rank",),
    "cpu_offload_gb": ("cpu_offload_gb",),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", "kv_cache_memory"),
    "kv_cache_limit": ("num_gpu_blocks_override",),
    "speculative": ("speculative_config", "speculative_model"),
    "speculative_tokens": (
        "speculative_config.num_speculative_tokens",
        "speculative_config.num_spec_tokens",
        "num_speculative_tokens",
    ),
    "enforce_eager": ("enforce_eager",),
    "enable_prefix_caching": ("enable_prefix_caching",),
    "language_model_only": ("language_model_only",),
    "limit_mm_per_prompt": ("limit_mm_per_prompt",),
    "load_format": ("load_format",),
    "hf_overrides": ("hf_overrides",),
    "skip_mm_profiling": ("skip_mm_profiling",),
    "redundant_experts": ("enable_eplb",),
}

VLLM = Engine(
    name="vllm",
    title="vLLM",
    markers=(
        Marker("vLLM API server version "),
        Marker("█  version "),
        Marker("LLM engine (v"),
        Marker("LLM engine with"),
    ),
    ready=("Application startup complete", "Uvicorn running on"),
    rules=(*_VERSION, *_WEIGHTS_AND_CACHE, *_PROFILE, *_GRAPHS, *_FAILURES, *OUT_OF_MEMORY),
    arguments=(
        ArgumentsLine("non-default args: ", "asked", _ARGUMENTS),
        ArgumentsLine("args: Namespace", "asked", _ARGUMENTS),
        ArgumentsLine("with config: ", "resolved", _ARGUMENTS),
    ),
    expected=(
        Expected("version", ("version",)),
        Expected("engine configuration", ("resolved.model",)),
        Expected("weights", ("weights",)),
        Expected("available KV cache memory", ("available_kv_cache",), since=(0, 9)),
        Expected("available KV cache memory", ("available_kv_cache",), since=(0, 6, 3), only_with="first_engine"),
        Expected("KV cache size", ("kv_cache_tokens", "gpu_blocks", "kv_cache_tokens_with_host")),
        Expected("maximum concurrency", ("concurrencies", "concurrencies_with_host"), since=(0, 6, 3)),
        Expected("CUDA graphs", ("cuda_graphs",), since=(0, 6, 4), unless_eager=True),
        Expected("end of the start-up", ("ready", "initialised")),
    ),
    signs=("GPU KV cache size", "Model loading took", "Initializing a V1 LLM engine"),
)
