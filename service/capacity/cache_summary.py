"""The cache of an answer: what one pool holds on its tightest rank, group by group."""

from service.capacity.answer import CacheGroup, KvCache
from service.capacity.cache.footprint import Ring, State
from service.capacity.deployment import Deployment
from service.capacity.ladder import bytes_per_token
from service.capacity.layout import Group
from service.capacity.pool import Pool
from service.capacity.question import Question
from service.capacity.units import six_digits


def kv_cache_of(question: Question, deployment: Deployment) -> KvCache:
    """Describe the pool of the tightest rank."""
    rank = deployment.tightest
    pool, window, rules = rank.pool, question.levers.max_model_len, question.engine.spec.block_rules
    grouped = zip(pool.groups, pool.group_blocks(window), strict=True)
    return KvCache(
        dtype=deployment.dtype.dtype,
        bytes_per_token=bytes_per_token(deployment, rank),
        fixed_bytes_per_user=_fixed_bytes(pool, window),
        block_size=_block_size(pool),
        block_bytes=pool.block_bytes,
        blocks=pool.blocks,
        null_blocks=pool.null_blocks,
        max_concurrency=six_digits(pool.concurrency(window)),
        printed_tokens=None if rules is None else printed_tokens(pool, rules.printed_tokens, window),
        padding_bytes_per_window=pool.padding_bytes(window),
        groups=() if rules is None else tuple(_group(group, blocks, pool) for group, blocks in grouped),
    )


def printed_tokens(pool: Pool, meaning: str, window: int) -> int:
    """The tokens that an engine prints for a pool at start-up: what they mean has changed with its releases."""
    if meaning == "smallest_group":
        smallest = min(group.block for group in pool.groups)
        return pool.blocks // len(pool.groups) * smallest * pool.terms.context_shards
    return int(pool.concurrency(window) * window)


def _group(group: Group, blocks: int, pool: Pool) -> CacheGroup:
    return CacheGroup(
        kinds=group.kinds,
        layers=len({layer for pages in group.pages for layer in pages.at if layer in pool.stage}),
        block_size=None if isinstance(group.span, State | Ring) else group.block,
        blocks_per_window=blocks,
        used_bytes_per_block=group.used(pool.stage),
    )


def _block_size(pool: Pool) -> int:
    """Tokens of a block of whole contexts; of the smallest block where nothing is kept for the whole context."""
    growing = [group.block for group in pool.groups if group.grows]
    return min(growing or [group.block for group in pool.groups])


def _fixed_bytes(pool: Pool, window: int) -> int:
    return sum(
        blocks * group.used(pool.stage)
        for group, blocks in zip(pool.groups, pool.group_blocks(window), strict=True)
        if not group.grows
    )
