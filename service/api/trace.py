"""The W3C trace that a request belongs to."""

import re

from service.api.envelope import AnyRequest

# Version 00 has these four fields, a later version may have more behind them, and ff is no version.
_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?"
)


def trace_id_of(request: AnyRequest) -> str | None:
    """The trace id of `traceparent`; None when there is none, or one that the standard calls invalid."""
    match = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    if match is None or not int(match["trace"], 16) or not int(match["span"], 16):
        return None
    if match["version"] == "ff" or (match["version"] == "00" and match["more"]):
        return None
    return match["trace"]
