"""The outermost layer: request ids, a log line per request, and headers that every response carries.

It wraps the whole application because Litestar raises 404 and 405 before its own middleware runs.
"""

import logging
import re
import time
from typing import Any
from urllib.parse import quote

from litestar import Request
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from service.store.identifiers import uuid7

_access = logging.getLogger("headcount.access")

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_QUIET = frozenset({"/livez", "/readyz"})


AnyRequest = Request[Any, Any, State]
"""Litestar's request; nothing here authenticates yet, so user and auth are of no type."""


def request_id_of(scope: Scope) -> str:
    """The caller's X-Request-Id, or the one that was made for the request."""
    return str(scope["state"]["request_id"])


def instance_of(scope: Scope) -> str:
    """A URI for this very request, as problems name it."""
    return f"urn:uuid:{scope['state']['instance']}"


class Envelope:
    """Wraps an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        """Keep the application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass anything that isn't HTTP on."""
        if scope["type"] == ScopeType.HTTP:
            await self._answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        instance = str(uuid7())
        request_id = _callers_request_id(scope) or instance
        scope.setdefault("state", {})
        scope["state"].update(request_id=request_id, instance=instance)
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            if scope["path"] not in _QUIET:
                _access.info(
                    "%s %s %d %.1f ms id=%s",
                    scope["method"],
                    quote(scope["path"]),  # a line feed in a path must not begin a line of its own
                    status,
                    (time.perf_counter() - started) * 1000,
                    request_id,
                )


def _callers_request_id(scope: HTTPScope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SAFE_ID.fullmatch(value):
            return value.decode()
    return None
