"""From names to pinned versions, and from levers left out to their defaults."""

from typing import TypeVar

from service.capacity.lengths import Workload
from service.capacity.model import Model
from service.capacity.question import Basis, Levers, Pinned, Question, Targets
from service.catalog.bundled import unplanned_models
from service.catalog.entries import Catalog, Shelf, Spec
from service.errors import Fault, NotPlannedYet, UnknownKey
from service.readers.question import AskedLevers, AskedQuestion, AskedTargets, VersionRef
from service.readers.workload import normal_form

Value = TypeVar("Value")

DEFAULT_RISK = 0.01


def resolve(asked: AskedQuestion, catalog: Catalog) -> Question:
    """Pin every name to a version and write every default out.

    Raises `UnknownKey` with the nearest keys, `NotPlannedYet` for a model that is known and not planned yet,
    and `Refused` for a workload that means nothing.
    """
    model = _model(asked.model, catalog)
    engine = _pinned(catalog.engines, asked.engine or "generic")
    levers = asked.levers or AskedLevers()
    workload = None if asked.workload is None else normal_form(asked.workload)
    defaults = engine.spec
    return Question(
        model=model,
        gpu=_pinned(catalog.gpus, asked.gpu),
        engine=engine,
        levers=Levers(
            max_model_len=_or(levers.max_model_len, model.spec.max_position_embeddings.value),
            kv_cache_dtype=_or(levers.kv_cache_dtype, "auto"),
            weight_dtype=_or(levers.weight_dtype, "auto"),
            gpu_memory_utilization=_or(levers.gpu_memory_utilization, defaults.gpu_memory_utilization.value),
            tensor_parallel=_or(levers.tensor_parallel, 1),
            data_parallel=_or(levers.data_parallel, 1),
            block_size=_or(levers.block_size, defaults.block_size.value),
            max_num_seqs=levers.max_num_seqs,
            kv_cache_memory_bytes=levers.kv_cache_memory_bytes,
            reserve_bytes=_or(levers.reserve_bytes, defaults.reserve_bytes.value),
            other_process_bytes=_or(levers.other_process_bytes, 0),
            kv_heads=levers.kv_heads,
        ),
        workload=workload,
        risk=_or(asked.risk, DEFAULT_RISK),
        targets=_targets(asked.targets, workload),
    )


def _model(reference: str | VersionRef, catalog: Catalog) -> Pinned[Model]:
    try:
        return _pinned(catalog.models, reference)
    except UnknownKey as unknown:
        kinds = unplanned_models().get(unknown.key)
        if kinds is None:
            raise
        detail = f"{unknown.key}: {' and '.join(kinds)} are not planned yet"
        raise NotPlannedYet(Fault("/model", detail)) from unknown


def _pinned(shelf: Shelf[Spec], reference: str | VersionRef) -> Pinned[Spec]:
    if isinstance(reference, VersionRef):
        return shelf.pinned(reference.key, reference.version)
    return shelf.pinned(reference, None)


def _targets(asked: AskedTargets | None, workload: Workload | None) -> Targets | None:
    if asked is None:
        return None
    usual: Basis = "worst_case" if workload is None else "at_risk"
    return Targets(users=asked.users, basis=_or(asked.basis, usual))


def _or(asked: Value | None, default: Value) -> Value:
    return default if asked is None else asked
