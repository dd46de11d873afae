"""`/v1/observations`: what engines printed when they started, beside what was predicted."""

from functools import partial
from typing import Annotated, Generic, TypeVar, get_args

import msgspec
from litestar import MediaType, Response
from msgspec import Meta

from service.api import paging
from service.api import problem_types as types
from service.api.asked import asked_now
from service.api.bodies import body_of, query_of, whole_number
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.operations import QUESTION_PROBLEMS, Operation, Parameter, get, post
from service.capacity.cache import CacheFamily
from service.catalog.observing import Observation, ObservationRow
from service.errors import Fault, InvalidParameters, NotStored
from service.readers.observation import CUT_IT, LONGEST_LOG, AskedObservation
from service.readers.question import LONGEST_KEY, Key, Ranks
from service.store import observations as stored_observations
from service.store.observations import FilterName

Item = TypeVar("Item")

LIMIT = LONGEST_LOG + 2**20
"""Bytes of a body: a log, and as much as a question may have."""

_OBSERVATION_ID = Annotated[str, Meta(pattern="^obs_[0-9a-f]{64}$")]

_MOST_RANKS = 4096

_FILTERS: dict[FilterName, Parameter] = {
    "engine": Parameter(name="engine", within="query", schema=Key, description="Of this release only, by its key."),
    "gpu": Parameter(name="gpu", within="query", schema=Key, description="On this GPU only, by its key."),
    "model": Parameter(name="model", within="query", schema=Key, description="Of this model only, by its key."),
    "family": Parameter(
        name="family", within="query", schema=CacheFamily, description="Of models with this family of caches only."
    ),
    "tensor_parallel": Parameter(
        name="tensor_parallel", within="query", schema=Ranks, description="On so many ranks of tensor parallel only."
    ),
}


class ObservationList(msgspec.Struct, Generic[Item], frozen=True):
    """A page of observations, newest first; `next_cursor` asks for the next one and is null on the last."""

    items: list[Item]
    next_cursor: str | None


@post(
    "/v1/observations",
    Operation(
        id="recordObservation",
        tag="observations",
        summary="Record a start-up",
        description=(
            "Takes what an engine printed when it started, as its log or as fields, and the plan or the question that"
            " it is of; says which figure was off and by how much, and records both. A question is recorded as a plan"
            " with a decision. A fact that contradicts the question is refused: it was another start-up; so are"
            " figures that can't be of its card or weights. The same start-up again is the same observation, and 200."
            " Of a log only its digest and the facts found in it are kept."
        ),
        body=AskedObservation,
        answer=Observation,
        created=True,
        headers=(
            ("Content-Location", "Where the observation can be read."),
            ("Headcount-Decision", "The id of the decision that recorded the question, where one came with it."),
        ),
        problems=(*QUESTION_PROBLEMS, types.UNAVAILABLE),
        too_large=Fault("/log", f"may take at most {LONGEST_LOG:,} bytes as JSON: {CUT_IT}"),
    ),
    most_bytes=LIMIT,
)
async def record_observation(request: AnyRequest, headcount: Headcount) -> Response[bytes]:
    """Record an observation, and a plan where its question came with it."""
    query_of(request, ())
    observed = await body_of(request, AskedObservation)
    asked = asked_now(request, None if observed.question is None else observed.question.labels)
    stored = await headcount.observe(observed, asked, size=len(await request.body()))
    headers = {"Content-Location": f"/v1/observations/{stored.id}"}
    if observed.question is not None:
        headers["Headcount-Decision"] = f"dec_{asked.decision}"
    status = 201 if stored.created else 200
    return Response(stored.body, status_code=status, media_type=MediaType.JSON, headers=headers)


@get(
    "/v1/observations/{observation:str}",
    Operation(
        id="readObservation",
        tag="observations",
        summary="Read an observation",
        description="The very bytes that were sent when the observation was recorded. An observation never changes.",
        parameters=(
            Parameter(
                name="observation",
                within="path",
                schema=_OBSERVATION_ID,
                description="An observation's id.",
                required=True,
            ),
        ),
        answer=Observation,
        problems=(types.INVALID_PARAMETERS, types.NOT_FOUND, types.UNAVAILABLE),
    ),
)
async def read_observation(request: AnyRequest, headcount: Headcount, observation: str) -> Response[bytes]:
    """Read one observation."""
    query_of(request, ())
    if "\0" in observation:
        raise NotStored("an observation's id holds no U+0000")
    stored = await headcount.database.transaction(partial(stored_observations.read, identity=observation))
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(stored.body, media_type=MediaType.JSON, headers=headers)


@get(
    "/v1/observations",
    Operation(
        id="listObservations",
        tag="observations",
        summary="List residuals",
        description="Observations as rows, what was observed less what was predicted, newest first, a page at a time.",
        parameters=(*_FILTERS.values(), *paging.parameters_of("Observations")),
        answer=ObservationList[ObservationRow],
        problems=(types.INVALID_PARAMETERS, types.UNAVAILABLE),
    ),
)
async def list_observations(request: AnyRequest, headcount: Headcount) -> ObservationList[msgspec.Raw]:
    """List observations, newest first."""
    query = query_of(request, (*_FILTERS, *paging.NAMES))
    limit, after = paging.limit_of(query), paging.position_of(query, "obs_")
    filters = {name: _filter(name, query[name]) for name in _FILTERS if name in query}
    found = await headcount.database.transaction(
        partial(stored_observations.page, filters=filters, limit=limit + 1, after=after)
    )
    return ObservationList(*paging.page_of(found, limit))


def _filter(name: FilterName, written: str) -> str | int:
    if name == "family" and written not in get_args(CacheFamily):
        raise InvalidParameters((name, f"{written[:40]!r} is none of: {', '.join(get_args(CacheFamily))}"))
    if name != "tensor_parallel":
        if not 0 < len(written) <= LONGEST_KEY:
            raise InvalidParameters((name, f"must have from 1 to {LONGEST_KEY} characters"))
        return written
    ranks = whole_number(written, _MOST_RANKS)
    if ranks is None:
        raise InvalidParameters((name, f"must be a whole number from 1 to {_MOST_RANKS}"))
    return ranks
