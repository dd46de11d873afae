"""One exchange with a server that may be slow, wrong or hostile."""

import asyncio
from typing import NamedTuple

import httpx

from service.errors import SetUpError

ANSWER_WITHIN = 30.0
"""Seconds from the first packet to the last byte."""
MOST_BYTES = 16 * 2**20
"""Of an answer; a real one has a few thousand, a busy engine's metrics a few hundred thousand."""
_HIGHEST_PORT = 65535


class Reply(NamedTuple):
    """What a server answered: its status, where a redirect leads, as much of the body as is worth reading, headers."""

    status: int
    location: str
    content: bytes
    headers: httpx.Headers


def named(address: str) -> str | None:
    """What a URL is called in messages, without its password and query; null for what is no URL of a web server."""
    try:
        url = httpx.URL(address)
        usable = url.scheme in {"http", "https"} and url.host and (url.port or 0) <= _HIGHEST_PORT
    except (httpx.InvalidURL, ValueError):
        return None
    return f"{url.scheme}://{url.netloc.decode()}{url.path}".rstrip("/") if usable else None


async def fetched(url: str, name: str, *, posted: bytes | None = None) -> Reply:
    """Get a URL, or post JSON to it.

    A body that is cut is longer than `MOST_BYTES`. Raises `SetUpError` for a server that doesn't answer.
    """
    # As sent, not unpacked: a small packed answer can be a huge one.
    headers = {"Accept-Encoding": "identity"} | ({} if posted is None else {"Content-Type": "application/json"})
    content = bytearray()
    try:
        # The limits of the client are for each packet; a server that sends one byte a second would keep them for ever.
        async with (
            asyncio.timeout(ANSWER_WITHIN),
            httpx.AsyncClient(timeout=None) as client,  # noqa: S113 - see above
            client.stream("GET" if posted is None else "POST", url, content=posted, headers=headers) as response,
        ):
            async for part in response.aiter_raw():
                content += part
                if len(content) > MOST_BYTES:
                    break
            location = response.headers["Location"] if response.has_redirect_location else ""
            return Reply(response.status_code, location, bytes(content), response.headers)
    except TimeoutError as error:
        raise SetUpError(f"{name} does not answer within {ANSWER_WITHIN:g} seconds") from error
    except httpx.HTTPError as error:
        raise SetUpError(f"{name} does not answer: {error}") from error
    except (OSError, ValueError, ImportError) as error:  # settings of proxies and certificates, names that can't be
        raise SetUpError(f"{name} can't be asked: {error}") from error
