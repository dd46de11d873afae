"""What the planner decides: verdicts, targets, placement, refusals."""

import hashlib
from typing import Any

import msgspec
import pytest

from service.capacity.errors import NotPlannedYet, Refused, UnsupportedCombination
from service.capacity.planner import PLANNER, plan
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import FIXED, fixed_catalog, model, version
from tests.questions import answered

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def test_tensor_parallel_shards_kv_heads_and_weights() -> None:
    answer = answered(levers={"tensor_parallel": 4})
    # 8 KV heads over 4 ranks: 2 each. Weights: a quarter of 16,060,522,496 B, but norms, 65 x 4,096 x 2 B, are copied.
    assert answer.kv_cache.bytes_per_token == 32_768
    assert answer.ladder[2].value == 4_015_130_624 + 399_360
    assert answer.gpus == 4
    # (76,968,728,985 - 4,015,529,984 - 3,221,225,472) // (16 * 32,768) = 133,003; // 512 = 259.
    assert answer.kv_cache.blocks == 133_003
    assert answer.users.worst_case == 259


def test_past_the_kv_heads_tensor_parallel_replicates_them() -> None:
    at_8 = answered(levers={"tensor_parallel": 8})
    at_16 = answered(levers={"tensor_parallel": 16})
    assert at_8.kv_cache.bytes_per_token == at_16.kv_cache.bytes_per_token == 16_384


def test_a_tensor_parallel_size_that_does_not_divide_the_heads_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(UnsupportedCombination, match=r"legal sizes: 1, 2, 4, 8, 16, 32$"):
        answered(levers={"tensor_parallel": 3})


def test_data_parallel_multiplies_the_floor_of_one_pool() -> None:
    answer = answered(levers={"data_parallel": 3}, workload={"kind": "mean", "tokens": 2300})
    # 53.72 users fill one pool's cache: three pools hold 3 x 53, not 161.
    assert (answer.users.worst_case, answer.users.paged) == (159, 573)
    assert (answer.gpus, answer.pools) == (3, 3)


def test_the_floor_is_one_pools_and_not_the_sums() -> None:
    # 5,000 tokens take 313 blocks: 27,507 / 313 = 87.88 in one pool, 3 x 87 in three, and not 263.
    answer = answered(levers={"data_parallel": 3}, workload={"kind": "mean", "tokens": 5000})
    assert answer.users.paged == 261


def test_a_rank_holds_the_larger_part_of_weights_that_do_not_divide() -> None:
    catalog = Catalog(1, [*FIXED, version("models", "test/odd", model(32, 8, [(10**9 + 1, "fp8")]))])
    question = {"model": "test/odd", "gpu": "card", "levers": {"tensor_parallel": 2}}
    answer = plan(resolve(strict_json.convert(question, AskedQuestion), catalog))
    assert answer.ladder[2].value == 500_000_001


def test_the_weight_dtype_lever_leaves_a_vision_tower_as_it_is() -> None:
    # 8,190,735,360 of text in fp8, 576,388,336 of tower in bf16.
    answer = answered(model="Qwen/Qwen3-VL-8B-Instruct", levers={"weight_dtype": "fp8"})
    assert answer.ladder[2].value == 8_190_735_360 + 2 * 576_388_336


def test_a_checkpoint_of_32_bits_keeps_its_cache_in_16() -> None:
    # OLMo-2-7B: 32 layers, 32 heads of 128, float32 on disk.
    answer = answered(model="allenai/OLMo-2-1124-7B", levers={"max_model_len": 4096})
    assert answer.kv_cache.bytes_per_token == 2 * 32 * 32 * 128 * 2


def test_a_model_that_does_not_fit_is_an_answer_with_all_eight_steps() -> None:
    answer = answered(model=LLAMA_70B)
    # 70,553,706,496 x 2 B of weights against 76,968,728,985 B.
    assert answer.ladder[4].value == 76_968_728_985 - 141_107_412_992 - 3_221_225_472
    assert answer.ladder[4].shown == "-62.73 GiB"
    assert [rung.step for rung in answer.ladder] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (answer.fits, answer.verdict, answer.binding) == (False, "does_not_fit", "weights")
    assert (answer.users.worst_case, answer.kv_cache.blocks, answer.kv_cache.max_concurrency) == (0, 0, 0)


def test_the_reserve_binds_when_it_takes_what_the_weights_left() -> None:
    answer = answered(levers={"reserve_bytes": 61 * 10**9})
    assert (answer.fits, answer.binding) == (False, "reserve")


def test_one_window_that_does_not_fit_does_not_fit_though_shorter_requests_would() -> None:
    answer = answered(
        levers={"max_model_len": 131_072, "reserve_bytes": 60 * 10**9}, workload={"kind": "mean", "tokens": 16}
    )
    assert answer.users.worst_case == 0
    assert answer.users.paged is not None
    assert answer.users.paged > 0
    assert not answer.fits


