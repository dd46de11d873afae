"""What a release of a serving engine is to the planner."""

from typing import Literal

import msgspec

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.capacity.figures import Figure
from service.capacity.fraction import FractionOf
from service.capacity.reserve_rules import ByMemory, ReserveRule


class DtypeDefault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model architecture whose cache the engine turns to another format by itself on one generation of cards."""

    architecture: str
    generation: int
    """The major number of the compute capability."""
    dtype: KvCacheDtype


class Padding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a release pads experts of one format when it loads them: what its kernels need multiples of."""

    hidden: int
    """What the hidden size is padded to a multiple of."""
    width: int
    """The same for the width of an expert, or of what one rank holds of it."""
    width_on: dict[str, int] = {}
    """Where other kernels are the usual ones, by generation of the card (major compute capability)."""
    measured_on: tuple[int, ...] = ()
    """Generations of cards whose start-up logs agree; elsewhere it is assumed."""


class AsLoaded(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What weights take on one kind of card once loaded, over what their shapes and formats come to."""

    cards: tuple[str, ...] = ()
    """Words of which one is in the card's vendor or architecture; empty: any card."""
    low: float
    best: float
    high: float
    logs: int
    """Start-ups that it was measured on."""
    source: str


class BlockRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a release lays out caches of several kinds in blocks of one size."""

    null_block: bool
    """Whether one block is set aside and never given to a request."""
    layouts: dict[str, Literal["tuples", "packed"]]
    """Architectures whose pages aren't padded to one size: packed side by side, or in tuples of one page per size."""
    uneven_pages: Literal["raise", "pad"]
    """What becomes of a block whose page doesn't divide the largest: as many tokens as fit, or its own and padding."""
    batches_in_flight: Figure[int]
    """Batches of `max_num_batched_tokens` whose tokens windows keep beside their own."""
    state_copies_for_prefix_caching: Figure[bool]
    """Whether prefix caching is on by default for states, so that a request keeps one more copy of its own."""
    checkpoint_blocks: int
    """Further copies of the states that are checkpointed."""
    printed_tokens: Literal["smallest_group", "concurrency"]
    """What the printed number of tokens is: blocks over groups x the smallest block, or concurrency x window."""
    latents_as_heads: bool
    """Whether there are no kernels for latents yet, so that keys and values of all heads are kept."""
    latent_block_size: dict[str, int]
    """Tokens of a block of dense latent caches, by generation of the card (major compute capability); others: the
    engine's block size."""
    latent_alignment: int
    """Tokens that a block of latents is a multiple of where it is raised to hold a state."""
    dtype_defaults: tuple[DtypeDefault, ...]


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The defaults and rules of one engine release.

    `generic` is no real engine: a share of the driver-reported memory, one flat reserve, no groups, no null block.
    """

    gpu_memory_utilization: Figure[float] | None
    """The default of its memory fraction; null where the reserve's rule says it for each card."""
    fraction_of: FractionOf = "total"
    memory: Literal["reported", "visible"] = "reported"
    """Whether it sees what the driver reports, or what CUDA shows."""
    reserve_bytes: Figure[int] | None
    """A flat reserve; null where a rule says it."""
    reserve_rule: ReserveRule | None = None
    """Null beside a null `reserve_bytes`: a question has to give `reserve_bytes` or `kv_cache_memory_bytes`."""
    block_size: Figure[int]
    """Tokens of one block."""
    max_num_batched_tokens: Figure[ByMemory] | None = None
    """Tokens of one step; null where there is no default."""
    max_num_seqs: Figure[ByMemory] | None = None
    """Sequences that one pool runs at once; null where there is no default."""
    block_rules: BlockRules | None = None
    """Null: every kind of cache has blocks of its own size, and nothing is padded."""
    as_loaded: tuple[AsLoaded, ...] = ()
    """The first that a card is of counts; a card that is of none loads what was counted."""
    padded_formats: dict[ElementDtype, Figure[Padding]] = {}
    """Formats whose experts take more room once loaded than in the files."""
    notes: str | None
