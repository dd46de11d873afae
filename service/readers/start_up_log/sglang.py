"""The start-up lines of SGLang 0.2 to 0.5. Where it prints GB it means 2**30 bytes."""

import re

from service.readers.start_up_log.common import OUT_OF_MEMORY
from service.readers.start_up_log.printed import AMOUNT, COUNT
from service.readers.start_up_log.rules import ArgumentsLine, Engine, Expected, Marker, Rule

_END = "oad weight end."
_GRAPHS_END = "uda graph end."
_POOL = "KV Cache is allocated."
_TOTALS = "max_total_num_tokens="

_MEMORY = (
    Rule("oad weight begin.", re.compile(rf"begin\. avail mem=(?P<free_before_weights>{AMOUNT}) GB")),
    Rule(_END, re.compile(rf", avail mem=(?P<free_after_weights>{AMOUNT}) GB")),
    Rule(_END, re.compile(rf", mem usage=(?P<weights>{AMOUNT}) GB")),
    Rule(_END, re.compile(r", dtype=(?P<resolved_dtype>[\w.]{1,40}),")),
    Rule(_END, re.compile(r", quant=(?P<resolved_quantization>[\w.-]{1,60}),")),
    Rule("Using KV cache dtype: ", re.compile(r"cache dtype: (?P<resolved_kv_cache_dtype>torch\.[\w.]{1,40})")),
    Rule(_POOL, re.compile(rf"#tokens: (?P<kv_cache_tokens>{COUNT}),")),
    # latent caches print one size, keys and values two; before 0.4.2 without their tokens
    Rule(_POOL, re.compile(rf", K size: (?P<key_cache>{AMOUNT}) GB, V size: (?P<value_cache>{AMOUNT}) GB")),
    Rule(_POOL, re.compile(rf"allocated\. K size: (?P<key_cache>{AMOUNT}) GB, V size: (?P<value_cache>{AMOUNT}) GB")),
    Rule(_POOL, re.compile(rf", KV size: (?P<kv_cache>{AMOUNT}) GB")),
    Rule(
        "SWAKVPool mem usage: ",
        re.compile(
            rf"usage: (?P<kv_cache>{AMOUNT}) GB, swa size: (?P<window_tokens>{COUNT}), "
            rf"full size: (?P<full_tokens>{COUNT})(?!\d)"
        ),
    ),
    Rule(
        "liding window memory pool. ",
        re.compile(rf"full_layer_tokens=(?P<full_tokens>{COUNT}), swa_layer_tokens=(?P<window_tokens>{COUNT})(?!\d)"),
    ),
    Rule(
        "Mamba Cache is allocated. ",
        re.compile(
            rf"max_mamba_cache_size: (?P<state_slots>{COUNT}), conv_state size: (?P<conv_state>{AMOUNT}) ?GB, "
            rf"ssm_state size: (?P<ssm_state>{AMOUNT}) ?GB"
        ),
    ),
    Rule("emory pool end. avail mem=", re.compile(rf"end\. avail mem=(?P<free_after_pools>{AMOUNT}) GB")),
    Rule(_GRAPHS_END, re.compile(rf" mem usage=(?P<cuda_graphs>{AMOUNT}) GB")),
    Rule("CUDA graph end.", re.compile(rf" mem usage=(?P<cuda_graphs>{AMOUNT}) GB")),
)

_SCHEDULER = (
    Rule(_TOTALS, re.compile(rf"max_total_num_tokens=(?P<max_total_num_tokens>{COUNT}), (?:chunked|max)_prefill")),
    Rule(_TOTALS, re.compile(rf"chunked_prefill_size=(?P<resolved_max_num_batched_tokens>{COUNT}), max_prefill")),
    Rule(_TOTALS, re.compile(rf"max_running_requests=(?P<resolved_max_num_seqs>{COUNT}), context_len")),
    Rule(_TOTALS, re.compile(rf"context_len=(?P<resolved_max_model_len>{COUNT})(?!\d)")),
    Rule(_TOTALS, re.compile(rf"available_gpu_mem=(?P<free_when_ready>{AMOUNT}) GB")),
    Rule("SGLang version", re.compile(r"SGLang version:? v?(?P<version>[0-9][\w.+-]{1,80})")),
)

_FAILURES = (
    Rule(
        "Not enough memory. Please try to increase --mem-fraction-static",
        re.compile(
            r"increase --mem-fraction-static"
            r"(?:\. Current value: mem_fraction_static=(?P<memory_fraction>[0-9]\.[0-9]{1,20})(?!\d))?"
        ),
        fails="no_kv_cache_memory",
    ),
)

_ARGUMENTS = {
    "model": ("model_path",),
    "dtype": ("dtype",),
    "quantization": ("quantization",),
    "kv_cache_dtype": ("kv_cache_dtype",),
    "max_model_len": ("context_length",),
    "tensor_parallel": ("tp_size",),
    "pipeline_parallel": ("pp_size",),
    "data_parallel": ("dp_size",),
    "decode_context_parallel": ("dcp_size",),
    "memory_fraction": ("mem_fraction_static",),
    "max_num_seqs": ("max_running_requests",),
    "max_num_batched_tokens": ("chunked_prefill_size",),
    "block_size": ("page_size",),
    "expert_parallel": ("ep_size",),
    "enable_lora": ("enable_lora", "lora_paths"),
    "max_loras": ("max_loras_per_batch",),
    "max_lora_rank": ("max_lora_rank",),
    "cpu_offload_gb": ("cpu_offload_gb",),
    "kv_cache_limit": ("max_total_tokens",),
    "speculative": ("speculative_algorithm",),
    "enforce_eager": ("disable_cuda_graph",),
    "enable_prefix_caching": ("not disable_radix_cache",),
    "load_format": ("load_format",),
    "hf_overrides": ("json_model_override_args",),
    "redundant_experts": ("enable_eplb",),
}

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    markers=(Marker("server_args=ServerArgs("), Marker("server_args={")),
    ready=("The server is fired up and ready to roll",),
    rules=(*_MEMORY, *_SCHEDULER, *_FAILURES, *OUT_OF_MEMORY),
    arguments=(ArgumentsLine("server_args=", "asked", _ARGUMENTS),),
    expected=(
        Expected("server arguments", ("asked.model",)),
        Expected("free memory before the weights", ("free_before_weights",)),
        Expected("free memory after the weights", ("free_after_weights",)),
        Expected("KV cache size", ("key_cache", "kv_cache")),
        Expected("free memory after the memory pool", ("free_after_pools",)),
        Expected("CUDA graphs", ("cuda_graphs",), unless_eager=True),
        Expected("max_total_num_tokens", ("max_total_num_tokens",)),
        Expected("end of the start-up", ("ready",)),
    ),
    signs=("Load weight end", "KV Cache is allocated", "max_total_num_tokens="),
)
