"""The question as callers write it (wire contract, version 1): names instead of catalog entries, levers optional."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.capacity.dtypes import ElementDtype, KvCacheDtype
from service.capacity.question import Basis
from service.capacity.split.parting import RouteBy
from service.readers.metrics.envelope import PrometheusAnswer
from service.readers.names import NAMED

MOST_TOKENS = 2**31 - 1
LONGEST_KEY = 200
MOST = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

_LEAST_SHARE = 1e-9

_LABEL_KEY = re.compile("^[a-z0-9_.-]{1,63}$")

_NO_NUL = r"^[^\x00]*$"
"""PostgreSQL can't store U+0000; the JSON reader refuses it before this, which says so in the schema."""

Tokens = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
Layer = Annotated[int, Meta(ge=0, le=65535)]
Edge = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Amount = Annotated[int, Meta(ge=0, le=MOST)]
Users = Annotated[int, Meta(ge=1, le=MOST)]
Ranks = Annotated[int, Meta(ge=1, le=4096)]
Stages = Annotated[int, Meta(ge=1, le=256)]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY, pattern=_NO_NUL)]
LabelKey = Annotated[str, Meta(pattern=_LABEL_KEY.pattern)]
LabelValue = Annotated[str, Meta(max_length=256, pattern=_NO_NUL)]


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all wire types share: a field that isn't known is refused, never ignored."""


class VersionRef(_Wire, frozen=True):
    """A catalog entry at a version of the caller's choice."""

    key: Key
    version: Annotated[int, Meta(ge=1, le=MOST_TOKENS)]


_Config = Annotated[dict[str, Any], Meta(description="The config.json of a checkpoint, as it is.")]
_Parameters = Annotated[
    Annotated[int, Meta(ge=1, le=MOST)] | None,
    Meta(description="Parameters of the whole checkpoint, where its architecture doesn't give them."),
]
_WeightBytes = Annotated[
    Annotated[int, Meta(ge=1, le=MOST)] | None, Meta(description="Bytes of the checkpoint's weight files.")
]


class AskedConfig(_Wire, frozen=True):
    """A checkpoint's config.json, and what it doesn't say of the weights."""

    config: _Config
    parameters: _Parameters = None
    weight_bytes: _WeightBytes = None


