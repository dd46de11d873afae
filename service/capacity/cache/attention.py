"""Caches of keys and values per head: multi-head, grouped-query and multi-query attention, whole or in part.

Queries are never cached, because causal attention never consults a past query.
"""

from service.capacity.cache.footprint import Chunk, Context, Encoder, Footprint, Kept, Span, Storage, Window
from service.capacity.dtypes import PLAIN_BITS
from service.capacity.units import ceil_div

_PER_TOKEN_HEAD = {"fp8_per_token_head": 8, "int8_per_token_head": 8, "int4_per_token_head": 4}

_SCALES = 8
"""Bytes of one fp32 scale for a key and one for a value."""

FORMATS = (*(name for name in PLAIN_BITS if name != "int8"), *_PER_TOKEN_HEAD, "nvfp4")
"""The number formats that keys and values of single heads can be kept in."""


class KeysAndValues(Kept, frozen=True, kw_only=True):
    """What attention layers of every span have in common."""

    kv_heads: int
    key_dim: int
    """Elements of one key of one head."""
    value_dim: int
    """Elements of one value of one head. Engines store values even where the model takes its keys for them."""

    @property
    def span(self) -> Span:
        """For how long a token's key and value are kept."""
        return Context()

    @property
    def formats(self) -> tuple[str, ...]:
        """Plain ones, and those with scales."""
        return FORMATS

    def kv_heads_per_rank(self, tensor_parallel: int) -> int:
        """KV heads on one rank: sharded, and past their number replicated (a rank holds at least one)."""
        return max(1, self.kv_heads // tensor_parallel)

    def can_split(self, ranks: int) -> bool:
        """Each rank gets as many heads, or each head goes to as many ranks."""
        return self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0

    def context_shards(self, ranks: int) -> int:
        """Those that would hold copies of the same head; engines never spread windows and chunks."""
        return max(1, ranks // self.kv_heads) if isinstance(self.span, Context) else 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """KV heads x (key + value) x element for every token of the span, scales included.

        Per-token-head formats keep one fp32 scale for each key and each value; NVFP4 keeps one fp8 scale per 16
        numbers.
        """
        heads, elements = self.kv_heads_per_rank(storage.tensor_parallel), self.key_dim + self.value_dim
        if storage.dtype in _PER_TOKEN_HEAD:
            bits = _PER_TOKEN_HEAD[storage.dtype]
            record = heads * (ceil_div(elements * bits, 8) + _SCALES)
            per_head = f"(({self.key_dim} + {self.value_dim}) x {bits} bits + {_SCALES} B of scales)"
        elif storage.dtype == "nvfp4":
            record = ceil_div(heads * elements * 9, 16)
            per_head = f"({self.key_dim} + {self.value_dim}) x 9/16 B"
        else:
            width = PLAIN_BITS[storage.dtype] // 8
            record = heads * elements * width
            per_head = f"({self.key_dim} + {self.value_dim}) x {width} B"
        return (
            Footprint(
                kind=str(self.__struct_config__.tag),
                layers=self.layers,
                at=self.at,
                record_bytes=record,
                span=self.span,
                formula=f"{heads} KV heads x {per_head}",
            ),
        )


class FullAttention(KeysAndValues, frozen=True, kw_only=True, tag_field="kind", tag="full"):
    """Layers that keep one key and one value per token and KV head for the whole context."""


class SlidingWindow(KeysAndValues, frozen=True, kw_only=True, tag_field="kind", tag="sliding_window"):
    """Layers whose tokens see only the last `window` tokens, themselves included."""

    window: int

    @property
    def span(self) -> Span:
        """The window."""
        return Window(self.window)


class ChunkedLocal(KeysAndValues, frozen=True, kw_only=True, tag_field="kind", tag="chunked"):
    """Layers whose tokens see only the chunk of `chunk` tokens that they are in (Llama 4)."""

    chunk: int

    @property
    def span(self) -> Span:
        """The chunk."""
        return Chunk(self.chunk)


class CrossAttention(KeysAndValues, frozen=True, kw_only=True, tag_field="kind", tag="cross_attention"):
    """Decoder layers that read an encoder's output: kept once per request, for at most `encoder_tokens`."""

    encoder_tokens: int

    @property
    def span(self) -> Span:
        """The encoder's tokens."""
        return Encoder(self.encoder_tokens)


class EncoderOnly(Kept, frozen=True, kw_only=True, tag_field="kind", tag="encoder_only"):
    """Layers that see their whole input at once and keep nothing."""


class SharedCache(Kept, frozen=True, kw_only=True, tag_field="kind", tag="shared"):
    """Layers that read the cache of another layer and own none."""
