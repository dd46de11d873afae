"""How a question's caches and weights are spread over GPUs, in numbers worked out by hand."""

from typing import Any

import msgspec
import numpy as np
import pytest

from service.capacity.answer import Answer
from service.capacity.cache.footprint import State
from service.capacity.deployment import terms_of
from service.capacity.errors import NotPlannedYet, Refused, UnsupportedCombination
from service.capacity.figures import Figure
from service.capacity.placement import stages
from service.capacity.planner import plan
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import RULES, fixed_catalog

GIB = 2**30
STATE = 2_146_304
"""Bytes of one state of `test/states`: 8,192 channels x 3 x 2 B + 32 x 128 x 128 x 4 B."""


def answer(model: str, engine: str = "ruled@1", gpu: str = "card", draft: object = None, **levers: object) -> Answer:
    if engine == "ruled@1":
        levers = {"kv_cache_memory_bytes": 8 * GIB} | levers
    question = {
        "model": f"test/{model}",
        "gpu": gpu,
        "engine": engine,
        "draft_model": draft,
        "levers": {"max_model_len": 8192} | levers,
    }
    return plan(resolve(strict_json.decode(msgspec.json.encode(question), AskedQuestion), fixed_catalog()))


def fault(model: str, **changes: Any) -> tuple[str, str]:  # noqa: ANN401 - levers of any type
    with pytest.raises(Refused) as caught:
        answer(model, **changes)
    (found,) = caught.value.faults
    return found.pointer, found.detail


def test_a_request_pays_for_one_block_of_every_group() -> None:
    found = answer("states", enable_prefix_caching=False)
    # B = 1,056; 8 GiB // (10 x 1,056 x 2,048 B) = 397 blocks; 8 of attention and 3 states.
    assert (found.kv_cache.block_size, found.kv_cache.block_bytes, found.kv_cache.blocks) == (1056, 21_626_880, 397)
    assert [group.blocks_per_window for group in found.kv_cache.groups] == [8, 1, 1, 1]
    assert found.kv_cache.max_concurrency == 36.0909  # 397 / 11
    assert found.users.worst_case == 36  # (397 - 1) // 11
    assert found.kv_cache.fixed_bytes_per_user == 30 * STATE
    assert found.kv_cache.padding_bytes_per_window == 30 * (1056 * 2048 - STATE)


def test_prefix_caching_keeps_one_more_copy_of_each_state() -> None:
    found = answer("states")
    assert [group.blocks_per_window for group in found.kv_cache.groups] == [8, 2, 2, 2]
    assert ("enable_prefix_caching", "true") in [(one.name, one.value) for one in found.assumed]


@pytest.mark.parametrize(
    ("levers", "checkpointed", "others"),
    [
        # One state, a copy for prefix caching, one for each drafted token; where prefixes are kept, a checkpoint too.
        ({"enable_prefix_caching": True}, 3, 2),
        ({"enable_prefix_caching": True, "speculative_tokens": 2}, 5, 4),
        ({"enable_prefix_caching": False}, 1, 1),
    ],
)
def test_newer_releases_keep_a_checkpoint_of_states_beside_kept_prefixes(
    levers: dict[str, Any], checkpointed: int, others: int
) -> None:
    asked = {"model": "test/states", "gpu": "card", "engine": "ruled@1", "levers": levers}
    question = resolve(strict_json.convert(asked, AskedQuestion), fixed_catalog())
    newer = msgspec.structs.replace(RULES, checkpoint_blocks=1)
    terms = terms_of(msgspec.structs.replace(question.engine.spec, block_rules=newer), question.levers)
    lengths = np.array([1, 100_000])
    assert State(checkpointed=True).blocks(lengths, 16, terms).tolist() == [checkpointed] * 2
    assert State(checkpointed=False).blocks(lengths, 16, terms).tolist() == [others] * 2


