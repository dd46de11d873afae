"""From names to pinned versions, and from levers left out to their defaults."""

from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec

from service.capacity.counts import usual_basis
from service.capacity.defaults import default_batched_tokens, default_fraction, default_sequences
from service.capacity.deployment import default_block_size
from service.capacity.engine import Engine
from service.capacity.gpu import Gpu
from service.capacity.model import Model
from service.capacity.named_workload import NamedWorkload
from service.capacity.question import Levers, ObservedReserve, Pinned, Question, Sessions, Targets
from service.capacity.workload import Workload
from service.catalog.entries import Catalog, Shelf, Spec, canonical, digest_of
from service.errors import Fault, NotPlannedYet, Refused, UnknownKey, UnsupportedCombination
from service.readers.model_config import read_model
from service.readers.question import (
    AskedLevers,
    AskedModel,
    AskedQuestion,
    AskedSessions,
    AskedTargets,
    AskedWorkload,
    VersionRef,
    WorkloadRef,
)
from service.readers.workload import normal_form

Value = TypeVar("Value")

DEFAULT_RISK = 0.01
DEFAULT_LORA_RANK = 16


def resolve(asked: AskedQuestion, catalog: Catalog, observed: ObservedReserve | None = None) -> Question:
    """Pin every name to a version and write every default out. `observed` is what the question asks for as `reserve`.

    Raises `UnknownKey` with the nearest keys, `NotPlannedYet` for a model that is known and can't be planned, and
    `Refused` for a config.json that can't be read or a workload that means nothing.
    """
    model = _model(asked.model, catalog, "/model")
    draft = None if asked.draft_model is None else _model(asked.draft_model, catalog, "/draft_model")
    engine = _pinned(catalog.engines, asked.engine or "generic")
    levers = asked.levers or AskedLevers()
    workload, named_workload = _workload(asked.workload, catalog)
    gpu = _pinned(catalog.gpus, asked.gpu)
    defaults, rules = engine.spec, engine.spec.block_rules
    drafted = _or(levers.speculative_tokens, 0)
    # Engines turn prefix caching on for states when they draft.
    prefix_caching = drafted > 0 or (rules is not None and rules.state_copies_for_prefix_caching.value)
    if levers.shared_prefix_tokens:
        prefix_caching = _shares_prefix(levers)
    batched = default_batched_tokens(defaults, gpu.spec)
    reserve = levers.reserve_bytes
    if asked.reserve is not None:
        _check_observed(reserve, observed)
    elif reserve is None and defaults.reserve_bytes is not None:
        reserve = defaults.reserve_bytes.value
    sequences = default_sequences(defaults, gpu.spec)
    pulled = Levers(
        max_model_len=_or(levers.max_model_len, model.spec.max_position_embeddings.value),
        kv_cache_dtype=_or(levers.kv_cache_dtype, "auto"),
        kv_cache_dtype_skip_layers=_skipped(levers.kv_cache_dtype_skip_layers or ()),
        indexer_kv_dtype=_or(levers.indexer_kv_dtype, "auto"),
        weight_dtype=_or(levers.weight_dtype, "auto"),
        gpu_memory_utilization=_or(levers.gpu_memory_utilization, 1.0),
        tensor_parallel=_or(levers.tensor_parallel, 1),
        pipeline_parallel=_or(levers.pipeline_parallel, 1),
        pipeline_layers=levers.pipeline_layers,
        data_parallel=_or(levers.data_parallel, 1),
        expert_parallel=bool(levers.expert_parallel),
        decode_context_parallel=_or(levers.decode_context_parallel, 1),
        block_size=_or(levers.block_size, default_block_size(defaults, gpu.spec, model.spec.caches.value).value),
        max_num_batched_tokens=_or(levers.max_num_batched_tokens, None if batched is None else batched.value),
        enable_prefix_caching=_or(levers.enable_prefix_caching, prefix_caching),
        speculative_tokens=drafted,
        max_loras=_or(levers.max_loras, 0),
        max_lora_rank=_or(levers.max_lora_rank, DEFAULT_LORA_RANK),
        enforce_eager=bool(levers.enforce_eager),
        language_model_only=bool(levers.language_model_only),
        max_num_seqs=_or(levers.max_num_seqs, None if sequences is None else sequences.value),
        kv_cache_memory_bytes=levers.kv_cache_memory_bytes,
        reserve_bytes=reserve,
        other_process_bytes=_or(levers.other_process_bytes, 0),
        kv_heads=levers.kv_heads,
        shared_prefix_tokens=_or(levers.shared_prefix_tokens, 0),
        accepted_tokens=_accepted(levers.accepted_tokens, drafted),
    )
    if levers.gpu_memory_utilization is None:
        pulled = msgspec.structs.replace(pulled, gpu_memory_utilization=_fraction(engine, gpu, pulled, draft))
    return Question(
        model=model,
        gpu=gpu,
        engine=engine,
        draft_model=draft,
        levers=pulled,
        workload=workload,
        risk=_or(asked.risk, DEFAULT_RISK),
        targets=_targets(asked.targets, workload),
        tau=asked.tau,
        sessions=None if asked.sessions is None else _sessions(asked.sessions, workload),
        observed_reserve=None if asked.reserve is None else observed,
        named_workload=named_workload,
    )


