"""What an answer says unasked, under stable codes."""

from service.capacity.answer import Assumed, Caveat
from service.capacity.cache import KeysAndValues
from service.capacity.cache.footprint import Chunk, Ring, State, Window
from service.capacity.defaults import default_batched_tokens, default_fraction_of, default_sequences
from service.capacity.deployment import Deployment, default_block_size_of
from service.capacity.engine_notes import assumed_of_engine, caveats_of_engine
from service.capacity.fraction import FractionOf
from service.capacity.occupancy.crowd import Crowd
from service.capacity.occupancy_answer import fullest
from service.capacity.padding import may_be_padded, padded
from service.capacity.question import Question
from service.capacity.workload_caveats import workload_caveats

_SHARED: dict[FractionOf, str] = {
    "total": "all memory that a process sees of the card",
    "free": "what is free before the model is loaded",
    "left": "what is left once the model is loaded and has run its largest batch",
}

_ALWAYS = (
    Caveat(
        "concurrency_is_not_batch_size",
        "Users are running requests that fit in memory; how many of them one step computes is the scheduler's choice.",
    ),
    Caveat(
        "window_is_a_maximum",
        "max_model_len is a maximum, not an allocation: a request takes blocks only as its tokens are written.",
    ),
    Caveat(
        "throughput_has_a_second_ceiling",
        "More users in memory raise throughput only up to the GPU's ridge point; this answer says what fits.",
    ),
)


def caveats_of(question: Question, deployment: Deployment, crowds: tuple[Crowd, ...] | None) -> tuple[Caveat, ...]:
    """List the caveats of a question, the ones that always hold first."""
    found = list(_ALWAYS)
    window_blocks = deployment.tightest.pool.cost(deployment.window)
    found += workload_caveats(question, None if crowds is None else fullest(crowds), window_blocks)
    found += _copied(question, deployment)
    model = question.model
    if model.version is None and model.spec.notes is not None:
        found.append(Caveat("model_is_read_in_part", f"{model.key}: {model.spec.notes}"))
    if question.engine.spec.block_rules is not None:
        found.append(
            Caveat(
                "engine_support_is_not_checked",
                f"Whether {question.engine.key} can run this model, format and card isn't checked, only what it would"
                " keep.",
            )
        )
    found += caveats_of_engine(question, deployment.tightest.budget)
    kv_heads = question.levers.kv_heads
    query_heads = question.model.spec.query_heads.value
    caches = question.model.spec.caches.value
    own = max((cache.kv_heads for cache in caches if isinstance(cache, KeysAndValues)), default=0)
    if kv_heads is not None and kv_heads == query_heads != own:
        found.append(
            Caveat(
                "kv_heads_are_query_heads",
                f"{kv_heads} is {question.model.key}'s number of query heads; its cache has {own} KV heads"
                f" (num_key_value_heads). Unless this is the multi-head what-if, the cache is priced"
                f" {query_heads / own:g}x too large.",
            )
        )
    if kv_heads is None and 1 < query_heads == own:
        found.append(
            Caveat(
                "cache_is_multi_head",
                f"{question.model.key} keeps keys and values of all of its {own} heads (multi-head attention): a token"
                " takes as many times more than in a grouped-query model as that has query heads to one KV head, often"
                " 4 to 8.",
            )
        )
    return tuple(found)