def test_drafting_adds_a_layer_copies_of_states_and_rows_of_convolutions() -> None:
    found = answer("states", speculative_tokens=2)
    # State: 8,192 x (3 + 2) x 2 + 2,097,152 = 2,179,072 B: B = 1,072. 11 attention layers; 30 states in three groups.
    assert found.kv_cache.block_size == 1072
    assert [(group.layers, group.blocks_per_window) for group in found.kv_cache.groups] == [
        (11, 8), (10, 4), (10, 4), (10, 4),
    ]  # fmt: skip


def test_a_draft_that_nobody_knows_is_refused() -> None:
    assert fault("windows", speculative_tokens=1)[0] == "/levers/speculative_tokens"


def test_another_checkpoint_that_drafts_brings_its_caches_and_weights() -> None:
    found = answer("windows", engine="generic", draft="test/scheme", speculative_tokens=4)
    plain = answer("windows", engine="generic")
    # 40 layers of full attention more (in the cache's own format here, 2,048 B a token), and 2 x 10^9 B of weights.
    assert found.kv_cache.bytes_per_token - plain.kv_cache.bytes_per_token == 40 * 2048
    assert found.ladder[2].value - plain.ladder[2].value == 2 * 10**9
    assert found.inputs.draft_model is not None
    assert found.inputs.draft_model.key == "test/scheme"


def test_a_draft_sits_on_the_last_stage() -> None:
    found = answer("scheme", draft="test/scheme", speculative_tokens=4, kv_cache_dtype="bf16", pipeline_parallel=2)
    # 20 layers of the model, and all 40 of the draft.
    assert found.kv_cache.bytes_per_token == 60 * 2048


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"draft": "test/scheme"}, "/levers/speculative_tokens"),
        ({"draft": "test/nobody", "speculative_tokens": 1}, "/draft_model"),
        ({"draft": {"key": "test/scheme", "version": 9}, "speculative_tokens": 1}, "/draft_model/version"),
        ({"draft": {"config": {"model_type": "zebra"}}, "speculative_tokens": 1}, "/draft_model/config/model_type"),
    ],
)
def test_a_draft_that_means_nothing_is_pointed_at(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Refused) as caught:
        answer("windows", **changes)
    assert pointer in {found.pointer for found in caught.value.faults}


@pytest.mark.parametrize(
    ("model", "levers", "texts"),
    [
        (
            "latent",
            {"tensor_parallel": 8},
            [
                "Each part of the cache lies on 8 of 8 ranks",
                "decode_context_parallel 8 shares each request's tokens among 8 ranks.",
                "data_parallel 8 with tensor_parallel 1 keeps 8 caches",
            ],
        ),
        (
            "windows",
            {"tensor_parallel": 8},
            [
                "Each part of the cache lies on 4 of 8 ranks",
                "data_parallel 4 with tensor_parallel 2 keeps 4 caches",
            ],
        ),
        ("latent", {"tensor_parallel": 8, "decode_context_parallel": 8}, []),
        ("windows", {"tensor_parallel": 2}, []),
    ],
)
def test_ranks_that_hold_copies_are_named_with_what_would_help(
    model: str, levers: dict[str, Any], texts: list[str]
) -> None:
    said = [one.text for one in answer(model, **levers).caveats if one.code == "cache_is_copied"]
    assert len(said) == min(1, len(texts))
    assert all(text in said[0] for text in texts)