class AskedModel(_Wire, frozen=True):
    """A model: a catalog entry at a version of the caller's choice, or what is read from a config.json."""

    key: Annotated[Key | None, Meta(description="A model's key, to pin its version.")] = None
    version: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TOKENS)] | None, Meta(description="The version of that key.")
    ] = None
    config: _Config | None = None
    parameters: _Parameters = None
    weight_bytes: _WeightBytes = None

    def __post_init__(self) -> None:
        """Refuse a mixture of the two."""
        pinned = self.key is not None and self.version is not None
        inline = self.config is not None
        foreign = (self.parameters, self.weight_bytes) if pinned else (self.key, self.version)
        if pinned == inline or any(value is not None for value in foreign):
            raise ValueError("a model is key and version, or config with parameters and weight_bytes where known")


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
    kv_cache_dtype_skip_layers: Annotated[
        Annotated[tuple[Layer | Literal["sliding_window"], ...], Meta(max_length=4096)] | None,
        _about("Layers whose keys and values stay in the model's dtype: numbers from 0 on, or `sliding_window`."),
    ] = None
    indexer_kv_dtype: Annotated[
        Literal["auto", "fp8"] | None,
        _about("The number format of 16-bit index keys. Left out: auto, 16 bits; fp8 halves them, without scales."),
    ] = None
    weight_dtype: Annotated[
        Literal["auto"] | ElementDtype | None,
        _about("What-if: the number format of the weights. auto: as in the checkpoint."),
    ] = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        _about(
            "The share that the engine may use of the card's memory; of what is free (SGLang) or left (TensorRT-LLM)."
            " Left out: the engine's default."
        ),
    ] = None
    tensor_parallel: Annotated[
        Ranks | None, _about("GPUs that share one model: each holds a part of the weights and of the KV heads.")
    ] = None
    pipeline_parallel: Annotated[
        Stages | None, _about("Stages that the layers are cut into, each on GPUs of its own. Left out: 1.")
    ] = None
    pipeline_layers: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=1, le=65535)], ...], Meta(min_length=1, max_length=256)] | None,
        _about("Layers of each pipeline stage, first to last. Left out: as even as can be."),
    ] = None
    data_parallel: Annotated[Ranks | None, _about("Independent copies of the deployment, each with its own pool.")] = (
        None
    )
    expert_parallel: Annotated[
        bool | None, _about("Whether whole experts are divided over all ranks of all copies. Left out: no.")
    ] = None
    decode_context_parallel: Annotated[
        Ranks | None, _about("Ranks of tensor parallel that share the tokens of one request. Left out: 1.")
    ] = None
    block_size: Annotated[
        Annotated[int, Meta(ge=1, le=65536)] | None, _about("Tokens of one block. Left out: the engine's default.")
    ] = None
    max_num_batched_tokens: Annotated[
        Tokens | None,
        _about("Tokens of one step: windows keep those in flight beside their own. Left out: the engine's default."),
    ] = None
    enable_prefix_caching: Annotated[
        bool | None,
        _about("Whether finished prefixes are kept for reuse; states then keep one more copy. Left out: the engine's."),
    ] = None
    shared_prefix_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None,
        _about(
            "Tokens that all running requests begin with at the same time: their whole blocks are held once. The worst"
            " case counts without. Left out: 0."
        ),
    ] = None
    speculative_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | None,
        _about("Tokens that draft_model, or else the model's own draft layers, run ahead. Left out: 0, no drafting."),
    ] = None
    accepted_tokens: Annotated[
        Annotated[float, Meta(ge=1, le=65)] | None,
        _about(
            "Tokens that a decode step yields on average: 1, and those of speculative_tokens that are accepted."
            " Left out: 1."
        ),
    ] = None
    max_loras: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None, _about("Slots for LoRA adapters. Left out: 0, none.")
    ] = None
    max_lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None, _about("The rank that each slot has room for. Left out: 16.")
    ] = None
    enforce_eager: Annotated[
        bool | None, _about("Whether CUDA graphs are left out. Left out: no, they are captured.")
    ] = None
    language_model_only: Annotated[
        bool | None, _about("Whether vision and audio towers are left out. Left out: no, they are loaded.")
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
    other_process_bytes: Annotated[
        Amount | None,
        _about("Bytes of one GPU that other processes hold. vLLM's share is its own, where so much is free."),
    ] = None
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
    """Single requests as [prompt tokens, output tokens]; `ordered`: as they came, so that their drift is measured."""

    rows: Annotated[tuple[tuple[Tokens, Tokens], ...], Meta(min_length=1, max_length=200_000)]
    ordered: bool = False


class AskedMarginal(_Wire, frozen=True):
    """A histogram of prompts or of outputs, and what all its requests together had, where that is known."""

    bins: Annotated[tuple[AskedBin, ...], Meta(min_length=1, max_length=512)]
    tokens: Annotated[Count | None, _about("The tokens of all requests together: where in its bins they lie.")] = None


class AskedMarginals(_Wire, frozen=True, tag_field="kind", tag="marginals"):
    """A histogram of prompts and one of outputs, where nobody kept which prompt had which output."""

    prompt: AskedMarginal
    output: AskedMarginal
    mean_held_tokens: Annotated[
        Annotated[float, Meta(gt=0, le=MOST_TOKENS)] | None,
        _about("Tokens that a running request held on average, measured on a running engine."),
    ] = None


class AskedPrometheusAnswers(_Wire, frozen=True):
    """Answers of Prometheus' HTTP API to instant queries, as they come."""

    prompt: Annotated[
        PrometheusAnswer, _about("sum by (le) (increase(vllm:request_prompt_tokens_bucket{model_name=...}[7d]))")
    ]
    output: Annotated[PrometheusAnswer, _about("The same of vllm:request_generation_tokens_bucket.")]
    prompt_sum: Annotated[PrometheusAnswer | None, _about("sum(increase(vllm:request_prompt_tokens_sum{...}[7d]))")] = (
        None
    )
    output_sum: Annotated[PrometheusAnswer | None, _about("The same of vllm:request_generation_tokens_sum.")] = None
    kv_usage: Annotated[PrometheusAnswer | None, _about("avg_over_time(vllm:kv_cache_usage_perc{...}[7d])")] = None
    running: Annotated[PrometheusAnswer | None, _about("avg_over_time(vllm:num_requests_running{...}[7d])")] = None
    capacity: Annotated[PrometheusAnswer | None, _about("vllm:cache_config_info or sglang:max_total_num_tokens.")] = (
        None
    )

    def __post_init__(self) -> None:
        """Refuse a part of what a measured mean is made of."""
        if len({part is None for part in (self.kv_usage, self.running, self.capacity)}) > 1:
            raise ValueError("kv_usage, running and capacity say only together what requests held: give all three")


_Text = Annotated[str, Meta(min_length=1, max_length=2**24)]
_Texts = _Text | Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=1024)]


