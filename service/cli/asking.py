"""Asking a server that may be slow, wrong or hostile: `headcount plan --server` and `headcount observe`."""

import asyncio
from http import HTTPStatus
from typing import TypeVar

import msgspec

from service.api.problem_types import Problem
from service.cli.fetching import MOST_BYTES, Reply, fetched, named
from service.cli.server_commands import HOST, PORT
from service.errors import Fault, InvalidParameters, Refused, SetUpError

_Shape = TypeVar("_Shape")


def ask(server: str, route: str, document: msgspec.Struct, answer: type[msgspec.Struct]) -> Reply:
    """Post a document to a route of a server. What it answers is used only in the shape of an answer or a problem.

    Raises `Refused` for a document that it refuses, `InvalidParameters` for a URL that is none, and `SetUpError` for
    everything else that can go wrong.
    """
    name = named(server)
    if name is None or "?" in server or "#" in server:
        raise InvalidParameters(("--server", f"{server[:100]!r} is not a server's URL, such as http://{HOST}:{PORT}"))
    body = msgspec.json.encode(document)
    reply = asyncio.run(fetched(f"{server.rstrip('/')}{route}", name, posted=body))
    _check(name, reply, answer)
    return reply


def _check(name: str, reply: Reply, answer: type[msgspec.Struct]) -> None:
    status, location, content = reply.status, reply.location, reply.content
    if len(content) > MOST_BYTES:
        raise SetUpError(f"{name} answered with more than {MOST_BYTES >> 20} MiB, and not as a Headcount does")
    if status in {HTTPStatus.OK, HTTPStatus.CREATED} and _read(content, answer) is not None:
        return
    if location:
        raise SetUpError(f"{name} answered {status}, a redirect that is not followed; it leads to {location}")
    problem = None if status < HTTPStatus.BAD_REQUEST else _read(content, Problem)
    if problem is None:
        raise SetUpError(f"{name} answered {status}, and not as a Headcount does")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise SetUpError(f"{name} answered {status}: {problem.detail}")
    faults = [Fault((fault.pointer or "").removeprefix("#"), fault.detail) for fault in problem.errors]
    raise Refused(*(faults or [Fault("", f"{name} answered {status}: {problem.detail}")]))


def _read(content: bytes, shape: type[_Shape]) -> _Shape | None:
    try:
        return msgspec.json.decode(content, type=shape)
    except (msgspec.DecodeError, RecursionError):
        return None
