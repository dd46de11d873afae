"""The projections that LoRA adapts, in models whose layers are all attention and a dense feed-forward."""

from collections.abc import Sequence

from service.capacity.cache import KeysAndValues
from service.capacity.model import LoraWidths
from service.readers.model_config.decoder import FeedForward, Mixer, Shape
from service.readers.model_config.fields import Fields

_PLAIN = {"dense", "norms and routers"}
_UP_PROJECTIONS = (1, 2)
"""Matrices into the feed-forward's own width: one, or two where one of them gates."""


def lora_widths(
    fields: Fields, shape: Shape, mixers: Sequence[Mixer], feed_forwards: Sequence[FeedForward]
) -> LoraWidths | None:
    """Add up the sides of all projections; none where a layer is of another kind.

    An adapter of a matrix in x out is a matrix in x rank and one of rank x out. Where the matrix is divided by its
    outputs (queries, keys, values, into the feed-forward) the second is divided, else (out of both) the first.
    """
    whole = divided = keys_and_values = 0
    heads = set()
    if not fields.has("intermediate_size"):
        return None
    for mixer, forward in zip(mixers, feed_forwards, strict=True):
        width, weights = forward.width, forward.weights
        cache = mixer.caches[0] if len(mixer.caches) == 1 else None
        if not isinstance(cache, KeysAndValues) or not width:
            return None
        queries = shape.query_heads * cache.key_dim
        ups, rest = divmod(weights["dense", 0] - shape.hidden * width, shape.hidden * width)
        is_plain = mixer.weights["attention", 0] == 2 * shape.hidden * queries and cache.key_dim == cache.value_dim
        if not is_plain or rest or ups not in _UP_PROJECTIONS or {role for role, _ in weights} - _PLAIN:
            return None
        whole += (3 + ups + 2) * shape.hidden
        divided += 2 * queries + (ups + 1) * width
        keys_and_values += 2 * cache.kv_heads * cache.key_dim
        heads.add(cache.kv_heads)
    if len(heads) != 1:
        return None
    return LoraWidths(whole=whole, divided=divided, keys_and_values=keys_and_values, kv_heads=heads.pop())
