"""Lines that a collector of logs put around what an engine said."""

import re

import msgspec

_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "body", "text")
"""Where collectors keep the line: Docker and Fluent Bit, others, systemd's journal, Google, Loki, OpenTelemetry."""

_PARTIAL = re.compile(r"\d{4}-[\d:T.+Z-]{10,40} std(?:out|err) P ", re.ASCII)
"""Kubernetes splits long lines, and marks each part but the last."""


def is_partial(line: str) -> bool:
    """Whether what follows of a line stands on another."""
    return _PARTIAL.match(line) is not None


def unwrapped(line: str) -> str | None:
    """Take the message out of a line of JSON; None for a line that is none, or has no message."""
    if "{" not in line[:2]:
        return None
    bare = line.strip(" \t[],")
    try:
        record = msgspec.json.decode(bare, type=dict[str, msgspec.Raw])
        texts = (msgspec.json.decode(record[name]) for name in _MESSAGES if name in record)
        message = next((text for text in texts if isinstance(text, str)), None)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if message is None else message.rstrip("\r\n")
