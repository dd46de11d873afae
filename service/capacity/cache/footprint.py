"""What every kind of cache comes down to: records of so many bytes, kept for so long.

A kind says this of itself for one deployment (`Storage`); pools are laid out from it and never ask which kind it is.
"""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.units import ceil_div

Tokens = NDArray[np.int64]
CacheFamily = Literal["attention", "latent", "state", "compressed"]
"""Kinds of cache whose kernels take memory of their own beside the cache."""
Ranges = tuple[tuple[int, int, int], ...]
"""Layers of a model as (first, end, step), the end not included, as in Python's `range`."""


def layers_of(at: Ranges, layers: int) -> tuple[int, ...]:
    """Number the layers of ranges; the first so many where there are none."""
    return tuple(layer for first, end, step in at or ((0, layers, 1),) for layer in range(first, end, step))


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """How one deployment stores caches."""

    dtype: str
    """The number format that keys and values are kept in, resolved: never `auto`."""
    model_dtype: str
    """The format of activations: convolution windows and states without a format of their own are kept in it."""
    tensor_parallel: int = 1
    speculative_tokens: int = 0
    """Tokens that a draft runs ahead: they lengthen convolution windows and rings."""
    compute_capability: tuple[int, int] | None = None
    """The card's, where the engine picks its layout by it; null: plain records."""
    latents_as_heads: bool = False
    """Whether the engine has no kernels for latents yet and keeps the keys and values that they stand for."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine adds to a request's own length."""

    in_flight: int = 1
    """Tokens that steps under way may write before old ones are let go."""
    window_blocks: int = 0
    """Blocks that a window takes beyond its tokens, because it rarely begins at the edge of a block."""
    state_blocks: int = 1
    """Copies of its state that one request keeps."""
    checkpoint_blocks: int = 0
    """Further copies, for the states that the engine checkpoints."""
    context_shards: int = 1
    """Ranks that share the tokens of one request (decode context parallel)."""
    shared_prefix: int = 0
    """Tokens that all running requests begin with and hold once together."""


class Context(msgspec.Struct, frozen=True, tag_field="span", tag="context"):
    """Every token, for the whole life of the request."""

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """Whole blocks of one rank's share of the tokens."""
        own = ceil_div(ceil_div(tokens, terms.context_shards), block)
        shared = self.shared_blocks(block, terms)
        # The block that is being written is always a request's own.
        return np.maximum(own - shared, np.minimum(own, 1)) if shared else own

    def shared_blocks(self, block: int, terms: Terms) -> int:
        """Blocks of the prefix that requests hold together: whole ones only."""
        return terms.shared_prefix // (terms.context_shards * block)

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        shards = f" / {terms.context_shards} ranks" if terms.context_shards > 1 else ""
        return f"{tokens:,}{shards} / {block:,} tokens, rounded up"


class Window(msgspec.Struct, frozen=True, tag_field="span", tag="window"):
    """The last `tokens` tokens, and what is in flight."""

    tokens: int

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """Blocks of the window, of the tokens in flight, and of the edge that the window straddles."""
        held = np.minimum(tokens, self.tokens - 1 + terms.in_flight)
        return ceil_div(held, block) + terms.window_blocks

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        edge = f", + {terms.window_blocks}" if terms.window_blocks else ""
        window = f"{self.tokens - 1:,} + {terms.in_flight:,} in flight"
        return f"the smaller of {window} and {tokens:,}, / {block:,} tokens, rounded up{edge}"


class Chunk(msgspec.Struct, frozen=True, tag_field="span", tag="chunk"):
    """The tokens of the current chunk of `tokens`, and what is in flight."""

    tokens: int

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """Blocks of one chunk and of the tokens in flight."""
        # Where nothing is said to be in flight, the one token being written is part of the chunk.
        in_flight = terms.in_flight if terms.window_blocks else 0
        return ceil_div(np.minimum(tokens, self.tokens + in_flight), block)

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        in_flight = f" + {terms.in_flight:,} in flight" if terms.window_blocks else ""
        return f"the smaller of {self.tokens:,}{in_flight} and {tokens:,}, / {block:,} tokens, rounded up"


class State(msgspec.Struct, frozen=True, tag_field="span", tag="state"):
    """One state, rewritten at every step."""

    checkpointed: bool
    """Whether engines that checkpoint states keep one more copy of this one."""

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """As many blocks as copies of the state, whatever the length."""
        return np.full_like(tokens, self._copies(terms))

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        return "one for each copy of its state"

    def _copies(self, terms: Terms) -> int:
        return terms.state_blocks + (terms.checkpoint_blocks if self.checkpointed else 0)


class Ring(msgspec.Struct, frozen=True, tag_field="span", tag="ring"):
    """A few rows that are overwritten in turn."""

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """One block for the request's whole life."""
        return np.ones_like(tokens)

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        return "one for the whole request"


class Encoder(msgspec.Struct, frozen=True, tag_field="span", tag="encoder"):
    """The encoder's tokens, at most `tokens` of them, kept while the decoder runs."""

    tokens: int

    def blocks(self, tokens: Tokens, block: int, terms: Terms) -> Tokens:
        """Blocks of the longest encoder input, whatever the request's own length."""
        return np.full_like(tokens, ceil_div(self.tokens, block))

    def explained(self, tokens: int, block: int, terms: Terms) -> str:
        """How the number of blocks comes about, for people."""
        return f"{self.tokens:,} of the encoder / {block:,} tokens, rounded up"


Span = Context | Window | Chunk | State | Ring | Encoder
"""For how long a request keeps its records, and so how many blocks of so many tokens it takes at each length."""


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """What layers of one kind store on one rank."""

    kind: str
    layers: int
    at: Ranges
    """Which layers; empty where the order isn't known or all layers are alike."""
    record_bytes: int
    """Bytes of one record of one layer."""
    tokens_per_record: int = 1
    span: Span
    block: int | None = None
    """Tokens of a block, where the kind's kernels take no other."""
    alignment: int = 1
    """Pages are rounded up to a multiple of so many bytes."""
    formula: str
    """How the record's bytes come about, for people."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which layers keep it, one by one."""
        return layers_of(self.at, self.layers)

    @property
    def grows(self) -> bool:
        """Whether every further token takes more."""
        return isinstance(self.span, Context)

    def page_bytes(self, block: int) -> int:
        """Bytes of one block of one layer, as its kernels align it."""
        return ceil_div(self.used_bytes(block), self.alignment) * self.alignment

    def used_bytes(self, block: int) -> int:
        """Bytes of it that hold records. States and rings are one record whatever the block."""
        if isinstance(self.span, State | Ring):
            return self.record_bytes
        return ceil_div(block, self.tokens_per_record) * self.record_bytes


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What all kinds of cache have in common. As it stands: kept in a format of its own, whole on every rank."""

    layers: int
    at: Ranges = ()

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "attention"

    @property
    def formats(self) -> tuple[str, ...] | None:
        """The number formats that a caller may choose from; null where the kind has a format of its own."""
        return None

    def can_split(self, ranks: int) -> bool:
        """Whether tensor parallel can divide it over so many ranks, or give each a copy."""
        return True

    def context_shards(self, ranks: int) -> int:
        """The most ranks that can share the tokens of one request (decode context parallel)."""
        return ranks

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """What its layers store on one rank; nothing, for layers without a cache of their own."""
        return ()
