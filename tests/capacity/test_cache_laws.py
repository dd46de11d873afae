"""Laws that hold for every kind of cache, in every layout and at every length."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.capacity.cache import (
    CacheKind,
    ChunkedLocal,
    CompressedLatent,
    ConvolutionHistory,
    CrossAttention,
    EncoderOnly,
    Footprint,
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
    SharedCache,
    ShortConvolution,
    SlidingWindow,
    Storage,
    Terms,
)
from service.capacity.cache.footprint import Chunk, Window
from service.capacity.engine import BlockRules
from service.capacity.largest_window import largest_length
from service.capacity.layout import Layout
from service.capacity.pool import Pool, footprints_of, layout_of, pool_of

LAYERS = st.integers(1, 9)
EVERYWHERE = range(1000)


def heads() -> dict[str, st.SearchStrategy[int]]:
    return {
        "layers": LAYERS,
        "kv_heads": st.sampled_from([1, 2, 4, 8]),
        "key_dim": st.sampled_from([64, 128, 192, 256]),
        "value_dim": st.sampled_from([64, 128, 256]),
    }


KINDS: dict[str, st.SearchStrategy[CacheKind]] = {
    "full": st.builds(FullAttention, **heads()),
    "sliding_window": st.builds(SlidingWindow, **heads(), window=st.integers(1, 4096)),
    "chunked": st.builds(ChunkedLocal, **heads(), chunk=st.integers(1, 8192)),
    "cross_attention": st.builds(CrossAttention, **heads(), encoder_tokens=st.integers(1, 3000)),
    "encoder_only": st.builds(EncoderOnly, layers=LAYERS),
    "shared": st.builds(SharedCache, layers=LAYERS),
    "latent": st.builds(
        LatentAttention,
        layers=LAYERS,
        latent_dim=st.just(512),
        rope_dim=st.just(64),
        sparse=st.booleans(),
    ),
    "index_keys": st.builds(
        IndexKeys,
        layers=LAYERS,
        key_dim=st.just(128),
        stored=st.sampled_from(["fp8", "bf16"]),
        tokens_per_key=st.sampled_from([1, 4]),
    ),
    "latent_window": st.builds(
        LatentWindow, layers=LAYERS, latent_dim=st.just(512), window=st.just(128), block=st.sampled_from([32, 64])
    ),
    "compressed_latent": st.builds(
        CompressedLatent,
        layers=LAYERS,
        latent_dim=st.just(512),
        tokens_per_vector=st.sampled_from([1, 2, 4, 128]),
        index_dim=st.sampled_from([None, 128]),
        rows=st.sampled_from([None, 8]),
        row_width=st.just(2048),
        index_row_width=st.just(512),
        row_block=st.just(4),
    ),
    "ring": st.builds(
        RowRing, layers=LAYERS, row_bytes=st.just(512), waiting=st.just(4), step=st.just(4), power_of_two=st.booleans()
    ),
    "conv_history": st.builds(
        ConvolutionHistory,
        layers=LAYERS,
        kv_heads=st.sampled_from([8, 16]),
        head_dim=st.just(128),
        hidden_size=st.just(6144),
        taps=st.just(4),
    ),
    "mamba1": st.builds(Mamba1, layers=LAYERS, inner_dim=st.just(8192), state_dim=st.just(16), conv_kernel=st.just(4)),
    "mamba2": st.builds(
        Mamba2,
        layers=LAYERS,
        heads=st.sampled_from([64, 128]),
        head_dim=st.just(64),
        groups=st.sampled_from([1, 2, 8]),
        state_dim=st.just(128),
        conv_kernel=st.just(4),
        state_dtype=st.sampled_from([None, "fp32"]),
    ),
    "gated_delta_net": st.builds(
        GatedDeltaNet,
        layers=LAYERS,
        key_heads=st.just(16),
        value_heads=st.sampled_from([16, 32, 64]),
        key_dim=st.just(128),
        value_dim=st.just(128),
        conv_kernel=st.just(4),
        state_dtype=st.sampled_from([None, "fp32"]),
    ),
    "kda": st.builds(
        KimiDeltaAttention,
        layers=LAYERS,
        heads=st.just(32),
        head_dim=st.just(128),
        conv_kernel=st.just(4),
        state_dtype=st.just("fp32"),
    ),
    "lightning": st.builds(LightningAttention, layers=LAYERS, heads=st.just(64), head_dim=st.just(128)),
    "short_conv": st.builds(
        ShortConvolution, layers=LAYERS, channels=st.just(2048), conv_kernel=st.just(3), replicated=st.booleans()
    ),
}
STORED = [name for name in KINDS if name not in {"encoder_only", "shared"}]
ANY = st.one_of(*(KINDS[name] for name in STORED))
# What models mix: several kinds per head, with states or without; latents with index keys; compressed attention.
MIXED = st.one_of(
    st.lists(st.one_of(KINDS["full"], KINDS["sliding_window"], KINDS["chunked"]), min_size=1, max_size=3),
    st.tuples(KINDS["full"], st.one_of(KINDS["gated_delta_net"], KINDS["mamba1"], KINDS["mamba2"])),
    st.tuples(KINDS["latent"], st.one_of(KINDS["kda"], KINDS["lightning"])),
    st.tuples(KINDS["latent"], KINDS["index_keys"]),
    st.tuples(KINDS["latent_window"], KINDS["compressed_latent"], KINDS["compressed_latent"]),
    st.tuples(KINDS["full"], KINDS["short_conv"]),
    st.tuples(KINDS["full"], KINDS["sliding_window"], KINDS["conv_history"]),
    st.tuples(KINDS["full"], KINDS["cross_attention"]),
).map(tuple)
LENGTHS = st.integers(1, 200_000)
BLOCKS = st.sampled_from([1, 16, 32, 64, 128])
TERMS = st.builds(
    Terms,
    in_flight=st.sampled_from([1, 2048, 16384]),
    window_blocks=st.integers(0, 1),
    state_blocks=st.integers(1, 4),
    checkpoint_blocks=st.integers(0, 1),
)


def rules(uneven_pages: str = "raise", layouts: dict[str, str] | None = None) -> BlockRules:
    nothing = {"source": "made up for tests", "confidence": "high"}
    return msgspec.convert(
        {
            "null_block": True,
            "layouts": layouts or {},
            "uneven_pages": uneven_pages,
            "batches_in_flight": {"value": 1, **nothing},
            "state_copies_for_prefix_caching": {"value": False, **nothing},
            "checkpoint_blocks": 0,
            "printed_tokens": "concurrency",
            "latents_as_heads": False,
            "latent_block_size": {},
            "latent_alignment": 128,
            "dtype_defaults": [],
        },
        BlockRules,
    )


RULES = st.sampled_from([None, rules("raise"), rules("pad"), rules(layouts={"it": "packed"})])


def stored(cache: CacheKind, dtype: str = "bf16", ranks: int = 1, drafted: int = 0) -> tuple[Footprint, ...]:
    return cache.footprints(Storage(dtype=dtype, model_dtype="bf16", tensor_parallel=ranks, speculative_tokens=drafted))


def laid_out(footprints: tuple[Footprint, ...], engine: BlockRules | None, block_size: int) -> Layout:
    return layout_of(footprints, rules=engine, architecture="it", block_size=block_size)


def pool(caches: tuple[CacheKind, ...], engine: BlockRules | None, block_size: int, terms: Terms, budget: int) -> Pool:
    layout = laid_out(footprints_of(caches, Storage(dtype="bf16", model_dtype="bf16")), engine, block_size)
    return pool_of(layout, rules=engine, budget_bytes=budget, terms=terms, stage=EVERYWHERE)


POOLS = st.builds(
    pool, caches=MIXED, engine=RULES, block_size=BLOCKS, terms=TERMS, budget=st.integers(0, 200).map(lambda n: n << 30)
)


def near_an_end(held: Pool) -> st.SearchStrategy[int]:
    """Lengths at which something may happen: where a window or chunk, or what is in flight beside it, ends."""
    ends = {group.span.tokens for group in held.groups if isinstance(group.span, Window | Chunk)} or {1}
    near = st.builds(
        lambda end, in_flight, off: max(1, end + in_flight + off),
        st.sampled_from(sorted(ends)),
        st.sampled_from([0, held.terms.in_flight]),
        st.integers(-3, 130),
    )
    return st.one_of(near, LENGTHS)


@given(held=POOLS, data=st.data())
def test_cost_never_falls_with_length(held: Pool, data: st.DataObject) -> None:
    shorter, longer = sorted(data.draw(near_an_end(held)) for _ in range(2))
    assert 1 <= held.cost(shorter) <= held.cost(longer)
    tokens = np.array([shorter, longer])
    assert 1 <= held.held_costs(tokens)[0] <= held.held_costs(tokens)[1]
    assert (held.held_costs(tokens) <= held.costs(tokens)).all()


@given(caches=MIXED, engine=RULES, block_size=BLOCKS, terms=TERMS, budget=st.integers(-(2**40), 2**40))
def test_blocks_never_take_more_than_the_budget_and_leave_less_than_one_block(
    caches: tuple[CacheKind, ...], engine: BlockRules | None, block_size: int, terms: Terms, budget: int
) -> None:
    held = pool(caches, engine, block_size, terms, budget)
    left = max(0, budget) - held.blocks * held.block_bytes
    assert 0 <= left < held.block_bytes


@given(held=POOLS, length=LENGTHS)
def test_padding_is_less_than_what_a_request_takes_and_nothing_without_groups(held: Pool, length: int) -> None:
    padding = held.padding_bytes(length)
    assert 0 <= padding < held.cost(length) * held.block_bytes
    if not held.null_blocks:
        assert padding == 0


@given(cache=ANY, ranks=st.sampled_from([2, 4, 8, 16]), drafted=st.integers(0, 4))
def test_more_tensor_parallel_never_means_more_bytes_on_one_rank(cache: CacheKind, ranks: int, drafted: int) -> None:
    fewer, more = stored(cache, ranks=ranks // 2, drafted=drafted), stored(cache, ranks=ranks, drafted=drafted)
    if cache.can_split(ranks) and cache.can_split(ranks // 2):
        assert all(less.record_bytes <= one.record_bytes for less, one in zip(more, fewer, strict=True))


DIVIDED = ("mamba1", "gated_delta_net", "kda", "lightning", "short_conv", "conv_history")


@given(cache=st.one_of(*(KINDS[name] for name in DIVIDED)), ranks=st.sampled_from([2, 4, 8]))
def test_a_state_and_its_convolution_are_divided_exactly_where_the_heads_are(cache: CacheKind, ranks: int) -> None:
    ((whole,), (part,)) = (stored(cache), stored(cache, ranks=ranks))
    is_copied = isinstance(cache, ShortConvolution) and cache.replicated
    assert part.record_bytes * (1 if is_copied else ranks) == whole.record_bytes


@given(cache=KINDS["mamba2"], ranks=st.sampled_from([2, 4, 8, 16]), drafted=st.integers(0, 3))
def test_mamba_2_is_divided_too_and_only_groups_that_do_not_divide_are_repeated(
    cache: Mamba2, ranks: int, drafted: int
) -> None:
    ((whole,), (part,)) = (stored(cache, drafted=drafted), stored(cache, ranks=ranks, drafted=drafted))
    # With fewer groups than ranks there is one on each rank: as many more have a row of 2 x state channels.
    repeated = max(0, ranks - cache.groups)
    rows = 2 * repeated * cache.state_dim * (cache.conv_kernel - 1 + drafted) * 2
    assert part.record_bytes * ranks == whole.record_bytes + rows


@given(cache=KINDS["full"], ranks=st.sampled_from([2, 4, 8, 16]))
def test_heads_are_divided_until_each_rank_has_one(cache: FullAttention, ranks: int) -> None:
    ((whole,), (part,)) = (stored(cache), stored(cache, ranks=ranks))
    assert part.record_bytes * min(ranks, cache.kv_heads) == whole.record_bytes


@given(cache=st.one_of(KINDS["latent"], KINDS["index_keys"], KINDS["latent_window"], KINDS["compressed_latent"]))
def test_latents_and_what_belongs_to_them_are_whole_on_every_rank(cache: CacheKind) -> None:
    assert stored(cache, ranks=8) == stored(cache)


@given(cache=st.one_of(KINDS["full"], KINDS["sliding_window"]))
def test_fp8_without_scales_is_exactly_half_on_full_and_window_attention(cache: CacheKind) -> None:
    ((half,), (whole,)) = (stored(cache, "fp8"), stored(cache, "bf16"))
    assert 2 * half.record_bytes == whole.record_bytes


@given(cache=ANY)
def test_no_narrower_format_takes_more_than_bf16_on_any_kind(cache: CacheKind) -> None:
    wide = stored(cache, "bf16")
    for dtype in cache.formats or ("fp8",):
        if dtype != "fp32":
            narrow = stored(cache, dtype)
            assert all(less.record_bytes <= one.record_bytes for less, one in zip(narrow, wide, strict=True))
            # Of a page what holds records; kernels for compressed vectors align it to 576 B in fp8 and 512 B in bf16.
            for less, one in zip(narrow, wide, strict=True):
                assert less.used_bytes(one.block or 16) <= one.used_bytes(one.block or 16)


@given(caches=MIXED, block_size=BLOCKS, terms=TERMS, length=LENGTHS)
def test_no_request_takes_more_in_fp8_than_in_bf16_padding_apart(
    caches: tuple[CacheKind, ...], block_size: int, terms: Terms, length: int
) -> None:
    """Without groups nothing is padded. With them a short request can take more: see test_layout, GLM-5.3-Flash."""
    taken = []
    for dtype in ("fp8", "bf16"):
        layout = laid_out(footprints_of(caches, Storage(dtype=dtype, model_dtype="bf16")), None, block_size)
        held = pool_of(layout, rules=None, budget_bytes=0, terms=terms, stage=EVERYWHERE)
        taken.append(held.cost(length) * held.block_bytes)
    assert taken[0] <= taken[1]


@pytest.mark.parametrize("kind", ["shared", "encoder_only"])
@given(data=st.data())
def test_a_layer_that_reads_anothers_cache_or_sees_all_at_once_costs_nothing(kind: str, data: st.DataObject) -> None:
    assert stored(data.draw(KINDS[kind])) == ()


@given(window=KINDS["sliding_window"], block_size=BLOCKS, terms=TERMS, length=LENGTHS)
def test_a_window_layer_costs_at_most_its_full_twin_and_one_block(
    window: SlidingWindow, block_size: int, terms: Terms, length: int
) -> None:
    shape = msgspec.structs.asdict(window)
    del shape["window"]
    ((part,), (twin,)) = (stored(window), stored(FullAttention(**shape)))
    assert part.record_bytes == twin.record_bytes
    windowed, whole = (
        pool((cache,), rules(), block_size, terms, 2**36).cost(length) for cache in (window, FullAttention(**shape))
    )
    assert windowed <= whole + 1


@given(held=POOLS, users=st.integers(1, 50))
def test_the_largest_window_is_tight(held: Pool, users: int) -> None:
    most = largest_length(held, users, 1_000_000)
    if most:
        assert users * held.cost(most) <= held.usable
    if most < 1_000_000:
        assert users * held.cost(most + 1) > held.usable


@given(held=POOLS, tokens=LENGTHS)
def test_a_request_costs_what_it_takes_of_each_group(held: Pool, tokens: int) -> None:
    shares = zip(held.shares, held.group_blocks(tokens), strict=True)
    assert held.cost(tokens) == sum(share * blocks for share, blocks in shares)