def _copied(question: Question, deployment: Deployment) -> list[Caveat]:
    """Say where ranks hold copies of one cache: then more of them don't mean more users."""
    levers = question.levers
    ranks = levers.tensor_parallel
    alone = [one.record_bytes for one in deployment.whole if not isinstance(one.span, State | Ring)]
    here = [one.record_bytes for one in deployment.footprints if not isinstance(one.span, State | Ring)]
    copies = min((ranks * part // whole for part, whole in zip(here, alone, strict=True)), default=1)
    shared = min(cache.context_shards(ranks) for cache in deployment.caches)
    if copies <= levers.decode_context_parallel:
        return []
    text = f"Each part of the cache lies on {copies} of {ranks} ranks, so tensor parallel buys no more room for it."
    if shared > levers.decode_context_parallel:
        text += f" decode_context_parallel {shared} shares each request's tokens among {shared} ranks."
    text += (
        f" data_parallel {copies} with tensor_parallel {ranks // copies} keeps {copies} caches instead of copies of"
        " one, where a GPU has room for its larger part of the weights; with expert_parallel experts stay divided over"
        " all."
    )
    return [Caveat("cache_is_copied", text)]


def assumed_of(question: Question, deployment: Deployment, crowds: tuple[Crowd, ...] | None) -> tuple[Assumed, ...]:
    """List the defaults that the answer stands on.

    A lever counts as a default by its value, whether or not the caller wrote it out: the same question is the
    same answer.
    """
    levers, engine, model = question.levers, question.engine, question.model
    limit = model.spec.max_position_embeddings
    stands_on = []
    if levers.max_model_len == limit.value:
        reason = f"the model's own limit after RoPE scaling ({limit.source})"
        stands_on.append(Assumed("max_model_len", str(limit.value), reason))
    for name, default in (
        ("gpu_memory_utilization", default_fraction_of(question)),
        ("max_num_seqs", default_sequences(engine.spec, question.gpu.spec)),
        ("max_num_batched_tokens", default_batched_tokens(engine.spec, question.gpu.spec)),
        ("reserve_bytes", engine.spec.reserve_bytes),
        ("block_size", default_block_size_of(question)),
    ):
        unused = name == "gpu_memory_utilization" and levers.kv_cache_memory_bytes is not None
        if default is not None and getattr(levers, name) == default.value and not unused:
            reason = f"default of the engine {engine.key}: {default.source}"
            if name == "gpu_memory_utilization" and engine.spec.reserve_rule is not None:
                reason += f"; a share of {_SHARED[engine.spec.fraction_of]}"
            stands_on.append(Assumed(name, str(default.value), reason))
    if crowds is not None and question.tau is None and not fullest(crowds).drift.is_measured:
        stands_on.append(assumed_tau(fullest(crowds).drift.tau))
    if levers.speculative_tokens and levers.accepted_tokens == 1 and question.workload is not None:
        reason = "how many drafted tokens are accepted isn't said: none are counted"
        stands_on.append(Assumed("accepted_tokens", "1", reason))
    stands_on += assumed_of_engine(question, deployment.tightest.budget)
    stands_on += _assumed_of_weights(question)
    stands_on += _assumed_of_groups(question, deployment)
    memory = question.gpu.spec.reported_memory
    if engine.spec.memory == "reported" and memory is not None and memory.certainty == "assumed":
        stands_on.append(Assumed("reported_memory", str(memory.bytes.value), memory.bytes.source))
    if deployment.dtype.reason is not None:
        stands_on.append(Assumed("kv_cache_dtype", deployment.dtype.dtype, deployment.dtype.reason))
    return tuple(stands_on)


def assumed_tau(tau: float) -> Assumed:
    """Say of the drift that nobody measured it."""
    reason = "recorded traffic wandered by 0.07 to 0.10 of its mean; ordered rows measure your own"
    return Assumed("tau", f"{tau:g}", reason)


def _assumed_of_weights(question: Question) -> list[Assumed]:
    """Say how experts are loaded that engines pad, where no log of this engine and card shows it."""
    levers, engine, figure = question.levers, question.engine, question.model.spec.weights
    parts = () if figure is None else figure.value
    if any(may_be_padded(part, levers, engine.spec) for part in parts):
        reason = (
            "engines pad experts in mxfp4 to multiples of 64 to 256 when they load them (gpt-oss: about 0.58 B a"
            f" parameter instead of 0.53); by how much {engine.key} does here isn't known"
        )
        return [Assumed("loaded_weights", "as in the files", reason)]
    found = [padded(part, levers, engine.spec, question.gpu.spec) for part in parts]
    unsure = next((one for one in found if one is not None and one.certainty == "assumed"), None)
    if unsure is None:
        return []
    value = f"experts of {unsure.hidden[1]:,} x {unsure.width[1]:,} on each rank"
    return [Assumed("loaded_weights", value, f"{engine.key}: {unsure.source}")]


def _assumed_of_groups(question: Question, deployment: Deployment) -> list[Assumed]:
    """List what windows and states stand on, where there are any and the engine has rules for them."""
    levers, engine = question.levers, question.engine
    rules = engine.spec.block_rules
    if rules is None:
        return []
    spans = [footprint.span for footprint in deployment.footprints]
    found = []
    if any(isinstance(span, Window | Chunk) for span in spans):
        batches = rules.batches_in_flight
        found.append(Assumed("batches_in_flight", str(batches.value), f"{engine.key}: {batches.source}"))
    layout = rules.layouts.get(question.model.spec.architecture)
    if layout is not None or any(isinstance(span, Ring) for span in spans):
        reason = (
            f"no log states how {engine.key} lays these caches out: it was read in its source or follows from counts"
        )
        found.append(Assumed("block_layout", layout or "padded", reason))
    if any(isinstance(span, State) for span in spans):
        on = rules.state_copies_for_prefix_caching
        if levers.enable_prefix_caching == (on.value or levers.speculative_tokens > 0):
            value = str(levers.enable_prefix_caching).lower()
            found.append(Assumed("enable_prefix_caching", value, f"states of {engine.key}: {on.source}"))
    return found
