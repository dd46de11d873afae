"""Groups, pages and blocks: the numbers that an engine's own tests and logs print, worked out by hand."""

from typing import Any

import msgspec
import pytest

from service.capacity.cache import (
    CacheKind,
    ChunkedLocal,
    CompressedLatent,
    FullAttention,
    GatedDeltaNet,
    IndexKeys,
    KimiDeltaAttention,
    LatentAttention,
    LatentWindow,
    RowRing,
    SlidingWindow,
    Storage,
    Terms,
)
from service.capacity.cache.footprint import Context, State
from service.capacity.layout import Group, packed, padded, separate, tuples
from service.capacity.pool import Pool, footprints_of, pool_of
from tests.fixed_catalog import RULES

WHOLE = range(1000)
# 2 KV heads of 64 in fp32, blocks of 16: a page is 16 x 2 x 128 x 4 = 16,384 B.
SMALL: dict[str, Any] = {"kv_heads": 2, "key_dim": 64, "value_dim": 64}
GATED = GatedDeltaNet(
    layers=30, key_heads=16, value_heads=32, key_dim=128, value_dim=128, conv_kernel=4, state_dtype="fp32"
)
V4_FLASH = (
    LatentWindow(layers=43, latent_dim=512, window=128, block=64),
    CompressedLatent(
        layers=21,
        latent_dim=512,
        tokens_per_vector=4,
        index_dim=128,
        rows=8,
        row_width=2048,
        index_row_width=512,
        row_block=4,
    ),
    CompressedLatent(layers=20, latent_dim=512, tokens_per_vector=128, rows=128, row_width=1024, row_block=8),
)


def pool(
    *caches: CacheKind,
    budget: int,
    dtype: str = "bf16",
    block_size: int = 16,
    terms: Terms | None = None,
    stage: range = WHOLE,
) -> Pool:
    footprints = footprints_of(caches, Storage(dtype=dtype, model_dtype="bf16"))
    layout = padded(footprints, block_size, "raise", latent_alignment=128)
    return pool_of(layout, rules=RULES, budget_bytes=budget, terms=terms or Terms(window_blocks=1), stage=stage)


def sizes(groups: tuple[Group, ...]) -> list[int]:
    return [sum(len(pages.at) for pages in group.pages) for group in groups]


def test_two_full_layers_share_a_block() -> None:
    assert pool(FullAttention(layers=2, **SMALL), budget=2**20, dtype="fp32").blocks == 32


def test_a_budget_without_a_block_holds_nobody_rather_than_a_null_block_less() -> None:
    held = [pool(FullAttention(layers=2, **SMALL), budget=budget, dtype="fp32") for budget in (-1, 0, 32_768, 65_536)]
    assert [(one.blocks, one.usable) for one in held] == [(0, 0), (0, 0), (1, 0), (2, 1)]


def test_five_windows_beside_six_full_layers_are_padded_to_six() -> None:
    caches = (FullAttention(layers=6, **SMALL), SlidingWindow(layers=5, **SMALL, window=128))
    held = pool(*caches, budget=3_145_728, dtype="fp32")
    assert (sizes(held.groups), held.block_bytes, held.blocks) == ([6, 5], 98_304, 32)
    # Of each block of the windows' group one page of 16,384 B is nobody's.
    assert held.padding_bytes(16) == 16_384 * int(held.group_blocks(16)[1])


def test_a_window_of_1024_with_1024_tokens_in_flight_takes_129_blocks() -> None:
    window = SlidingWindow(layers=1, **SMALL, window=1024)
    held = pool(window, budget=2**20, dtype="fp32", terms=Terms(in_flight=1024, window_blocks=1))
    assert held.cost(16_384) == 129
    assert held.cost(100) == 8


def test_a_chunk_of_8192_with_2048_tokens_in_flight_takes_640_blocks() -> None:
    chunked = ChunkedLocal(layers=32, kv_heads=8, key_dim=128, value_dim=128, chunk=8192)
    held = pool(chunked, budget=2**30, terms=Terms(in_flight=2048, window_blocks=1))
    assert held.cost(131_072) == 640
    assert 2 * held.cost(131_072) * held.block_bytes == 2_684_354_560


def test_34_linear_and_11_full_layers_make_groups_of_9_9_8_and_8() -> None:
    full = FullAttention(layers=11, kv_heads=8, key_dim=128, value_dim=128)
    linear = msgspec.structs.replace(GATED, layers=34)
    footprints = footprints_of((full, linear), Storage(dtype="bf16", model_dtype="bf16"))
    assert sizes(padded(footprints, 16, "raise", latent_alignment=128).groups) == [11, 9, 9, 8, 8]


@pytest.mark.parametrize(("most", "groups"), [(14, [10, 14]), (15, [10, 8, 7])])
def test_the_larger_kind_sets_the_groups_only_below_one_and_a_half_times_the_smaller(
    most: int, groups: list[int]
) -> None:
    caches = (FullAttention(layers=10, **SMALL), SlidingWindow(layers=most, **SMALL, window=128))
    assert sizes(pool(*caches, budget=2**30).groups) == groups