class AskedPrometheus(_Wire, frozen=True, tag_field="kind", tag="prometheus"):
    """Histograms as vLLM and SGLang expose them: as scraped, or as Prometheus answers. Nothing is fetched."""

    text: Annotated[_Texts | None, _about("What /metrics answered; of several pods one text each.")] = None
    earlier: Annotated[
        _Texts | None,
        _about(
            "The same of an earlier scrape, pod by pod: counts are then of the time between. Left out: since start."
        ),
    ] = None
    result: AskedPrometheusAnswers | None = None
    model_name: Annotated[Key | None, _about("The served model whose requests count, where a text has several.")] = None
    max_model_len: Annotated[
        Tokens | Annotated[tuple[Tokens, ...], Meta(min_length=1, max_length=1024)] | None,
        _about("The longest request of the engines that counted, where open bins end; a list has one for each text."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a mixture of texts and answers."""
        if (self.text is None) == (self.result is None):
            raise ValueError("prometheus is text, as scraped, or result, as Prometheus' HTTP API answers: give one")
        if self.result is not None and (self.earlier is not None or self.model_name is not None):
            raise ValueError("earlier and model_name go with text; a query says its own window and model")


AskedWorkload = AskedMean | AskedTotal | AskedJoint | AskedRows | AskedMarginals | AskedPrometheus


class WorkloadRef(_Wire, frozen=True, tag_field="kind", tag=NAMED):
    """A workload of the catalog at a version of the caller's choice. Its kind may be left out."""

    key: Key
    version: Annotated[int, Meta(ge=1, le=MOST_TOKENS)]


class WorkloadFile(_Wire, frozen=True):
    """What a workload is checked as when it comes by itself."""

    workload: Key | AskedWorkload | WorkloadRef


class AskedSessions(_Wire, frozen=True):
    """How people use what runs: turns and the time between them in seconds, or the share of its time a chat runs."""

    think_seconds: Annotated[float, Meta(ge=0, le=MOST)] | None = None
    turn_seconds: Annotated[float, Meta(gt=0, le=MOST)] | None = None
    active_share: Annotated[float, Meta(ge=1e-9, le=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse half of one, and both."""
        seconds = (self.think_seconds is not None, self.turn_seconds is not None)
        if any(seconds) != all(seconds) or any(seconds) == (self.active_share is not None):
            raise ValueError("sessions are think_seconds and turn_seconds, or active_share")
        if self.turn_seconds is not None and self.turn_seconds < _LEAST_SHARE * (self.think_seconds or 0):
            raise ValueError("a turn is at least a billionth of the time between turns")


class AskedTargets(_Wire, frozen=True):
    """What has to be reached. The basis left out is `at_risk` with a workload, else `worst_case`.

    Of a `mean` no risk is known: with one, the basis left out is `paged`.
    """

    users: Users
    basis: Basis | None = None


class AskedDeployment(_Wire, frozen=True):
    """What questions have in common. Model, GPU, engine and workload are catalog keys, newest version unless pinned."""

    model: Key | AskedModel
    gpu: Key | VersionRef
    engine: Key | VersionRef | None = None
    draft_model: Annotated[
        Key | AskedModel | None,
        Meta(
            description="Another checkpoint that drafts `speculative_tokens`. Left out: the model's own draft layers."
        ),
    ] = None
    levers: AskedLevers | None = None
    reserve: Annotated[
        Literal["observed"] | None,
        Meta(description="observed: what start-ups of the same deployment kept back, as POST /v1/observations stored."),
    ] = None
    workload: Key | AskedWorkload | WorkloadRef | None = None
    risk: Annotated[float, Meta(ge=1e-7, le=0.5)] | None = None
    tau: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="By what share of it the mean length of running requests wanders over hours. Left out: measured"
            " on ordered rows, else 0.08."
        ),
    ] = None


class AskedQuestion(AskedDeployment, frozen=True):
    """How many users fit? Model, GPU, engine and workload are catalog keys, newest version unless pinned."""

    sessions: AskedSessions | None = None
    targets: AskedTargets | None = None
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=16)] | None = None

    def __post_init__(self) -> None:
        """Refuse a label key that ends in a line feed, which `$` lets pass."""
        if any(_LABEL_KEY.fullmatch(key) is None for key in self.labels or {}):
            raise ValueError("a label's key is 1 to 63 of a-z, 0-9, _, . and -")


class AskedPools(AskedDeployment, frozen=True, kw_only=True):
    """What does a pool of its own for long requests buy? The lengths have to be a joint histogram or rows."""

    workload: Key | AskedWorkload | WorkloadRef
    split_at: Annotated[
        Tokens | None,
        _about("Requests of up to so many tokens are short. Left out: where it buys most, of those in `candidates`."),
    ] = None
    route_by: Annotated[
        RouteBy,
        _about(
            "What the router tells requests apart by: prompt and output together, which it knows only as far as"
            " max_tokens does, or the prompt alone."
        ),
    ] = "total"

    @property
    def question(self) -> AskedQuestion:
        """The question of the mixed pools."""
        return AskedQuestion(**{name: getattr(self, name) for name in AskedDeployment.__struct_fields__})
