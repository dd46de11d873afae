"""The row: one flat rendering of a plan, for lists. Columns are only ever added at the end."""

from datetime import datetime

import msgspec

from service.capacity.answer import Answer
from service.capacity.question import Question


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
    users_at_risk: int | None
    recommended_max_num_seqs: int | None
    max_concurrency: float
    kv_budget_bytes: int
    bytes_per_token: int
    binding: str
    planner: int


def row_of(plan: str, created_at: datetime, question: Question, answer: Answer) -> Row:
    """Flatten a question and its answer."""
    return Row(
        plan=plan,
        created_at=created_at,
        model=question.model.key,
        gpu=question.gpu.key,
        gpus=answer.gpus,
        engine=question.engine.key,
        max_model_len=question.levers.max_model_len,
        kv_cache_dtype=answer.kv_cache.dtype,
        tensor_parallel=question.levers.tensor_parallel,
        fits=answer.fits,
        verdict=answer.verdict,
        summary=answer.summary,
        users_worst_case=answer.users.worst_case,
        users_paged=answer.users.paged,
        risk=question.risk,
        users_at_risk=answer.users.at(question.risk),
        recommended_max_num_seqs=answer.users.recommended_max_num_seqs,
        max_concurrency=answer.kv_cache.max_concurrency,
        kv_budget_bytes=next(rung.value for rung in answer.ladder if rung.name == "kv_budget"),
        bytes_per_token=answer.kv_cache.bytes_per_token,
        binding=answer.binding,
        planner=answer.inputs.planner,
    )
