"""Questions that people asked in public, each as a request, with the value that the thread or the arithmetic gives."""

from typing import Any

import httpx
import pytest

GIB = 2**30


def ask(client: httpx.Client, model: object, engine: str = "generic", gpu: str = "h100-sxm-80gb", **levers: Any) -> Any:  # noqa: ANN401 - JSON
    question = {"model": model, "gpu": gpu, "engine": engine, "levers": levers}
    response = client.post("/v1/estimates", json=question)
    assert response.status_code == 200, response.text
    return response.json()


def llama(layers: int, kv_heads: int, context: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
        "intermediate_size": 8192,
        "vocab_size": 32000,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def test_1_the_largest_window_that_fits_comes_before_the_gpu_is_rented(client: httpx.Client) -> None:
    # 24,576 B per token: 1,048,576 tokens need 24.00 GiB, and 9.97 are there. 27,224 blocks of 16 x 24,576 B.
    model = {"config": llama(24, 2, 1_048_576)}
    found = ask(client, model, kv_cache_memory_bytes=int(9.97 * GIB))
    assert found["ladder"][6]["shown"] == "24.00 GiB"
    assert (found["fits"], found["inverse"]["max_model_len"]) == (False, 27_224 * 16)
    # An engine that keeps a null block has one fewer.
    in_vllm = ask(client, model, engine="vllm@0.33", kv_cache_memory_bytes=int(9.97 * GIB))
    assert in_vllm["inverse"]["max_model_len"] == 27_223 * 16


def test_5_llama_405b_in_fp8_on_eight_h100_holds_79392_tokens(client: httpx.Client) -> None:
    # 126 layers x 1 KV head per rank x 256 x 2 B = 64,512 B per token and GPU; the engine had 4,962 blocks of them.
    levers: dict[str, Any] = {"tensor_parallel": 8, "kv_cache_memory_bytes": 4962 * 16 * 64_512}
    found = ask(client, "meta-llama/Llama-3.1-405B-Instruct-FP8", max_model_len=131_072, **levers)
    assert found["kv_cache"]["bytes_per_token"] == 64_512
    assert (found["fits"], found["inverse"]["max_model_len"]) == (False, 79_392)


def test_20_the_size_that_an_engine_prints_is_no_capacity(client: httpx.Client) -> None:
    # The same bytes, in two releases and at two windows: what stays is a fixed part and a slope.
    def printed(engine: str, window: int) -> tuple[int, int, int]:
        cache = ask(
            client,
            "Qwen/Qwen3.5-35B-A3B",
            engine=engine,
            gpu="h200-sxm-141gb",
            max_model_len=window,
            kv_cache_memory_bytes=4464 * 21_626_880,
            enable_prefix_caching=False,
            weight_dtype="fp8",
        )["kv_cache"]
        return cache["printed_tokens"], cache["bytes_per_token"], cache["fixed_bytes_per_user"]

    fixed_and_slope = (20_480, 30 * 2_146_304)
    assert printed("vllm@0.19", 8192) == (1_178_496, *fixed_and_slope)
    # 4,464 / 11 x 8,192 and 4,464 / 13 x 10,000.
    assert printed("vllm@0.22", 8192) == (3_324_462, *fixed_and_slope)
    assert printed("vllm@0.22", 10_000) == (3_433_846, *fixed_and_slope)


def test_21_ten_times_the_tokens_after_an_upgrade_are_the_same_bytes(client: httpx.Client) -> None:
    # Gemma 4 31B on an A100: about 55k tokens in 0.20, 525k in 0.21. 50 GiB are 20,480 blocks of 10 x 262,144 B.
    def cache(engine: str) -> Any:  # noqa: ANN401 - JSON
        levers = {"max_model_len": 262_144, "kv_cache_memory_bytes": 50 * GIB, "reserve_bytes": 0}
        return ask(
            client, "google/gemma-4-31B-it", engine=engine, gpu="b200-sxm", max_num_batched_tokens=2048, **levers
        )["kv_cache"]

    before, after = cache("vllm@0.20"), cache("vllm@0.21")
    assert before["blocks"] == after["blocks"] == 20_480
    # 20,480 // 6 groups x 16 tokens, and 20,480 / (8,192 + 5 x 321) x 262,144.
    assert (before["printed_tokens"], after["printed_tokens"]) == (54_608, 547_995)
    assert before["max_concurrency"] == after["max_concurrency"]


def test_22_a_cache_is_per_card_and_latents_are_copied_to_every_card(client: httpx.Client) -> None:
    # Kimi-Linear on two RTX 3090: 7 latent layers x 576 x 2 B on each card, and half of each state.
    def cache(ranks: int) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            gpu="h200-sxm-141gb",
            max_model_len=65_536,
            tensor_parallel=ranks,
            kv_cache_memory_bytes=int(2.30 * GIB),
        )["kv_cache"]

    assert cache(1)["bytes_per_token"] == cache(2)["bytes_per_token"] == 7 * 1152
    # 20 states of 12,288 channels x 3 x 2 B + 32 x 128 x 128 x 4 B.
    assert cache(1)["fixed_bytes_per_user"] == 20 * 2_170_880
    assert cache(2)["fixed_bytes_per_user"] == 20 * 1_085_440


