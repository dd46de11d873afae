"""Questions that people asked in public, each as a request, with the value that the thread or the arithmetic gives."""

from typing import Any

import httpx
import pytest

GIB = 2**30


def ask(
    client: httpx.Client,
    model: object,
    engine: str = "generic",
    gpu: str = "h100-sxm-80gb",
    draft_model: object = None,
    **levers: Any,  # noqa: ANN401 - JSON
) -> Any:  # noqa: ANN401 - JSON
    if "kv_cache_memory_bytes" in levers:
        levers = {"reserve_bytes": 0} | levers  # the size of the cache is what the engine printed: nothing else counts
    question = {"model": model, "gpu": gpu, "engine": engine, "levers": levers}
    drafting = {} if draft_model is None else {"draft_model": draft_model}
    response = client.post("/v1/estimates", json=question | drafting)
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


def test_1_the_inverse_knows_the_layers_that_keep_a_part_of_the_context(client: httpx.Client) -> None:
    # Llama 4 on eight ranks: 48 layers x 1 KV head x 256 x 2 B would be the same 24,576 B per token, but 36 of them
    # keep 8,192 tokens at most. 1,048,576 tokens: 12 x 512 B x 1,048,576 + 36 x 512 B x 8,192 = 6.14 GiB.
    levers: dict[str, Any] = {"max_model_len": 1_048_576, "tensor_parallel": 8}
    scout = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
    found = ask(client, scout, kv_cache_memory_bytes=int(9.97 * GIB), **levers)
    assert (found["fits"], found["ladder"][6]["value"]) == (True, 12 * 512 * 1_048_576 + 36 * 512 * 8192)
    # In 5 GiB: 54,613 times 16 tokens of 12 layers, less 512 blocks of 36 layers, which are three times as large.
    found = ask(client, scout, kv_cache_memory_bytes=5 * GIB, **levers)
    assert (found["fits"], found["inverse"]["max_model_len"]) == (False, (54_613 - 3 * 512) * 16)


@pytest.mark.parametrize(("spare", "window"), [(0, 79_392), (16 * 64_512 - 1, 79_392), (-1, 79_376)])
def test_5_llama_405b_in_fp8_on_eight_h100_holds_79392_tokens(client: httpx.Client, spare: int, window: int) -> None:
    # 126 layers x 1 KV head per rank x 256 x 2 B = 64,512 B per token and GPU. The thread prints 79,392 tokens and no
    # bytes: 4,962 blocks of 16, and up to a block more (4.77 GiB). That engine (0.5.3) had no null block.
    model, engine = "meta-llama/Llama-3.1-405B-Instruct-FP8", "vllm@0.6"
    levers: dict[str, Any] = {"tensor_parallel": 8, "kv_cache_memory_bytes": 4962 * 16 * 64_512 + spare}
    found = ask(client, model, engine, max_model_len=131_072, **levers)
    assert found["kv_cache"]["bytes_per_token"] == 126 * 256 * 2 == 64_512
    assert (found["fits"], found["inverse"]["max_model_len"]) == (False, window)
    assert found["kv_cache"]["printed_tokens"] == window
    # The thread's 57.752 GiB of weights per GPU, as loaded; the checkpoint's tensors are 1.8 % less.
    assert found["ladder"][2]["bytes"] == pytest.approx(57.752 * GIB, rel=0.02)
    # What it advises: that window or less, or an fp8 cache, which holds 2 x 79,392 tokens.
    assert ask(client, model, engine, max_model_len=window, **levers)["fits"]
    assert ask(client, model, engine, max_model_len=131_072, kv_cache_dtype="fp8", **levers)["fits"]