def _workload(
    asked: str | AskedWorkload | WorkloadRef | None, catalog: Catalog
) -> tuple[Workload | None, Pinned[NamedWorkload] | None]:
    """The lengths in their normal form, and the entry that they are of where they are named."""
    if isinstance(asked, str | WorkloadRef):
        named = _pinned(catalog.workloads, asked)
        return named.spec.lengths.value, named
    return None if asked is None else normal_form(asked), None


def _check_observed(reserve: int | None, observed: ObservedReserve | None) -> None:
    if reserve is not None:
        raise Refused(Fault("/reserve", "says where the reserve is from, and levers.reserve_bytes says how much it is"))
    if observed is None:
        raise Refused(Fault("/reserve", "start-ups are stored by a server, and none is asked here"))


def _fraction(engine: Pinned[Engine], gpu: Pinned[Gpu], levers: Levers, draft: Pinned[Model] | None) -> float:
    default = default_fraction(engine.spec, gpu.spec, levers, draft_model=draft is not None)
    if default is None:
        detail = f"the memory of {gpu.key} isn't known, and the default fraction of {engine.key} depends on it"
        raise NotPlannedYet(Fault("/gpu", detail))
    if default.value <= 0:
        detail = (
            f"{engine.key} would leave more free for steps and graphs than {gpu.key} has, which gives a fraction of"
            f" {default.value:g}: give gpu_memory_utilization, or fewer max_num_batched_tokens"
        )
        raise UnsupportedCombination(Fault("/levers/gpu_memory_utilization", detail))
    return default.value


def _model(reference: str | AskedModel, catalog: Catalog, pointer: str) -> Pinned[Model]:
    if isinstance(reference, str) or reference.config is None:
        return _known_model(reference, catalog, pointer)
    return inline_model(reference.config, reference.parameters, reference.weight_bytes, pointer=f"{pointer}/config")


def _known_model(reference: str | AskedModel, catalog: Catalog, pointer: str) -> Pinned[Model]:
    key, version = (reference, None) if isinstance(reference, str) else (reference.key or "", reference.version)
    try:
        return catalog.models.pinned(key, version)
    except UnknownKey as unknown:
        # The shelf points at where a question usually names a model.
        faults = [Fault(fault.pointer.replace("/model", pointer, 1), fault.detail) for fault in unknown.faults]
        raise UnknownKey(unknown.kind, unknown.key, unknown.nearest, *faults) from unknown


def inline_model(
    config: Mapping[str, object], parameters: int | None, weight_bytes: int | None, *, pointer: str
) -> Pinned[Model]:
    """Read a config.json as a model that is in no catalog. `pointer` is where the caller's document holds it.

    Raises `Refused` or one of its kinds for what can't be read.
    """
    try:
        spec = read_model(config, parameters=parameters, weight_bytes=weight_bytes)
    except Refused as refused:
        faults = (Fault(pointer + fault.pointer, fault.detail) for fault in refused.faults)
        raise type(refused)(*faults) from refused
    return Pinned(key=f"inline/{spec.architecture}", version=None, digest=digest_of(canonical(spec)), spec=spec)


def _pinned(shelf: Shelf[Spec], reference: str | VersionRef | WorkloadRef) -> Pinned[Spec]:
    if isinstance(reference, str):
        return shelf.pinned(reference, None)
    return shelf.pinned(reference.key, reference.version)


def _skipped(layers: tuple[int | Literal["sliding_window"], ...]) -> tuple[int | Literal["sliding_window"], ...]:
    """Numbers sorted and once each, then the word: the same layers are the same question."""
    numbers = sorted({layer for layer in layers if isinstance(layer, int)})
    return (*numbers, "sliding_window") if "sliding_window" in layers else tuple(numbers)


def _targets(asked: AskedTargets | None, workload: Workload | None) -> Targets | None:
    if asked is None:
        return None
    return Targets(users=asked.users, basis=_or(asked.basis, usual_basis(workload)))


def _shares_prefix(levers: AskedLevers) -> bool:
    """A prefix is held once only where finished prefixes are kept."""
    if levers.enable_prefix_caching is False:
        detail = "a prefix is shared by prefix caching only: leave enable_prefix_caching out, or this"
        raise UnsupportedCombination(Fault("/levers/shared_prefix_tokens", detail))
    return True


def _accepted(accepted: float | None, drafted: int) -> float:
    if accepted is not None and accepted > drafted + 1:
        detail = f"a step that drafts {drafted:,} tokens yields {drafted + 1:,} at most: raise speculative_tokens"
        raise UnsupportedCombination(Fault("/levers/accepted_tokens", detail))
    return _or(accepted, 1.0)


def _sessions(asked: AskedSessions, workload: Workload | None) -> Sessions:
    if workload is None:
        raise Refused(Fault("/sessions", "people are counted by running users of a workload: give one"))
    return Sessions(think_seconds=asked.think_seconds, turn_seconds=asked.turn_seconds, active_share=asked.active_share)


def _or(asked: Value | None, default: Value) -> Value:
    return default if asked is None else asked
