"""Caches of keys and values per head: multi-head, grouped-query and multi-query attention, whole or in part.

Queries are never cached, because causal attention never consults a past query.
"""

import msgspec

from service.capacity.cache.footprint import Chunk, Context, Encoder, Footprint, Ranges, Storage, Window
from service.capacity.dtypes import PLAIN_BITS
from service.capacity.units import ceil_div

_PER_TOKEN_HEAD = {"fp8_per_token_head": 8, "int8_per_token_head": 8, "int4_per_token_head": 4}

FORMATS = (*(name for name in PLAIN_BITS if name != "int8"), *_PER_TOKEN_HEAD, "nvfp4")
"""The number formats that keys and values of single heads can be kept in."""


class KeysAndValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What attention layers of every span have in common."""

    layers: int
    kv_heads: int
    key_dim: int
    """Elements of one key of one head."""
    value_dim: int
    """Elements of one value of one head. Engines store values even where the model takes its keys for them."""
    at: Ranges = ()

    @property
    def formats(self) -> tuple[str, ...]:
        """The number formats that this cache can be kept in."""
        return FORMATS

    def kv_heads_per_rank(self, tensor_parallel: int) -> int:
        """KV heads on one rank: sharded, and past their number replicated (a rank holds at least one)."""
        return max(1, self.kv_heads // tensor_parallel)

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks can share the heads: each gets as many, or each head goes to as many ranks."""
        return self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0

    def record_bytes(self, storage: Storage) -> int:
        """Bytes of one token of one layer on one rank, scales included.

        Per-token-head formats keep one fp32 scale for each key and each value; NVFP4 keeps one fp8 scale per 16
        numbers.
        """
        heads = self.kv_heads_per_rank(storage.tensor_parallel)
        elements = self.key_dim + self.value_dim
        if storage.dtype in _PER_TOKEN_HEAD:
            return heads * (ceil_div(elements * _PER_TOKEN_HEAD[storage.dtype], 8) + 8)
        if storage.dtype == "nvfp4":
            return ceil_div(heads * elements * 9, 16)
        return ceil_div(heads * elements * PLAIN_BITS[storage.dtype], 8)

    def _footprint(self, storage: Storage, kind: str, span: Context | Window | Chunk | Encoder) -> Footprint:
        heads = self.kv_heads_per_rank(storage.tensor_parallel)
        if storage.dtype in PLAIN_BITS:
            per_head = f"({self.key_dim} + {self.value_dim}) x {PLAIN_BITS[storage.dtype] // 8} B"
        elif storage.dtype == "nvfp4":
            per_head = f"({self.key_dim} + {self.value_dim}) x 9/16 B"
        else:
            per_head = f"(({self.key_dim} + {self.value_dim}) x {_PER_TOKEN_HEAD[storage.dtype]} bits + 8 B of scales)"
        return Footprint(
            kind=kind,
            layers=self.layers,
            at=self.at,
            record_bytes=self.record_bytes(storage),
            span=span,
            formula=f"{heads} KV heads x {per_head}",
        )


class FullAttention(KeysAndValues, frozen=True, tag_field="kind", tag="full"):
    """Layers that keep one key and one value per token and KV head for the whole context."""

    def context_shards(self, ranks: int) -> int:
        """Ranks that may share the tokens of one request: those that would hold copies of the same head."""
        return max(1, ranks // self.kv_heads)

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Layers x KV heads x (key + value) x element for every token."""
        return (self._footprint(storage, "full", Context()),)


class SlidingWindow(KeysAndValues, frozen=True, tag_field="kind", tag="sliding_window"):
    """Layers whose tokens see only the last `window` tokens, themselves included."""

    window: int

    def context_shards(self, ranks: int) -> int:
        """None but one: engines don't spread these tokens over ranks."""
        return 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """As full attention, for the tokens of the window only."""
        return (self._footprint(storage, "sliding_window", Window(self.window)),)


class ChunkedLocal(KeysAndValues, frozen=True, tag_field="kind", tag="chunked"):
    """Layers whose tokens see only the chunk of `chunk` tokens that they are in (Llama 4)."""

    chunk: int

    def context_shards(self, ranks: int) -> int:
        """None but one: engines don't spread these tokens over ranks."""
        return 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """As full attention, for the tokens of one chunk only."""
        return (self._footprint(storage, "chunked", Chunk(self.chunk)),)


class CrossAttention(KeysAndValues, frozen=True, tag_field="kind", tag="cross_attention"):
    """Decoder layers that read an encoder's output: kept once per request, for at most `encoder_tokens`."""

    encoder_tokens: int

    def context_shards(self, ranks: int) -> int:
        """None but one: engines don't spread these tokens over ranks."""
        return 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """As full attention, for the encoder's tokens."""
        return (self._footprint(storage, "cross_attention", Encoder(self.encoder_tokens)),)


class EncoderOnly(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="encoder_only"
):
    """Layers that see their whole input at once and keep nothing."""

    layers: int
    at: Ranges = ()

    @property
    def formats(self) -> None:
        """Any: there is nothing to keep."""
        return

    def can_split(self, ranks: int) -> bool:
        """Any number of ranks."""
        return True

    def context_shards(self, ranks: int) -> int:
        """All ranks."""
        return ranks

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Nothing."""
        return ()


class SharedCache(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="shared"
):
    """Layers that read the cache of another layer and own none."""

    layers: int
    at: Ranges = ()

    @property
    def formats(self) -> None:
        """Any: there is nothing to keep."""
        return

    def can_split(self, ranks: int) -> bool:
        """Any number of ranks."""
        return True

    def context_shards(self, ranks: int) -> int:
        """All ranks."""
        return ranks

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Nothing."""
        return ()
