"""How an engine lays caches of several kinds out in blocks of one size.

Rules read in vLLM (kv_cache_utils, kv_cache_planning) and checked against what real engines printed:

1. Layers of one type (all of them whole contexts in blocks of as many tokens; or the same window; or states of one
   size) are one group, whatever their records; its block is the sum of all their pages.
2. Otherwise all pages are made as large as the largest, by putting more tokens into a block or by padding, and the
   layers of each kind are dealt into groups of one size. A group that isn't full wastes the rest: padding.
3. Some kernels take blocks as the outermost dimension only. Their models keep pages of several sizes in one block:
   in tuples of one page of each size, or (newer) packed side by side.
"""

from math import lcm

import msgspec

from service.capacity.cache.footprint import (
    Context,
    Footprint,
    Ring,
    Span,
    State,
    Terms,
    Tokens,
)
from service.capacity.units import ceil_div

_STATE_ALIGNMENT = 16
"""Tokens that a block is a multiple of where it is raised to hold a state, unless kernels for latents want more."""

_UNEVEN = 1.5
"""A largest kind with less than so many times the layers of the smallest sets the size of groups."""


class Pages(msgspec.Struct, frozen=True):
    """Layers of one kind in a group: each has one page in every block of the group."""

    kind: str
    page_bytes: int
    """Bytes that a layer takes of a block, padding included."""
    used_bytes: int
    """Bytes of it that hold records."""
    at: tuple[int, ...]
    """Which layers."""

    def on(self, stage: range) -> int:
        """How many of these layers are on a pipeline stage."""
        return sum(layer in stage for layer in self.at)


