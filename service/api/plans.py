"""`/v1/plans`: asking on the record, and reading the record."""

from functools import partial
from typing import Annotated, Generic, TypeVar

import msgspec
from litestar import MediaType, Response
from msgspec import Meta

from service.api import paging
from service.api import problem_types as types
from service.api.asked import asked_now
from service.api.bodies import body_of, query_of
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.offered import OFFER_HEADER, headers_of
from service.api.operations import QUESTION_PROBLEMS, REVISION_HEADER, Operation, Parameter, get, post
from service.capacity.answer import Answer
from service.catalog.row import Row
from service.errors import NotStored
from service.readers.question import AskedQuestion
from service.store import plans as stored_plans

Item = TypeVar("Item")

_PLAN_ID = Annotated[str, Meta(pattern="^pln_[0-9a-f]{64}$")]


class PlanList(msgspec.Struct, Generic[Item], frozen=True):
    """A page of plans, newest first; `next_cursor` asks for the next one and is null on the last."""

    items: list[Item]
    next_cursor: str | None


@post(
    "/v1/plans",
    Operation(
        id="recordPlan",
        tag="plans",
        summary="Ask on the record",
        description=(
            "Answers how many users fit and why, and records question, answer and decision before it responds. The"
            " same question is the same plan, asked however often; each time is one more decision. A deployment that"
            " does not fit is 200 with `fits: false`."
        ),
        body=AskedQuestion,
        answer=Answer,
        headers=(
            ("Headcount-Decision", "The id of the decision that recorded this request."),
            ("Content-Location", "Where the plan can be read."),
            REVISION_HEADER,
            OFFER_HEADER,
        ),
        problems=(*QUESTION_PROBLEMS, types.UNAVAILABLE),
    ),
)
async def record_plan(request: AnyRequest, headcount: Headcount) -> Response[bytes]:
    """Record a plan and a decision, then answer."""
    query_of(request, ())
    question = await body_of(request, AskedQuestion)
    asked = asked_now(request, question.labels)
    recorded = await headcount.record(question, asked, size=len(await request.body()))
    headers = {
        "Headcount-Decision": f"dec_{asked.decision}",
        "Content-Location": f"/v1/plans/{recorded.plan.id}",
        "Headcount-Catalog-Revision": str(recorded.catalog_revision),
    } | headers_of(recorded.offer)
    return Response(recorded.plan.answer, media_type=MediaType.JSON, headers=headers)


@get(
    "/v1/plans/{plan:str}",
    Operation(
        id="readPlan",
        tag="plans",
        summary="Read a plan",
        description="The very bytes that were sent when the plan was recorded. A plan never changes.",
        parameters=(Parameter(name="plan", within="path", schema=_PLAN_ID, description="A plan's id.", required=True),),
        answer=Answer,
        headers=(("ETag", "The SHA-256 of the body."),),
        problems=(types.INVALID_PARAMETERS, types.NOT_FOUND, types.UNAVAILABLE),
    ),
)
async def read_plan(request: AnyRequest, headcount: Headcount, plan: str) -> Response[bytes]:
    """Read one plan."""
    query_of(request, ())
    if "\0" in plan:
        raise NotStored("a plan's id holds no U+0000")
    stored = await headcount.database.transaction(partial(stored_plans.read, identity=plan))
    etag = f'"{stored.answer_digest}"'
    headers = {"ETag": etag, "Cache-Control": "private, max-age=31536000, immutable"}
    if etag in _etags(request):
        return Response(b"", status_code=304, headers=headers)
    return Response(stored.answer, media_type=MediaType.JSON, headers=headers)


@get(
    "/v1/plans",
    Operation(
        id="listPlans",
        tag="plans",
        summary="List plans",
        description="Plans as rows, newest first, a page at a time.",
        parameters=paging.parameters_of("Plans"),
        answer=PlanList[Row],
        problems=(types.INVALID_PARAMETERS, types.UNAVAILABLE),
    ),
)
async def list_plans(request: AnyRequest, headcount: Headcount) -> PlanList[msgspec.Raw]:
    """List plans, newest first."""
    query = query_of(request, paging.NAMES)
    limit, after = paging.limit_of(query), paging.position_of(query, "pln_")
    found = await headcount.database.transaction(partial(stored_plans.page, limit=limit + 1, after=after))
    return PlanList(*paging.page_of(found, limit))


def _etags(request: AnyRequest) -> list[str]:
    written = request.headers.get("if-none-match", "")
    return [tag.strip().removeprefix("W/") for tag in written.split(",")]
