"""A question with every name resolved and every default written out: the one input of the planner."""

from typing import Generic, Literal, TypeVar

import msgspec

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.capacity.engine import Engine
from service.capacity.gpu import Gpu
from service.capacity.model import Model
from service.capacity.named_workload import NamedWorkload
from service.capacity.units import Estimate
from service.capacity.workload import Workload

Spec = TypeVar("Spec")

Basis = Literal["worst_case", "paged", "at_risk"]


class Pinned(msgspec.Struct, Generic[Spec], frozen=True, kw_only=True):
    """A catalog entry at one version, or a spec given inline; the digest is the SHA-256 of its canonical bytes."""

    key: str
    version: int | None
    """Null for a spec that was given inline and is in no catalog."""
    digest: str
    spec: Spec


class Levers(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may turn, every default filled in. Null means that the lever isn't pulled."""

    max_model_len: int
    kv_cache_dtype: KvCacheDtype
    kv_cache_dtype_skip_layers: tuple[int | Literal["sliding_window"], ...]
    """Layers whose keys and values stay in the model's dtype, by number, or all windows."""
    indexer_kv_dtype: Literal["auto", "fp8"]
    """What 16-bit index keys are kept in; auto: as they come."""
    weight_dtype: Literal["auto"] | ElementDtype
    gpu_memory_utilization: float
    tensor_parallel: int
    pipeline_parallel: int
    pipeline_layers: tuple[int, ...] | None
    """Layers of each pipeline stage; null: split as engines do by themselves."""
    data_parallel: int
    expert_parallel: bool
    """Whether routed experts are divided over all ranks of all data-parallel copies."""
    decode_context_parallel: int
    """Ranks of tensor parallel that share the tokens of one request."""
    block_size: int
    max_num_batched_tokens: int | None
    """Tokens of one step; null where the engine has no default."""
    enable_prefix_caching: bool
    speculative_tokens: int
    """Tokens that a draft runs ahead; 0: no drafting."""
    max_loras: int
    """Slots for LoRA adapters; 0: none."""
    max_lora_rank: int
    """Rank that each slot has room for."""
    enforce_eager: bool
    """Whether CUDA graphs are left out."""
    language_model_only: bool
    """Whether towers are left out."""
    max_num_seqs: int | None
    """Sequences that the scheduler runs at once in one pool; null where the engine has no default."""
    kv_cache_memory_bytes: int | None
    """Sets the KV budget of one rank by hand, in place of steps 1 to 4."""
    reserve_bytes: int | None
    """Null where the engine has a rule for it, or nobody knows it."""
    other_process_bytes: int
    kv_heads: int | None
    """What-if: the cache of a checkpoint with so many KV heads."""
    shared_prefix_tokens: int = 0
    """Tokens that all running requests begin with, held once together; 0: none."""
    accepted_tokens: float = 1.0
    """Tokens that a decode step yields on average: one, and those of a draft that are accepted."""


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """How people use what runs: of each conversation's time so much is a running request."""

    think_seconds: float | None
    """Between an answer and the next message."""
    turn_seconds: float | None
    """From a message to the end of its answer."""
    active_share: float | None
    """Share of its time that a conversation has a request running, where it was given in place of the two."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer has to reach to count as fitting."""

    users: int
    basis: Basis


class ObservedReserve(msgspec.Struct, frozen=True, kw_only=True):
    """What start-ups of the same deployment kept back, in bytes of one GPU: the least, the middle and the most."""

    observation: str
    """The newest of them."""
    on: str
    """The day that it was recorded."""
    start_ups: int
    bytes: Estimate


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `risk` is the share of decode steps in which the cache may overflow."""

    model: Pinned[Model]
    gpu: Pinned[Gpu]
    engine: Pinned[Engine]
    draft_model: Pinned[Model] | None
    """Another checkpoint that drafts; null: the model's own draft layers do, where anything is drafted."""
    levers: Levers
    workload: Workload | None
    risk: float
    targets: Targets | None
    tau: float | None = None
    """By what share of it the mean of what requests hold wanders; null: measured, or the usual one."""
    sessions: Sessions | None = None
    observed_reserve: ObservedReserve | None = None
    """Stands in place of the engine's rule, where it was asked for."""
    named_workload: Pinned[NamedWorkload] | None = None
    """The catalog entry whose lengths `workload` is; null for lengths that were given inline."""
