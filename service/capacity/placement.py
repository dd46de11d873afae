"""How a model is spread over GPUs: tensor, pipeline, decode-context and expert parallel."""

from itertools import accumulate

import msgspec

from service.capacity.cache import CacheKind, KeysAndValues, RowRing
from service.capacity.errors import Fault, NotPlannedYet, UnsupportedCombination
from service.capacity.model import Model
from service.capacity.question import Levers, Pinned


class Stage(msgspec.Struct, frozen=True):
    """The layers of one pipeline stage. A draft's layers are counted on behind the model's, on the last stage."""

    layers: range
    first: bool
    last: bool


_ALL_LAYERS = range(2**31)


def check_placement(model: Pinned[Model], caches: tuple[CacheKind, ...], levers: Levers) -> None:
    """Refuse what engines refuse, with the sizes that they would take.

    Raises `UnsupportedCombination`, or `NotPlannedYet` where the order of the layers isn't known.
    """
    _check_tensor_parallel(model.spec.query_heads.value, caches, levers.tensor_parallel)
    _check_context_parallel(caches, levers)
    _check_pipeline_parallel(model, caches, levers)
    if levers.max_loras and model.spec.lora is None:
        detail = f"LoRA slots of {model.key} aren't planned; leave it out"
        raise NotPlannedYet(Fault("/levers/max_loras", detail))
    if levers.expert_parallel:
        _check_expert_parallel(model, levers)


def legal_tensor_parallel(query_heads: int, caches: tuple[CacheKind, ...]) -> list[int]:
    """List the tensor-parallel sizes that a model can take, smallest first."""
    return [
        size
        for size in range(1, query_heads + 1)
        if query_heads % size == 0 and all(cache.can_split(size) for cache in caches)
    ]


def stages(model: Model, levers: Levers) -> tuple[Stage, ...]:
    """Cut the layers into stages: as asked, else evenly.

    What is left over goes to the stages before the last, which has the head as well.
    """
    count = levers.pipeline_parallel
    if count == 1 or model.layers is None:
        return (Stage(_ALL_LAYERS, first=True, last=True),)
    each, left = divmod(model.layers.value, count)
    evenly = tuple(each + int(count - 2 - left < stage < count - 1) for stage in range(count))
    ends = list(accumulate(levers.pipeline_layers or evenly))
    starts = [0, *ends[:-1]]
    return tuple(
        Stage(range(start, end if end < ends[-1] else _ALL_LAYERS.stop), first=start == 0, last=end == ends[-1])
        for start, end in zip(starts, ends, strict=True)
    )


def _check_tensor_parallel(query_heads: int, caches: tuple[CacheKind, ...], tensor_parallel: int) -> None:
    legal = legal_tensor_parallel(query_heads, caches)
    if tensor_parallel not in legal:
        kv_heads = _kv_heads(caches)
        heads = f"{query_heads} query heads" + (f" and {kv_heads} KV heads" if kv_heads else "")
        detail = f"{heads} can't be split over {tensor_parallel} GPUs; legal sizes: {_listed(legal)}"
        raise UnsupportedCombination(Fault("/levers/tensor_parallel", detail))


def _check_context_parallel(caches: tuple[CacheKind, ...], levers: Levers) -> None:
    ranks, size = levers.tensor_parallel, levers.decode_context_parallel
    most = [cache.context_shards(ranks) for cache in caches]
    legal = [shards for shards in range(1, ranks + 1) if ranks % shards == 0 and all(m % shards == 0 for m in most)]
    if size not in legal:
        detail = (
            f"ranks can share a request's tokens only where they would hold copies of the same cache, and windows are"
            f" never shared; legal sizes at tensor_parallel {ranks}: {_listed(legal)}"
        )
        raise UnsupportedCombination(Fault("/levers/decode_context_parallel", detail))


def _check_pipeline_parallel(model: Pinned[Model], caches: tuple[CacheKind, ...], levers: Levers) -> None:
    stages_asked, asked = levers.pipeline_parallel, levers.pipeline_layers
    layers = model.spec.layers
    if asked is not None and (layers is None or len(asked) != stages_asked or sum(asked) != layers.value):
        known = "an unknown number of layers" if layers is None else f"{layers.value} layers"
        detail = f"{model.key} has {known}: give so many in all, in pipeline_parallel (here {stages_asked}) numbers"
        raise UnsupportedCombination(Fault("/levers/pipeline_layers", detail))
    if stages_asked == 1:
        return
    if layers is None or any(not cache.at and cache.layers != layers.value for cache in caches):
        detail = f"the order of {model.key}'s layers isn't known; leave it out"
        raise NotPlannedYet(Fault("/levers/pipeline_parallel", detail))
    if stages_asked > layers.value:
        detail = f"{layers.value} layers make at most {layers.value} stages"
        raise UnsupportedCombination(Fault("/levers/pipeline_parallel", detail))
    if any(isinstance(cache, RowRing) for cache in caches):
        detail = f"engines keep all layers of {model.key} on one stage; leave it out"
        raise UnsupportedCombination(Fault("/levers/pipeline_parallel", detail))


def _check_expert_parallel(model: Pinned[Model], levers: Levers) -> None:
    parts = () if model.spec.weights is None else model.spec.weights.value
    experts = min((part.experts for part in parts if part.experts), default=0)
    if parts and not experts:
        detail = f"{model.key} has no routed experts that are known as a part of its weights; leave it out"
        raise UnsupportedCombination(Fault("/levers/expert_parallel", detail))
    ranks = levers.tensor_parallel * levers.data_parallel
    if experts and ranks > experts:
        detail = f"{ranks} ranks can't each hold one of {experts} experts: at most {experts} of tensor x data parallel"
        raise UnsupportedCombination(Fault("/levers/expert_parallel", detail))


def _kv_heads(caches: tuple[CacheKind, ...]) -> str:
    heads = {cache.kv_heads for cache in caches if isinstance(cache, KeysAndValues)}
    return " or ".join(map(str, sorted(heads)))


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
