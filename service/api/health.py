"""`/livez`, `/readyz` and `/version`: for probes, without a record and without a log line."""

from importlib.metadata import version

import msgspec
from litestar import Response

from service.api import problem_types as types
from service.api.bodies import query_of
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.operations import Operation, get
from service.capacity.planner import PLANNER
from service.catalog.entries import UNREAD
from service.errors import StoreUnavailable
from service.store.migrations import is_at_head

_RELEASE = version("headcount")

READY_WITHIN = 1.0
"""Seconds that the database has to answer a probe."""


class Liveness(msgspec.Struct, frozen=True):
    """The process answers."""

    alive: bool


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether questions can be recorded, check by check."""

    ready: bool
    database: bool
    migrations: bool
    catalog: bool


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What is running."""

    service: str
    planner: int
    catalog_revision: int


@get(
    "/livez",
    Operation(
        id="livez",
        tag="operations",
        summary="Is the process alive?",
        description="Says nothing about the database: restarting the process would not bring that back.",
        answer=Liveness,
    ),
)
async def livez() -> Liveness:
    """Answer."""
    return Liveness(alive=True)


@get(
    "/readyz",
    Operation(
        id="readyz",
        tag="operations",
        summary="Can questions be recorded?",
        description="200 when the database answers, has this release's schema and the catalog is loaded; else 503.",
        answer=Readiness,
    ),
)
async def readyz(headcount: Headcount) -> Response[Readiness]:
    """Check everything that recording needs."""
    try:
        migrated = await headcount.database.transaction(is_at_head, within=READY_WITHIN)
        database = True
    except StoreUnavailable:
        database = migrated = False
    catalog = headcount.catalog.revision != UNREAD
    ready = database and migrated and catalog
    checks = Readiness(ready=ready, database=database, migrations=migrated, catalog=catalog)
    return Response(checks, status_code=200 if ready else 503)


@get(
    "/version",
    Operation(
        id="version",
        tag="operations",
        summary="What is running?",
        description="The release, the planner whose number changes with any answer, and the catalog's revision.",
        answer=Build,
        problems=(types.INVALID_PARAMETERS,),
    ),
)
async def build(request: AnyRequest, headcount: Headcount) -> Build:
    """Name the release."""
    query_of(request, ())
    return Build(service=_RELEASE, planner=PLANNER, catalog_revision=headcount.catalog.revision)
