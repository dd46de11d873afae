"""One question's deployment: its number format, its groups, and the pool of its tightest rank."""

from collections.abc import Callable
from fractions import Fraction

import msgspec

from service.capacity.budget import Budget, budget_of
from service.capacity.cache import CacheKind, Footprint, IndexKeys, KeysAndValues, LatentAttention, Storage, Terms
from service.capacity.cache.footprint import Window
from service.capacity.drafts import draft_caches
from service.capacity.dtypes import PLAIN_BITS
from service.capacity.engine import Engine
from service.capacity.errors import Fault, UnsupportedCombination
from service.capacity.figures import Figure
from service.capacity.gpu import Gpu, compute_capability
from service.capacity.placement import Stage, check_placement, stages
from service.capacity.pool import Pool, footprints_of, layout_of, pool_of
from service.capacity.question import Levers, Question
from service.capacity.resolve_dtype import Resolved, activation_dtype, check_formats, kv_dtype
from service.capacity.units import Estimate

_SPARSE_LATENT_BLOCK = 64
"""Tokens of a block of sparse latents; their kernels take no other."""
_BLOCK_SPARSE_BLOCK = 128
"""Tokens of a block beside 16-bit index keys of one token each: the block that is picked (MiniMax-M3)."""

_FP8_INDEX_KERNELS = 10
"""The major compute capability whose kernels read index keys of heads in fp8."""