def test_a_block_of_attention_is_raised_until_its_page_holds_the_state() -> None:
    # State: 8,192 channels x 3 x 2 B + 32 x 128 x 128 x 4 B = 2,146,304 B; 2,048 B per token: 66 x 16 tokens.
    full = FullAttention(layers=10, kv_heads=2, key_dim=256, value_dim=256)
    held = pool(full, GATED, budget=2**33)
    assert [group.block for group in held.groups if isinstance(group.span, Context)] == [1056]
    assert held.block_bytes == 10 * 1056 * 2048
    # Three groups of ten states, each page padded by 2,162,688 - 2,146,304 B.
    assert held.padding_bytes(1) == 3 * 10 * 16_384


@pytest.mark.parametrize(("alignment", "block"), [(64, 960), (128, 1024)])
def test_beside_latents_a_block_is_raised_in_steps_that_their_kernels_take(alignment: int, block: int) -> None:
    latent = LatentAttention(layers=7, latent_dim=512, rope_dim=64)
    kda = KimiDeltaAttention(layers=20, heads=32, head_dim=128, conv_kernel=4, state_dtype="fp32")
    storage = Storage(dtype="bf16", model_dtype="bf16", tensor_parallel=2)
    layout = padded(footprints_of((latent, kda), storage), 16, "raise", latent_alignment=alignment)
    # State of one of two ranks: 6,144 x 3 x 2 + 16 x 128 x 128 x 4 = 1,085,440 B; over 1,152 B that is 942.2 tokens.
    assert [group.block for group in layout.groups if group.grows] == [block]
    assert layout.block_bytes(WHOLE) == 7 * block * 1152


def test_pages_of_unlike_heads_are_made_equal_by_larger_blocks() -> None:
    # Gemma 4 31B: 16 heads x 512 x 2 B against 4 heads x 1,024 x 2 B.
    full = FullAttention(layers=10, kv_heads=4, key_dim=512, value_dim=512)
    window = SlidingWindow(layers=50, kv_heads=16, key_dim=256, value_dim=256, window=1024)
    held = pool(full, window, budget=2**33)
    assert sorted({group.block for group in held.groups}) == [16, 32]
    assert held.block_bytes == 10 * 262_144
    assert held.padding_bytes(8192) == 0


def test_newer_releases_pad_a_page_that_does_not_divide_the_largest() -> None:
    caches = (
        FullAttention(layers=4, kv_heads=2, key_dim=128, value_dim=128),
        SlidingWindow(layers=4, kv_heads=5, key_dim=128, value_dim=128, window=128),
    )
    footprints = footprints_of(caches, Storage(dtype="bf16", model_dtype="bf16"))
    blocks = {
        how: [group.block for group in padded(footprints, 16, how, latent_alignment=128).groups]
        for how in ("raise", "pad")
    }
    assert blocks == {"raise": [32, 16], "pad": [16, 16]}


def test_latents_and_index_keys_are_one_group_whose_block_is_the_sum() -> None:
    caches = (
        LatentAttention(layers=61, latent_dim=512, rope_dim=64, sparse=True),
        IndexKeys(layers=61, key_dim=128, stored="fp8"),
    )
    held = pool(*caches, budget=2**33, block_size=64)
    assert len(held.groups) == 1
    assert held.block_bytes == 64 * 61 * (1152 + 132)


def test_deepseek_v4_keeps_tuples_of_one_page_of_each_size() -> None:
    # Two batches of 8,192 in flight. 30,000 tokens need 6.66 GiB and 13,528 need 5.44, as an engine printed.
    layout = tuples(footprints_of(V4_FLASH, Storage(dtype="fp8", model_dtype="bf16")), 256, latent_alignment=128)
    terms = Terms(in_flight=16_384, window_blocks=1)
    held = pool_of(layout, rules=RULES, budget_bytes=2**33, terms=terms, stage=WHOLE)
    # A tuple: 37,440 + 8,640 + 1,728 B; 22 of them, for 43 windows in two groups.
    assert held.block_bytes == 22 * 47_808
    # 118 of contexts, 2 x 259 of windows, 4,099 and 2,065 of the compressors' rows.
    assert held.cost(30_000) == 118 + 2 * 259 + 4099 + 2065
    assert round(held.cost(30_000) * held.block_bytes / 2**30, 3) == 6.661
    assert round(held.cost(13_528) * held.block_bytes / 2**30, 2) == 5.44


def test_where_nothing_is_kept_for_the_whole_context_there_are_no_tuples() -> None:
    windows = footprints_of(V4_FLASH[:1], Storage(dtype="fp8", model_dtype="bf16"))
    found = tuples(windows, 256, latent_alignment=128)
    assert found == padded(windows, 256, "raise", latent_alignment=128)


