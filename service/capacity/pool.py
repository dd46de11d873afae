"""From bytes to blocks: what one pool holds and what one request costs it."""

from collections import Counter
from fractions import Fraction
from math import gcd

import msgspec
import numpy as np

from service.capacity.cache import CacheKind, Footprint, Storage, Terms
from service.capacity.cache.footprint import Context, Span, Tokens
from service.capacity.engine import BlockRules
from service.capacity.layout import Group, Layout, packed, padded, separate, tuples

Prices = tuple[tuple[Span, int, int], ...]
"""What a request's cost depends on, for each group: its span, the tokens of its block, its share."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one engine on one rank."""

    block_bytes: int
    blocks: int
    null_blocks: int
    """Blocks that are set aside and never given to a request."""
    groups: tuple[Group, ...]
    terms: Terms
    stage: range
    """The layers of this rank's pipeline stage."""
    shares: tuple[int, ...]
    """Blocks of the pool that one block of each group takes: 1 each where blocks have one size."""
    shared_prefix: int = 0
    """Tokens that all running requests begin with. They count once in what requests hold; not in the worst case."""
    drafted: int = 0
    """Tokens that a draft runs ahead of each running request."""

    def cost(self, tokens: int) -> int:
        """Blocks that a request holding so many tokens takes: whole ones only."""
        return int(self.costs(np.array([tokens]))[0])

    def costs(self, tokens: Tokens) -> Tokens:
        """The same for many requests at once."""
        return self._summed(tokens, self.terms)

    def _summed(self, tokens: Tokens, terms: Terms) -> Tokens:
        total = np.zeros_like(tokens)
        for (span, block, share), alike in Counter(self.prices).items():
            total = total + alike * share * span.blocks(tokens, block, terms)
        return total

    @property
    def prices(self) -> Prices:
        """All that a request's cost depends on; pools of one deployment whose prices are equal cost the same."""
        return tuple((group.span, group.block, share) for group, share in zip(self.groups, self.shares, strict=True))

    @property
    def priced(self) -> "Pool":
        """The pool without its blocks, for what is the same in every pool in which a request costs the same."""
        groups = tuple(Group(group.span, group.block, ()) for group in self.groups)
        return msgspec.structs.replace(self, block_bytes=1, blocks=0, null_blocks=0, groups=groups, stage=range(0))

    @property
    def usable(self) -> int:
        """Blocks that requests can have."""
        return max(0, self.blocks - self.null_blocks)

    def concurrency(self, window: int) -> Fraction:
        """All blocks over those of one full window: the figure that engines print."""
        return Fraction(self.blocks, self.cost(window))

    def held_costs(self, tokens: Tokens) -> Tokens:
        """Blocks of its own that a request takes while it decodes, holding so many tokens and what is drafted.

        Windows then keep no batches in flight beside their own, and the prefix that all share counts apart.
        """
        return self._summed(tokens + self.drafted, self._held_terms)

    @property
    def shared_blocks(self) -> int:
        """Blocks of the prefix that all running requests hold together."""
        if not self.shared_prefix:
            return 0
        return sum(
            share * group.span.shared_blocks(group.block, self._held_terms)
            for group, share in zip(self.groups, self.shares, strict=True)
            if isinstance(group.span, Context)
        )

    @property
    def left_to_requests(self) -> int:
        """Blocks that requests can have for themselves."""
        return max(0, self.usable - self.shared_blocks)

    @property
    def _held_terms(self) -> Terms:
        return msgspec.structs.replace(self.terms, in_flight=1, shared_prefix=self.shared_prefix)

    def group_blocks(self, tokens: int) -> tuple[int, ...]:
        """Blocks of each group that a request holding so many tokens takes."""
        return tuple(int(group.blocks(np.array([tokens]), self.terms)[0]) for group in self.groups)

    def padding_bytes(self, tokens: int) -> int:
        """Bytes of a request's blocks that no layer can ever use: pages padded, and places that no layer fills."""
        return sum(
            blocks * (share * self.block_bytes - group.used(self.stage))
            for group, share, blocks in zip(self.groups, self.shares, self.group_blocks(tokens), strict=True)
        )


def layout_of(
    footprints: tuple[Footprint, ...], *, rules: BlockRules | None, architecture: str, block_size: int
) -> Layout:
    """Form the groups of a deployment, as its engine does."""
    if rules is None:
        return separate(footprints, block_size)
    alignment = rules.latent_alignment
    match rules.layouts.get(architecture):
        case "packed":
            return packed(footprints, block_size, latent_alignment=alignment)
        case "tuples":
            return tuples(footprints, block_size, latent_alignment=alignment)
        case None:
            return padded(footprints, block_size, rules.uneven_pages, latent_alignment=alignment)


def pool_of(
    layout: Layout,
    *,
    rules: BlockRules | None,
    budget_bytes: int,
    terms: Terms,
    stage: range,
    shared_prefix: int = 0,
    drafted: int = 0,
) -> Pool:
    """Divide one rank's KV budget into blocks; a budget below zero holds none.

    Where every kind has blocks of its own size, the pool counts in their greatest common divisor, so that nothing is
    lost to rounding.
    """
    if rules is None:
        groups = tuple(group for group in layout.groups if group.width(stage))
        block_bytes = gcd(*(group.width(stage) for group in groups))
        shares = tuple(group.width(stage) // block_bytes for group in groups)
    else:
        groups = layout.groups
        block_bytes = layout.block_bytes(stage)
        shares = (1,) * len(groups)
    return Pool(
        block_bytes=block_bytes,
        blocks=max(0, budget_bytes) // block_bytes,
        null_blocks=1 if rules is not None and rules.null_block else 0,
        groups=groups,
        terms=terms,
        stage=stage,
        shares=shares,
        shared_prefix=shared_prefix,
        drafted=drafted,
    )


def footprints_of(caches: tuple[CacheKind, ...], storage: Storage) -> tuple[Footprint, ...]:
    """List what all caches store on one rank, in the order of the caches."""
    return tuple(footprint for cache in caches for footprint in cache.footprints(storage))
