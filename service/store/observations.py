"""Observations: recorded beside the plan that they are of, listed as residuals, and taken as the next reserve."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec
from sqlalchemy import Connection, RowMapping, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.capacity.observed_reserve import KeptBack
from service.capacity.question import Question
from service.catalog.fitting import StartUp
from service.catalog.observing import Noted
from service.catalog.offering import MOST_KNOWN, Told
from service.catalog.planning import Planned
from service.errors import NotStored
from service.store import plans, tables
from service.store.paging import ListedRow, Position
from service.store.plans import Asked
from service.store.tables import observations

MOST_START_UPS = 1000
"""Start-ups that a reserve is taken from: the newest so many."""

_TOLD = select(
    observations.c.id,
    observations.c.created_at,
    observations.c.model,
    observations.c.model_digest,
    observations.c.gpu,
    observations.c.engine,
    observations.c.tensor_parallel,
    observations.c.observed_digest,
    observations.c.reserve,
    observations.c.weights,
    observations.c.conditions,
).where(observations.c.reserve.is_not(None))

FilterName = Literal["engine", "gpu", "model", "family", "tensor_parallel"]


class StoredObservation(msgspec.Struct, frozen=True, kw_only=True):
    """An observation as it was sent when it was recorded first."""

    id: str
    body: bytes
    created: bool
    """Whether it is recorded only now."""


async def record(connection: AsyncConnection, noted: Noted) -> StoredObservation:
    """Write an observation unless it is there; the stored one wins, and its bytes are returned."""
    observation = noted.observation
    written = await connection.execute(
        insert(observations)
        .values(
            id=observation.observation,
            plan=observation.plan,
            content=noted.content,
            body=msgspec.json.encode(observation),
            row=msgspec.json.encode(noted.row),
            # By the database's clock and now: what asked for it may have waited, or come by another host's clock.
            created_at=func.clock_timestamp(),
            model=observation.model,
            model_digest=noted.model_digest,
            gpu=observation.gpu,
            engine=observation.engine,
            family=observation.family,
            tensor_parallel=observation.tensor_parallel,
            observed_digest=noted.observed_digest,
            reserve=noted.reserve,
            weights=noted.weights,
            conditions=noted.conditions,
        )
        .on_conflict_do_nothing()
        .returning(observations.c.id)
    )
    created = written.scalar_one_or_none() is not None
    stored = await read(connection, observation.observation)
    return msgspec.structs.replace(stored, created=created)


async def record_with_plan(
    connection: AsyncConnection,
    planned: Planned,
    asked: Asked,
    *,
    catalog_revision: int,
    noted_beside: Callable[[bytes], Noted],
) -> StoredObservation | None:
    """Write the plan and its decision, and the observation of it; None, and nothing, where the catalog has moved.

    `noted_beside` puts the start-up beside an answer: the stored one, should an earlier build have answered otherwise.
    """
    stored = await plans.record(connection, planned, asked, catalog_revision=catalog_revision)
    return None if stored is None else await record(connection, noted_beside(stored.answer))


async def read(connection: AsyncConnection, identity: str) -> StoredObservation:
    """Read one observation. Raises `NotStored`."""
    query = select(observations.c.id, observations.c.body).where(observations.c.id == identity)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise NotStored(f"there is no observation {identity}")
    return StoredObservation(**row, created=False)


async def page(
    connection: AsyncConnection, *, filters: Mapping[FilterName, str | int], limit: int, after: Position | None
) -> list[ListedRow]:
    """Read observations that equal every filter, newest first, from a position on."""
    query = (
        select(observations.c.id, observations.c.created_at, observations.c.row)
        .where(*(observations.c[name] == value for name, value in filters.items()))
        .order_by(observations.c.created_at.desc(), observations.c.id.desc())
        .limit(limit)
    )
    if after is not None:
        query = query.where(tuple_(observations.c.created_at, observations.c.id) < (after.created_at, after.id))
    return [ListedRow(**row) for row in (await connection.execute(query)).mappings()]


async def kept_back(connection: AsyncConnection, question: Question) -> list[KeptBack]:
    """Read what start-ups of the same model, GPU, release and tensor parallel kept back, newest first.

    A start-up that was told of several plans is there several times.
    """
    query = (
        _TOLD.where(
            observations.c.model == question.model.key,
            observations.c.gpu == question.gpu.key,
            observations.c.engine == question.engine.key,
            observations.c.tensor_parallel == question.levers.tensor_parallel,
        )
        .order_by(observations.c.created_at.desc(), observations.c.id.desc())
        .limit(MOST_START_UPS)
    )
    if question.model.version is None:  # inline: models of one architecture share a key
        query = query.where(observations.c.model_digest == question.model.digest)
    return [_told(row).kept for row in (await connection.execute(query)).mappings()]


async def told(connection: AsyncConnection, *, since: datetime | None) -> list[Told]:
    """Read the newest start-ups that said what was kept back, those from a moment on where one is given."""
    query = _TOLD.order_by(observations.c.created_at.desc(), observations.c.id.desc()).limit(MOST_KNOWN)
    if since is not None:
        query = query.where(observations.c.created_at >= since)
    return [_told(row) for row in (await connection.execute(query)).mappings()]


def _told(row: RowMapping) -> Told:
    return Told(
        at=row["created_at"],
        model=row["model"],
        model_digest=row["model_digest"],
        gpu=row["gpu"],
        engine=row["engine"],
        tensor_parallel=row["tensor_parallel"],
        kept=KeptBack(
            observation=row["id"],
            start_up=row["observed_digest"],
            on=_day(row["created_at"]),
            bytes=row["reserve"],
            weights=row["weights"],
            conditions=row["conditions"],
        ),
    )


def start_ups(connection: Connection, engine: str) -> list[StartUp]:
    """Read what was observed of an engine's release, oldest first."""
    query = (
        select(observations.c.id, observations.c.content, tables.plans.c.question)
        .join(tables.plans, tables.plans.c.id == observations.c.plan)
        .where(observations.c.engine == engine)
        .order_by(observations.c.created_at, observations.c.id)
    )
    return [StartUp(row.id, row.content, row.question) for row in connection.execute(query)]


def observed_engines(connection: Connection) -> list[str]:
    """List the releases of which anything was observed, by key."""
    query = select(observations.c.engine).distinct().order_by(observations.c.engine)
    return list(connection.execute(query).scalars())


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()