def test_newer_releases_pack_deepseek_v4_side_by_side() -> None:
    layout = packed(footprints_of(V4_FLASH, Storage(dtype="fp8", model_dtype="bf16")), 256, latent_alignment=128)
    assert layout.block_bytes(WHOLE) == 1_002_240
    assert sorted(sizes(layout.groups)) == [20, 21, 22, 42, 62]
    # Pages are multiples of 576 B: of a context's block, 21 x 64 x (584 + 132) B and 20 x 2 x 584 B hold records.
    (contexts,) = [group for group in layout.groups if group.grows]
    assert contexts.width(WHOLE) == 21 * (37_440 + 8640) + 20 * 1728
    assert contexts.used(WHOLE) == 21 * 64 * (584 + 132) + 20 * 2 * 584


def test_a_block_raised_to_hold_a_state_is_wider_in_fp8_where_index_keys_stay_as_they_are() -> None:
    # GLM-5.3-Flash. A state is 24,576 channels x 3 x 2 B + 64 x 128 x 128 x 4 B = 4,341,760 B: in latents of 1,024 B
    # that is a block of 34 x 128 tokens, in those of 512 B one of 67 x 128. Twice the tokens have twice the index keys,
    # which are in 8 bits already: the block is 1.6 % wider, and so is a request that takes one of each group. That is
    # rounding to blocks, not records: a token takes 5,995 B instead of 11,627, and long requests half of the blocks.
    caches = (
        KimiDeltaAttention(layers=34, heads=64, head_dim=128, conv_kernel=4, state_dtype="fp32"),
        LatentAttention(layers=11, latent_dim=512, rope_dim=0, sparse=True),
        IndexKeys(layers=11, key_dim=128, stored="fp8", tokens_per_key=4),
        RowRing(layers=11, row_bytes=512, waiting=4, step=4, power_of_two=True),
    )
    for dtype, block, latent, short, long in (("bf16", 4352, 1024, 6, 28), ("fp8", 8576, 512, 6, 17)):
        layout = packed(footprints_of(caches, Storage(dtype=dtype, model_dtype="bf16")), 64, latent_alignment=128)
        held = pool_of(layout, rules=RULES, budget_bytes=2**36, terms=Terms(window_blocks=1), stage=WHOLE)
        assert held.block_bytes == 11 * (block * latent + block // 4 * 132)
        # States in four groups, as three of 12 would be wider than the block; one ring; and the contexts.
        assert (held.cost(1), held.cost(100_000)) == (short, long)


def test_a_ring_is_one_block_for_the_whole_request() -> None:
    ring = RowRing(layers=11, row_bytes=512, waiting=4, step=4, power_of_two=True)
    rows = [ring.footprints(Storage(dtype="bf16", model_dtype="bf16", speculative_tokens=s)) for s in (0, 1, 4, 5)]
    assert [footprint.record_bytes for (footprint,) in rows] == [4 * 512, 8 * 512, 8 * 512, 16 * 512]
    full = FullAttention(layers=11, kv_heads=8, key_dim=128, value_dim=128)
    held = pool(full, ring, budget=2**33)
    assert held.group_blocks(160) == (10, 1)


def test_without_groups_nothing_is_padded_and_states_cost_what_they_are() -> None:
    full = FullAttention(layers=10, kv_heads=2, key_dim=256, value_dim=256)
    layout = separate(footprints_of((full, GATED), Storage(dtype="bf16", model_dtype="bf16")), 16)
    held = pool_of(layout, rules=None, budget_bytes=2**33, terms=Terms(), stage=WHOLE)
    # 100 tokens: 7 blocks of 16 tokens x 20,480 B, and 30 states.
    assert held.cost(100) * held.block_bytes == 7 * 16 * 20_480 + 30 * 2_146_304
    assert held.padding_bytes(100) == 0
    assert {type(group.span) for group in held.groups} == {Context, State}


def test_without_an_engines_kernels_pages_are_not_aligned() -> None:
    layout = separate(footprints_of(V4_FLASH, Storage(dtype="fp8", model_dtype="bf16")), 16)
    held = pool_of(layout, rules=None, budget_bytes=2**33, terms=Terms(), stage=WHOLE)
    # 512 tokens: 128 vectors and index keys in 21 layers, 4 vectors in 20, 128 in the windows of 43 layers; and the
    # compressors' rows: 8 of 2,560 numbers in 21 layers, 128 of 1,024 in 20.
    vectors = 21 * 128 * (584 + 132) + 20 * 4 * 584 + 43 * 128 * 584
    assert held.cost(512) * held.block_bytes == vectors + 21 * 8 * 2560 * 4 + 20 * 128 * 1024 * 4


def test_a_stage_with_more_layers_has_wider_blocks() -> None:
    full = FullAttention(layers=3, **SMALL)
    held = [pool(full, budget=20 * 16_384, dtype="fp32", stage=stage) for stage in (range(1), range(1, 3))]
    assert [one.blocks for one in held] == [20, 10]


def test_ranks_that_share_the_tokens_of_a_request_take_fewer_blocks() -> None:
    latent = LatentAttention(layers=61, latent_dim=512, rope_dim=64)
    held = pool(latent, budget=2**33, terms=Terms(window_blocks=1, context_shards=2))
    assert held.cost(1024) == 32
    assert held.cost(1025) == 33