def test_23_fp8_halves_attention_and_hardly_helps_a_hybrid_at_short_context(client: httpx.Client) -> None:
    def blocks(model: str, dtype: str, window: int) -> int:
        levers = {"kv_cache_memory_bytes": 40 * GIB, "enable_prefix_caching": False}
        cache = ask(
            client,
            model,
            engine="vllm@0.19",
            gpu="h200-sxm-141gb",
            max_model_len=window,
            kv_cache_dtype=dtype,
            **levers,
        )
        return sum(group["blocks_per_window"] for group in cache["kv_cache"]["groups"])

    hybrid = "Qwen/Qwen3.6-35B-A3B"
    # Blocks of 1,056 tokens in bf16 and of 2,096 in fp8, and three states: 35 / 19 = 1.84.
    assert (blocks(hybrid, "bf16", 32_768), blocks(hybrid, "fp8", 32_768)) == (35, 19)
    assert (blocks(hybrid, "bf16", 1000), blocks(hybrid, "fp8", 1000)) == (4, 4)
    plain = [
        ask(client, "Qwen/Qwen3-8B", max_model_len=32_768, kv_cache_dtype=dtype)["kv_cache"]["bytes_per_token"]
        for dtype in ("bf16", "fp8")
    ]
    assert plain == [147_456, 73_728]