@pytest.mark.parametrize(("gpu", "batch"), [("card", 8192), ("small", 2048)])
def test_windows_keep_two_batches_in_flight_as_large_as_the_card_makes_them(gpu: str, batch: int) -> None:
    found = answer("windows", gpu=gpu, max_model_len=131_072)
    # A window of 1,024 and two batches, in blocks of 16, and one block more.
    windows = -(-(1023 + 2 * batch) // 16) + 1
    assert [group.blocks_per_window for group in found.kv_cache.groups] == [8192, windows, windows, windows]
    assert ("max_num_batched_tokens", str(batch)) in [(one.name, one.value) for one in found.assumed]


def test_without_rules_a_window_holds_its_tokens_and_nothing_is_grouped() -> None:
    found = answer("windows", engine="generic")
    # 10 layers x 2,048 B x 8,192 tokens, and 30 x 2,048 B x 1,024.
    assert found.ladder[6].value == 10 * 2048 * 8192 + 30 * 2048 * 1024
    assert found.kv_cache.groups == ()
    assert found.kv_cache.bytes_per_token == 20_480
    assert found.kv_cache.fixed_bytes_per_user == 30 * 2048 * 1024
    assert found.kv_cache.padding_bytes_per_window == 0
    # The card's newest version has 90 x 10^9 B: (81,000,000,000 - 2,000,000,000 - 3,221,225,472) // 230,686,720 = 328.
    assert found.users.worst_case == 328


def test_a_latent_is_copied_to_every_rank_and_its_tokens_can_be_shared() -> None:
    whole, copied, shared = (
        answer("latent", tensor_parallel=ranks, decode_context_parallel=shards)
        for ranks, shards in ((1, 1), (8, 1), (8, 8))
    )
    assert [found.kv_cache.bytes_per_token for found in (whole, copied, shared)] == [46_080] * 3
    assert whole.kv_cache.blocks == copied.kv_cache.blocks == shared.kv_cache.blocks == 11_650
    # 512 blocks of 16 for 8,192 tokens; 64 where eight ranks hold 1,024 tokens each.
    assert (copied.users.worst_case, shared.users.worst_case) == (22, 182)
    assert (copied.kv_cache.printed_tokens, shared.kv_cache.printed_tokens) == (186_400, 1_491_200)


@pytest.mark.parametrize(("shards", "legal"), [(3, "1, 2, 4, 8"), (16, "1, 2, 4, 8")])
def test_context_parallel_that_the_ranks_can_not_share_is_refused_with_the_legal_sizes(shards: int, legal: str) -> None:
    pointer, detail = fault("latent", tensor_parallel=8, decode_context_parallel=shards)
    assert (pointer, detail.rpartition(": ")[2]) == ("/levers/decode_context_parallel", legal)


def test_windows_are_never_shared() -> None:
    _, detail = fault("windows", tensor_parallel=8, decode_context_parallel=2)
    assert detail.endswith("legal sizes at tensor_parallel 8: 1")


def test_heads_can_be_shared_as_often_as_they_are_copied() -> None:
    assert answer("scheme", tensor_parallel=8, decode_context_parallel=4).fits
    _, detail = fault("scheme", tensor_parallel=8, decode_context_parallel=8)
    assert detail.endswith("legal sizes at tensor_parallel 8: 1, 2, 4")


def test_an_illegal_tensor_parallel_lists_the_legal_sizes() -> None:
    pointer, detail = fault("states", tensor_parallel=32)
    assert pointer == "/levers/tensor_parallel"
    assert detail == "32 query heads and 2 KV heads can't be split over 32 GPUs; legal sizes: 1, 2, 4, 8, 16"
    _, detail = fault("latent", tensor_parallel=3)
    assert detail == "32 query heads can't be split over 3 GPUs; legal sizes: 1, 2, 4, 8, 16, 32"


def test_a_pipeline_is_as_good_as_its_stage_with_most_cache() -> None:
    even, uneven = (
        answer("scheme", kv_cache_dtype="bf16", pipeline_parallel=2, pipeline_layers=layers)
        for layers in (None, [10, 30])
    )
    # 40 layers x 2,048 B: 20 or 30 of them on the stage that counts.
    assert (even.kv_cache.bytes_per_token, uneven.kv_cache.bytes_per_token) == (40_960, 61_440)
    assert (even.kv_cache.blocks, uneven.kv_cache.blocks) == (13_107, 8738)
    assert even.gpus == 2


def test_leftover_layers_go_to_the_stages_before_the_last() -> None:
    # 40 layers on 3 stages: 13, 14, 13.
    found = answer("scheme", kv_cache_dtype="bf16", pipeline_parallel=3)
    assert found.kv_cache.bytes_per_token == 14 * 2048


@pytest.mark.parametrize(
    ("layers", "count", "expected"),
    [
        (40, 4, [10, 10, 10, 10]),
        (41, 4, [10, 10, 11, 10]),
        (42, 4, [10, 11, 11, 10]),
        (43, 4, [11, 11, 11, 10]),
        (45, 8, [5, 5, 6, 6, 6, 6, 6, 5]),
    ],
)
def test_every_leftover_layer_has_its_stage_the_last_but_one_first(
    layers: int, count: int, expected: list[int]
) -> None:
    asked = {
        "model": "test/scheme", "gpu": "card", "engine": "ruled@1",
        "levers": {"max_model_len": 16, "pipeline_parallel": count},
    }  # fmt: skip
    question = resolve(strict_json.convert(asked, AskedQuestion), fixed_catalog())
    model = msgspec.structs.replace(question.model.spec, layers=Figure(layers, "the test", "high"))
    cut = stages(model, question.levers)
    assert [len(range(layers)[stage.layers.start : stage.layers.stop]) for stage in cut] == expected
    assert [(stage.first, stage.last) for stage in cut] == [(place == 0, place == count - 1) for place in range(count)]


@pytest.mark.parametrize("count", [2, 4])
def test_a_pipeline_keeps_a_batch_in_flight_in_each_of_its_stages(count: int) -> None:
    found = answer("windows", gpu="small", max_model_len=131_072, pipeline_parallel=count)
    # A window of 1,024 and one batch of 2,048 for each stage, in blocks of 16, and one block more.
    windows = -(-(1023 + count * 2048) // 16) + 1
    assert [group.blocks_per_window for group in found.kv_cache.groups] == [8192, windows, windows, windows]


def test_groups_are_formed_once_and_a_stage_keeps_its_layers_of_each() -> None:
    found = answer("states", pipeline_parallel=2, pipeline_layers=[8, 32], enable_prefix_caching=False)
    # Stage two has layers 8 to 39: 8 of attention and 24 states, dealt to three groups of ten before: 8 of each.
    assert [group.layers for group in found.kv_cache.groups] == [8, 8, 8, 8]
    assert found.kv_cache.block_bytes == 8 * 1056 * 2048


@pytest.mark.parametrize(
    ("levers", "pointer"),
    [
        ({"pipeline_parallel": 41}, "/levers/pipeline_parallel"),
        ({"pipeline_parallel": 2, "pipeline_layers": [20, 21]}, "/levers/pipeline_layers"),
        ({"pipeline_parallel": 2, "pipeline_layers": [40]}, "/levers/pipeline_layers"),
    ],
)
def test_stages_that_the_layers_do_not_make_are_refused(levers: dict[str, Any], pointer: str) -> None:
    assert fault("scheme", **levers)[0] == pointer


def test_a_model_whose_order_of_layers_nobody_knows_has_no_stages() -> None:
    assert fault("grouped", pipeline_parallel=2)[0] == "/levers/pipeline_parallel"


def test_weights_are_divided_copied_and_placed_part_by_part() -> None:
    found = answer("experts", engine="generic", tensor_parallel=4)
    # Embeddings, layers, head and tower in quarters; keys and values in halves; norms whole; experts in 4.5 bits.
    quarter = (2 * (10**9 + 4 * 10**9 + 10**9 + 5 * 10**8) + 60 * 10**9 * 9 // 16) // 4
    assert found.ladder[2].value == quarter + 10**8 + 2 * 10**6


def test_expert_parallel_divides_the_experts_over_all_copies() -> None:
    found = answer("experts", engine="generic", tensor_parallel=4, data_parallel=2, expert_parallel=True)
    quarter = 2 * (10**9 + 4 * 10**9 + 10**9 + 5 * 10**8) // 4
    assert found.ladder[2].value == quarter + 60 * 10**9 * 9 // 16 // 8 + 10**8 + 2 * 10**6


def test_expert_parallel_without_experts_is_refused() -> None:
    assert fault("grouped", expert_parallel=True)[0] == "/levers/expert_parallel"


def test_towers_can_be_left_out_and_drafts_come_only_when_drafting() -> None:
    with_tower, without = (
        answer("experts", engine="generic", language_model_only=left_out) for left_out in (False, True)
    )
    assert with_tower.ladder[2].value - without.ladder[2].value == 10**9


def test_lora_slots_are_a_part_of_the_weights() -> None:
    plain, slots = (answer("lora", engine="generic", tensor_parallel=4, max_loras=n, max_lora_rank=8) for n in (0, 3))
    # 3 slots x rank 8 x 2 B: 1,000 sides whole, 4,000 in quarters, 100 in halves.
    assert slots.ladder[2].value - plain.ladder[2].value == 48 * (1000 + 4000 // 4 + 100 // 2)


def test_lora_on_an_architecture_that_nobody_worked_out_is_refused() -> None:
    assert fault("experts", max_loras=1)[0] == "/levers/max_loras"


def test_in_four_bits_embeddings_and_head_stay_as_they_are() -> None:
    found = answer("ends", engine="generic", weight_dtype="int4")
    # 10^9 embeddings in 16 bits, 4 x 10^9 of the layers in 4 + 20 / 128 bits.
    assert found.ladder[2].value == 2 * 10**9 + 4 * 10**9 * 133 // 256


def test_the_last_stage_has_the_head_and_the_first_the_embeddings_and_the_tower() -> None:
    found = answer("experts", engine="generic", pipeline_parallel=2)
    # Half of the layers, keys and values, norms and experts on each; the first stage has 2 x 5 x 10^8 B more.
    half = 4 * 10**9 + 10**8 + 10**6 + 60 * 10**9 * 9 // 16 // 2
    assert found.ladder[2].value == half + 2 * 10**9 + 10**9


@pytest.mark.parametrize(
    ("gpu", "dtype", "record"),
    [
        ("hopper", "bf16", 1152),
        ("hopper", "fp8", 656),
        ("blackwell", "fp8", 576),
        ("blackwell", "auto", 576),
        ("workstation", "auto", 656),
        ("workstation", "fp8", 656),
        ("card", "fp8", 576),
        ("hopper", "nvfp4_ds_mla", 352),
    ],
)
def test_the_record_of_a_sparse_latent_depends_on_the_card(gpu: str, dtype: str, record: int) -> None:
    found = answer("sparse", gpu=gpu, kv_cache_dtype=dtype)
    assert found.kv_cache.bytes_per_token == 40 * (record + 132)
    assert found.kv_cache.block_size == 64


@pytest.mark.parametrize(
    ("gpu", "asked", "kept", "reason"),
    [
        ("hopper", "fp8", "fp8_ds_mla", "fp8 was asked for; kernels of sparse attention keep fp8_ds_mla on this card"),
        (
            "workstation", "auto", "fp8_ds_mla",
            "auto: the model's dtype is bfloat16; kernels of sparse attention keep fp8_ds_mla on this card",
        ),
        ("blackwell", "fp8", "fp8", None),
        ("hopper", "bf16", "bf16", None),
    ],
)  # fmt: skip
def test_the_record_that_sparse_kernels_take_is_named_as_the_format(
    gpu: str, asked: str, kept: str, reason: str | None
) -> None:
    found = answer("sparse", gpu=gpu, kv_cache_dtype=asked)
    assert found.kv_cache.dtype == kept
    assert [one.reason for one in found.assumed if one.name == "kv_cache_dtype"] == ([reason] if reason else [])


def test_without_an_engines_kernels_fp8_latents_are_half() -> None:
    assert answer("sparse", engine="generic", gpu="hopper", kv_cache_dtype="fp8").kv_cache.bytes_per_token == 40 * 708


@pytest.mark.parametrize(("gpu", "block"), [("hopper", 16), ("blackwell", 32)])
def test_the_block_of_dense_latents_depends_on_the_card(gpu: str, block: int) -> None:
    assert answer("latent", gpu=gpu).kv_cache.block_size == block


def test_auto_is_the_checkpoints_own_scheme_and_says_so() -> None:
    found = answer("scheme")
    assert (found.kv_cache.dtype, found.kv_cache.bytes_per_token) == ("fp8", 40_960)
    (reason,) = [one.reason for one in found.assumed if one.name == "kv_cache_dtype"]
    assert reason.startswith("auto: the checkpoint declares fp8 for its cache")


@pytest.mark.parametrize(
    ("dtype", "record"),
    [
        ("fp32", 2 * 512 * 4),
        ("bf16", 2 * 512 * 2),
        ("fp8", 2 * 512),
        ("int8_per_token_head", 2 * (512 + 8)),
        ("fp8_per_token_head", 2 * (512 + 8)),
        ("int4_per_token_head", 2 * (256 + 8)),
        ("nvfp4", 2 * 512 * 9 // 16),
    ],
)
def test_each_number_format_has_its_width_and_its_scales(dtype: str, record: int) -> None:
    assert answer("scheme", kv_cache_dtype=dtype).kv_cache.bytes_per_token == 40 * record


def test_a_format_that_the_cache_can_not_take_is_refused_with_those_that_it_can() -> None:
    pointer, detail = fault("latent", kv_cache_dtype="int8_per_token_head")
    assert pointer == "/levers/kv_cache_dtype"
    assert detail.endswith("formats: bf16, fp16, fp32, fp8, fp8_ds_mla, nvfp4_ds_mla")


def test_layers_left_out_of_quantisation_keep_the_models_dtype() -> None:
    some = answer("scheme", kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=[0, 39])
    assert some.kv_cache.bytes_per_token == 38 * 1024 + 2 * 2048
    windows = answer("windows", engine="generic", kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=["sliding_window"])
    assert windows.kv_cache.bytes_per_token == 10 * 1024
    assert windows.kv_cache.fixed_bytes_per_user == 30 * 2048 * 1024


def test_a_layer_that_is_not_there_can_not_be_left_out() -> None:
    pointer, detail = fault("scheme", kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=[0, 40])
    assert (pointer, detail) == (
        "/levers/kv_cache_dtype_skip_layers", "test/scheme has no layer 40 that is known; leave it out",
    )  # fmt: skip


def test_an_engine_whose_reserve_nobody_knows_asks_for_it() -> None:
    with pytest.raises(NotPlannedYet, match="give reserve_bytes, or kv_cache_memory_bytes as the engine prints it"):
        answer("latent", kv_cache_memory_bytes=None)
    found = answer("latent", kv_cache_memory_bytes=None, reserve_bytes=5 * GIB)
    assert found.ladder[3].value == 5 * GIB


def test_the_smallest_share_that_fits_is_exact_to_the_block() -> None:
    short = answer("latent", engine="generic", gpu="small", max_model_len=131_072, gpu_memory_utilization=0.3)
    assert not short.fits
    assert short.inverse is not None
    # 8,192 blocks of 737,280 B, 2 x 10^9 B of weights and 3 GiB of reserve, of 24 x 10^9 B.
    needed = 8192 * 737_280 + 2 * 10**9 + 3 * GIB
    share = short.inverse.gpu_memory_utilization
    assert share is not None
    assert (share * 10**9) // 1 == -(-needed * 10**9 // (24 * 10**9))
    asked: dict[str, Any] = {"engine": "generic", "gpu": "small", "max_model_len": 131_072}
    assert answer("latent", **asked, gpu_memory_utilization=share).fits
    assert not answer("latent", **asked, gpu_memory_utilization=share - 0.0001).fits


def test_the_largest_window_that_fits_is_exact_to_the_token() -> None:
    short = answer("states", max_model_len=131_072, kv_cache_memory_bytes=100 * 21_626_880)
    assert not short.fits
    assert short.inverse is not None
    # 99 blocks, 6 of them states with prefix caching: 93 x 1,056 tokens.
    assert short.inverse.max_model_len == 98_208
    fitting, too_long = (
        answer("states", max_model_len=length, kv_cache_memory_bytes=100 * 21_626_880) for length in (98_208, 98_209)
    )
    assert (fitting.fits, too_long.fits) == (True, False)


def test_the_largest_window_fits_the_stage_of_whole_contexts_where_windows_have_fewer_blocks() -> None:
    asked = {
        "max_model_len": 131_072, "kv_cache_memory_bytes": 8 * GIB, "pipeline_parallel": 2, "pipeline_layers": [10, 30],
    }  # fmt: skip
    question = {"model": "test/windows-last", "gpu": "card", "levers": asked, "targets": {"users": 20}}

    def planned(window: int) -> Answer:
        at = question | {"levers": asked | {"max_model_len": window}}
        return plan(resolve(strict_json.decode(msgspec.json.encode(at), AskedQuestion), fixed_catalog()))

    short = planned(131_072)
    assert not short.fits
    assert short.inverse is not None
    # Whole contexts: 8 GiB // (10 x 16 x 2,048 B) = 26,214 blocks; // 20 users = 1,310 of 16 tokens. The second stage
    # has 8 GiB // (30 x 16 x 2,048 B) = 8,738, of which 20 windows of 1,024 / 16 take 1,280 at any length.
    assert short.inverse.max_model_len == 20_960
    assert (planned(20_960).fits, planned(20_961).fits) == (True, False)


def test_an_answer_that_fits_has_no_inverse() -> None:
    assert answer("latent").inverse is None


def test_kv_heads_are_those_of_the_layers_that_have_any() -> None:
    # 10 layers of 4 heads x 512 x 2 B, beside 30 states.
    assert answer("states", kv_heads=4).kv_cache.bytes_per_token == 10 * 4 * 512 * 2


def test_kv_heads_of_a_cache_without_heads_are_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="has no KV heads"):
        answer("latent", kv_heads=4)


def test_a_window_that_decodes_keeps_no_batches_in_flight() -> None:
    question = {
        "model": "test/windows",
        "gpu": "card",
        "engine": "ruled@1",
        "levers": {"max_model_len": 32_768, "kv_cache_memory_bytes": 8 * GIB},
        "workload": {"kind": "mean", "tokens": 16_000},
    }
    found = plan(resolve(strict_json.decode(msgspec.json.encode(question), AskedQuestion), fixed_catalog()))
    # Three groups of windows of 1,024 / 16 + 1 blocks, and 1,000 of whole contexts.
    assert found.workload is not None
    assert found.workload.mean_held_blocks == 1000 + 3 * 65
    # 8 GiB // (10 x 16 x 2,048 B) = 26,214 blocks, one of them null.
    assert found.users.paged == 26_213 // 1195
    # A full window is priced with two batches of 8,192 in flight, as the engine does: 2,048 + 3 x 1,089.
    assert found.users.worst_case == 26_213 // (2048 + 3 * 1089)


def test_a_stage_without_a_cache_needs_room_for_its_weights() -> None:
    # Layers 0 to 9 attend, 10 to 39 don't: the second stage has 30/40 of 30 x 10^9 B of weights and no cache.
    roomy, crowded = (
        answer("half", engine="generic", gpu="small", pipeline_parallel=2, pipeline_layers=layers, max_model_len=64)
        for layers in ([20, 20], [10, 30])
    )
    assert roomy.fits
    assert not crowded.fits
    assert "leave -3.84 GiB" in crowded.summary
    assert crowded.inverse is not None
    assert crowded.inverse.gpu_memory_utilization is None


def test_a_rank_holds_whole_experts() -> None:
    # 64 experts over 24 ranks: 3 on the fullest. 60 x 10^9 parameters in 4.5 bits.
    found = answer("experts", engine="generic", tensor_parallel=4, data_parallel=6, expert_parallel=True)
    quarter = 2 * (10**9 + 4 * 10**9 + 10**9 + 5 * 10**8) // 4
    assert found.ladder[2].value == quarter + 60 * 10**9 * 9 // 16 * 3 // 64 + 10**8 + 2 * 10**6


def test_more_ranks_than_experts_are_refused() -> None:
    pointer, detail = fault("experts", tensor_parallel=4, data_parallel=17, expert_parallel=True)
    assert pointer == "/levers/expert_parallel"
    assert detail == "68 ranks can't each hold one of 64 experts: at most 64 of tensor x data parallel"


def test_a_part_of_the_weights_is_placed_with_its_own_layers() -> None:
    first, second = (
        answer("placed", engine="generic", pipeline_parallel=2, pipeline_layers=[10, 30], gpu=gpu)
        for gpu in ("card", "card")
    )
    assert first == second
    # The tightest stage is the second: 30 of 40 equal layers, and all experts, which are in layers 10 to 39.
    assert first.ladder[2].value == 2 * 10**9 * 30 // 40 + 2 * 10**9


def test_the_mean_fit_of_a_pipeline_is_that_of_the_stage_that_holds_fewest_at_the_mean() -> None:
    question = {
        "model": "test/windows",
        "gpu": "card",
        "levers": {"max_model_len": 131_072, "pipeline_parallel": 2, "pipeline_layers": [3, 37]},
        "workload": {"kind": "mean", "tokens": 160},
    }
    found = plan(resolve(strict_json.decode(msgspec.json.encode(question), AskedQuestion), fixed_catalog()))
    # 10^9 B of weights go by layers, 2 x 10^9 B in all: 37/40 of them on the second stage, which has all whole
    # contexts and 27 of 30 windows: 37 x 2,048 B x 160 tokens for each user.
    budget = 81 * 10**9 - -(-2 * 10**9 * 37 // 40) - 3 * GIB
    assert found.users.paged == budget // (37 * 2048 * 160)


@pytest.mark.parametrize(
    ("model", "gpu", "dtype"),
    [
        ("sparse", "hopper", "fp8"),
        ("sparse", "hopper", "bf16"),
        ("scheme", "card", "nvfp4"),
        ("windows", "card", "fp8"),
    ],
)
def test_the_formula_of_step_6_comes_to_its_own_value(model: str, gpu: str, dtype: str) -> None:
    rung = answer(model, gpu=gpu, kv_cache_dtype=dtype).ladder[5]
    terms, _, value = rung.formula.partition(";")[0].rpartition(" = ")
    words = ("layers", "KV heads", "fp8", "scales", "scale", "rotary key", "tokens", "B")
    for word in words:
        terms = terms.replace(f" {word}", "")
    assert eval(terms.replace(" x ", " * ")) == rung.value  # noqa: S307 - our own formula, of numbers alone
    assert value == f"{rung.value:,} B"


def test_defaults_of_the_engine_are_its_own_and_not_the_callers_levers() -> None:
    windows = {one.name: one for one in answer("windows", max_model_len=131_072).ladder[6].operands}
    assert windows["max_num_batched_tokens"].certainty == windows["batches_in_flight"].certainty == "assumed"
    assert windows["max_num_batched_tokens"].source == "made up for tests"
    sparse = answer("sparse", gpu="hopper", kv_cache_dtype="fp8")
    assert ("block_size", "64") in [(one.name, one.value) for one in sparse.assumed]
    (block,) = [one for one in sparse.ladder[5].operands if one.name == "block_size"]
    assert (block.source, block.certainty) == ("the block that kernels of sparse attention take", "assumed")


def test_a_block_that_the_kernels_do_not_take_is_refused() -> None:
    assert fault("sparse", gpu="hopper", block_size=16)[0] == "/levers/block_size"


def test_keys_of_many_tokens_each_bind_no_block() -> None:
    # Qwen3.8-Flash-Next scores blocks of tokens: its keys stand for several tokens, and no kernel asks for 128.
    asked = {
        "model": "Qwen/Qwen3.8-Flash-Next", "gpu": "h200-sxm-141gb", "engine": "vllm@0.33",
        "levers": {"max_model_len": 8192, "block_size": 1600},
    }  # fmt: skip
    found = plan(resolve(strict_json.convert(asked, AskedQuestion), Catalog(1, bundled_versions())))
    assert found.kv_cache.block_size == 1600


def test_tuples_are_made_only_of_pages_that_they_can_hold() -> None:
    found = answer("tuples", kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=[0])
    assert found.kv_cache.blocks > 0
