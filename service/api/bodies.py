"""Reading a request strictly: its media type, its body, its query parameters."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import parse_qsl

from litestar.exceptions import HTTPException

from service.api.envelope import AnyRequest
from service.api.off_loop import off_loop
from service.errors import InvalidParameters
from service.readers import strict_json

Document = TypeVar("Document")

LIMIT = 2**20
"""Bytes that a question may have: 1 MiB."""


async def body_of(request: AnyRequest, document: type[Document]) -> Document:
    """Read the body as a document.

    Raises `MalformedJson`, `InvalidDocument`, and HTTP 413 and 415.
    """
    _check_media_type(request)
    body = await request.body()
    return await off_loop(len(body), strict_json.decode, body, document)


def query_of(request: AnyRequest, known: Iterable[str]) -> dict[str, str]:
    """Read the query parameters. Raises `InvalidParameters` for one that isn't known or comes twice."""
    try:
        text = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidParameters(("", "the query string is not percent-encoded UTF-8")) from error
    names = sorted(known)
    counted = Counter(name for name, _ in pairs)
    faults = [
        (name, f"is not a parameter here; parameters: {', '.join(names) or 'none'}")
        for name in counted
        if name not in names
    ]
    faults += [(name, "comes twice; write it once") for name, times in counted.items() if times > 1]
    faults += [(name, "contains U+0000") for name, value in pairs if "\0" in value]
    if faults:
        raise InvalidParameters(*faults)
    return dict(pairs)


def whole_number(text: str, most: int) -> int | None:
    """Read a number from 1 to `most`, written in digits alone; None for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    return int(text) if 1 <= int(text) <= most else None


def _check_media_type(request: AnyRequest) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise HTTPException(status_code=415, detail=f"the body is in the encoding {encoding[:40]}; send it plain")
    written = request.headers.get("content-type", "")
    media_type = written.partition(";")[0].strip().lower()
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        detail = f"the body is {media_type}; send application/json"
        raise HTTPException(status_code=415, detail=detail, headers={"Accept-Post": "application/json"})
