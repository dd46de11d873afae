"""What each kind of cache stores on one rank, worked out by hand from the shapes."""

from typing import Any

import pytest

from service.capacity.cache import (
    CacheKind,
    CompressedLatent,
    ConvolutionHistory,
    CrossAttention,
    FullAttention,
    GatedDeltaNet,
    IndexKeys,
    KimiDeltaAttention,
    LatentAttention,
    LatentWindow,
    LightningAttention,
    Mamba1,
    Mamba2,
    RowRing,
    ShortConvolution,
    SlidingWindow,
    Storage,
    Terms,
)
from service.capacity.cache.footprint import Context, Ring, State, Window
from service.capacity.layout import separate
from service.capacity.pool import pool_of

HEADS: dict[str, Any] = {"layers": 1, "kv_heads": 8, "key_dim": 192, "value_dim": 128}
MAMBA1 = Mamba1(layers=1, inner_dim=8192, state_dim=16, conv_kernel=4)
MAMBA2 = Mamba2(layers=1, heads=128, head_dim=64, groups=8, state_dim=128, conv_kernel=4, state_dtype="fp32")
GATED = GatedDeltaNet(
    layers=1, key_heads=16, value_heads=32, key_dim=64, value_dim=128, conv_kernel=4, state_dtype="fp32"
)
KDA = KimiDeltaAttention(layers=1, heads=32, head_dim=128, conv_kernel=4, state_dtype="fp32")
LIGHTNING = LightningAttention(layers=1, heads=64, head_dim=128)
SHORT = ShortConvolution(layers=1, channels=2048, conv_kernel=3)
COPIED = ShortConvolution(layers=1, channels=10_240, conv_kernel=10, replicated=True)
HISTORY = ConvolutionHistory(layers=1, kv_heads=8, head_dim=128, hidden_size=6144, taps=4)
AS_HEADS = LatentAttention(layers=1, latent_dim=512, rope_dim=64, heads=16, key_dim=192)
DS_RING = RowRing(layers=1, row_bytes=4096, waiting=2, power_of_two=True, least_rows=8)
QSA_RING = RowRing(layers=1, row_bytes=256, waiting=4, step=4)


def stored(cache: CacheKind, **storage: Any) -> list[int]:  # noqa: ANN401 - fields of Storage, of any type
    how = {"dtype": "bf16", "model_dtype": "bf16"} | storage
    return [footprint.record_bytes for footprint in cache.footprints(Storage(**how))]


