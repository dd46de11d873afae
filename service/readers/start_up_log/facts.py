"""What a start-up log says, typed. A field that has no value wasn't found in the log; nothing is made up."""

from decimal import Decimal
from typing import Literal

import msgspec

from service.readers.start_up_log.printed import ByteRange, Concurrency, Seen

EngineName = Literal["vllm", "sglang", "tensorrt-llm"]
Outcome = Literal["ready", "failed", "unfinished"]
FailureKind = Literal["window_too_long", "no_kv_cache_memory", "device_not_free", "out_of_memory"]

Amounts = tuple[Seen[ByteRange], ...]
Counts = tuple[Seen[int], ...]


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment as the log states it, in Headcount's names for the levers.

    `memory_fraction` is each engine's own: `gpu_memory_utilization` (of all memory), `mem_fraction_static` (of what was
    free before the weights) or `free_gpu_memory_fraction` (of what is left). `max_num_batched_tokens` is SGLang's
    `chunked_prefill_size` and TensorRT-LLM's `max_num_tokens`, `block_size` their page or tokens per block.
    """

    model: Seen[str] | None = None
    dtype: Seen[str] | None = None
    quantization: Seen[str] | None = None
    kv_cache_dtype: Seen[str] | None = None
    max_model_len: Seen[int] | None = None
    tensor_parallel: Seen[int] | None = None
    pipeline_parallel: Seen[int] | None = None
    data_parallel: Seen[int] | None = None
    decode_context_parallel: Seen[int] | None = None
    memory_fraction: Seen[Decimal] | None = None
    max_num_seqs: Seen[int] | None = None
    max_num_batched_tokens: Seen[int] | None = None
    block_size: Seen[int] | None = None
    expert_parallel: Seen[bool] | None = None
    enable_lora: Seen[bool] | None = None
    max_loras: Seen[int] | None = None
    """What the argument says, which counts where LoRA is on."""
    max_lora_rank: Seen[int] | None = None
    cpu_offload_gb: Seen[Decimal] | None = None
    """Weights of one GPU that stay in the host's memory, in GiB."""
    kv_cache_memory_bytes: Seen[int] | None = None
    kv_cache_limit: Seen[int] | None = None
    """The most blocks (vLLM) or tokens (SGLang, TensorRT-LLM) of the cache, where they were set by hand."""
    speculative: Seen[str] | None = None
    speculative_tokens: Seen[int] | None = None
    enforce_eager: Seen[bool] | None = None
    enable_prefix_caching: Seen[bool] | None = None
    language_model_only: Seen[bool] | None = None
    limit_mm_per_prompt: Seen[str] | None = None
    """Images, videos and the like that a prompt may hold: `{'image': 0}`."""
    load_format: Seen[str] | None = None
    hf_overrides: Seen[bool] | None = None
    """Whether fields of the checkpoint's configuration were written over."""
    skip_mm_profiling: Seen[bool] | None = None
    redundant_experts: Seen[bool] | None = None
    """Whether some experts are there more than once."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one GPU, every value that was printed: of each rank, in the order of the log, the same only once.

    A rank's second value of the same kind is another part's: a draft's weights, the pool of another kind of layer, the
    graphs of another phase. `weights` may come twice also because a release says it twice, rounded differently.
    """

    device_total: Amounts = ()
    device_free: Amounts = ()
    """Free when the engine started."""
    requested: Amounts = ()
    """The share of the device that the engine may use."""
    free_before_weights: Amounts = ()
    weights: Amounts = ()
    free_after_weights: Amounts = ()
    activation: Amounts = ()
    non_torch: Amounts = ()
    weights_and_non_torch: Amounts = ()
    """vLLM from about 0.26 prints the two as one."""
    non_kv_cache: Amounts = ()
    peak: Amounts = ()
    """The most in use while profiling, weights included."""
    cuda_graphs: Amounts = ()
    cuda_graphs_estimated: Amounts = ()
    temporary_kv_cache: Amounts = ()
    available_kv_cache: Amounts = ()
    """What is left for the KV cache."""
    kv_cache: Amounts = ()
    """What the KV cache takes where it is printed as one figure."""
    key_cache: Amounts = ()
    value_cache: Amounts = ()
    conv_state: Amounts = ()
    ssm_state: Amounts = ()
    free_after_pools: Amounts = ()
    free_when_ready: Amounts = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the KV cache, every value that was printed, the same of the same rank only once.

    `kv_cache_tokens` is only the printed figure; its meaning changed. vLLM up to 0.20.0 prints blocks // number of
    groups x the smallest block x decode-context-parallel, from 0.20.2 the whole part of concurrency x `max_model_len`;
    the two agree only for models with one group of layers. Compare by concurrency. SGLang prints the tokens of each
    pool, and as `max_total_num_tokens` those that its scheduler has; TensorRT-LLM blocks x tokens per block.
    """

    kv_cache_tokens: Counts = ()
    kv_cache_tokens_with_host: Counts = ()
    max_total_num_tokens: Counts = ()
    gpu_blocks: Counts = ()
    cpu_blocks: Counts = ()
    block_size: Counts = ()
    blocks_per_sequence: Counts = ()
    bytes_per_token: Counts = ()
    full_tokens: Counts = ()
    window_tokens: Counts = ()
    state_slots: Counts = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a start failed, with the figures that the engine gave.

    `needed` and `available` are those of the refusal: the KV cache of one window and what there is for it, the share of
    the device and what is free of it, the allocation that failed and what was free.
    """

    kind: FailureKind
    line: int
    rank: str | None = None
    needed: ByteRange | None = None
    available: ByteRange | None = None
    total: ByteRange | None = None
    max_model_len: int | None = None
    longest_model_len: int | None = None
    kv_cache_tokens: int | None = None
    memory_fraction: Decimal | None = None


