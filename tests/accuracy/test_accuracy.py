"""Given the KV bytes, plans print what engines printed: the worked logs to the last digit, all others by their shares.

The worked logs are public; the model, the deployment and the GiB line of each stand in its test.
"""

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.capacity.cache_summary import printed_tokens
from service.capacity.deployment import deploy
from service.capacity.pool import Pool
from service.readers.question import AskedLevers
from tests.accuracy.cases import Case, Given, OwnBytes, Printed, collection
from tests.accuracy.planned import question_of
from tests.accuracy.report import determined, share_close, share_within_rounding, undetermined, universe
from tests.collected import collected, entries


def pool_of(model: str, gib: str, **levers: object) -> Pool:
    """The pool of one rank of an H200 with vLLM 0.19."""
    asked = msgspec.convert(levers, AskedLevers)
    kv_bytes = int(Decimal(gib) * 2**30)
    question = question_of(model=model, gpu="h200-sxm-141gb", engine="vllm@0.19", levers=asked, kv_bytes=kv_bytes)
    return deploy(question).tightest.pool


def concurrency(pool: Pool, window: int) -> str:
    return f"{float(pool.concurrency(window)):.2f}"


def tokens(pool: Pool) -> int:
    return printed_tokens(pool, "smallest_group", 8192)


def test_qwen35_35b_raises_its_blocks_to_1056_tokens_and_prints_405_82_and_343_38() -> None:
    pool = pool_of("Qwen/Qwen3.5-35B-A3B", "89.92")
    assert [group.block for group in pool.groups] == [1056] * 4
    assert pool.block_bytes == 21_626_880
    assert pool.blocks == 4464
    assert sorted(pool.group_blocks(8192)) == [1, 1, 1, 8]
    assert pool.cost(10_000) == 10 + 3
    assert tokens(pool) == 1_178_496
    assert concurrency(pool, 8192) == "405.82"
    assert concurrency(pool, 10_000) == "343.38"


def test_qwen35_397b_at_tp_4_prints_161_and_136_23() -> None:
    pool = pool_of("Qwen/Qwen3.5-397B-A17B", "26.76", tensor_parallel=4)
    assert [group.block for group in pool.groups] == [1056] * 4
    assert pool.blocks == 1771
    assert tokens(pool) == 466_752
    assert concurrency(pool, 8192) == "161.00"
    assert concurrency(pool, 10_000) == "136.23"


def test_qwen3_coder_next_keeps_its_states_in_16_bits_and_prints_208_32() -> None:
    pool = pool_of("Qwen/Qwen3-Coder-Next", "49.29")
    assert [group.block for group in pool.groups] == [544] * 4
    assert pool.blocks == 3958
    assert pool.cost(8192) == 16 + 3
    assert tokens(pool) == 538_016
    assert concurrency(pool, 8192) == "208.32"


