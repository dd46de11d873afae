"""Fetching what engines expose of themselves, all pods at one time."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import httpx

from service.cli.fetching import MOST_BYTES, fetched, named
from service.errors import InvalidParameters, SetUpError
from service.readers.metrics.samples import known_lines


def scraped(urls: Sequence[str], wait: float | None) -> tuple[list[str], list[str] | None]:
    """Fetch the texts of all URLs, and the earlier ones where it is done twice, `wait` seconds apart.

    Only the lines that are read are kept: an engine exposes ten times as many.

    Raises `InvalidParameters` for what is no URL, and `SetUpError` for what can't be fetched.
    """
    targets = [(_name(url), _with_path(url)) for url in urls]
    if wait is None:
        return asyncio.run(_all(targets)), None
    return asyncio.run(_twice(targets, wait))


async def _twice(targets: Sequence[tuple[str, str]], wait: float) -> tuple[list[str], list[str]]:
    earlier = await _all(targets)
    await asyncio.sleep(wait)
    return await _all(targets), earlier


async def _all(targets: Sequence[tuple[str, str]]) -> list[str]:
    return await asyncio.gather(*(_text(name, url) for name, url in targets))


async def _text(name: str, url: str) -> str:
    status, location, content, _ = await fetched(url, name)
    if location:
        raise SetUpError(f"{name} answered {status}, a redirect that is not followed; it leads to {location}")
    if status != HTTPStatus.OK:
        raise SetUpError(f"{name} answered {status} and not with metrics")
    if len(content) > MOST_BYTES:
        raise SetUpError(f"{name} answered with more than {MOST_BYTES >> 20} MiB")
    try:
        text = known_lines(content.decode())
    except UnicodeDecodeError as error:
        raise SetUpError(f"{name} answered with what is no text (byte {error.start})") from error
    if "\0" in text:
        raise SetUpError(f"{name} answered with U+0000, which can't stand in a question")
    if not text:
        raise SetUpError(f"{name} exposes no metric of vLLM or SGLang")
    return text


def _name(url: str) -> str:
    name = named(url)
    if name is None:
        raise InvalidParameters(
            ("URL", f"{url[:100]!r} is not the URL of metrics, such as http://127.0.0.1:8000/metrics")
        )
    return name


def _with_path(url: str) -> str:
    address = httpx.URL(url)
    return str(address.copy_with(path="/metrics")) if address.path in {"", "/"} else url
