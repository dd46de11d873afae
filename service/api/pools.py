"""`/v1/pools`: what a pool of its own for long requests buys. Recorded nowhere."""

from litestar import MediaType, Response

from service.api import problem_types as types
from service.api.bodies import body_of, query_of
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.operations import QUESTION_PROBLEMS, REVISION_HEADER, Operation, post
from service.capacity.split.answer import PoolsAnswer
from service.readers.question import AskedPools


@post(
    "/v1/pools",
    Operation(
        id="comparePools",
        tag="plans",
        summary="Split off long requests",
        description=(
            "The same GPUs in mixed pools, and divided into pools for short requests, whose window is as short, and for"
            " long ones: users per GPU of both, at which length a split is best, and when it buys nothing. Recorded"
            " nowhere; PostgreSQL is needed only where `reserve` asks for what was observed."
        ),
        body=AskedPools,
        answer=PoolsAnswer,
        headers=(REVISION_HEADER,),
        problems=(*QUESTION_PROBLEMS, types.UNAVAILABLE),
    ),
)
async def compare(request: AnyRequest, headcount: Headcount) -> Response[bytes]:
    """Compare pools."""
    query_of(request, ())
    answer, revision = await headcount.pools(await body_of(request, AskedPools))
    return Response(answer, media_type=MediaType.JSON, headers={"Headcount-Catalog-Revision": str(revision)})