@pytest.mark.parametrize(
    ("basis", "users", "fits"),
    [("worst_case", 53, True), ("worst_case", 54, False), ("paged", 191, True), ("paged", 192, False)],
)
def test_a_target_compares_with_its_basis(basis: str, users: int, fits: bool) -> None:  # noqa: FBT001 - a case's value
    answer = answered(workload={"kind": "mean", "tokens": 2300}, targets={"users": users, "basis": basis})
    assert answer.fits is fits


def test_without_a_workload_a_target_means_the_worst_case() -> None:
    assert answered(targets={"users": 53}).fits
    assert not answered(targets={"users": 54}).fits


def test_with_lengths_a_target_means_users_at_risk() -> None:
    # Every request holds 16 blocks while it runs its one step: as many run as there are blocks for, at any risk.
    rows = {"kind": "rows", "rows": [[256, 1]]}
    exact = answered(workload=rows, targets={"users": 27_507 // 16})
    assert (exact.fits, exact.users.admitted) == (True, 1719)
    assert not answered(workload=rows, targets={"users": 1720}).fits


def test_of_a_mean_no_risk_is_known_so_a_target_means_the_paged_count() -> None:
    mean = {"kind": "mean", "tokens": 2300}
    assert answered(workload=mean, targets={"users": 191}).fits
    assert answered(workload=mean).users.at_risk is None
    with pytest.raises(UnsupportedCombination, match="says nothing of the spread"):
        answered(workload=mean, targets={"users": 1, "basis": "at_risk"})


def test_a_paged_target_without_a_workload_is_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="needs a workload"):
        answered(targets={"users": 1, "basis": "paged"})


def test_the_scheduler_cap_lowers_only_what_is_admitted() -> None:
    answer = answered(levers={"max_num_seqs": 40, "data_parallel": 2}, targets={"users": 81})
    assert (answer.users.worst_case, answer.users.admitted, answer.binding) == (106, 80, "max_num_seqs")
    assert not answer.fits


def test_a_cache_set_by_hand_replaces_steps_1_to_4() -> None:
    answer = answered(levers={"kv_cache_memory_bytes": 10 * 2**30})
    assert answer.ladder[4].value == 10 * 2**30
    assert answer.users.worst_case == 10


@pytest.mark.parametrize(
    ("changes", "binding", "users"),
    [
        # 85,520,809,984 - 16,060,522,496 - 3,221,225,472 = 66,239,062,016 B are there: 61 windows of 1 GiB.
        ({"levers": {"kv_cache_memory_bytes": 10**15}}, "kv_cache", 61),
        ({"model": LLAMA_70B, "levers": {"kv_cache_memory_bytes": 20 * 10**9}}, "weights", 0),
        ({"levers": {"kv_cache_memory_bytes": 2**30, "reserve_bytes": 70 * 10**9}}, "reserve", 0),
    ],
)
def test_a_cache_set_by_hand_that_is_not_there_does_not_fit(changes: dict[str, Any], binding: str, users: int) -> None:
    answer = answered(**changes)
    assert (answer.fits, answer.binding, answer.users.worst_case) == (False, binding, users)


def test_a_share_of_memory_that_is_not_used_is_not_assumed() -> None:
    assert "gpu_memory_utilization" in {one.name for one in answered().assumed}
    by_hand = answered(levers={"kv_cache_memory_bytes": 2**30})
    assert "gpu_memory_utilization" not in {one.name for one in by_hand.assumed}


def test_memory_of_other_processes_joins_the_reserve() -> None:
    answer = answered(levers={"other_process_bytes": 2**30})
    assert answer.ladder[3].value == 3_221_225_472 + 2**30


def test_a_window_left_out_is_the_models_limit_and_is_listed_as_assumed() -> None:
    answer = answered(levers={"max_model_len": None})
    assert ("max_model_len", "131072") in {(one.name, one.value) for one in answer.assumed}


def test_a_window_past_the_models_limit_is_refused_with_that_limit() -> None:
    with pytest.raises(UnsupportedCombination, match=r"131,073 tokens pass the limit of .*, 131,072"):
        answered(levers={"max_model_len": 131_073})


def test_kv_heads_that_do_not_divide_the_query_heads_are_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="3 KV heads don't divide the 32 query heads"):
        answered(levers={"kv_heads": 3})


def test_a_gpu_whose_memory_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(NotPlannedYet, match="mi308x"):
        answered(gpu="mi308x")


def test_a_model_whose_size_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(NotPlannedYet, match="weights of mistralai/Devstral-2-123B-Instruct-2512"):
        answered(model="mistralai/Devstral-2-123B-Instruct-2512")


