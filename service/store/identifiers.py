"""Ids that sort by time, made by the application (PostgreSQL below 18 has none)."""

import secrets
import time
from uuid import UUID


def uuid7() -> UUID:
    """Make a UUIDv7 (RFC 9562): 48 bits of milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = secrets.randbits(74)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | (random >> 62) << 64 | 0b10 << 62 | random & (1 << 62) - 1)