class Rank(msgspec.Struct, frozen=True):
    """One pipeline stage: its budget, and its pool at the most likely KV budget."""

    stage: Stage
    budget: Budget
    pool: Pool

    def pool_of(self, kv: int) -> Pool:
        """Its pool at another KV budget."""
        return msgspec.structs.replace(self.pool, blocks=max(0, kv) // self.pool.block_bytes)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A question's caches as its engine keeps them."""

    caches: tuple[CacheKind, ...]
    dtype: Resolved
    footprints: tuple[Footprint, ...]
    whole: tuple[Footprint, ...]
    """What they would be on a single rank."""
    window: int
    ranks: tuple[Rank, ...]
    """One for each pipeline stage that keeps a cache: the ranks of a stage are alike."""
    bare: tuple[Budget, ...]
    """Budgets of stages that keep no cache: their weights and reserve have to fit all the same."""

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Those of all stages."""
        return (*(rank.budget for rank in self.ranks), *self.bare)

    @property
    def short(self) -> bool:
        """Whether a stage has no room for its weights and reserve, or not for the cache that was asked for."""
        return self.is_short(lambda kv: kv.best)

    def is_short(self, end: Callable[[Estimate], int]) -> bool:
        """The same where every KV budget comes to one end of its estimate."""
        return any(end(budget.kv) < 0 for budget in self.bare) or any(
            rank.budget.asked is not None and end(rank.budget.kv) < rank.budget.asked for rank in self.ranks
        )

    @property
    def tightest(self) -> Rank:
        """The rank that sets the number of users who fill the window; of equals, the one with less memory left."""
        return min(
            self.ranks, key=lambda rank: (Fraction(rank.pool.usable, rank.pool.cost(self.window)), rank.budget.kv.best)
        )


def deploy(question: Question) -> Deployment:
    """Lay a question's caches out on its GPUs.

    Raises `UnsupportedCombination` for what engines refuse, `NotPlannedYet` for what isn't known.
    """
    levers, model = question.levers, question.model.spec
    caches = _caches(question)
    check_placement(question.model, caches, levers)
    capability = compute_capability(question.gpu.spec)
    dtype = kv_dtype(levers.kv_cache_dtype, model, question.engine.spec, None if capability is None else capability[0])
    check_formats(caches, dtype.dtype, question.model.key)
    rules = question.engine.spec.block_rules
    _check_kernels(question, caches, dtype.dtype)
    storage = Storage(
        dtype=dtype.dtype,
        model_dtype=activation_dtype(model.dtype),
        tensor_parallel=levers.tensor_parallel,
        speculative_tokens=levers.speculative_tokens,
        compute_capability=None if rules is None else capability,
        latents_as_heads=rules is not None and rules.latents_as_heads,
    )
    dtype = _as_kept(dtype, caches, storage)
    footprints = _footprints(question, caches, storage)
    whole = _footprints(question, caches, msgspec.structs.replace(storage, tensor_parallel=1))
    layout = layout_of(footprints, rules=rules, architecture=model.architecture, block_size=levers.block_size)
    terms = terms_of(question.engine.spec, levers)
    ranks, bare = [], []
    for stage in stages(model, levers):
        budget = budget_of(question, stage)
        if any(group.width(stage.layers) for group in layout.groups):
            pool = pool_of(
                layout,
                rules=rules,
                budget_bytes=budget.kv.best,
                terms=terms,
                stage=stage.layers,
                shared_prefix=levers.shared_prefix_tokens,
                drafted=levers.speculative_tokens,
            )
            ranks.append(Rank(stage, budget, pool))
        else:
            bare.append(budget)
    if not ranks:
        raise UnsupportedCombination(Fault("/model", f"{question.model.key} keeps no cache: memory doesn't limit it"))
    return Deployment(
        caches=caches,
        dtype=dtype,
        footprints=footprints,
        whole=whole,
        window=levers.max_model_len,
        ranks=tuple(ranks),
        bare=tuple(bare),
    )


def _as_kept(dtype: Resolved, caches: tuple[CacheKind, ...], storage: Storage) -> Resolved:
    """Name the record that kernels of sparse attention take on this card, where it is another than was asked for."""
    kept = {cache.stored_as(storage) for cache in caches if isinstance(cache, LatentAttention)} - {dtype.dtype}
    if storage.latents_as_heads or not kept:
        return dtype
    (record,) = kept
    asked = f"{dtype.dtype} was asked for" if dtype.reason is None else dtype.reason
    return Resolved(record, f"{asked}; kernels of sparse attention keep {record} on this card")


def terms_of(engine: Engine, levers: Levers) -> Terms:
    """Say what the engine adds to a request's own length: nothing, where it has no rules."""
    rules = engine.block_rules
    shards = levers.decode_context_parallel
    if rules is None:
        return Terms(context_shards=shards)
    batches = levers.pipeline_parallel if levers.pipeline_parallel > 1 else rules.batches_in_flight.value
    return Terms(
        in_flight=batches * (levers.max_num_batched_tokens or 1),
        window_blocks=1,
        state_blocks=1 + levers.speculative_tokens + int(levers.enable_prefix_caching),
        checkpoint_blocks=rules.checkpoint_blocks if levers.enable_prefix_caching else 0,
        context_shards=shards,
    )


def default_block_size(engine: Engine, gpu: Gpu, caches: tuple[CacheKind, ...]) -> Figure[int]:
    """Tokens of a block where nobody asked: the engine's, or what the kernels of these caches take."""
    rules, usual = engine.block_rules, engine.block_size
    if rules is None:
        return usual
    tokens = _sparse_block(caches)
    if tokens is not None:
        return Figure(tokens, "the block that kernels of sparse attention take", "medium")
    capability, kinds = compute_capability(gpu), {str(cache.__struct_config__.tag) for cache in caches}
    if "latent" in kinds and capability is not None and str(capability[0]) in rules.latent_block_size:
        tokens = rules.latent_block_size[str(capability[0])]
        return Figure(tokens, "the block that kernels for latents take on this card", "medium")
    return usual


def _sparse_block(caches: tuple[CacheKind, ...]) -> int | None:
    """Tokens of a block that kernels of sparse attention take; null where these caches need no such kernels."""
    keys = [cache for cache in caches if isinstance(cache, IndexKeys)]
    if keys and any(isinstance(cache, LatentAttention) for cache in caches):
        return _SPARSE_LATENT_BLOCK
    return _BLOCK_SPARSE_BLOCK if any(cache.tokens_per_key == 1 for cache in keys) else None


def default_block_size_of(question: Question) -> Figure[int]:
    """The default of a question, whose draft has no say in it."""
    return default_block_size(question.engine.spec, question.gpu.spec, question.model.spec.caches.value)


def _check_kernels(question: Question, caches: tuple[CacheKind, ...], dtype: str) -> None:
    """Refuse blocks and records that this engine has no kernels for."""
    rules, levers = question.engine.spec.block_rules, question.levers
    if rules is None:
        return
    if rules.latents_as_heads and dtype not in PLAIN_BITS and any(isinstance(c, LatentAttention) for c in caches):
        detail = f"{question.engine.key} has no kernels for latents; formats: {', '.join(PLAIN_BITS)}"
        raise UnsupportedCombination(Fault("/levers/kv_cache_dtype", detail))
    least = _sparse_block(caches)
    if least is not None and levers.block_size % least:
        detail = f"kernels of sparse attention take blocks of {least} tokens, or a multiple"
        raise UnsupportedCombination(Fault("/levers/block_size", detail))


def _footprints(question: Question, caches: tuple[CacheKind, ...], storage: Storage) -> tuple[Footprint, ...]:
    """List what all caches store, keys and values of layers that are left out of quantisation in the model's dtype."""
    skipped = question.levers.kv_cache_dtype_skip_layers
    layers = question.model.spec.layers
    last = max((number for number in skipped if isinstance(number, int)), default=-1)
    if skipped and (layers is None or last >= layers.value):
        detail = f"{question.model.key} has no layer {last} that is known; leave it out"
        raise UnsupportedCombination(Fault("/levers/kv_cache_dtype_skip_layers", detail))
    if not skipped or storage.dtype == storage.model_dtype:
        return footprints_of(caches, storage)
    plain = msgspec.structs.replace(storage, dtype=storage.model_dtype)
    found: list[Footprint] = []
    for cache in caches:
        for narrow, wide in zip(cache.footprints(storage), cache.footprints(plain), strict=True):
            windowed = "sliding_window" in skipped and isinstance(narrow.span, Window)
            is_quantised = cache.formats is not None
            kept = {layer for layer in narrow.numbers if is_quantised and (windowed or layer in skipped)}
            found += [*_only(narrow, set(narrow.numbers) - kept), *_only(wide, kept)]
    return tuple(found)


def _only(footprint: Footprint, layers: set[int]) -> tuple[Footprint, ...]:
    """The footprint of some of its layers; none when there are none."""
    if not layers:
        return ()
    at = tuple((layer, layer + 1, 1) for layer in sorted(layers))
    return (msgspec.structs.replace(footprint, layers=len(layers), at=at),)


def _caches(question: Question) -> tuple[CacheKind, ...]:
    levers, model = question.levers, question.model.spec
    caches = model.caches.value
    if levers.kv_heads is not None:
        if not any(isinstance(cache, KeysAndValues) for cache in caches):
            detail = f"the cache of {question.model.key} has no KV heads: leave it out"
            raise UnsupportedCombination(Fault("/levers/kv_heads", detail))
        caches = tuple(
            msgspec.structs.replace(cache, kv_heads=levers.kv_heads) if isinstance(cache, KeysAndValues) else cache
            for cache in caches
        )
    if levers.indexer_kv_dtype == "fp8":
        _check_index_keys(question, caches)
        caches = tuple(
            msgspec.structs.replace(cache, stored="fp8_unscaled") if isinstance(cache, IndexKeys) else cache
            for cache in caches
        )
    return (*caches, *draft_caches(question))


def _check_index_keys(question: Question, caches: tuple[CacheKind, ...]) -> None:
    """Refuse index keys in fp8 where there are none in 16 bits for every token, or no kernels for them."""
    where = "/levers/indexer_kv_dtype"
    if not any(
        isinstance(cache, IndexKeys) and cache.stored == "bf16" and cache.tokens_per_key == 1 for cache in caches
    ):
        detail = f"{question.model.key} has no index keys of 16 bits for each token: leave it out"
        raise UnsupportedCombination(Fault(where, detail))
    capability = compute_capability(question.gpu.spec)
    if question.engine.spec.block_rules is not None and (capability is None or capability[0] != _FP8_INDEX_KERNELS):
        detail = "kernels for index keys in fp8 are there for compute capability 10 (B200, GB200, B300) only"
        raise UnsupportedCombination(Fault(where, detail))