def test_nemotron_3_nano_in_fp8_splits_23_states_into_four_groups_and_prints_1299() -> None:
    pool = pool_of("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "93.13", kv_cache_dtype="fp8")
    assert sorted(sum(len(pages.at) for pages in group.pages) for group in pool.groups) == [5, 6, 6, 6, 6]
    assert {group.block for group in pool.groups} == {4176}
    assert pool.blocks == 7794
    assert tokens(pool) == 6_506_208
    assert concurrency(pool, 8192) == "1299.00"


def test_gemma_4_31b_keeps_8192_tokens_in_flight_in_its_windows_and_prints_10_13_and_8_93() -> None:
    pool = pool_of("google/gemma-4-31B-it", "69.75")
    assert pool.blocks == 28_569
    assert sorted(pool.group_blocks(8192)) == [256, 513, 513, 513, 513, 513]
    assert sorted(pool.group_blocks(10_000)) == [313, 577, 577, 577, 577, 577]
    assert concurrency(pool, 8192) == "10.13"
    assert concurrency(pool, 10_000) == "8.93"


def test_llama_33_70b_in_fp8_at_tp_4_counts_whole_blocks_of_a_window_and_prints_1233_65() -> None:
    pool = pool_of("meta-llama/Llama-3.3-70B-Instruct", "106.17", tensor_parallel=4, kv_cache_dtype="fp8")
    assert pool.block_bytes == 16 * 40_960
    assert pool.cost(2248) == 141
    # Rank 0's GiB line makes 173,948 blocks; another rank's 173,944 are the log's own.
    assert pool.blocks == 173_948
    logged = msgspec.structs.replace(pool, blocks=173_944)
    assert tokens(logged) == 2_783_104
    assert concurrency(logged, 2248) == "1233.65"


def test_deepseek_r1_keeps_70_272_bytes_per_token_on_every_one_of_8_ranks() -> None:
    pool = pool_of("deepseek-ai/DeepSeek-R1", "42.19", tensor_parallel=8)
    assert pool.block_bytes // pool.groups[0].block == 70_272


def test_deepseek_v32_at_tp_8_adds_its_index_keys_to_the_same_blocks_and_prints_57_56_and_70_60() -> None:
    pool = pool_of("deepseek-ai/DeepSeek-V3.2", "42.19", tensor_parallel=8)
    assert pool.block_bytes == 78_324 * 64
    assert pool.blocks == 9037
    assert (pool.cost(10_000), pool.cost(8192)) == (157, 128)
    assert tokens(pool) == 578_368
    assert concurrency(pool, 10_000) == "57.56"
    assert concurrency(pool, 8192) == "70.60"


@pytest.mark.parametrize("ranks", [4, 8])
def test_qwen3_235b_keeps_48_128_bytes_per_token_on_4_ranks_and_on_8(ranks: int) -> None:
    pool = pool_of("Qwen/Qwen3-235B-A22B", "8.11", tensor_parallel=ranks)
    assert pool.block_bytes == 16 * 48_128


def test_97_of_100_determined_cases_are_within_1_percent_and_92_within_their_own_rounding() -> None:
    cases = determined(universe())
    assert len(cases) >= 40
    assert share_close(cases) >= 0.97
    assert share_within_rounding(cases) >= 0.92


def test_the_start_up_logs_alone_reach_the_same_shares() -> None:
    cases = [result for result in determined(universe()) if result.case.figure == "log"]
    assert share_close(cases) >= 0.97
    assert share_within_rounding(cases) >= 0.92


def test_at_most_one_case_in_six_is_left_undetermined_by_its_stated_facts() -> None:
    cases = universe()
    assert len(undetermined(cases)) * 6 <= len(cases)


def tensor_parallel_case(tokens: int) -> Case:
    return Case(
        ids=("made-up",),
        figure="log",
        origin="made up",
        model="any",
        engine="vLLM",
        release=None,
        planned_as="vllm@0.19",
        gpu="any",
        levers=AskedLevers(tensor_parallel=2),
        given=Given(kv_gib=Decimal("1.00")),
        printed=Printed(tokens=tokens),
        own_bytes=OwnBytes(bytes=1024, grain=16, how="made up"),
    )


def test_a_tensor_parallel_case_whose_tokens_come_to_its_own_gib_line_is_determined() -> None:
    assert tensor_parallel_case(2**20).why_undetermined() is None
    assert tensor_parallel_case(2**20 - 5_000).why_undetermined() is None


def test_a_tensor_parallel_case_whose_tokens_contradict_its_own_gib_line_is_not() -> None:
    reason = tensor_parallel_case(2**20 - 20_000).why_undetermined()
    assert reason is not None
    assert "another rank set the blocks" in reason


def test_a_tensor_parallel_case_whose_tokens_are_no_bytes_by_themselves_is_not_either() -> None:
    grouped = msgspec.structs.replace(tensor_parallel_case(2**20), own_bytes=None)
    reason = grouped.why_undetermined()
    assert reason is not None
    assert "nothing printed turns them into bytes" in reason


def test_a_refusal_whose_bytes_and_length_are_one_ranks_is_determined() -> None:
    refusal = msgspec.structs.replace(tensor_parallel_case(2**20), own_bytes=None, one_message=True)
    assert refusal.why_undetermined() is None


def test_a_case_is_judged_without_the_planner() -> None:
    text = Path(__file__).with_name("cases.py").read_text()
    assert not any(module in text for module in ("capacity.pool", "capacity.layout", "capacity.deployment"))


def test_no_case_is_judged_by_the_groups_of_an_engine() -> None:
    # Bytes of a token come from the shapes alone where all layers keep the whole context.
    judged = {result.cache for result in universe() if result.case.own_bytes is not None}
    assert judged <= {"full", "latent", "index_keys + latent"}


@collected
def test_a_release_that_the_collection_does_not_state_is_given_with_its_reason() -> None:
    documents = {document["id"]: document for document in collections()}
    for case in collection().cases:
        if case.figure == "formula":
            continue
        stated = json.dumps([documents[name] for name in case.ids])
        if case.release is None:
            assert case.planned_because, case.ids
        else:
            assert case.release in stated, case.ids


def test_no_case_is_compared_or_set_apart_twice() -> None:
    assert [name for name, times in Counter(collection().ids()).items() if times > 1] == []


@collected
def test_every_case_of_the_collections_is_compared_or_set_apart_with_a_reason() -> None:
    assert set(collection().ids()) == {case["id"] for case in collections()}


@collected
def test_every_copied_figure_is_the_one_in_the_collections() -> None:
    documents = {document["id"]: document for document in collections()}
    for case in collection().cases:
        for name in case.ids:
            logged = documents[name].get("measured")
            if logged is None:
                continue
            assert same(case.given.kv_gib, logged["available_kv_gib"]), name
            assert same(case.printed.tokens, logged["kv_cache_tokens"]) or name == "log-046", name
            assert same(case.printed.concurrency, logged["max_concurrency"]), name
            blocks = case.given.blocks if case.printed.blocks is None else case.printed.blocks
            assert same(blocks, logged["num_gpu_blocks"]), name
            window = case.levers.max_model_len
            assert same(window, documents[name].get("max_model_len")), name


def same(copied: Decimal | int | None, logged: float | None) -> bool:
    return copied == logged if copied is None or logged is None else float(copied) == logged


def collections() -> list[dict[str, Any]]:
    return entries("numeric_cases", "start_up_logs", under="cases")
