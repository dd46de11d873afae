"""One frozen type per kind of KV cache. Each answers what one token costs and which ranks hold it."""

import msgspec

from service.capacity.dtypes import bytes_of


class FullAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="full"):
    """Layers that keep one key and one value per token and KV head for the whole context.

    Multi-head (KV heads = query heads), grouped-query and multi-query (one KV head) attention alike: queries
    are never cached, because causal attention never consults a past query.
    """

    layers: int
    kv_heads: int
    key_dim: int
    """Elements of one key of one head."""
    value_dim: int
    """Elements of one value of one head."""

    def kv_heads_per_rank(self, tensor_parallel: int) -> int:
        """KV heads on one rank: sharded, and past their number replicated (a rank holds at least one)."""
        return max(1, self.kv_heads // tensor_parallel)

    def bytes_per_token(self, dtype: str, tensor_parallel: int) -> int:
        """Bytes that one token takes on one rank, all layers: layers x KV heads x (key + value) x element."""
        elements = self.layers * self.kv_heads_per_rank(tensor_parallel) * (self.key_dim + self.value_dim)
        return bytes_of(elements, dtype)


CacheKind = FullAttention
"""Every kind that this release plans."""
