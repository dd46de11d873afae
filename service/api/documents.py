"""The description of the service, for programs and for people, and a page per problem type."""

from typing import Annotated, Any

from litestar import MediaType, Response
from msgspec import Meta

from service.api import problem_types as types
from service.api.bodies import query_of
from service.api.envelope import AnyRequest
from service.api.operations import Operation, Parameter, get
from service.api.pages import problem_list_page, problem_page
from service.api.problem_types import PROBLEM_TYPES
from service.errors import NotStored

# Pages need no script and no other host, and say so.
_PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}

_SLUG = Parameter(
    name="slug",
    within="path",
    schema=Annotated[str, Meta(pattern="^[a-z-]+$", max_length=100)],
    description="The last part of a problem's `type`.",
    required=True,
)


@get(
    "/openapi.json",
    Operation(
        id="openapi",
        tag="documents",
        summary="This description",
        description="The OpenAPI 3.1 document of the service.",
        answer=dict[str, Any],
        problems=(types.INVALID_PARAMETERS,),
    ),
)
async def openapi(request: AnyRequest, description: str) -> Response[str]:
    """Send the document."""
    query_of(request, ())
    return Response(description, media_type=MediaType.JSON)


@get(
    "/docs",
    Operation(
        id="docs",
        tag="documents",
        summary="This description, to read",
        description="The same as a page, which loads nothing from elsewhere.",
        media_type="text/html",
        problems=(types.INVALID_PARAMETERS,),
    ),
)
async def docs(request: AnyRequest, description_page: str) -> Response[str]:
    """Send the page."""
    query_of(request, ())
    return Response(description_page, media_type=MediaType.HTML, headers=_PAGE_HEADERS)


@get(
    "/problems",
    Operation(
        id="listProblems",
        tag="documents",
        summary="All problem types",
        description="Each with its status and its page.",
        media_type="text/html",
        problems=(types.INVALID_PARAMETERS,),
    ),
)
async def problems(request: AnyRequest) -> Response[str]:
    """Send the list."""
    query_of(request, ())
    return Response(problem_list_page(), media_type=MediaType.HTML, headers=_PAGE_HEADERS)


@get(
    "/problems/{slug:str}",
    Operation(
        id="readProblem",
        tag="documents",
        summary="What a problem type means",
        description="The page that a problem's `type` leads to: what it means and what to do.",
        parameters=(_SLUG,),
        media_type="text/html",
        problems=(types.INVALID_PARAMETERS, types.NOT_FOUND),
    ),
)
async def problem(request: AnyRequest, slug: str) -> Response[str]:
    """Send one page."""
    query_of(request, ())
    if slug not in PROBLEM_TYPES:
        raise NotStored(f"there is no problem type {slug!r}")
    return Response(problem_page(PROBLEM_TYPES[slug]), media_type=MediaType.HTML, headers=_PAGE_HEADERS)
