"""The metrics that are read, newest name first. Python's client may write their colon as an underscore."""

PROMPT = ("vllm:request_prompt_tokens", "sglang:prompt_tokens_histogram", "sglang:request_prompt_tokens")
OUTPUT = ("vllm:request_generation_tokens", "sglang:generation_tokens_histogram", "sglang:request_generation_tokens")

RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs", "sglang:num_requests_running")
USED_SHARE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
"""The share of the cache that requests hold, 0 to 1 whatever the name says."""
USED_TOKENS = ("sglang:num_used_tokens",)
CAPACITY_TOKENS = ("sglang:max_total_num_tokens",)
CAPACITY_INFO = ("vllm:cache_config_info",)
"""Always 1: what it says stands in its labels."""

PREFIX_QUERIES = (
    "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_queries_total",
    "sglang:prompt_tokens_total",
)
PREFIX_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total")

SUFFIXES = ("_bucket", "_sum", "_count")

ALL = frozenset(
    (
        *(family + suffix for family in PROMPT + OUTPUT for suffix in SUFFIXES),
        *RUNNING,
        *USED_SHARE,
        *USED_TOKENS,
        *CAPACITY_TOKENS,
        *CAPACITY_INFO,
        *PREFIX_QUERIES,
        *PREFIX_HITS,
    )
)
"""Every name of a sample that means something here. What else a text holds isn't looked at."""
