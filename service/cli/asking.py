"""Asking a server that may be slow, wrong or hostile: `headcount plan --server` and `headcount observe`."""

import asyncio
from http import HTTPStatus
from typing import NamedTuple, TypeVar

import httpx
import msgspec

from service.api.problem_types import Problem
from service.cli.server_commands import HOST, PORT
from service.errors import Fault, InvalidParameters, Refused, SetUpError

_ANSWER_WITHIN = 30.0
"""Seconds from the first packet to the last byte."""
_MOST_BYTES = 16 * 2**20
"""Of an answer; a real one has a few thousand."""
_HIGHEST_PORT = 65535

_Shape = TypeVar("_Shape")


class Reply(NamedTuple):
    """What a server answered: a body of the shape that was asked for, and its headers."""

    content: bytes
    headers: httpx.Headers


def ask(server: str, route: str, document: msgspec.Struct, answer: type[msgspec.Struct]) -> Reply:
    """Post a document to a route of a server. What it answers is used only in the shape of an answer or a problem.

    Raises `Refused` for a document that it refuses, `InvalidParameters` for a URL that is none, and `SetUpError` for
    everything else that can go wrong.
    """
    try:
        url = httpx.URL(server)
        named = f"{url.scheme}://{url.netloc.decode()}{url.path}".rstrip("/")  # without a password
        usable = url.scheme in {"http", "https"} and url.host and not (url.query or url.fragment)
        usable = usable and (url.port or 0) <= _HIGHEST_PORT
    except (httpx.InvalidURL, ValueError):
        usable = False
    if not usable:
        raise InvalidParameters(("--server", f"{server[:100]!r} is not a server's URL, such as http://{HOST}:{PORT}"))
    try:
        status, location, reply = asyncio.run(_posted(f"{server.rstrip('/')}{route}", document))
    except TimeoutError as error:
        raise SetUpError(f"{named} does not answer within {_ANSWER_WITHIN:g} seconds") from error
    except httpx.HTTPError as error:
        raise SetUpError(f"{named} does not answer: {error}") from error
    except (OSError, ValueError, ImportError) as error:  # settings of proxies and certificates, names that can't be
        raise SetUpError(f"{named} can't be asked: {error}") from error
    _check(named, status, location, reply.content, answer)
    return reply


def _check(named: str, status: int, location: str, content: bytes, answer: type[msgspec.Struct]) -> None:
    if len(content) > _MOST_BYTES:
        raise SetUpError(f"{named} answered with more than {_MOST_BYTES >> 20} MiB, and not as a Headcount does")
    if status in {HTTPStatus.OK, HTTPStatus.CREATED} and _read(content, answer) is not None:
        return
    if location:
        raise SetUpError(f"{named} answered {status}, a redirect that is not followed; it leads to {location}")
    problem = None if status < HTTPStatus.BAD_REQUEST else _read(content, Problem)
    if problem is None:
        raise SetUpError(f"{named} answered {status}, and not as a Headcount does")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise SetUpError(f"{named} answered {status}: {problem.detail}")
    faults = [Fault((fault.pointer or "").removeprefix("#"), fault.detail) for fault in problem.errors]
    raise Refused(*(faults or [Fault("", f"{named} answered {status}: {problem.detail}")]))


async def _posted(url: str, document: msgspec.Struct) -> tuple[int, str, Reply]:
    """Post a document and give the status, where a redirect leads, and as much of the body as is worth reading."""
    # As sent, not unpacked: a small packed answer can be a huge one.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    content = bytearray()
    # The limits of the client are for each packet; a server that sends one byte a second would keep them for ever.
    async with (
        asyncio.timeout(_ANSWER_WITHIN),
        httpx.AsyncClient(timeout=None) as client,  # noqa: S113 - see above
        client.stream("POST", url, content=msgspec.json.encode(document), headers=headers) as response,
    ):
        async for part in response.aiter_raw():
            content += part
            if len(content) > _MOST_BYTES:
                break
        location = response.headers["Location"] if response.has_redirect_location else ""
        return response.status_code, location, Reply(bytes(content), response.headers)


def _read(content: bytes, shape: type[_Shape]) -> _Shape | None:
    try:
        return msgspec.json.decode(content, type=shape)
    except (msgspec.DecodeError, RecursionError):
        return None
