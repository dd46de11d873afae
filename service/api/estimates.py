"""`/v1/estimates`: the same question, recorded nowhere; PostgreSQL is needed only where it asks what was observed."""

import msgspec
from litestar import MediaType, Response

from service.api import problem_types as types
from service.api.bodies import body_of, query_of
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.offered import OFFER_HEADER, headers_of
from service.api.operations import QUESTION_PROBLEMS, REVISION_HEADER, Operation, Parameter, get, post
from service.capacity.answer import Answer
from service.readers.flat_question import LEVERS, NAMES, question_of
from service.readers.question import AskedLevers, AskedMean, AskedQuestion, AskedTargets, Key, VersionRef


def _type_of(struct: type[msgspec.Struct], name: str) -> object:
    return next(field.type for field in msgspec.structs.fields(struct) if field.name == name)


_VERSION = _type_of(VersionRef, "version")

_PARAMETERS = (
    Parameter(name="model", within="query", schema=Key, description="A model's key.", required=True),
    Parameter(name="gpu", within="query", schema=Key, description="A GPU's key.", required=True),
    Parameter(name="engine", within="query", schema=Key, description="An engine's key; `generic` when left out."),
    Parameter(name="workload", within="query", schema=Key, description="A workload's key."),
    *(
        Parameter(name=f"{what}_version", within="query", schema=_VERSION, description=f"Pins the {what}'s version.")
        for what in ("model", "gpu", "engine", "workload")
    ),
    Parameter(name="reserve", within="query", schema=_type_of(AskedQuestion, "reserve")),
    Parameter(
        name="mean_tokens",
        within="query",
        schema=_type_of(AskedMean, "tokens"),
        description="A workload in which every request holds so many tokens.",
    ),
    Parameter(
        name="risk",
        within="query",
        schema=_type_of(AskedQuestion, "risk"),
        description="Share of steps that may overflow.",
    ),
    Parameter(
        name="users", within="query", schema=_type_of(AskedTargets, "users"), description="Users that have to fit."
    ),
    Parameter(
        name="basis",
        within="query",
        schema=_type_of(AskedTargets, "basis"),
        description="The count that `users` is compared with.",
    ),
    *(Parameter(name=name, within="query", schema=_type_of(AskedLevers, name)) for name in LEVERS),
)


@post(
    "/v1/estimates",
    Operation(
        id="estimate",
        tag="plans",
        summary="Ask off the record",
        description=(
            "The same question and answer as a plan, recorded nowhere; `plan` and `plan_url` are null. PostgreSQL is"
            " needed only where `reserve` asks for what was observed."
        ),
        body=AskedQuestion,
        answer=Answer,
        headers=(REVISION_HEADER, OFFER_HEADER),
        problems=(*QUESTION_PROBLEMS, types.UNAVAILABLE),
    ),
)
async def post_estimate(request: AnyRequest, headcount: Headcount) -> Response[bytes]:
    """Answer without recording."""
    query_of(request, ())
    question = await body_of(request, AskedQuestion)
    return await _answer(headcount, question, size=len(await request.body()))


@get(
    "/v1/estimates",
    Operation(
        id="estimateFromQuery",
        tag="plans",
        summary="Ask in an address",
        description="An estimate whose question stands in the query string, for callers that can only GET.",
        parameters=_PARAMETERS,
        answer=Answer,
        headers=(REVISION_HEADER, OFFER_HEADER),
        problems=(types.INVALID_PARAMETERS, types.VALIDATION, types.UNAVAILABLE),
    ),
)
async def get_estimate(request: AnyRequest, headcount: Headcount) -> Response[bytes]:
    """Answer a question in the query string."""
    query = query_of(request, NAMES)
    return await _answer(headcount, question_of(query), size=0)


async def _answer(headcount: Headcount, question: AskedQuestion, *, size: int) -> Response[bytes]:
    estimate = await headcount.estimate(question, size=size)
    headers = {"Headcount-Catalog-Revision": str(estimate.catalog_revision)} | headers_of(estimate.offer)
    return Response(estimate.answer, media_type=MediaType.JSON, headers=headers)
