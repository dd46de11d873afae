"""Hooks of the Schemathesis run: catalog keys in half of the questions, and a count of what came of the plans."""

import random
from collections import Counter
from typing import Any

import schemathesis
from schemathesis import GenerationMode

from service.capacity.placement import legal_tensor_parallel
from service.catalog.bundled import bundled_catalog

_catalog = bundled_catalog()
_plannable = [
    key for key in _catalog.models.keys if (entry := _catalog.models.pinned(key, None)).spec.weights is not None
]
_gpus = [key for key in _catalog.gpus.keys if _catalog.gpus.pinned(key, None).spec.reported_memory is not None]

_ENGINES = (None, "vllm@0.12", "vllm@0.33", "sglang", "tensorrt-llm")

_SELDOM_LEGAL = (
    "kv_heads",
    "kv_cache_dtype",
    "kv_cache_dtype_skip_layers",
    "pipeline_parallel",
    "pipeline_layers",
    "expert_parallel",
    "decode_context_parallel",
    "speculative_tokens",
    "max_loras",
)
"""Levers of which most models take few values: the other half of the questions has them."""

statuses: Counter[int] = Counter()
"""Statuses of POST /v1/plans for questions that the schema allows."""


def _is_positive(case: Any) -> bool:  # noqa: ANN401 - Schemathesis' case
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:  # noqa: ANN401, ARG001 - Schemathesis' signature
    """Turn every other question that the schema allows into one about catalog entries."""
    # Seeded by the body: a case that is shrunk or run again stays the case that it was.
    chance = random.Random(repr(case.body))
    if _is_positive(case):
        case.body = _storable(case.body)
    if _is_positive(case) and isinstance(case.body, dict) and "model" in case.body and chance.random() < 0.5:
        case.body = _about_catalog_entries(case.body, chance)
    return case


def _storable(body: Any) -> Any:  # noqa: ANN401 - any JSON
    """Leave U+0000 out of texts: a config.json is any JSON object, of which no schema says that it holds none."""
    match body:
        case str():
            return body.replace("\0", "")
        case list():
            return [_storable(item) for item in body]
        case dict():
            return {_storable(name): _storable(value) for name, value in body.items()}
        case _:
            return body


def _about_catalog_entries(body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Name a model, a GPU and, where one is named, a workload of the catalog, and levers that they can take."""
    key = chance.choice(_plannable)
    model = _catalog.models.pinned(key, None).spec
    changed = body | {"model": key, "gpu": chance.choice(_gpus), "engine": chance.choice(_ENGINES)}
    limit = model.max_position_embeddings.value
    levers = dict(body.get("levers") or {}) | dict.fromkeys(_SELDOM_LEGAL) | {"max_model_len": chance.randint(1, limit)}
    levers["tensor_parallel"] = chance.choice(legal_tensor_parallel(model.query_heads.value, model.caches.value))
    changed["levers"] = levers
    if isinstance(body.get("workload"), str):
        changed["workload"] = chance.choice(_catalog.workloads.keys)
    if isinstance(body.get("targets"), dict):
        changed["targets"] = body["targets"] | {"basis": "worst_case"}
    return changed


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:  # noqa: ANN401, ARG001 - Schemathesis' signature
    """Count what became of generated plans."""
    if _is_positive(case) and case.method == "POST" and case.path == "/v1/plans":
        statuses[response.status_code] += 1
        accepted, generated = statuses[200], statuses.total()
        print(f"generated plans: {generated}, of which 200: {accepted} ({accepted / generated:.0%}), {dict(statuses)}")
