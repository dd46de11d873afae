"""What is recorded of a request beside its question: when, by which request, under which labels."""

from collections.abc import Mapping
from datetime import UTC, datetime

from service.api.envelope import AnyRequest, request_id_of
from service.api.trace import trace_id_of
from service.store.identifiers import uuid7
from service.store.plans import Asked


def asked_now(request: AnyRequest, labels: Mapping[str, str] | None) -> Asked:
    """A decision of this moment, with an id of its own."""
    return Asked(
        decision=uuid7(),
        at=datetime.now(UTC),
        source="api",
        request_id=request_id_of(request.scope),
        trace_id=trace_id_of(request),
        labels=dict(labels or {}),
    )
