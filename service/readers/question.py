"""The question as callers write it (wire contract, version 1): names instead of catalog entries, levers optional."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.capacity.question import Basis

MOST_TOKENS = 2**31 - 1
MOST = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

_LABEL_KEY = re.compile("^[a-z0-9_.-]{1,63}$")

_NO_NUL = r"^[^\x00]*$"
"""PostgreSQL can't store U+0000; the JSON reader refuses it before this, which says so in the schema."""

Tokens = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
Edge = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Amount = Annotated[int, Meta(ge=0, le=MOST)]
Users = Annotated[int, Meta(ge=1, le=MOST)]
Ranks = Annotated[int, Meta(ge=1, le=4096)]
Key = Annotated[str, Meta(min_length=1, max_length=200, pattern=_NO_NUL)]
LabelKey = Annotated[str, Meta(pattern=_LABEL_KEY.pattern)]
LabelValue = Annotated[str, Meta(max_length=256, pattern=_NO_NUL)]


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all wire types share: a field that isn't known is refused, never ignored."""


class VersionRef(_Wire, frozen=True):
    """A catalog entry at a version of the caller's choice."""

    key: Key
    version: Annotated[int, Meta(ge=1, le=MOST_TOKENS)]


def _about(description: str) -> Meta:
    return Meta(description=description)


class AskedLevers(_Wire, frozen=True):
    """What a caller may turn. A lever left out, or null, stands at its default."""

    max_model_len: Annotated[
        Tokens | None, _about("The window: the most tokens of one request. Left out: the model's own limit.")
    ] = None
    kv_cache_dtype: Annotated[
        KvCacheDtype | None, _about("The number format of keys and values. auto: the model's dtype.")
    ] = None
    weight_dtype: Annotated[
        Literal["auto"] | ElementDtype | None,
        _about("What-if: the number format of the weights. auto: as in the checkpoint."),
    ] = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        _about("The share of the reported memory that the engine may use. Left out: the engine's default."),
    ] = None
    tensor_parallel: Annotated[
        Ranks | None, _about("GPUs that share one model: each holds a part of the weights and of the KV heads.")
    ] = None
    data_parallel: Annotated[Ranks | None, _about("Independent copies of the deployment, each with its own pool.")] = (
        None
    )
    block_size: Annotated[
        Annotated[int, Meta(ge=1, le=65536)] | None, _about("Tokens of one block. Left out: the engine's default.")
    ] = None
    max_num_seqs: Annotated[
        Users | None, _about("Sequences that the scheduler runs at once in one pool; lowers what is admitted.")
    ] = None
    kv_cache_memory_bytes: Annotated[
        Amount | None, _about("The KV cache of one GPU in bytes, set by hand in place of a share of its memory.")
    ] = None
    reserve_bytes: Annotated[
        Amount | None,
        _about("Bytes of one GPU for activations, CUDA graphs, NCCL and contexts. Left out: the engine's default."),
    ] = None
    other_process_bytes: Annotated[Amount | None, _about("Bytes of one GPU that other processes hold.")] = None
    kv_heads: Annotated[
        Annotated[int, Meta(ge=1, le=65536)] | None,
        _about(
            "What-if: the cache of a checkpoint with so many KV heads, such as multi-head instead of grouped-query."
        ),
    ] = None


class AskedMean(_Wire, frozen=True, tag_field="kind", tag="mean"):
    """Every request holds so many tokens."""

    tokens: Tokens


class AskedBin(_Wire, frozen=True):
    """Requests longer than the bin before and at most `upper` tokens; a last bin without `upper` is open."""

    count: Count
    upper: Tokens | None = None


class AskedTotal(_Wire, frozen=True, tag_field="kind", tag="total"):
    """A histogram of total lengths, prompt and output together."""

    bins: Annotated[tuple[AskedBin, ...], Meta(min_length=1, max_length=4096)]


class AskedJoint(_Wire, frozen=True, tag_field="kind", tag="joint"):
    """A joint histogram. Bin i is (edges[i], edges[i + 1]]; a last edge of null leaves the last bin open."""

    prompt_edges: Annotated[tuple[Edge | None, ...], Meta(min_length=2, max_length=513)]
    output_edges: Annotated[tuple[Edge | None, ...], Meta(min_length=2, max_length=513)]
    counts: Annotated[
        tuple[tuple[Annotated[int, Meta(ge=0, le=511)], Annotated[int, Meta(ge=0, le=511)], Count], ...],
        Meta(min_length=1, max_length=16384),
    ]


class AskedRows(_Wire, frozen=True, tag_field="kind", tag="rows"):
    """Single requests as [prompt tokens, output tokens]."""

    rows: Annotated[tuple[tuple[Tokens, Tokens], ...], Meta(min_length=1, max_length=200_000)]


AskedWorkload = AskedMean | AskedTotal | AskedJoint | AskedRows


class WorkloadFile(_Wire, frozen=True):
    """What a workload is checked as when it comes by itself."""

    workload: AskedWorkload


class AskedTargets(_Wire, frozen=True):
    """What has to be reached. The basis left out is `at_risk` with a workload, else `worst_case`."""

    users: Users
    basis: Basis | None = None


class AskedQuestion(_Wire, frozen=True):
    """How many users fit? Model, GPU and engine are catalog keys, newest version unless pinned."""

    model: Key | VersionRef
    gpu: Key | VersionRef
    engine: Key | VersionRef | None = None
    levers: AskedLevers | None = None
    workload: AskedWorkload | None = None
    risk: Annotated[float, Meta(ge=1e-7, le=0.5)] | None = None
    targets: AskedTargets | None = None
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=16)] | None = None

    def __post_init__(self) -> None:
        """Refuse a label key that ends in a line feed, which `$` lets pass."""
        if any(_LABEL_KEY.fullmatch(key) is None for key in self.labels or {}):
            raise ValueError("a label's key is 1 to 63 of a-z, 0-9, _, . and -")
