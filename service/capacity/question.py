"""A question with every name resolved and every default written out: the one input of the planner."""

from typing import Generic, Literal, TypeVar

import msgspec

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.capacity.engine import Engine
from service.capacity.gpu import Gpu
from service.capacity.lengths import Workload
from service.capacity.model import Model

Spec = TypeVar("Spec")

Basis = Literal["worst_case", "paged", "at_risk"]


class Pinned(msgspec.Struct, Generic[Spec], frozen=True, kw_only=True):
    """A catalog entry at one version; the digest is the SHA-256 of the spec's canonical bytes."""

    key: str
    version: int
    digest: str
    spec: Spec


class Levers(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may turn, every default filled in. Null means that the lever isn't pulled."""

    max_model_len: int
    kv_cache_dtype: KvCacheDtype
    weight_dtype: Literal["auto"] | ElementDtype
    gpu_memory_utilization: float
    tensor_parallel: int
    data_parallel: int
    block_size: int
    max_num_seqs: int | None
    """Sequences that the scheduler runs at once in one pool."""
    kv_cache_memory_bytes: int | None
    """Sets the KV budget of one rank by hand, in place of steps 1 to 4."""
    reserve_bytes: int
    other_process_bytes: int
    kv_heads: int | None
    """What-if: the cache of a checkpoint with so many KV heads."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer has to reach to count as fitting."""

    users: int
    basis: Basis


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `risk` is the share of decode steps in which the cache may overflow."""

    model: Pinned[Model]
    gpu: Pinned[Gpu]
    engine: Pinned[Engine]
    levers: Levers
    workload: Workload | None
    risk: float
    targets: Targets | None
