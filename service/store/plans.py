"""Plans and decisions: recorded together, read back as the bytes that were sent."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.capacity.planner import PLANNER
from service.catalog.planning import Planned
from service.catalog.row import row_of
from service.errors import NotStored
from service.store import catalog_versions, tables
from service.store.paging import ListedRow, Position
from service.store.tables import decisions, plans


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of one question: what belongs to the decision and not to the plan."""

    decision: UUID
    at: datetime
    source: str
    request_id: str
    trace_id: str | None
    labels: Mapping[str, str]


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it lies in the database."""

    id: str
    answer: bytes
    answer_digest: str


class WholePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with the question that it answers."""

    id: str
    question: bytes
    answer: bytes


async def record(
    connection: AsyncConnection, planned: Planned, asked: Asked, *, catalog_revision: int
) -> StoredPlan | None:
    """Write the plan unless it is there, and the decision; a stored plan wins, and its bytes are returned.

    None, and nothing written, when the catalog is no longer at the revision that the question was resolved with.
    Safe to run again with the same `asked` after a lost connection: the decision has its id already.
    """
    if await catalog_versions.revision(connection) != catalog_revision:
        return None
    await connection.execute(insert(plans).values(_plan_row(planned, asked.at)).on_conflict_do_nothing())
    stored = await read(connection, planned.id)
    await connection.execute(
        insert(decisions)
        .values(
            id=asked.decision,
            at=asked.at,
            plan=stored.id,
            answer_digest=stored.answer_digest,
            catalog_revision=catalog_revision,
            verdict=planned.answer.verdict,
            source=asked.source,
            request_id=asked.request_id,
            trace_id=asked.trace_id,
            labels=dict(asked.labels),
        )
        .on_conflict_do_nothing()
    )
    return stored


async def read(connection: AsyncConnection, identity: str) -> StoredPlan:
    """Read one plan. Raises `NotStored`."""
    query = select(plans.c.id, plans.c.answer, plans.c.answer_digest).where(plans.c.id == identity)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise NotStored(f"there is no plan {identity}")
    return StoredPlan(**row)


async def read_whole(connection: AsyncConnection, identity: str) -> WholePlan:
    """Read one plan with its question. Raises `NotStored`."""
    query = select(plans.c.id, plans.c.question, plans.c.answer).where(plans.c.id == identity)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise NotStored(f"there is no plan {identity}")
    return WholePlan(**row)


async def page(connection: AsyncConnection, *, limit: int, after: Position | None) -> list[ListedRow]:
    """Read plans, newest first, from a position on. Questions and answers may be large: they stay where they are."""
    query = (
        select(plans.c.id, plans.c.created_at, plans.c.row)
        .order_by(plans.c.created_at.desc(), plans.c.id.desc())
        .limit(limit)
    )
    if after is not None:
        query = query.where(tuple_(plans.c.created_at, plans.c.id) < (after.created_at, after.id))
    return [ListedRow(**row) for row in (await connection.execute(query)).mappings()]


def _plan_row(planned: Planned, at: datetime) -> dict[str, object]:
    question, named = planned.question, planned.question.named_workload
    return {
        "id": planned.id,
        "question": planned.question_bytes,
        "answer": planned.answer_bytes,
        "answer_digest": planned.answer_digest,
        "row": msgspec.json.encode(row_of(planned.id, at, question, planned.answer)),
        "model_version": _version_id("models", question.model.key, question.model.version),
        "gpu_version": _version_id("gpus", question.gpu.key, question.gpu.version),
        "engine_version": _version_id("engines", question.engine.key, question.engine.version),
        "workload_version": None if named is None else _version_id("workloads", named.key, named.version),
        "planner": PLANNER,
        "created_at": at,
        "model": question.model.key,
        "gpu": question.gpu.key,
        "engine": question.engine.key,
        "verdict": planned.answer.verdict,
    }


def _version_id(kind: str, key: str, version: int | None) -> object:
    if version is None:  # given inline: the question's own bytes hold it
        return None
    return (
        select(tables.catalog_versions.c.id)
        .where(
            tables.catalog_versions.c.kind == kind,
            tables.catalog_versions.c.key == key,
            tables.catalog_versions.c.version == version,
        )
        .scalar_subquery()
    )