def test_24_a_request_takes_a_block_of_every_group_before_its_prompt(client: httpx.Client) -> None:
    # GLM-5.3-Flash: 11 latent layers with index keys and rings, 34 states in groups of 11: whatever the length.
    found = ask(
        client,
        "zai-org/GLM-5.3-Flash",
        engine="vllm@0.32",
        gpu="b200-sxm",
        tensor_parallel=2,
        kv_cache_dtype="bf16",
        max_model_len=16,
        kv_cache_memory_bytes=20 * GIB,
    )
    cache = found["kv_cache"]
    assert [(group["kinds"], group["blocks_per_window"]) for group in cache["groups"]] == [
        *[(["kda"], 2)] * 4, (["latent"], 1), (["index_keys"], 1), (["ring"], 1),
    ]  # fmt: skip
    # A state on one rank: 12,288 channels x 3 x 2 B + 32 x 128 x 128 x 4 B = 2,170,880 B; over 1,024 B, in 128s: 2,176.
    assert cache["block_size"] == 2176
    assert found["users"]["worst_case"] == (20 * GIB // (11 * 2176 * 1024) - 1) // 11


def test_25_tensor_parallel_does_not_help_latents_and_copies_or_shared_tokens_do(client: httpx.Client) -> None:
    def kimi(**levers: Any) -> Any:  # noqa: ANN401 - JSON
        # 61 x 1,152 B x 16 tokens: 44,692 blocks are the 715,072 tokens that the engine printed on 8 H200.
        size = 44_692 * 16 * 70_272
        return ask(
            client,
            "moonshotai/Kimi-K2-Thinking",
            engine="vllm@0.19",
            gpu="h200-sxm-141gb",
            max_model_len=131_072,
            kv_cache_memory_bytes=size,
            weight_dtype="int4_g32",
            **levers,
        )

    tp8, dcp8 = kimi(tensor_parallel=8), kimi(tensor_parallel=8, decode_context_parallel=8)
    assert tp8["kv_cache"]["bytes_per_token"] == 70_272
    assert (tp8["kv_cache"]["printed_tokens"], dcp8["kv_cache"]["printed_tokens"]) == (715_072, 8 * 715_072)
    assert (tp8["users"]["worst_case"], dcp8["users"]["worst_case"]) == (5, 43)
    # Eight copies hold eight times what one does; each then carries all weights, experts apart.
    dp8 = kimi(data_parallel=8, tensor_parallel=1, expert_parallel=True)
    assert (dp8["pools"], dp8["users"]["worst_case"]) == (8, 8 * 5)


def test_26_an_engine_without_kernels_for_latents_keeps_all_heads(client: httpx.Client) -> None:
    def per_token(engine: str) -> int:
        found = ask(
            client,
            "deepseek-ai/DeepSeek-V2-Lite",
            engine=engine,
            max_model_len=8192,
            kv_cache_memory_bytes=5373 * 16 * 442_368,
        )
        return int(found["kv_cache"]["bytes_per_token"])

    # 27 x 16 heads x (256 + 256) x 2 B, and 27 x 576 x 2 B.
    assert (per_token("vllm@0.6"), per_token("vllm@0.19")) == (442_368, 31_104)


def test_27_padding_layers_are_named_and_concurrency_is_not_tokens_over_length(client: httpx.Client) -> None:
    gemma = ask(
        client,
        "google/gemma-3-27b-it",
        engine="vllm@0.13",
        gpu="h200-sxm-141gb",
        max_model_len=8192,
        kv_cache_memory_bytes=20 * GIB,
    )["kv_cache"]
    # 52 windows in six groups of ten: eight places are empty.
    windows = [group["layers"] for group in gemma["groups"] if group["kinds"] == ["sliding_window"]]
    assert (sum(windows), len(windows) * 10 - sum(windows)) == (52, 8)
    # Each place is a page of 16 tokens x 16 heads x 256 x 2 B, in each of the 513 blocks of a window.
    assert gemma["padding_bytes_per_window"] == 8 * 131_072 * 513
    oss = ask(
        client,
        "openai/gpt-oss-20b",
        engine="vllm@0.12",
        gpu="rtx-5090",
        max_model_len=32_768,
        kv_cache_memory_bytes=43_066 * 12 * 32_768,
    )["kv_cache"]
    # 43,066 / (2,048 + 137) and 43,066 // 2 x 16: the second over 32,768 is 10.5.
    assert (oss["max_concurrency"], oss["printed_tokens"]) == (19.7098, 344_528)


def test_39_memory_of_several_cards_is_not_pooled(client: httpx.Client) -> None:
    # DeepSeek-R1-Distill-Qwen-14B on two RTX 4090: 81,536 tokens, each card with its own half of the heads.
    found = ask(
        client,
        "Qwen/Qwen2.5-14B",
        engine="vllm@0.6",
        gpu="rtx-4090",
        tensor_parallel=2,
        max_model_len=32_768,
        kv_cache_memory_bytes=5096 * 16 * 98_304,
    )
    assert found["kv_cache"]["bytes_per_token"] == 48 * 4 * 256 * 2 == 98_304
    assert found["kv_cache"]["printed_tokens"] == 81_536
    assert found["gpus"] == 2


def test_40_a_stage_needs_the_cache_of_its_own_layers(client: httpx.Client) -> None:
    # 48 layers, 98,304 B per token in all: 24.0 GiB at 262,144 tokens; the stage with 32 layers needs two thirds.
    levers: dict[str, Any] = {
        "max_model_len": 262_144,
        "pipeline_parallel": 2,
        "pipeline_layers": [16, 32],
        "kv_cache_memory_bytes": int(3.18 * GIB),
    }
    model = {"config": llama(48, 4, 262_144)}
    whole = ask(client, model, max_model_len=262_144, kv_cache_memory_bytes=int(3.18 * GIB))
    assert (whole["kv_cache"]["bytes_per_token"], whole["ladder"][6]["shown"]) == (98_304, "24.00 GiB")
    found = ask(client, model, **levers)
    assert (found["kv_cache"]["bytes_per_token"], found["ladder"][6]["shown"]) == (65_536, "16.00 GiB")
    # 3.18 GiB // (16 x 65,536 B) = 3,256 blocks of 16.
    assert found["inverse"]["max_model_len"] == 52_096


@pytest.mark.parametrize("ranks", [3, 5, 6])
def test_41_six_cards_and_four_kv_heads_list_the_sizes_that_work(client: httpx.Client, ranks: int) -> None:
    question = {"model": "Qwen/Qwen3.6-27B", "gpu": "rtx-3090", "levers": {"tensor_parallel": ranks}}
    response = client.post("/v1/estimates", json=question)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "#/levers/tensor_parallel"
    assert error["detail"].endswith("legal sizes: 1, 2, 4, 8")