def test_20_the_size_that_an_engine_prints_is_no_capacity(client: httpx.Client) -> None:
    # The same 89.92 GiB, in two releases and at several windows: what stays is a fixed part and a slope.
    def printed(engine: str, window: int) -> tuple[int, int, int]:
        cache = ask(
            client,
            "Qwen/Qwen3.5-35B-A3B",
            engine=engine,
            gpu="h200-sxm-141gb",
            max_model_len=window,
            kv_cache_memory_bytes=int(89.92 * GIB),
            enable_prefix_caching=False,
            weight_dtype="fp8",
        )["kv_cache"]
        assert cache["blocks"] == 4464
        return cache["printed_tokens"], cache["bytes_per_token"], cache["fixed_bytes_per_user"]

    fixed_and_slope = (20_480, 30 * 2_146_304)
    # 4,464 // 4 groups x 1,056 tokens, whatever the window.
    assert printed("vllm@0.19", 8192) == printed("vllm@0.19", 262_144) == (1_178_496, *fixed_and_slope)
    # 4,464 / 11 x 8,192 and 4,464 / 13 x 10,000.
    assert printed("vllm@0.22", 8192) == (3_324_462, *fixed_and_slope)
    assert printed("vllm@0.22", 10_000) == (3_433_846, *fixed_and_slope)
    # "Bytes per token" from that line: 330 KiB at 256 tokens (1 block of attention, 3 states), 20 at 262,144 (249 + 3).
    assert printed("vllm@0.22", 256) == (4464 * 256 // 4, *fixed_and_slope)
    assert printed("vllm@0.22", 262_144) == (4464 * 262_144 // 252, *fixed_and_slope)
    sizes = [89.92 * 2**20 / printed("vllm@0.22", window)[0] for window in (256, 262_144)]
    assert [round(kib) for kib in sizes] == [330, 20]


def test_20_one_card_prints_260006_tokens_at_8k_and_1077542_at_262k(client: httpx.Client) -> None:
    # Qwen3.8-Flash-Next on one GB10, in blocks of 1,600 tokens. 260,006 is 730 x 8,192 / 23 and 1,077,542 is
    # 744 x 262,144 / 181, cut: no other counts up to 2,000 blocks give both with 158 = 164 - 6 blocks between them. So
    # index keys lie in the blocks of keys and values (blocks of their own would be 1 and 6 more), and 17 are fixed. Two
    # tokens are drafted: the page of 1,600 tokens then is the shortest, in steps of 16, that holds a state.
    def blocks(window: int) -> dict[str, int]:
        answer = ask(
            client,
            "Qwen/Qwen3.8-Flash-Next",
            engine="vllm@0.32",
            gpu="gb10",
            weight_dtype="nvfp4",
            max_model_len=window,
            block_size=1600,
            kv_cache_memory_bytes=28 * GIB,
        )
        assert answer["kv_cache"]["block_size"] == 1600
        # 12 layers x 1,600 tokens x (2 heads x 512 x 2 B, and a key of 256 B for 4 tokens).
        assert answer["kv_cache"]["block_bytes"] == 12 * 1600 * (2048 + 64)
        groups = answer["kv_cache"]["groups"]
        return {f"{number} {' '.join(one['kinds'])}": one["blocks_per_window"] for number, one in enumerate(groups)}

    # Two copies of four groups of states with prefix caching, and a ring.
    fixed = {
        **{f"{number} gated_delta_net": 2 for number in range(3)},
        "3 short_conv": 2, "5 ring": 1,
    }  # fmt: skip
    assert blocks(8192) == fixed | {"4 full index_keys": 6}
    assert blocks(262_144) == fixed | {"4 full index_keys": 164}
    # What drafts of this model keep isn't published, and a question that drafts is refused. A state for each of the two
    # tokens, in each group:
    short, long = (sum(blocks(window).values()) + 4 * 2 for window in (8192, 262_144))
    state = 48 * 128 * 128 * 4 + (3 + 2) * 10_240 * 2
    assert 16 * -(-state // (16 * 2048)) == 1600
    assert (short, long) == (23, 181)
    assert (730 * 8192 // short, 744 * 262_144 // long) == (260_006, 1_077_542)


def test_21_ten_times_the_tokens_after_an_upgrade_are_the_same_bytes(client: httpx.Client) -> None:
    # Gemma 4 31B with 4-bit weights on an A100 of 80 GB: about 55k tokens in 0.20.0, about 525k in 0.21.0, both in
    # "~50 GB". Engines print GiB: 50 GiB are 20,480 blocks of 10 x 262,144 B, 50 x 10^9 B would be 19,073.
    def cache(engine: str, size: int, window: int = 262_144) -> Any:  # noqa: ANN401 - JSON
        levers = {"max_model_len": window, "kv_cache_memory_bytes": size, "weight_dtype": "int4"}
        return ask(client, "google/gemma-4-31B-it", engine=engine, gpu="a100-sxm-80gb", **levers)["kv_cache"]

    before, after = cache("vllm@0.20", 50 * GIB), cache("vllm@0.21", 50 * GIB)
    assert before["blocks"] == after["blocks"] == 20_480
    # 20,480 // 6 groups x 16 tokens is the thread's 55k. 19,073 blocks would print 50,848: so it means GiB.
    assert (before["printed_tokens"], cache("vllm@0.20", 50 * 10**9)["printed_tokens"]) == (54_608, 50_848)
    # 0.21 prints concurrency x window: 20,480 / (8,192 + 5 x 321) x 262,144, as an A100 keeps two batches of 2,048 in
    # flight: (1,023 + 4,096) / 16 rounded up is 320, and one more.
    assert after["printed_tokens"] == 20_480 * 262_144 // (8192 + 5 * 321) == 547_995
    # The thread doesn't say its window, and this line moves with it: 4.4 % less is a window of 204,000 or so.
    # At 200,000: 20,480 / (6,250 + 5 x 321) x 200,000.
    assert cache("vllm@0.21", 50 * GIB, 200_000)["printed_tokens"] == 20_480 * 200_000 // (6250 + 5 * 321) == 521_451
    assert cache("vllm@0.21", 50 * GIB, 205_000)["printed_tokens"] == 20_480 * 205_000 // (6407 + 5 * 321) == 524_013
    # Nothing was gained: the same bytes hold as many users as before.
    assert before["max_concurrency"] == after["max_concurrency"] == 2.09044


def test_22_a_cache_is_per_card_and_latents_are_copied_to_every_card(client: httpx.Client) -> None:
    # Kimi-Linear in 4 bits on two RTX 3090: 7 latent layers x 576 x 2 B on each card, and half of each state.
    def found(ranks: int, gib: float, gpu: str = "h200-sxm-141gb") -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            engine="vllm@0.11",
            gpu=gpu,
            max_model_len=120_000,
            tensor_parallel=ranks,
            max_num_batched_tokens=64_000,
            weight_dtype="int4",
            kv_cache_memory_bytes=int(gib * GIB),
        )

    one, two = found(1, 2.30)["kv_cache"], found(2, 2.30)["kv_cache"]
    assert one["bytes_per_token"] == two["bytes_per_token"] == 7 * 1152
    # 20 states of 12,288 channels x 3 x 2 B + 32 x 128 x 128 x 4 B.
    assert (one["fixed_bytes_per_user"], two["fixed_bytes_per_user"]) == (20 * 2_170_880, 20 * 1_085_440)
    # That log of 0.11 prints 75,840 tokens and 2.48x in its 2.30 GiB: blocks of 15 x 64 tokens, the least that hold
    # 1,085,440 B of a state; a quarter of 318 of them, or of 319; 318 over 125 + 3. 2.30 GiB are 318.3 to 319.7 blocks.
    logged = found(2, 2.296, "rtx-3090")
    assert "per GPU" in logged["summary"]
    cache = logged["kv_cache"]
    assert (cache["block_size"], cache["blocks"], two["blocks"]) == (960, 318, 319)
    assert cache["printed_tokens"] == two["printed_tokens"] == 75_840
    assert f"{cache['max_concurrency']:.2f}" == "2.48"
    assert any(caveat["code"] == "cache_is_copied" for caveat in logged["caveats"])


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
    assert round(35 / 19, 2) == 1.84
    assert (blocks(hybrid, "bf16", 1000), blocks(hybrid, "fp8", 1000)) == (4, 4)
    plain = [
        ask(client, "Qwen/Qwen3-8B", max_model_len=32_768, kv_cache_dtype=dtype)["kv_cache"]["bytes_per_token"]
        for dtype in ("bf16", "fp8")
    ]
    assert plain == [147_456, 73_728]


def test_23_a_gain_of_1_19_from_fp8_compares_two_different_pools(client: httpx.Client) -> None:
    # Qwen3.8-27B on one RTX 5090 (0.26): 91,022 tokens in fp8 against 76,458 in bf16, and 135,926 in fp8 without the
    # vision tower (item 37). A window of 32,768 is 42 blocks of 784 tokens in bf16 or 21 of 1,568 in fp8, and three
    # groups of two states each. So 76,458 = 112 / 48 and 135,926 = 112 / 27 of a window: the same 112 blocks; 91,022 is
    # 75 / 27, in the pool beside a vision tower. The thread prints no bytes: a block is 16 layers x 784 x 4,096 B.
    def printed(dtype: str, blocks: int) -> int:
        cache = ask(
            client,
            "Qwen/Qwen3.8-27B",
            engine="vllm@0.26",
            gpu="rtx-5090",
            max_model_len=32_768,
            kv_cache_dtype=dtype,
            weight_dtype="nvfp4",
            kv_cache_memory_bytes=blocks * 16 * 784 * 4096,
        )["kv_cache"]
        assert (cache["blocks"], cache["fixed_bytes_per_user"]) == (blocks, 2 * 48 * 3_207_168)
        return int(cache["printed_tokens"])

    assert (printed("bf16", 112), printed("fp8", 75), printed("fp8", 112)) == (76_458, 91_022, 135_926)
    assert (round(91_022 / 76_458, 2), round(135_926 / 76_458, 2)) == (1.19, 1.78)


def test_24_a_request_takes_a_block_of_every_group_before_its_prompt(client: httpx.Client) -> None:
    # GLM-5.3-Flash: 11 latent layers with index keys and rings, 34 states in groups of 11: whatever the length.
    def found(dtype: str) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "zai-org/GLM-5.3-Flash",
            engine="vllm@0.32",
            gpu="b200-sxm",
            tensor_parallel=2,
            kv_cache_dtype=dtype,
            max_model_len=16,
            kv_cache_memory_bytes=20 * GIB,
        )

    plain = found("bf16")
    cache = plain["kv_cache"]
    assert [(group["kinds"], group["blocks_per_window"]) for group in cache["groups"]] == [
        *[(["kda"], 2)] * 4, (["latent"], 1), (["index_keys"], 1), (["ring"], 1),
    ]  # fmt: skip
    # A state on one rank: 12,288 channels x 3 x 2 B + 32 x 128 x 128 x 4 B = 2,170,880 B; over 1,024 B, in 128s: 2,176.
    state, rest = divmod(cache["groups"][0]["used_bytes_per_block"], cache["groups"][0]["layers"])
    assert (state, rest) == (2_170_880, 0)
    assert cache["block_size"] == 128 * -(-state // (128 * 1024)) == 2176
    assert plain["users"]["worst_case"] == (20 * GIB // (11 * 2176 * 1024) - 1) // 11
    # In fp8 a block holds twice as many tokens, and a request takes as many blocks.
    assert found("fp8")["kv_cache"]["block_size"] == 128 * -(-state // (128 * 512)) == 4352
    # The thread's 7,808 tokens follow by the same rule from a record that isn't planned here, nor stated there: two
    # ranks that share tokens (DCP 2), and 528 B with 33 B of index keys per token, as the kernels of a fork keep them.
    assert 128 * -(-2 * state // (128 * 561)) == 7808


def test_24_at_1_36x_three_small_requests_fit_and_four_never_do(client: httpx.Client) -> None:
    # Two DGX Spark print 356,667 tokens and 1.36x at 262,144: 283 blocks over 208, which are 74 of 3,584 tokens, 4 x 9
    # states (7 drafted), a ring, and 97 of the draft's windows. A request of 2,400 tokens holds 25.5 % of them, 72:
    # 90,742 of the printed tokens, and four would take 288 blocks. Their record and their draft are their own: here
    # with fp8 latents, and a draft of five windows.
    draft = llama(5, 8, 1_048_576) | {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": 2048,
        "vocab_size": 154_880,
    }

    def found(window: int) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "zai-org/GLM-5.3-Flash",
            engine="vllm@0.33",
            gpu="b200-sxm",
            draft_model={"config": draft},
            speculative_tokens=7,
            tensor_parallel=2,
            kv_cache_dtype="fp8",
            weight_dtype="nvfp4",
            max_num_batched_tokens=2048,
            max_num_seqs=4,
            max_model_len=window,
            # 137 blocks of 11 layers x (4,608 x 512 B + 1,152 x 132 B).
            kv_cache_memory_bytes=137 * 11 * (4608 * 512 + 1152 * 132),
        )

    large, small = found(262_144), found(2400)
    # 262,144 / 4,608 is 57 blocks, each of four groups of states 1 + 7 + 1 + 1, a ring, 1 + (2,047 + 4,096) / 4,608.
    assert sum(group["blocks_per_window"] for group in large["kv_cache"]["groups"]) == 57 + 4 * 10 + 1 + 3 == 101
    assert f"{large['kv_cache']['max_concurrency']:.2f}" == f"{137 / 101:.2f}" == "1.36"
    assert large["users"]["worst_case"] == 1
    # 1 + 40 + 1 + 2 blocks before the prompt is any length to speak of: 32 % of the pool.
    assert sum(group["blocks_per_window"] for group in small["kv_cache"]["groups"]) == 44
    assert 3 * 44 <= 136 < 4 * 44
    assert (small["users"]["worst_case"], small["users"]["admitted"], small["binding"]) == (3, 3, "kv_cache")


def test_25_tensor_parallel_does_not_help_latents_and_copies_or_shared_tokens_do(client: httpx.Client) -> None:
    def kimi(gib: float = 46.80, **levers: Any) -> Any:  # noqa: ANN401 - JSON
        # 61 x 1,152 B per token: the 46.80 GiB that the engine (0.11) printed on 8 H200 are 11,173 blocks of 64.
        return ask(
            client,
            "moonshotai/Kimi-K2-Thinking",
            engine="vllm@0.11",
            gpu="h200-sxm-141gb",
            max_model_len=131_072,
            kv_cache_memory_bytes=int(gib * GIB),
            weight_dtype="int4_g32",
            **levers,
        )

    tp8, dcp8 = kimi(tensor_parallel=8), kimi(tensor_parallel=8, decode_context_parallel=8)
    assert tp8["kv_cache"]["bytes_per_token"] == 61 * 1152 == 70_272
    assert (tp8["kv_cache"]["printed_tokens"], tp8["kv_cache"]["blocks"]) == (715_072, 11_173)
    # Eight times the tokens. The thread's 5,721,088 are one block of 8 x 64 more, which 46.80 GiB rounded can hold.
    assert dcp8["kv_cache"]["printed_tokens"] == 8 * 715_072
    more = kimi(46.8049, tensor_parallel=8, decode_context_parallel=8)
    assert more["kv_cache"]["printed_tokens"] == 8 * 64 * 11_174 == 5_721_088
    assert (tp8["users"]["worst_case"], dcp8["users"]["worst_case"]) == (5, 43)
    (copied,) = [caveat["text"] for caveat in tp8["caveats"] if caveat["code"] == "cache_is_copied"]
    assert "lies on 8 of 8 ranks, so tensor parallel buys no more room" in copied
    assert "decode_context_parallel 8 shares" in copied
    assert "data_parallel 8 with tensor_parallel 1 keeps 8 caches" in copied


@pytest.mark.parametrize("reserve", [0, 10])
def test_25_eight_copies_of_attention_hold_7_7_times_the_cache_of_tp_8(client: httpx.Client, reserve: int) -> None:
    # DeepSeek-V4-Flash on 8 B200 at 0.95: 20.43x with TP 8, 156.9x over 8 engines with DP 8: 7.68 times. Not 8, as each
    # GPU then keeps all of what isn't an expert; whatever the engine keeps back (not stated) hardly changes that.
    def found(**levers: int) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "deepseek-ai/DeepSeek-V4-Flash-0731",
            engine="vllm@0.25",
            gpu="b200-sxm",
            max_model_len=1_048_576,
            kv_cache_dtype="fp8",
            block_size=256,
            max_num_batched_tokens=8192,
            gpu_memory_utilization=0.95,
            expert_parallel=True,
            reserve_bytes=reserve * GIB,
            **levers,
        )

    tp8, dp8 = found(tensor_parallel=8), found(tensor_parallel=1, data_parallel=8)
    assert (tp8["pools"], dp8["pools"]) == (1, 8)
    # Seven eighths of 2 x 529,530,880 parameters of embeddings and head in 16 bits and of 5,410,652,160 in fp8, with a
    # scale of 4 bytes for each block of 128 x 128.
    in_fp8 = 5_410_652_160 + 4 * 5_410_652_160 // 128**2
    more = 7 * (4 * 529_530_880 + in_fp8) // 8
    assert dp8["ladder"][2]["bytes"] - tp8["ladder"][2]["bytes"] == pytest.approx(1.003 * more, rel=1e-9)
    times = 8 * dp8["kv_cache"]["max_concurrency"] / tp8["kv_cache"]["max_concurrency"]
    assert times == pytest.approx(156.9 / 20.43, abs=0.04)


def test_26_an_engine_without_kernels_for_latents_keeps_all_heads(client: httpx.Client) -> None:
    def found(engine: str) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "deepseek-ai/DeepSeek-V2-Lite",
            engine=engine,
            max_model_len=8192,
            kv_cache_memory_bytes=int(35.42 * GIB),
        )

    # 27 x 16 heads x (256 + 256) x 2 B, and 27 x 576 x 2 B. The log of the first: 35.42 GiB, 5,373 blocks, 10.49x.
    old, new = found("vllm@0.6"), found("vllm@0.19")
    assert (old["kv_cache"]["bytes_per_token"], new["kv_cache"]["bytes_per_token"]) == (442_368, 31_104)
    assert (old["kv_cache"]["blocks"], f"{old['kv_cache']['max_concurrency']:.2f}") == (5373, "10.49")
    assert "16 heads x (256 + 256) x 2 B, as this engine has no kernels for latents" in old["ladder"][5]["formula"]
    # Whether an engine has kernels for a model on a card is no table of ours, and the answer says so. (The 4,928 tokens
    # of GLM-4.7-Flash on a V100 that item 26 names are of an engine that isn't planned here.)
    assert all("engine_support_is_not_checked" in {one["code"] for one in answer["caveats"]} for answer in (old, new))


def test_27_padding_layers_are_named_and_concurrency_is_not_tokens_over_length(client: httpx.Client) -> None:
    # Two public logs of Gemma 3 27B: 35.31 GiB print 66,112 tokens and 109.86 GiB 205,696, both "Add 8 padding layers,
    # may waste at most 15.38%". 52 windows in six groups of ten: eight places are empty, and 8 / 52 is 15.38 %.
    def gemma(gib: float, window: int = 8192) -> Any:  # noqa: ANN401 - JSON
        levers = {"max_model_len": window, "kv_cache_memory_bytes": int(gib * GIB)}
        return ask(client, "google/gemma-3-27b-it", engine="vllm@0.11", gpu="b200-sxm", **levers)

    found = gemma(35.31)
    cache = found["kv_cache"]
    assert (cache["printed_tokens"], gemma(109.86)["kv_cache"]["printed_tokens"]) == (66_112, 205_696)
    windows = [group["layers"] for group in cache["groups"] if group["kinds"] == ["sliding_window"]]
    empty = len(windows) * 10 - sum(windows)
    assert (sum(windows), empty, f"{empty / sum(windows):.2%}") == (52, 8, "15.38%")
    # Each place is a page of 16 tokens x 16 heads x 256 x 2 B, in each of the 513 blocks of a window.
    assert cache["padding_bytes_per_window"] == 8 * 131_072 * 513
    assert "537,919,488 B of it padding" in found["ladder"][6]["formula"]
    # Of what the windows' layers use that is the same 15.38 %; of all that a user takes it is less.
    assert cache["padding_bytes_per_window"] / (52 * 131_072 * 513) == 8 / 52
    oss = ask(
        client,
        "openai/gpt-oss-20b",
        engine="vllm@0.12",
        gpu="rtx-5090",
        max_model_len=32_768,
        # No bytes are stated. 19.71 x (2,048 + 137) is 43,066 blocks of 12 layers x 16 x 2,048 B.
        kv_cache_memory_bytes=43_066 * 12 * 32_768,
    )["kv_cache"]
    # 43,066 / (2,048 + 137) and 43,066 // 2 x 16: the second over 32,768 is 10.5.
    assert (oss["max_concurrency"], oss["printed_tokens"]) == (19.7098, 344_528)
    assert f"{oss['printed_tokens'] / 32_768:.1f}" == "10.5"


def test_39_memory_of_several_cards_is_not_pooled(client: httpx.Client) -> None:
    # DeepSeek-R1-Distill-Qwen-14B on two RTX 4090 at 0.98: 81,536 tokens, each card with its own half of the heads.
    def found(gib: float) -> Any:  # noqa: ANN401 - JSON
        return ask(
            client,
            "Qwen/Qwen2.5-14B",
            engine="vllm@0.7",
            gpu="rtx-4090",
            tensor_parallel=2,
            gpu_memory_utilization=0.98,
            max_model_len=131_072,
            kv_cache_memory_bytes=int(gib * GIB),
        )

    # The thread's own line: 23.08 - 13.95 weights - 0.25 - 0.19 activations = 8.69 GiB, which would be 94,912 tokens.
    line = found(8.69)
    assert line["kv_cache"]["bytes_per_token"] == 48 * 4 * 256 * 2 == 98_304
    assert (line["kv_cache"]["blocks"], line["inverse"]["max_model_len"]) == (5932, 5932 * 16)
    # 81,536 tokens are 7.465 GiB, 1.23 less. That line fits a card without the sampler, whose dry run of
    # 256 rows x 152,064 words takes 38.9 B each, 1.41 GiB, on the first card alone: 8.69 + 0.19 - 1.41 = 7.47, and the
    # card that holds fewest decides. The rest is rounding of the printed parts.
    sampler = 38.9 * 256 * 152_064 / GIB
    assert round(8.69 + 0.19 - sampler, 2) == 7.47
    assert found(7.465)["inverse"]["max_model_len"] == 81_536
    assert found(8.69 + 0.19 - sampler)["inverse"]["max_model_len"] == pytest.approx(81_536, rel=0.002)
    # What was expected was 23.08 x 2 - 13.95 - 0.44 = 31.77 GiB: the weights above are half of the model, on each card.
    assert line["gpus"] == 2
    assert line["ladder"][2]["bytes"] == pytest.approx(13.9476 * GIB, rel=0.02)
    assert "/ 2 ranks" in line["ladder"][2]["formula"]
    assert line["summary"].endswith("more than the 8.69 GiB of KV cache per GPU at 96 KiB per token.")


def test_39_two_cards_of_16_gb_print_the_blocks_of_one(client: httpx.Client) -> None:
    # deepseek-coder-6.7b-instruct on two T4 prints 507 blocks and refuses its own 16,384 tokens: each card keeps half
    # of the heads of all 507, and they are 8,112 tokens on both cards together.
    coder = llama(32, 32, 16_384) | {
        "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11_008, "vocab_size": 32_256,
    }  # fmt: skip
    found = ask(
        client,
        {"config": coder},
        engine="vllm@0.6",
        gpu="t4",
        tensor_parallel=2,
        max_model_len=16_384,
        # 16 tokens x 32 layers x 16 heads x (128 + 128) x 2 B = 4 MiB: what is left of a T4 beside 6.3 GiB of weights.
        kv_cache_memory_bytes=507 * 4 * 2**20,
    )
    assert (found["kv_cache"]["bytes_per_token"], found["kv_cache"]["blocks"], found["fits"]) == (262_144, 507, False)
    assert found["inverse"]["max_model_len"] == 507 * 16 == 8112


def test_40_a_stage_needs_the_cache_of_its_own_layers(client: httpx.Client) -> None:
    # 48 layers, 98,304 B per token in all: 24.0 GiB at 262,144 tokens; the stage with 32 layers needs two thirds.
    def found(gib: float, *layers: int) -> Any:  # noqa: ANN401 - JSON
        stages = {"pipeline_parallel": len(layers), "pipeline_layers": list(layers)} if layers else {}
        levers: dict[str, Any] = {"max_model_len": 262_144, "kv_cache_memory_bytes": int(gib * GIB), **stages}
        return ask(client, {"config": llama(48, 4, 262_144)}, **levers)

    whole = found(3.18)
    assert (whole["kv_cache"]["bytes_per_token"], whole["ladder"][6]["shown"]) == (98_304, "24.00 GiB")
    # The thread's estimate, 34,736, is one stage's 3.18 GiB (3.1802) over all 48 layers.
    assert (whole["inverse"]["max_model_len"], found(3.1805)["inverse"]["max_model_len"]) == (34_720, 34_736)
    split = found(3.18, 16, 32)
    assert (split["kv_cache"]["bytes_per_token"], split["ladder"][6]["shown"]) == (65_536, "16.00 GiB")
    assert split["ladder"][5]["formula"].startswith("stage 2 of 2, the tightest: 32 layers x ")
    # 3.18 GiB // (16 x 65,536 B) = 3,256 blocks of 16.
    assert split["inverse"]["max_model_len"] == 52_096
    # Its 3.18 GiB were those of the 16 layers on the smaller card: 6,512 blocks, three times the estimate. Cards of two
    # kinds aren't planned in one question; three stages of 16 layers are each like that one.
    thirds = found(3.18, 16, 16, 16)
    assert (thirds["kv_cache"]["bytes_per_token"], thirds["inverse"]["max_model_len"]) == (32_768, 104_192)


@pytest.mark.parametrize("ranks", [3, 5, 6])
def test_41_six_cards_and_four_kv_heads_list_the_sizes_that_work(client: httpx.Client, ranks: int) -> None:
    question = {"model": "Qwen/Qwen3.6-27B", "gpu": "rtx-3090", "levers": {"tensor_parallel": ranks}}
    response = client.post("/v1/estimates", json=question)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error == {
        "pointer": "#/levers/tensor_parallel",
        "detail": (f"24 query heads and 4 KV heads can't be split over {ranks} GPUs; legal sizes: 1, 2, 4, 8"),
    }


def test_41_four_of_the_six_cards_are_taken(client: httpx.Client) -> None:
    levers: dict[str, Any] = {"tensor_parallel": 4, "weight_dtype": "fp8", "max_model_len": 8192}
    found = ask(client, "Qwen/Qwen3.6-27B", gpu="rtx-3090", **levers)
    assert (found["fits"], found["gpus"]) == (True, 4)
