"""The row: one flat rendering of a plan, for lists. Columns are only ever added at the end."""

from datetime import datetime

import msgspec

from service.store.plans import StoredPlan


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One plan as a line of a table; memory is one pool's, users are the whole deployment's."""

    plan: str
    created_at: datetime
    model: str
    gpu: str
    gpus: int
    engine: str
    max_model_len: int
    kv_cache_dtype: str
    tensor_parallel: int
    fits: bool
    verdict: str
    summary: str
    users_worst_case: int
    users_paged: int | None
    risk: float
    users_at_risk: None
    recommended_max_num_seqs: None
    max_concurrency: float
    kv_budget_bytes: int
    bytes_per_token: int
    binding: str
    planner: int


class _Named(msgspec.Struct):
    key: str


class _Levers(msgspec.Struct):
    max_model_len: int
    kv_cache_dtype: str
    tensor_parallel: int


class _Question(msgspec.Struct):
    model: _Named
    gpu: _Named
    engine: _Named
    levers: _Levers
    risk: float
    planner: int


class _Users(msgspec.Struct):
    worst_case: int
    paged: int | None


class _KvCache(msgspec.Struct):
    max_concurrency: float
    bytes_per_token: int


class _Rung(msgspec.Struct):
    name: str
    value: int


class _Answer(msgspec.Struct):
    fits: bool
    verdict: str
    summary: str
    gpus: int
    users: _Users
    kv_cache: _KvCache
    ladder: list[_Rung]
    binding: str


_question = msgspec.json.Decoder(_Question)
_answer = msgspec.json.Decoder(_Answer)


def row_of(stored: StoredPlan) -> Row:
    """Read the row out of a stored question and answer.

    Only the fields that a row shows are read, so that answers of older planners can be listed for ever.
    """
    question = _question.decode(stored.question)
    answer = _answer.decode(stored.answer)
    return Row(
        plan=stored.id,
        created_at=stored.created_at,
        model=question.model.key,
        gpu=question.gpu.key,
        gpus=answer.gpus,
        engine=question.engine.key,
        max_model_len=question.levers.max_model_len,
        kv_cache_dtype=question.levers.kv_cache_dtype,
        tensor_parallel=question.levers.tensor_parallel,
        fits=answer.fits,
        verdict=answer.verdict,
        summary=answer.summary,
        users_worst_case=answer.users.worst_case,
        users_paged=answer.users.paged,
        risk=question.risk,
        users_at_risk=None,
        recommended_max_num_seqs=None,
        max_concurrency=answer.kv_cache.max_concurrency,
        kv_budget_bytes=next(rung.value for rung in answer.ladder if rung.name == "kv_budget"),
        bytes_per_token=answer.kv_cache.bytes_per_token,
        binding=answer.binding,
        planner=question.planner,
    )
