"""The reader of what engines measured of their requests: from histograms of prompts and outputs to marginals.

What is known, by who counts:

- vLLM, first and second engine: `vllm:request_prompt_tokens` and `vllm:request_generation_tokens`, both at the edges
  1, 2, 5, 10 ... up to its `max_model_len`; how full its cache is as `vllm:kv_cache_usage_perc` (up to 0.8
  `vllm:gpu_cache_usage_perc`).
- SGLang: `sglang:prompt_tokens_histogram` and `sglang:generation_tokens_histogram` at edges of its own, earlier
  `sglang:request_prompt_tokens` and `sglang:request_generation_tokens`; `sglang:num_used_tokens`.

They come as exposition text (0.0.4 or OpenMetrics), one scrape or two, one text a pod, or as the answers of Prometheus'
HTTP API to instant queries, classic or native histograms. `reading` is where to begin.
"""
