"""What short convolutions beside attention need of the last few tokens (Inkling)."""

from service.capacity.cache.footprint import Footprint, Kept, Storage, Window

_STREAMS = 2
"""Of a head's own width: its keys and its values."""
_HIDDEN_STREAMS = 2
"""Of the model's width, shared out among the heads: the outputs of attention and of the feed-forward."""
_BYTES = 2
"""Whatever the cache's format, histories are kept in 16 bits."""


class ConvolutionHistory(Kept, frozen=True, kw_only=True, tag_field="kind", tag="conv_history"):
    """Layers whose convolutions read the inputs of the last `taps` tokens, packed for each KV head."""

    kv_heads: int
    head_dim: int
    hidden_size: int
    taps: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many heads each: heads aren't copied."""
        return self.kv_heads % ranks == 0

    def context_shards(self, ranks: int) -> int:
        """None but one: engines don't spread windows over ranks."""
        return 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """For each token of the window and each head, four streams side by side, padded to a power of two."""
        heads = self.kv_heads // storage.tensor_parallel
        width = _STREAMS * self.head_dim + _HIDDEN_STREAMS * self.hidden_size // self.kv_heads
        padded = 1 << (width - 1).bit_length()
        return (
            Footprint(
                kind="conv_history",
                layers=self.layers,
                at=self.at,
                record_bytes=heads * padded * _BYTES,
                span=Window(self.taps),
                block=self.taps,
                formula=f"{heads} heads x {padded} x {_BYTES} B",
            ),
        )
