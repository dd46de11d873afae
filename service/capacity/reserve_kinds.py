"""Of which kind a deployment is to the rules of reserves: by its caches, experts, towers and weights."""

from service.capacity.cache import CacheFamily, CacheKind
from service.capacity.figures import Figure
from service.capacity.gpu import Gpu
from service.capacity.model import Model
from service.capacity.question import Levers
from service.capacity.reserve_rules import Profiled, TowerBurst


def cache_family(caches: tuple[CacheKind, ...]) -> CacheFamily:
    """The family that a model's kernels are of: the rarest among its caches'."""
    families = {cache.family for cache in caches}
    order: tuple[CacheFamily, ...] = ("compressed", "state", "latent", "attention")
    return next(family for family in order if family in families)


def has_experts(model: Model) -> bool:
    """Whether it has routed experts."""
    return model.weights is not None and any(part.experts for part in model.weights.value)


def weight_format(model: Model, levers: Levers) -> str | None:
    """The format that most of the weights are in once loaded; null where nobody knows them."""
    if model.weights is None or not model.weights.value:
        return None
    largest = max(model.weights.value, key=lambda part: part.parameters)
    return largest.loaded_as(levers.weight_dtype)


def has_tower(model: Model) -> bool:
    """Whether it has a vision or audio tower."""
    return model.weights is not None and any(part.needed == "multimodal" for part in model.weights.value)


def tower_of(rule: Profiled, model: Model) -> TowerBurst | None:
    """What is known of the largest input of such a model's tower; null: nothing."""
    return next((one for one in rule.towers if model.architecture.startswith(one.architectures)), None)


def shared_graphs(rule: Profiled, gpu: Gpu, levers: Levers) -> Figure[int] | None:
    """The most that the graphs' estimate comes to on memory that the host shares; null: on a card of its own memory."""
    shared = rule.shared_graphs
    if shared is None or rule.graph_bytes is None or levers.enforce_eager or gpu.memory_type not in shared.memory_types:
        return None
    return shared.most