class StartUpLog(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one engine.

    `asked` is what the arguments say, `resolved` what the engine made of them. `start` of `starts` was read: the last
    that came to an end, ready or failed or with a KV cache, else the last. `missing` names what a complete log of the
    engine has and this one lacks.
    """

    engine: EngineName
    version: Seen[str] | None = None
    starts: int = 1
    start: int = 1
    ready: bool = False
    asked: Deployment = Deployment()
    resolved: Deployment = Deployment()
    memory: Memory = Memory()
    pool: Pool = Pool()
    concurrencies: tuple[Seen[Concurrency], ...] = ()
    concurrencies_with_host: tuple[Seen[Concurrency], ...] = ()
    equivalent_memory_fraction: Seen[Decimal] | None = None
    """The `gpu_memory_utilization` that gives as much KV cache with CUDA graphs outside of the budget."""
    state_page_padding_percent: Seen[Decimal] | None = None
    cuda_graphs_in_budget: Seen[bool] | None = None
    cache_set_by_hand: Seen[bool] | None = None
    """Whether the cache has so many bytes as it was told, whatever the share of the device."""
    unquantised: Seen[bool] | None = None
    """Whether the engine found no scheme of quantisation, after it looked into the checkpoint."""
    first_engine: Seen[bool] | None = None
    """Whether it is vLLM's first engine (V0), which has no groups of layers."""
    initialised: Seen[bool] | None = None
    """Whether vLLM's engine is there, which is all that a program without a server prints."""
    failures: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """How the start ended, as far as the log goes."""
        if self.ready or (self.initialised is not None and not self.failures):
            return "ready"
        return "failed" if self.failures else "unfinished"

    @property
    def deployment(self) -> Deployment:
        """What the engine resolved, and what was asked for where it said nothing."""
        told = {name: getattr(self.resolved, name) for name in Deployment.__struct_fields__}
        return msgspec.structs.replace(self.asked, **{name: value for name, value in told.items() if value is not None})

    @property
    def available_kv_cache(self) -> Seen[ByteRange] | None:
        """What is left for the KV cache on the tightest rank, which sets the blocks of all."""
        return min(self.memory.available_kv_cache, key=lambda seen: seen.value.best, default=None)

    @property
    def gpu_blocks(self) -> Seen[int] | None:
        """Blocks of the tightest rank."""
        return min(self.pool.gpu_blocks, key=lambda seen: seen.value, default=None)

    @property
    def kv_cache_tokens(self) -> Seen[int] | None:
        """The token line of the tightest rank; SGLang's `max_total_num_tokens`. See `Pool` for what it means."""
        printed = self.pool.max_total_num_tokens if self.engine == "sglang" else self.pool.kv_cache_tokens
        return min(printed, key=lambda seen: seen.value, default=None)

    @property
    def concurrency(self) -> Seen[Concurrency] | None:
        """The printed concurrency of the tightest rank, or what follows exactly from other lines.

        vLLM's first engine has one group of layers whatever the model, and printed blocks x block size /
        `max_model_len` from 0.6.3 on: for the releases before, or without that line, it is computed alike. Anywhere
        else it depends on the groups of layers, and `no_concurrency` says so.
        """
        if self.concurrencies:
            return min(self.concurrencies, key=lambda seen: seen.value.printed)
        blocks, told = self.gpu_blocks, self.deployment
        if self.first_engine is None or blocks is None or told.block_size is None or told.max_model_len is None:
            return None
        if not told.max_model_len.value:
            return None
        users = Decimal(blocks.value * told.block_size.value) / told.max_model_len.value
        computed = Concurrency(users.quantize(Decimal("0.01")), told.max_model_len.value, computed=True)
        return Seen(computed, blocks.line, blocks.rank)

    @property
    def no_concurrency(self) -> str | None:
        """Why there is no concurrency."""
        if self.concurrency is not None:
            return None
        if self.engine != "vllm":
            return "the engine prints no concurrency, and tokens don't give it where layers keep different caches"
        if self.first_engine is not None:
            return "the log lacks the blocks, the block size or max_model_len, which give it for vLLM's first engine"
        return "the log lacks the line, and tokens or blocks give it only with the groups that the layers form"
