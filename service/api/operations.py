"""What a route says of itself, for the OpenAPI document. A route without it can't be made."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from litestar import HttpMethod, route
from litestar.handlers import HTTPRouteHandler
from litestar.types import Empty, EmptyType

from service.api import problem_types as types
from service.api.problem_types import ProblemType
from service.errors import Fault

Tag = Literal["plans", "observations", "catalog", "operations", "documents"]


REVISION_HEADER = ("Headcount-Catalog-Revision", "The catalog revision that names were resolved with.")

QUESTION_PROBLEMS = (types.MALFORMED_JSON, types.PAYLOAD_TOO_LARGE, types.UNSUPPORTED_MEDIA_TYPE, types.VALIDATION)
"""Problems of every route whose body is a question."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A path or query parameter. `schema` is a type that msgspec describes."""

    name: str
    within: Literal["path", "query"]
    schema: Any
    description: str = ""
    """Left out where the schema has one."""
    required: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One route: what it is for, what it takes, what it answers."""

    id: str
    tag: Tag
    summary: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    answer: Any = None
    """The type of a JSON answer; None for one of another media type."""
    created: bool = False
    """Whether it answers 201 where something is new, and 200 where it was there."""
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the answer, each with its meaning."""
    problems: tuple[ProblemType, ...] = ()
    too_large: Fault | None = None
    """What of a body that is too large is to be shortened, and how."""


def get(path: str, operation: Operation) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """A route that reads. It answers HEAD as well, which Litestar's own `get` doesn't."""
    return route(path, http_method=[HttpMethod.GET, HttpMethod.HEAD], opt={"operation": operation}, status_code=200)


def post(
    path: str, operation: Operation, *, most_bytes: int | EmptyType = Empty
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """A route that takes a body and answers 200; of more bytes than a question, where it says so."""
    return route(
        path,
        http_method=HttpMethod.POST,
        opt={"operation": operation},
        status_code=200,
        request_max_body_size=most_bytes,
    )