class Group(msgspec.Struct, frozen=True):
    """Layers whose blocks are given out together: one block holds `block` tokens of all of them."""

    span: Span
    block: int
    pages: tuple[Pages, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its layers, each once."""
        return tuple(dict.fromkeys(pages.kind for pages in self.pages))

    @property
    def grows(self) -> bool:
        """Whether every further token takes more."""
        return isinstance(self.span, Context)

    def blocks(self, tokens: Tokens, terms: Terms) -> Tokens:
        """Blocks that requests of these lengths take of this group."""
        return self.span.blocks(tokens, self.block, terms)

    def width(self, stage: range) -> int:
        """Bytes of one of its blocks on a pipeline stage."""
        return sum(pages.page_bytes * pages.on(stage) for pages in self.pages)

    def used(self, stage: range) -> int:
        """Bytes of one of its blocks that hold records on a pipeline stage."""
        return sum(pages.used_bytes * pages.on(stage) for pages in self.pages)


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of a deployment, formed once for the whole model."""

    groups: tuple[Group, ...]
    alignment: int = 1
    """A block is a multiple of so many bytes."""
    tuple_bytes: int | None = None
    """Bytes of a tuple of one page of each size; null: a block is as wide as the widest group."""

    def block_bytes(self, stage: range) -> int:
        """Bytes of one block on a pipeline stage, whichever group takes it."""
        if self.tuple_bytes is not None:
            return self.tuple_bytes * max(_most_of_one_size(group, stage) for group in self.groups)
        widest = max(group.width(stage) for group in self.groups)
        return ceil_div(widest, self.alignment) * self.alignment


def separate(footprints: tuple[Footprint, ...], block_size: int) -> Layout:
    """Lay every kind out in blocks of its own size: no groups across kinds, no padding, no kernels to suit."""
    plain = tuple(
        msgspec.structs.replace(one, alignment=1, block=None if one.grows else one.block) for one in footprints
    )
    return Layout(groups=tuple(_buckets(plain, block_size)))


def padded(footprints: tuple[Footprint, ...], block_size: int, uneven_pages: str, *, latent_alignment: int) -> Layout:
    """Lay all kinds out in blocks of one size by padding (rules 1 and 2)."""
    block_size = raised_block_size(footprints, block_size, latent_alignment)
    buckets = _buckets(footprints, block_size)
    if len(buckets) == 1:
        return Layout(groups=tuple(buckets))
    largest = max(footprint.page_bytes(_block_of(footprint, block_size)) for footprint in footprints)
    kinds: dict[tuple[Span, int], list[Pages]] = {}
    for footprint in footprints:
        block = _block_of(footprint, block_size)
        page = footprint.page_bytes(block)
        if not isinstance(footprint.span, State | Ring) and (uneven_pages == "raise" or largest % page == 0):
            block *= largest // page
        pages = Pages(footprint.kind, largest, footprint.used_bytes(block), footprint.numbers)
        kinds.setdefault((footprint.span, block), []).append(pages)
    counts = [sum(len(pages.at) for pages in kind) for kind in kinds.values()]
    size = max(counts) if max(counts) < _UNEVEN * min(counts) else min(counts)
    return Layout(
        groups=tuple(
            Group(span, block, dealt)
            for (span, block), kind in kinds.items()
            for dealt in _deal(kind, ceil_div(sum(len(pages.at) for pages in kind), size))
        )
    )


def packed(footprints: tuple[Footprint, ...], block_size: int, *, latent_alignment: int) -> Layout:
    """Keep pages of several sizes side by side in one block, as wide as the whole contexts need (rule 3, newer)."""
    buckets = _buckets(footprints, raised_block_size(footprints, block_size, latent_alignment))
    everywhere = _all_layers(footprints)
    single = [pages.page_bytes for bucket in buckets for pages in bucket.pages]
    width = max(single + [bucket.width(everywhere) for bucket in buckets if bucket.grows])
    groups = [group for bucket in buckets for group in _split_to_fit(bucket, width, everywhere)]
    return Layout(groups=tuple(groups), alignment=lcm(*(footprint.alignment for footprint in footprints)))


def tuples(footprints: tuple[Footprint, ...], block_size: int, *, latent_alignment: int) -> Layout:
    """Keep one page of each size of the whole contexts in a tuple, and as many tuples as layers (rule 3, older)."""
    buckets = _buckets(footprints, block_size)
    contexts = [bucket for bucket in buckets if bucket.grows]
    sizes = sorted({pages.page_bytes for bucket in contexts for pages in bucket.pages})
    if not sizes or any(pages.page_bytes > sizes[-1] for bucket in buckets for pages in bucket.pages):
        # No tuple of these pages holds every page.
        return padded(footprints, block_size, "raise", latent_alignment=latent_alignment)
    everywhere = _all_layers(footprints)
    most = max(_most_of_one_size(bucket, everywhere) for bucket in contexts)
    groups = []
    for bucket in buckets:
        fitted = [
            msgspec.structs.replace(pages, page_bytes=min(size for size in sizes if size >= pages.page_bytes))
            for pages in bucket.pages
        ]
        in_parts = max(1, round(_most_of_one_size(bucket, everywhere) / most))
        groups += [Group(bucket.span, bucket.block, dealt) for dealt in _deal(fitted, in_parts)]
    return Layout(groups=tuple(groups), tuple_bytes=sum(sizes))


def raised_block_size(footprints: tuple[Footprint, ...], block_size: int, latent_alignment: int) -> int:
    """Raise the block of attention until its page holds the largest state: the state's page is then padded to it.

    It is raised in steps: of `latent_alignment` tokens where there are latents.
    """
    state = max((f.page_bytes(1) for f in footprints if isinstance(f.span, State)), default=0)
    per_token = max((f.record_bytes for f in footprints if f.grows and f.tokens_per_record == 1), default=0)
    if not state or not per_token:
        return block_size
    step = latent_alignment if any(f.kind == "latent" for f in footprints) else _STATE_ALIGNMENT
    return max(block_size, step * ceil_div(state, step * per_token))


def _buckets(footprints: tuple[Footprint, ...], block_size: int) -> list[Group]:
    """Put layers of one type together (rule 1)."""
    buckets: dict[tuple[Span, int, int], list[Pages]] = {}
    for footprint in footprints:
        block = _block_of(footprint, block_size)
        page = footprint.page_bytes(block)
        of_one_size = page if isinstance(footprint.span, State | Ring) else 0
        pages = Pages(footprint.kind, page, footprint.used_bytes(block), footprint.numbers)
        buckets.setdefault((footprint.span, block, of_one_size), []).append(pages)
    return [Group(span, block, tuple(pages)) for (span, block, _), pages in buckets.items()]


def _block_of(footprint: Footprint, block_size: int) -> int:
    """Tokens of one block: its kernels' own, else the engine's, in whole records."""
    block = block_size if footprint.block is None else footprint.block
    return ceil_div(block, footprint.tokens_per_record) * footprint.tokens_per_record


def _deal(kind: list[Pages] | tuple[Pages, ...], parts: int) -> list[tuple[Pages, ...]]:
    """Deal layers into so many groups in turn: every parts-th layer, beginning with each of the first."""
    cards = sorted((layer, number) for number, pages in enumerate(kind) for layer in pages.at)
    dealt = []
    for part in range(parts):
        hand = cards[part::parts]
        dealt.append(
            tuple(
                msgspec.structs.replace(pages, at=tuple(layer for layer, owner in hand if owner == number))
                for number, pages in enumerate(kind)
                if any(owner == number for _, owner in hand)
            )
        )
    return dealt


def _split_to_fit(bucket: Group, width: int, everywhere: range) -> list[Group]:
    parts = ceil_div(bucket.width(everywhere), width)
    while True:
        groups = [Group(bucket.span, bucket.block, dealt) for dealt in _deal(bucket.pages, parts)]
        if max(group.width(everywhere) for group in groups) <= width:
            return groups
        parts += 1


def _most_of_one_size(group: Group, stage: range) -> int:
    by_size: dict[int, int] = {}
    for pages in group.pages:
        by_size[pages.page_bytes] = by_size.get(pages.page_bytes, 0) + pages.on(stage)
    return max(by_size.values())


def _all_layers(footprints: tuple[Footprint, ...]) -> range:
    return range(1 + max(max(footprint.numbers) for footprint in footprints))
