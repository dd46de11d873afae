"""What drafting adds: caches and weights of the model's own draft layers, or of another checkpoint that drafts."""

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.errors import Fault, NotPlannedYet, UnsupportedCombination
from service.capacity.model import WeightPart
from service.capacity.question import Question


def draft_caches(question: Question) -> tuple[CacheKind, ...]:
    """List the caches of the draft; none where nothing is drafted. Its layers are numbered on behind the model's.

    Raises `UnsupportedCombination` for a draft that isn't known, or that nothing is drafted with.
    """
    levers, model, other = question.levers, question.model, question.draft_model
    if not levers.speculative_tokens:
        if other is not None:
            detail = "a draft model drafts nothing at speculative_tokens 0; say how many, or leave it out"
            raise UnsupportedCombination(Fault("/levers/speculative_tokens", detail))
        return ()
    if other is None:
        own = model.spec.draft_caches
        if own is None:
            detail = f"what a draft of {model.key} keeps isn't known; leave it out, or name a draft_model"
            raise UnsupportedCombination(Fault("/levers/speculative_tokens", detail))
        return own.value
    heads = other.spec.query_heads.value
    if heads % levers.tensor_parallel:
        detail = f"{heads} query heads of {other.key} can't be split over {levers.tensor_parallel} GPUs"
        raise UnsupportedCombination(Fault("/draft_model", detail))
    first = 0 if model.spec.layers is None else model.spec.layers.value
    return tuple(_behind(cache, first) for cache in other.spec.caches.value)


def draft_weights(question: Question) -> tuple[WeightPart, ...]:
    """List the weights of another checkpoint that drafts, on the last stage; the model's own stand among its parts.

    Raises `NotPlannedYet` where nobody knows them and the size of the cache isn't given.
    """
    other = question.draft_model
    if other is None:
        return ()
    if other.spec.weights is None:
        if question.levers.kv_cache_memory_bytes is None:
            raise NotPlannedYet(Fault("/draft_model", f"what the weights of {other.key} take isn't known"))
        return ()
    return tuple(
        msgspec.structs.replace(part, name=f"draft model's {part.name}", stage="last", follows_weight_dtype=False)
        for part in other.spec.weights.value
        if part.needed == "always"
    )


def _behind(cache: CacheKind, first: int) -> CacheKind:
    ranges = cache.at or ((0, cache.layers, 1),)
    at = tuple((first + start, first + end, step) for start, end, step in ranges)
    return msgspec.structs.replace(cache, at=at)
