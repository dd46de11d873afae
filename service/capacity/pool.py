"""From bytes to blocks: what one pool holds and what one request costs it."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.cache import CacheKind


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one engine on one rank. Every block holds `block_size` tokens of all layers."""

    bytes_per_token: int
    block_size: int
    blocks: int

    def cost(self, tokens: int) -> int:
        """Blocks that a request holding so many tokens takes: whole ones only."""
        return int(self.costs(np.array([tokens]))[0])

    def costs(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same for many requests at once."""
        return -(-tokens // self.block_size)

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
