"""How a model is spread over GPUs: which tensor-parallel sizes it can take."""

from service.capacity.cache import CacheKind
from service.capacity.errors import Fault, UnsupportedCombination


def check_tensor_parallel(query_heads: int, caches: tuple[CacheKind, ...], tensor_parallel: int) -> None:
    """Refuse a size that engines refuse: query heads must divide, KV heads divide or replicate evenly."""
    legal = legal_tensor_parallel(query_heads, caches)
    if tensor_parallel not in legal:
        sizes = ", ".join(map(str, legal))
        raise UnsupportedCombination(
            Fault(
                "/levers/tensor_parallel",
                f"{query_heads} query heads and {_kv_heads(caches)} KV heads can't be split over "
                f"{tensor_parallel} GPUs; legal sizes: {sizes}",
            )
        )


def legal_tensor_parallel(query_heads: int, caches: tuple[CacheKind, ...]) -> list[int]:
    """List the tensor-parallel sizes that a model can take, smallest first."""
    return [size for size in range(1, query_heads + 1) if _can_shard(query_heads, caches, size)]


def _can_shard(query_heads: int, caches: tuple[CacheKind, ...], size: int) -> bool:
    return query_heads % size == 0 and all(cache.kv_heads % size == 0 or size % cache.kv_heads == 0 for cache in caches)


def _kv_heads(caches: tuple[CacheKind, ...]) -> str:
    return " or ".join(str(heads) for heads in sorted({cache.kv_heads for cache in caches}))
