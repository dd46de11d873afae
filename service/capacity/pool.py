"""From bytes to blocks: what one pool holds and what one request costs it."""

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.units import ceil_div


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one engine on one rank. Every block holds `block_size` tokens of all layers."""

    bytes_per_token: int
    block_size: int
    blocks: int

    def cost(self, tokens: int) -> int:
        """Blocks that a request holding so many tokens takes: whole ones only."""
        return ceil_div(tokens, self.block_size)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.bytes_per_token * self.block_size


def pool_of(
    caches: tuple[CacheKind, ...], *, budget_bytes: int, dtype: str, tensor_parallel: int, block_size: int
) -> Pool:
    """Divide one rank's KV budget into blocks; a budget below zero holds none."""
    bytes_per_token = sum(cache.bytes_per_token(dtype, tensor_parallel) for cache in caches)
    blocks = max(0, budget_bytes) // (bytes_per_token * block_size)
    return Pool(bytes_per_token=bytes_per_token, block_size=block_size, blocks=blocks)
