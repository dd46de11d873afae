"""The one place where an error becomes an HTTP problem (RFC 9457)."""

import logging
from collections.abc import Mapping

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ExceptionHandlersMap

from service.api import problem_types as types
from service.api.bodies import LIMIT
from service.api.envelope import AnyRequest, instance_of
from service.api.operations import Operation
from service.api.problem_types import Problem, ProblemError, ProblemType
from service.errors import (
    Fault,
    HeadcountError,
    InvalidParameters,
    MalformedJson,
    NotPlannedYet,
    NotStored,
    Refused,
    StoreUnavailable,
    UnknownKey,
    UnsupportedCombination,
)
from service.readers.flat_question import name_of

RETRY_AFTER_SECONDS = 5

_log = logging.getLogger("headcount")

_CALLER_HAS_GONE = "client disconnected prematurely"
"""Litestar raises this as a fault of the server, and gives it no type of its own."""

_UNKNOWN = {
    "model": types.UNKNOWN_MODEL,
    "gpu": types.UNKNOWN_GPU,
    "engine": types.UNKNOWN_ENGINE,
    "workload": types.UNKNOWN_WORKLOAD,
}

_OF_STATUS = {
    404: types.NOT_FOUND,
    405: types.METHOD_NOT_ALLOWED,
    413: types.PAYLOAD_TOO_LARGE,
    415: types.UNSUPPORTED_MEDIA_TYPE,
}


def exception_handlers() -> ExceptionHandlersMap:
    """Handlers for our own errors, Litestar's, and everything else."""
    return {HeadcountError: _ours, HTTPException: _litestars, Exception: _anything}


def _ours(request: AnyRequest, error: Exception) -> Response[Problem]:
    in_query = request.method in {"GET", "HEAD"}
    match error:
        case MalformedJson():
            return _response(request, types.MALFORMED_JSON, str(error), _pointers(error.fault))
        case InvalidParameters():
            faults = tuple(ProblemError(detail, parameter=name) for name, detail in error.faults)
            return _response(request, types.INVALID_PARAMETERS, str(error), faults)
        case Refused():
            faults = _parameters(*error.faults) if in_query else _pointers(*error.faults)
            nearest = error.nearest if isinstance(error, UnknownKey) else ()
            return _response(request, _refusal_type(error), str(error), faults, nearest=nearest)
        case NotStored():
            return _response(request, types.NOT_FOUND, str(error))
        case StoreUnavailable():
            retry = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return _response(request, types.UNAVAILABLE, str(error), headers=retry)
        case _:
            return _anything(request, error)


def _refusal_type(error: Refused) -> ProblemType:
    match error:
        case UnknownKey():
            return _UNKNOWN[error.kind]
        case UnsupportedCombination():
            return types.UNSUPPORTED_COMBINATION
        case NotPlannedYet():
            return types.NOT_PLANNED_YET
        case _:
            return types.VALIDATION


def _litestars(request: AnyRequest, error: HTTPException) -> Response[Problem]:
    if error.detail == _CALLER_HAS_GONE:
        _log.info("the caller closed the connection before its question was whole")
        return _response(request, types.BAD_REQUEST, "the body ended before it was whole")
    if error.status_code >= types.INTERNAL.status:
        return _anything(request, error)
    kind = _OF_STATUS.get(error.status_code, types.BAD_REQUEST)
    details: dict[ProblemType, str] = {
        types.NOT_FOUND: f"there is no {request.url.path[:200]}; /docs describes what there is",
        types.METHOD_NOT_ALLOWED: f"{request.method} is not allowed for {request.url.path}",
        types.PAYLOAD_TOO_LARGE: f"the body is larger than {_most(request)}, the most that it may have here",
    }
    faults = _too_large(request) if kind is types.PAYLOAD_TOO_LARGE else ()
    return _response(request, kind, details.get(kind, error.detail), faults, headers=error.headers or {})


def _most(request: AnyRequest) -> str:
    handler = _handler(request)
    limit = None if handler is None else handler.resolve_request_max_body_size()
    most = LIMIT if limit is None else limit
    return f"{most >> 20} MiB ({most:,} bytes)"


def _too_large(request: AnyRequest) -> tuple[ProblemError, ...]:
    handler = _handler(request)
    operation = None if handler is None else handler.opt.get("operation")
    return _pointers(operation.too_large) if isinstance(operation, Operation) and operation.too_large else ()


def _handler(request: AnyRequest) -> HTTPRouteHandler | None:
    handler = request.scope.get("route_handler")
    return handler if isinstance(handler, HTTPRouteHandler) else None


def _anything(request: AnyRequest, error: Exception) -> Response[Problem]:
    # Neither the message nor the traceback leaves the service: they may hold SQL, paths or a caller's data.
    _log.error("unexpected error, instance %s", instance_of(request.scope), exc_info=error)
    return _response(request, types.INTERNAL, "an unexpected error; it has been logged under this instance")


def _response(
    request: AnyRequest,
    kind: ProblemType,
    detail: str,
    errors: tuple[ProblemError, ...] = (),
    *,
    nearest: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response[Problem]:
    problem = Problem(
        type=kind.path,
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=instance_of(request.scope),
        errors=errors,
        nearest=nearest,
    )
    return Response(problem, status_code=kind.status, media_type=types.MEDIA_TYPE, headers=dict(headers or {}))


def _pointers(*faults: Fault) -> tuple[ProblemError, ...]:
    return tuple(ProblemError(fault.detail, pointer=f"#{fault.pointer}") for fault in faults)


def _parameters(*faults: Fault) -> tuple[ProblemError, ...]:
    return tuple(ProblemError(fault.detail, parameter=name_of(fault.pointer)) for fault in faults)