def test_weights_that_nobody_knows_are_not_asked_for_where_the_cache_is_given() -> None:
    levers = {"kv_cache_memory_bytes": 10 * 2**30, "max_model_len": 8192}
    answer = answered(model="mistralai/Devstral-2-123B-Instruct-2512", levers=levers)
    assert answer.ladder[2].formula.startswith("nothing is counted: the weights of mistralai/Devstral-2")
    assert (answer.ladder[2].value, answer.ladder[2].certainty) == (0, "assumed")


def test_a_multi_query_model_keeps_its_one_head_on_every_rank() -> None:
    # Falcon-7B: 71 query heads, one KV head of 64, 32 layers.
    answer = answered(model="tiiuae/falcon-7b", levers={"max_model_len": 2048, "tensor_parallel": 71})
    assert answer.kv_cache.bytes_per_token == 2 * 32 * 64 * 2
    with pytest.raises(Refused, match=r"legal sizes: 1, 71$"):
        answered(model="tiiuae/falcon-7b", levers={"max_model_len": 2048, "tensor_parallel": 2})


def test_a_mean_that_passes_the_window_is_refused() -> None:
    with pytest.raises(Refused, match="8,193 tokens passes the window of 8,192"):
        answered(workload={"kind": "mean", "tokens": 8193})


def test_parts_that_come_later_are_present_and_null() -> None:
    document = msgspec.json.decode(msgspec.json.encode(answered()))
    for key in ("interval", "levers", "second_ceiling", "plan", "plan_url", "workload"):
        assert document[key] is None
    assert document["users"]["at_risk"] is None
    assert document["users"]["recommended_max_num_seqs"] is None
    assert document["inputs"]["workload"] is None


CORPUS: list[dict[str, Any]] = [
    {"model": "test/grouped", "gpu": {"key": "card", "version": 1}},
    {"model": "test/grouped", "gpu": "card", "workload": {"kind": "mean", "tokens": 2300}},
    {
        "model": "test/grouped",
        "gpu": "card",
        "levers": {"kv_heads": 32, "kv_cache_dtype": "fp8", "weight_dtype": "int8", "tensor_parallel": 2},
    },
    {"model": "test/mixed", "gpu": "card", "levers": {"tensor_parallel": 4, "data_parallel": 2, "max_num_seqs": 5}},
    {"model": "test/mixed", "gpu": "card", "levers": {"max_model_len": 4096}},
    {
        "model": "test/multi-head",
        "gpu": "card",
        "workload": {
            "kind": "total",
            "bins": [{"upper": 512, "count": 120}, {"upper": 2048, "count": 400}, {"count": 3}],
        },
    },
    {
        "model": "test/multi-head",
        "gpu": "card",
        "levers": {"max_model_len": 8192, "gpu_memory_utilization": 0.87, "block_size": 32},
        "workload": {"kind": "rows", "rows": [[100, 20], [9000, 1], [8000, 900]]},
    },
    {
        "model": "test/grouped",
        "gpu": "card",
        "workload": {
            "kind": "joint",
            "prompt_edges": [0, 64, 4096, None],
            "output_edges": [0, 16, 1000],
            "counts": [[0, 0, 5], [1, 1, 7], [2, 0, 1]],
        },
        "targets": {"users": 10, "basis": "paged"},
    },
    *(
        {
            "model": f"test/{model}",
            "gpu": gpu,
            "engine": engine,
            "levers": {"max_model_len": 32_768, "reserve_bytes": 2**30, "pipeline_parallel": stages} | levers,
            "workload": {"kind": "mean", "tokens": 2300},
            "targets": {"users": 1000, "basis": "paged"},
        }
        for model, gpu, levers in (
            ("windows", "small", {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": [3, "sliding_window"]}),
            ("states", "hopper", {"speculative_tokens": 1}),
            ("sparse", "blackwell", {"tensor_parallel": 8, "decode_context_parallel": 4}),
            ("scheme", "workstation", {"kv_cache_memory_bytes": 2**30}),
            ("experts", "card", {"tensor_parallel": 4, "expert_parallel": True, "data_parallel": 2}),
        )
        for engine in ("generic", "ruled@1")
        for stages in (1, 2)
    ),
]


def test_the_planner_number_changes_whenever_an_answer_does() -> None:
    """The digest of answers to a fixed corpus, held beside the planner's number: they change together."""
    catalog = fixed_catalog()
    answers = [plan(resolve(strict_json.convert(question, AskedQuestion), catalog)) for question in CORPUS]
    assert (PLANNER, hashlib.sha256(msgspec.json.encode(answers)).hexdigest()) == (
        3,
        "1aeba5770906d07be21083878573e8dc508b84ea266724bed6fcf5ec2f18420b",
    )
