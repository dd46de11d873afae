"""Lists in pages: newest first, by time and id."""

from datetime import datetime

import msgspec


class Position(msgspec.Struct, frozen=True):
    """Where a page ended."""

    created_at: datetime
    id: str


class ListedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored thing as lists need it: where it stands, and its row as JSON."""

    id: str
    created_at: datetime
    row: bytes
