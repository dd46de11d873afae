"""Lists in pages: the parameters `limit` and `cursor`, and where a page ends."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from service.api.bodies import whole_number
from service.api.operations import Parameter
from service.errors import InvalidParameters
from service.store.paging import ListedRow, Position

PAGE = 50
LONGEST_PAGE = 1000

NAMES = ("limit", "cursor")


def parameters_of(what: str) -> tuple[Parameter, ...]:
    """Describe the two parameters of a list."""
    return (
        Parameter(
            name="limit",
            within="query",
            schema=Annotated[int, Meta(ge=1, le=LONGEST_PAGE)],
            description=f"{what} of one page; {PAGE} when left out.",
        ),
        Parameter(
            name="cursor",
            within="query",
            schema=Annotated[str, Meta(min_length=1, max_length=200)],
            description="`next_cursor` of the page before.",
        ),
    )


def limit_of(query: Mapping[str, str]) -> int:
    """Read how long a page is to be. Raises `InvalidParameters`."""
    written = query.get("limit")
    if written is None:
        return PAGE
    limit = whole_number(written, LONGEST_PAGE)
    if limit is None:
        raise InvalidParameters(("limit", f"must be a whole number from 1 to {LONGEST_PAGE}"))
    return limit


def position_of(query: Mapping[str, str], prefix: str) -> Position | None:
    """Read where the page before ended, in the list of ids that begin so. Raises `InvalidParameters`."""
    if "cursor" not in query:
        return None
    not_ours = InvalidParameters(("cursor", "is not a next_cursor of this list"))
    try:
        encoded = query["cursor"].encode("ascii")
        at, _, identity = base64.b64decode(encoded, altchars=b"-_", validate=True).decode().partition(" ")
        created_at = datetime.fromisoformat(at)
    except ValueError as error:
        raise not_ours from error
    if created_at.tzinfo is None or "\0" in identity or not identity.startswith(prefix):
        raise not_ours
    return Position(created_at, identity)


def page_of(found: list[ListedRow], limit: int) -> tuple[list[msgspec.Raw], str | None]:
    """The rows of a page, and its `next_cursor`: one row more than asked for tells that there is a next page."""
    rows = [msgspec.Raw(listed.row) for listed in found[:limit]]
    return rows, _cursor(found[limit - 1]) if len(found) > limit else None


def _cursor(last: ListedRow) -> str:
    return base64.urlsafe_b64encode(f"{last.created_at.isoformat()} {last.id}".encode()).decode()