@pytest.mark.parametrize(
    ("cache", "storage", "record"),
    [
        # Heads: sharded, and past their number one on each rank; keys and values of unlike width.
        (FullAttention(**HEADS), {}, 8 * 320 * 2),
        (FullAttention(**HEADS), {"tensor_parallel": 4}, 2 * 320 * 2),
        (SlidingWindow(**HEADS, window=128), {"tensor_parallel": 16, "dtype": "fp8"}, 320),
        (FullAttention(**HEADS), {"tensor_parallel": 8, "dtype": "int4_per_token_head"}, 160 + 8),
        (FullAttention(**HEADS), {"tensor_parallel": 8, "dtype": "nvfp4"}, 320 * 9 // 16),
        # States: the convolution's rows are kernel - 1 and, where drafts run ahead, as many more.
        (MAMBA1, {}, 8192 * (3 + 16) * 2),
        (MAMBA1, {"tensor_parallel": 2, "speculative_tokens": 2}, 4096 * (3 + 16) * 2),
        # 8,192 + 2 x 8 x 128 channels; 16 ranks raise the 8 groups to 16.
        (MAMBA2, {}, 10_240 * 3 * 2 + 128 * 64 * 128 * 4),
        (MAMBA2, {"tensor_parallel": 4, "speculative_tokens": 1}, 2560 * 4 * 2 + 32 * 64 * 128 * 4),
        (MAMBA2, {"tensor_parallel": 16}, (8192 + 4096) // 16 * 3 * 2 + 8 * 64 * 128 * 4),
        # 2 x 16 x 64 + 32 x 128 channels.
        (GATED, {}, 6144 * 3 * 2 + 32 * 128 * 64 * 4),
        (GATED, {"tensor_parallel": 8, "speculative_tokens": 2}, 768 * 5 * 2 + 4 * 128 * 64 * 4),
        (KDA, {}, 12_288 * 3 * 2 + 32 * 128 * 128 * 4),
        (KDA, {"tensor_parallel": 4, "speculative_tokens": 3}, 3072 * 6 * 2 + 8 * 128 * 128 * 4),
        (LIGHTNING, {"tensor_parallel": 4, "speculative_tokens": 3}, 16 * 128 * 128 * 2),
        (SHORT, {"tensor_parallel": 2, "speculative_tokens": 3}, 1024 * 2 * 2),
        (COPIED, {"tensor_parallel": 2, "speculative_tokens": 2}, 10_240 * (9 + 2) * 2),
        # 2 x 128 + 2 x 6,144 / 8 = 1,792 numbers beside each head, in 2,048 places of 16 bits, whatever the format.
        (HISTORY, {"dtype": "fp8"}, 8 * 2048 * 2),
        (HISTORY, {"tensor_parallel": 4}, 2 * 2048 * 2),
        # Kernels for long heads: keys and values of 192 in 256 places each.
        (AS_HEADS, {"latents_as_heads": True}, 16 * 512 * 2),
        (AS_HEADS, {"latents_as_heads": True, "tensor_parallel": 4, "dtype": "fp8"}, 4 * 512),
        (AS_HEADS, {"latents_as_heads": True, "tensor_parallel": 32}, 512 * 2),
        (AS_HEADS, {"dtype": "fp8_ds_mla"}, 512 + 16 + 128),
        (AS_HEADS, {"dtype": "nvfp4_ds_mla"}, 352),
        (AS_HEADS, {"tensor_parallel": 8}, 576 * 2),
        (IndexKeys(layers=1, key_dim=128, stored="fp8"), {}, 128 + 4),
        (IndexKeys(layers=1, key_dim=129, stored="fp8"), {}, 129 + 8),
        (IndexKeys(layers=1, key_dim=128, stored="bf16"), {"dtype": "fp8"}, 128 * 2),
        # Rows that wait, as a power of two of steps or a multiple of one.
        (DS_RING, {}, 8 * 4096),
        (DS_RING, {"speculative_tokens": 7}, 16 * 4096),
        (QSA_RING, {}, 4 * 256),
        (QSA_RING, {"speculative_tokens": 5}, 12 * 256),
    ],
)
def test_a_record_of_one_rank(cache: CacheKind, storage: dict[str, Any], record: int) -> None:
    assert stored(cache, **storage) == [record]


@pytest.mark.parametrize(
    ("dtype", "capability", "microscaled", "window", "compressed"),
    [
        ("bf16", (10, 0), True, 1024, 1024),
        ("fp8", (10, 0), True, 512 + 16, 512 + 16),
        ("fp8", (9, 0), True, 584, 584),
        ("fp8", None, True, 584, 584),
        ("fp8", (10, 0), False, 584, 584),
        ("fp8_ds_mla", (12, 0), True, 584, 584),
        # Only compressed vectors go to 4 bits.
        ("nvfp4_ds_mla", (10, 0), True, 528, 288),
    ],
)
def test_a_compressed_vector_depends_on_format_card_and_generation(
    dtype: str,
    capability: tuple[int, int] | None,
    microscaled: bool,  # noqa: FBT001 - a case's value
    window: int,
    compressed: int,
) -> None:
    vector: dict[str, Any] = {"layers": 1, "latent_dim": 512, "microscaled": microscaled}
    how: dict[str, Any] = {"dtype": dtype, "compute_capability": capability, "tensor_parallel": 8}
    assert stored(LatentWindow(**vector, window=128, block=32), **how) == [window]
    (latents, keys, *rows) = CompressedLatent(
        **vector, tokens_per_vector=2, index_dim=128, rows=8, row_width=2048, index_row_width=512, row_block=4
    ).footprints(Storage(model_dtype="bf16", **how))
    assert (latents.record_bytes, keys.record_bytes) == (compressed, 132)
    assert [(row.record_bytes, row.block, row.span) for row in rows] == [
        (8192, 4, Window(8)),
        (2048, 4, Window(8)),
    ]
    alignment = 512 if dtype == "bf16" else 576
    assert {footprint.alignment for footprint in (latents, keys, *rows)} == {alignment}
    # 256 tokens are 128 vectors and as many keys.
    assert (latents.tokens_per_record, latents.block, latents.span) == (2, 256, Context())
    assert (latents.used_bytes(256), keys.used_bytes(256)) == (128 * compressed, 128 * 132)
    assert latents.page_bytes(256) == -(-128 * compressed // alignment) * alignment


def test_only_states_of_the_newer_recurrences_are_checkpointed() -> None:
    spans = {
        type(cache).__name__: cache.footprints(Storage(dtype="bf16", model_dtype="bf16"))[0].span
        for cache in (MAMBA1, MAMBA2, GATED, KDA, LIGHTNING, SHORT)
    }
    checkpointed = {name for name, span in spans.items() if span == State(checkpointed=True)}
    assert checkpointed == {"Mamba2", "GatedDeltaNet", "KimiDeltaAttention"}
    assert COPIED.footprints(Storage(dtype="bf16", model_dtype="bf16"))[0].span == State(checkpointed=True)
    assert DS_RING.footprints(Storage(dtype="bf16", model_dtype="bf16"))[0].span == Ring()


@pytest.mark.parametrize(
    ("cache", "sizes"),
    [
        (FullAttention(**HEADS), {2, 4, 8, 16}),
        (MAMBA1, {2, 4, 8, 16}),
        (MAMBA2, {2, 4, 8, 16}),
        (GATED, {2, 4, 8, 16}),
        (GatedDeltaNet(layers=1, key_heads=4, value_heads=16, key_dim=8, value_dim=8, conv_kernel=4), {2, 4}),
        (GatedDeltaNet(layers=1, key_heads=16, value_heads=8, key_dim=8, value_dim=8, conv_kernel=4), {2, 4, 8}),
        (KimiDeltaAttention(layers=1, heads=12, head_dim=128, conv_kernel=4), {2, 3, 4}),
        (LightningAttention(layers=1, heads=6, head_dim=128), {2, 3}),
        (ShortConvolution(layers=1, channels=24, conv_kernel=3), {2, 3, 4, 8}),
        (COPIED, {2, 3, 4, 5, 7, 8, 16}),
        (HISTORY, {2, 4, 8}),
        (AS_HEADS, {2, 3, 4, 5, 7, 8, 16}),
    ],
)
def test_sizes_of_tensor_parallel_that_each_kind_takes(cache: CacheKind, sizes: set[int]) -> None:
    assert {size for size in (2, 3, 4, 5, 7, 8, 16) if cache.can_split(size)} == sizes


@pytest.mark.parametrize(
    ("cache", "shards"),
    [
        # Ranks that hold copies of the same cache: 16 ranks of 8 heads are two of each.
        (FullAttention(**HEADS), 2),
        (SlidingWindow(**HEADS, window=128), 1),
        (AS_HEADS, 16),
        (IndexKeys(layers=1, key_dim=128, stored="fp8"), 16),
        (IndexKeys(layers=1, key_dim=128, stored="bf16"), 1),
        (LatentWindow(layers=1, latent_dim=512, window=128, block=64), 1),
        (CompressedLatent(layers=1, latent_dim=512, tokens_per_vector=4), 1),
        (HISTORY, 1),
        (GATED, 16),
    ],
)
def test_ranks_that_can_share_the_tokens_of_a_request(cache: CacheKind, shards: int) -> None:
    assert cache.context_shards(16) == shards
    assert cache.context_shards(4) == (4 if shards == 16 else 1)


def test_cross_attention_keeps_the_encoders_tokens_whatever_the_length() -> None:
    cross = CrossAttention(**HEADS, encoder_tokens=1500)
    layout = separate(cross.footprints(Storage(dtype="bf16", model_dtype="bf16")), 16)
    held = pool_of(layout, rules=None, budget_bytes=0, terms=Terms(), stage=range(1))
    assert (held.cost(1), held.cost(100_000)) == (94, 94)  # 93.75 blocks of 16
